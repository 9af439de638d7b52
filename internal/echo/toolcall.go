package echo

import (
	"strconv"

	"github.com/tidwall/gjson"
)

// chooseTool returns the name of the function to call: the one that tool_choice forces,
// or else the first of tools. It is "" if there is nothing to call. path is where a tool
// and tool_choice have the name.
func chooseTool(tools, choice gjson.Result, path string) (string, error) {
	if tools.Exists() && !tools.IsArray() {
		return "", badRequest("tools must be an array")
	}
	if choice.Str == "none" {
		return "", nil
	}
	forced := choice.Get(path).Str
	name := ""
	tools.ForEach(func(_, tool gjson.Result) bool {
		offered := tool.Get(path).Str
		if tool.Get("type").Str == "function" && (forced == "" || forced == offered) {
			name = offered
		}
		return name == ""
	})
	if forced != "" && name == "" {
		return "", badRequest("tool_choice names the function %q, which is not in tools", forced)
	}
	return name, nil
}

// call turns the echoed text into a call of the named function with the arguments
// {"input": text}. Tokens are still those of the text, so that a limit never produces
// invalid arguments. A text that was cut keeps its finish reason.
func (g *generation) call(name, nonce string) {
	g.choice = toolCall{name, nonce}
	for i := range g.outputs {
		out := &g.outputs[i]
		arguments := appendString([]byte(`{"input": `), out.text)
		out.text = string(append(arguments, '}'))
		if out.finish == finishStop {
			out.finish = finishTools
		}
	}
}

// toolCall is a choice of a chat completion that calls a function. Its text is the
// arguments of the call.
type toolCall struct {
	function string
	nonce    string // makes the id of the call
}

func (t toolCall) complete(b []byte, i int, arguments string) []byte {
	b = append(b, `"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{`...)
	b = t.begin(b, i)
	b = appendString(b, arguments)
	return append(b, `}}]}`...)
}

func (t toolCall) first(i int) string {
	b := []byte(`"delta":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"index":0,`)
	b = t.begin(b, i)
	return string(append(b, `""}}]}`...))
}

// begin appends the beginning of a call, up to its arguments.
func (t toolCall) begin(b []byte, i int) []byte {
	b = append(b, `"id":"call_echo_`...)
	b = append(b, t.nonce...)
	b = append(b, '_')
	b = strconv.AppendInt(b, int64(i), 10)
	b = append(b, `","type":"function","function":{"name":`...)
	b = appendString(b, t.function)
	return append(b, `,"arguments":`...)
}

func (toolCall) delta(b []byte, arguments string) []byte {
	b = append(b, `"delta":{"tool_calls":[{"index":0,"function":{"arguments":`...)
	b = appendString(b, arguments)
	return append(b, `}}]}`...)
}

func (toolCall) last() string { return message{}.last() }
