package validation

// OCR is the OCR request (OCR request; Limits). Real clients also send pages as
// ranges ("0,2-4").
var OCR = newTable(
	"OCR",
	Field{Name: "model", Need: AfterMerge, Value: text},
	Field{Name: "document", Need: Required, Value: document},
	Field{Name: "include_image_base64", Value: boolean},
	Field{Name: "image_limit", Value: integer.atLeast(1)},
	Field{Name: "image_min_size", Value: integer.atLeast(1)},
	Field{Name: "pages", Value: Value{Kinds: String | Array, Letters: "0123456789,- ", Items: &page}},
	Field{Name: "user", Value: anything},     // not of the table, but the gateway reads it
	Field{Name: "metadata", Value: anything}, // likewise
)

// page: "Zero-based page numbers".
var page = integer.atLeast(0)

// document is the document object. Real clients also send the type file, with a
// file_id, and image_url as an object. A document of a URL must have it, though the
// table requires neither of the two: there is nothing to read else.
var document = objectWith(
	Field{Name: "type", Need: Required, Value: oneOf("document_url", "image_url", "file")},
	Field{Name: "document_url", Value: Value{Kinds: String, Document: true}, RequiredWith: Is{"type", "document_url"}},
	Field{Name: "image_url", Value: Value{Kinds: String | Object, Fields: fields(
		Field{Name: "url", Need: Required, Value: text},
	)}, RequiredWith: Is{"type", "image_url"}},
)
