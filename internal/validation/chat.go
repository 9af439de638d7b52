package validation

// Chat is the chat completion request (Chat completion request; Limits).
var Chat = newTable("chat completion", append([]Field{
	{Name: "messages", Need: Required, Value: arrayOf(message, 1, 0)},
}, chatParameters...)...)

// PromptedChat is a chat completion request whose messages a saved prompt may bring, which its
// config names.
var PromptedChat = newTable("chat completion", append([]Field{
	{Name: "messages", Need: AfterMerge, Value: arrayOf(message, 1, 0)},
}, chatParameters...)...)

// message: "Element kinds: system, developer, user, assistant, tool, function
// message". The content of an assistant's message that calls tools is null or absent.
var message = objectWith(
	Field{Name: "role", Need: Required, Value: oneOf("system", "developer", "user", "assistant", "tool", "function")},
	Field{Name: "content", Value: Value{Kinds: String | Array}},
)

var chatParameters = []Field{
	{Name: "model", Need: AfterMerge, Value: text},
	{Name: "frequency_penalty", Value: number.between(-2, 2)},
	{Name: "logit_bias", Value: mapOf(number.between(-100, 100))},
	{Name: "logprobs", Value: boolean},
	{Name: "top_logprobs", Value: integer.between(0, 20), OnlyWith: "logprobs"},
	{Name: "max_tokens", Value: integer},
	{Name: "max_completion_tokens", Value: integer},
	{Name: "n", Value: integer.between(1, 128)},
	{Name: "presence_penalty", Value: number.between(-2, 2)},
	{Name: "response_format", Value: object},
	{Name: "seed", Value: integer.between(-9223372036854776000, 9223372036854776000)},
	{Name: "stop", Value: arrayOf(text, 0, 4).or(String)},
	{Name: "stream", Value: boolean},
	{Name: "stream_options", Value: object, OnlyWith: "stream"},
	{Name: "thinking", Value: thinking},
	{Name: "temperature", Value: number.between(0, 2)},
	{Name: "top_p", Value: number.between(0, 1)},
	{Name: "tools", Value: arrayOf(object, 0, 128)},
	{Name: "tool_choice", Value: toolChoice},
	{Name: "parallel_tool_calls", Value: boolean},
	{Name: "user", Value: text},
	{Name: "function_call", Value: functionCall},
	{Name: "functions", Value: arrayOf(object, 1, 128)},
	{Name: "metadata", Value: anything}, // not of the table, but the gateway reads it
}

var thinking = objectWith(
	Field{Name: "type", Value: text},
	Field{Name: "budget_tokens", Value: integer},
)

// toolChoice: "String values none, auto, required; or an object with type = function
// and function.name". Clients of Mistral send the string any, and newer ones of
// OpenAI objects of other types (allowed_tools, custom), which are passed on.
var toolChoice = Value{
	Kinds: String | Object,
	OneOf: []string{"none", "auto", "required", "any"},
	Fields: fields(
		Field{Name: "type", Need: Required, Value: text},
		Field{Name: "function", Value: named, RequiredWith: Is{"type", "function"}},
	),
}

// functionCall: "Values none, auto, or an object with name".
var functionCall = Value{Kinds: String | Object, OneOf: []string{"none", "auto"}, Fields: named.Fields}

var named = objectWith(Field{Name: "name", Need: Required, Value: text})
