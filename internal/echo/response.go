package echo

import (
	"fmt"
	"math"

	"github.com/tidwall/gjson"
)

// answerResponse answers like [answerChat], with an item that is a message or a call of a function. It
// remembers nothing: a request has to have the whole conversation.
func answerResponse(body gjson.Result, at stamp) (answer, error) {
	r := response{generation: generation{options: defaultOptions()}, stamp: at}
	var input, instructions, tools, toolChoice gjson.Result
	err := eachMember(body, func(name string, v gjson.Result) error {
		switch name {
		case "model":
			return setString(&r.model, name, v)
		case "stream":
			return setBool(&r.stream, name, v)
		case "max_output_tokens":
			return setInt(&r.maxTokens, name, v, 0, math.MaxInt32)
		case "input":
			input = v
		case "instructions":
			instructions = v
		case "tools":
			tools = v
		case "tool_choice":
			toolChoice = v
		}
		return nil
	})
	if err != nil {
		return answer{}, err
	}
	history, err := readInput(input)
	if err != nil {
		return answer{}, err
	}
	r.promptTokens = history.tokens + count(instructions.String()).tokens
	if err := r.echo(history.answered()); err != nil {
		return answer{}, err
	}
	if history.byUser() {
		if r.function, err = chooseTool(tools, toolChoice, "name"); err != nil {
			return answer{}, err
		}
		if r.function != "" {
			r.call(r.function, at.nonce)
		}
	}
	if r.stream {
		return answer{events: r.events, named: true}, nil
	}
	return answer{body: r.whole(r.ended())}, nil
}

var errInput = badRequest("input must be a string, or an array of at least one item that is a message or the output of a function")

// readInput reads the input of a response: a text of the user, or items.
func readInput(input gjson.Result) (history conversation, err error) {
	if input.Type == gjson.String {
		history.add("user", input.Str)
		return history, nil
	}
	err = errInput
	if input.IsArray() {
		input.ForEach(func(_, item gjson.Result) bool {
			role, content := item.Get("role").Str, item.Get("content")
			switch {
			case !item.IsObject():
				err = errInput
				return false
			case item.Get("type").Str == "function_call_output":
				role, content = "tool", item.Get("output")
			case role == "": // such as a call of a function
				err, history.role = nil, ""
				return true
			}
			var text string
			if text, err = contentText(content); err == nil {
				history.add(role, text)
			}
			return err == nil
		})
	}
	return history, err
}

// A response is an answer of the Responses API, which has one item.
type response struct {
	generation
	stamp    stamp
	function string // that is called; "": the item is a message
}

// States of a response and of its item.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
)

func (r *response) ended() string {
	if r.outputs[0].finish == finishLength {
		return incomplete
	}
	return completed
}

// whole returns the response in a state. It has no item as long as it is in progress.
func (r *response) whole(status string) []byte {
	var output []byte
	usage, details := "null", "null"
	if status != inProgress {
		output = r.item(status, r.outputs[0].text)
		tokens := r.outputs[0].tokens
		usage = fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`,
			r.promptTokens, tokens, r.promptTokens+tokens)
	}
	if status == incomplete {
		details = `{"reason":"max_output_tokens"}`
	}
	return fmt.Appendf(nil, `{"id":"resp_echo_%s","object":"response","created_at":%d,"status":%q,"error":null,"incomplete_details":%s,"instructions":null,"max_output_tokens":null,"model":%s,`+
		`"output":[%s],"parallel_tool_calls":true,"previous_response_id":null,"store":false,"temperature":null,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":null,`+
		`"truncation":"disabled","usage":%s,"metadata":{}}`,
		r.stamp.nonce, r.stamp.created, status, details, appendString(nil, r.model), output, usage)
}

func (r *response) itemID() string {
	if r.function != "" {
		return "fc_echo_" + r.stamp.nonce
	}
	return "msg_echo_" + r.stamp.nonce
}

// item returns the item in a state, with what there is of its text or arguments.
func (r *response) item(status, text string) []byte {
	if r.function != "" {
		return fmt.Appendf(nil, `{"id":%q,"type":"function_call","status":%q,"call_id":"call_echo_%s","name":%s,"arguments":%s}`,
			r.itemID(), status, r.stamp.nonce, appendString(nil, r.function), appendString(nil, text))
	}
	var content []byte
	if status != inProgress {
		content = textPart(text)
	}
	return fmt.Appendf(nil, `{"id":%q,"type":"message","status":%q,"role":"assistant","content":[%s]}`, r.itemID(), status, content)
}

func textPart(text string) []byte {
	return fmt.Appendf(nil, `{"type":"output_text","text":%s,"annotations":[],"logprobs":[]}`, appendString(nil, text))
}

// events yields the data of the stream's events.
func (r *response) events(yield func([]byte) bool) {
	n := 0
	send := func(kind, members string, args ...any) bool {
		b := fmt.Appendf(nil, `{"type":%q,"sequence_number":%d,`, "response."+kind, n)
		n++
		return yield(append(fmt.Appendf(b, members, args...), '}'))
	}
	at := fmt.Sprintf(`"item_id":%q,"output_index":0`, r.itemID())
	delta, done, text := "function_call_arguments.", `"arguments":%s`, r.outputs[0].text
	if r.function == "" {
		delta, done = "output_text.", `"text":%s,"logprobs":[]`
		at += `,"content_index":0`
	}
	if !send("created", `"response":%s`, r.whole(inProgress)) || !send(inProgress, `"response":%s`, r.whole(inProgress)) ||
		!send("output_item.added", `"output_index":0,"item":%s`, r.item(inProgress, "")) ||
		r.function == "" && !send("content_part.added", `%s,"part":%s`, at, textPart("")) {
		return
	}
	for word := range words(text) {
		if !send(delta+"delta", `%s,"delta":%s`, at, appendString(nil, word)) {
			return
		}
	}
	_ = send(delta+"done", `%s,`+done, at, appendString(nil, text)) &&
		(r.function != "" || send("content_part.done", `%s,"part":%s`, at, textPart(text))) &&
		send("output_item.done", `"output_index":0,"item":%s`, r.item(r.ended(), text)) &&
		send(r.ended(), `"response":%s`, r.whole(r.ended()))
}
