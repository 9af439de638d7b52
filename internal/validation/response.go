package validation

// Response is the request that creates a response (Stored model response, the fields
// that a request sets; Limits). Its tools and the objects in tool_choice are of kinds
// that keep growing, and are passed on. A stored prompt may name the model.
var Response = newTable(
	"response",
	Field{Name: "model", Need: AfterMerge, Unless: "prompt", Value: text},
	Field{Name: "input", Value: Value{Kinds: String | Array}},
	Field{Name: "metadata", Value: metadata},
	Field{Name: "temperature", Value: number.between(0, 2)},
	Field{Name: "top_p", Value: number.between(0, 1)},
	Field{Name: "instructions", Value: text},
	Field{Name: "tools", Value: Value{Kinds: Array, Items: &object}},
	Field{Name: "tool_choice", Value: Value{Kinds: String | Object, OneOf: []string{"none", "auto", "required"}}},
	Field{Name: "parallel_tool_calls", Value: boolean},
	Field{Name: "user", Value: text},
	Field{Name: "previous_response_id", Value: text},
	Field{Name: "reasoning", Value: object},
	Field{Name: "max_output_tokens", Value: integer},
	Field{Name: "text", Value: object},
	Field{Name: "truncation", Value: oneOf("auto", "disabled")},
	Field{Name: "stream", Value: boolean},
	Field{Name: "prompt", Value: anything}, // not of the table, but model is tied to it
)
