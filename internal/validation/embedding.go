package validation

// Embedding is the embedding request. These are the rules on which providers agree. Input is text, texts, tokens, arrays of
// tokens, or objects where a model embeds more than text.
var Embedding = newTable(
	"embedding",
	Field{Name: "model", Need: AfterMerge, Value: text},
	Field{Name: "input", Need: Required, Value: Value{
		Kinds: String | Array,
		Items: &Value{Kinds: String | Integer | Array | Object, Items: &integer},
	}},
	Field{Name: "dimensions", Value: integer.atLeast(1)},
	Field{Name: "encoding_format", Value: text},
	Field{Name: "user", Value: text},
	Field{Name: "metadata", Value: anything}, // not of the table, but the gateway reads it
)

// Unlisted is for every other JSON body, of which only what the gateway itself reads is
// checked. A model is not always required.
var Unlisted = newTable(
	"unlisted",
	Field{Name: "model", Value: text},
	Field{Name: "stream", Value: boolean},
	Field{Name: "max_tokens", Value: anything},
	Field{Name: "max_completion_tokens", Value: anything},
	Field{Name: "tools", Value: anything},
	Field{Name: "method", Value: anything},
	Field{Name: "user", Value: anything},
	Field{Name: "metadata", Value: anything},
)
