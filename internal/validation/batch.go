package validation

// Batch is the request that creates a batch (Batch; Limits).
var Batch = newTable(
	"batch",
	Field{Name: "input_file_id", Need: Required, Value: text},
	Field{Name: "endpoint", Need: Required, Value: text},
	Field{Name: "completion_window", Need: Required, Value: text},
	Field{Name: "metadata", Value: metadata},
	Field{Name: "model", Value: text},    // not of the table, but the gateway reads it
	Field{Name: "user", Value: anything}, // likewise
)
