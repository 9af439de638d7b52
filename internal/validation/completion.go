package validation

// Completion is the text completion request (Text completion request; Limits).
// A prompt that is absent or null means DefaultPrompt, which the caller puts in.
var Completion = newTable(
	"text completion",
	Field{Name: "model", Need: AfterMerge, Value: text},
	Field{Name: "prompt", Value: prompt},
	Field{Name: "best_of", Value: integer.between(0, 20), NotWith: "stream", Above: "n"},
	Field{Name: "echo", Value: boolean},
	Field{Name: "frequency_penalty", Value: number.between(-2, 2)},
	Field{Name: "logit_bias", Value: mapOf(number.between(-100, 100))},
	Field{Name: "logprobs", Value: integer.between(0, 5)},
	Field{Name: "max_tokens", Value: integer.atLeast(0)},
	Field{Name: "n", Value: integer.between(1, 128)},
	Field{Name: "presence_penalty", Value: number.between(-2, 2)},
	Field{Name: "seed", Value: integer},
	Field{Name: "stop", Value: arrayOf(text, 0, 4).or(String)},
	Field{Name: "stream", Value: boolean},
	Field{Name: "stream_options", Value: object, OnlyWith: "stream"},
	Field{Name: "suffix", Value: text},
	Field{Name: "temperature", Value: number.between(0, 2)},
	Field{Name: "top_p", Value: number.between(0, 1)},
	Field{Name: "user", Value: text},
	Field{Name: "metadata", Value: anything}, // not of the table, but the gateway reads it
)

// DefaultPrompt is the end-of-text marker: "generation from a new document".
const DefaultPrompt = "<|endoftext|>"

// prompt: "string, array of strings, array of tokens, or array of token arrays".
var prompt = Value{
	Kinds:   String | Array,
	Items:   &Value{Kinds: String | Integer | Array, Items: &integer},
	Uniform: true,
}
