package validation

// Moderation is the moderation request (Moderation). Real clients also send an array
// as input, of strings or of objects with text and images, and models that the
// interface does not name.
var Moderation = newTable(
	"moderation",
	Field{Name: "input", Need: Required, Value: arrayOf(text.or(Object), 0, 0).or(String)},
	Field{Name: "model", Value: text},
	Field{Name: "user", Value: anything},     // not of the table, but the gateway reads it
	Field{Name: "metadata", Value: anything}, // likewise
)
