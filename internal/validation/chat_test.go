package validation

import (
	"strings"
	"testing"
)

func TestChatRows(t *testing.T) {
	testRules(t, Chat, `{"messages":[{"role":"user","content":"hi"}]}END`, append([]rule{
		{"logprobs", []string{`true`, `false`}, notBoolean, nil},
		{"top_logprobs", []string{
			`,"logprobs":true,"top_logprobs":0`, `,"top_logprobs":20,"logprobs":true`, `,"top_logprobs":null,"logprobs":false`,
		}, notInteger, map[string]string{
			`5`: InvalidValue, `0`: InvalidValue, `,"logprobs":false,"top_logprobs":5`: InvalidValue, `,"logprobs":null,"top_logprobs":5`: InvalidValue,
			`,"logprobs":true,"top_logprobs":21`: IntegerAboveMax, `,"logprobs":true,"top_logprobs":-1`: IntegerBelowMin,
		}},
		{"max_tokens", []string{`0`, `1`, `1e9`}, notInteger, nil},
		{"max_completion_tokens", []string{`0`, `1`, `1e9`}, notInteger, nil},
		{"response_format", []string{`{"type":"text"}`, `{"type":"json_schema","json_schema":{"name":"x","schema":{}}}`, `{}`}, notObject, nil},
		{"seed", []string{`0`, `-9223372036854776000`, `9223372036854776000`, `9.223372036854776e18`}, notInteger, map[string]string{
			`9223372036854776001`: IntegerAboveMax, `-9223372036854776001`: IntegerBelowMin, `1e19`: IntegerAboveMax,
		}},
		{"thinking", []string{`{}`, `{"type":"enabled","budget_tokens":1024}`, `{"type":"adaptive"}`, `{"type":null,"budget_tokens":null}`}, notObject, map[string]string{
			`{"type":1}`: InvalidType + " thinking.type", `{"budget_tokens":1.5}`: InvalidType + " thinking.budget_tokens", `{"budget_tokens":"x"}`: InvalidType + " thinking.budget_tokens",
			`{"type":"a","type":"b"}`: DuplicateField + " thinking.type",
		}},
		{"tools", []string{`[]`, `[{"type":"function","function":{"name":"f"}}]`, `[{"type":"web_search"},{}]`, list(128, `{}`)}, []string{`"x"`, `1`, `true`, `{}`}, map[string]string{
			list(129, `{}`): ArrayAboveMax, `[{},"x"]`: InvalidType + " tools[1]", `[null]`: InvalidType + " tools[0]",
		}},
		{"tool_choice", []string{
			`"none"`, `"auto"`, `"required"`, `"any"`, `"\u0061uto"`, `{"type":"function","function":{"name":"f"}}`, `{"function":{"name":"f"},"type":"function"}`,
			`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}`, `{"type":"custom","custom":{"name":"c"}}`,
		}, []string{`1`, `true`, `[]`}, map[string]string{
			`"sometimes"`: InvalidValue, `"AUTO"`: InvalidValue, `{}`: MissingParameter + " tool_choice.type",
			`{"type":"function"}`:                        MissingParameter + " tool_choice.function",
			`{"type":"function","function":null}`:        MissingParameter + " tool_choice.function",
			`{"type":"function","function":{}}`:          MissingParameter + " tool_choice.function.name",
			`{"type":"function","function":{"name":7}}`:  InvalidType + " tool_choice.function.name",
			`{"type":"function","function":"f"}`:         InvalidType + " tool_choice.function",
			`{"type":1}`:                                 InvalidType + " tool_choice.type",
			`{"type":"a","t\u0079pe":"b","function":{}}`: DuplicateField + " tool_choice.type",
		}},
		{"parallel_tool_calls", []string{`true`, `false`}, notBoolean, nil},
		{"function_call", []string{`"none"`, `"auto"`, `{"name":"f"}`}, []string{`1`, `true`, `[]`}, map[string]string{
			`"required"`: InvalidValue, `{}`: MissingParameter + " function_call.name", `{"name":1}`: InvalidType + " function_call.name",
		}},
		{"functions", []string{`[{"name":"f"}]`, list(128, `{}`)}, []string{`"x"`, `1`, `true`, `{}`}, map[string]string{
			`[]`: ArrayBelowMin, list(129, `{}`): ArrayAboveMax, `["x"]`: InvalidType + " functions[0]",
		}},
	}, generationRules...))
}

func TestMessages(t *testing.T) {
	for _, messages := range []string{
		`[{"role":"system","content":"x"},{"role":"developer","content":[{"type":"text","text":"x"}]},{"role":"user","content":[]},{"role":"assistant","content":null},{"role":"assistant"},{"role":"tool","content":"x","tool_call_id":"c"},{"role":"function","name":"f","content":"x"}]`,
		`[{"content":"x","r\u006fle":"us\u0065r"}]`,
		`[{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"refusal":null,"audio":{"id":"a"}}]`,
	} {
		mustAccept(t, Chat, `{"messages":`+messages+`}`)
	}
	for messages, want := range map[string]string{
		`null`:                                 MissingParameter + " messages",
		`[]`:                                   ArrayBelowMin + " messages",
		`{}`:                                   InvalidType + " messages",
		`"hi"`:                                 InvalidType + " messages",
		`[7]`:                                  InvalidType + " messages[0]",
		`[{"role":"user"},null]`:               InvalidType + " messages[1]",
		`[{"role":"user"},[]]`:                 InvalidType + " messages[1]",
		`[{}]`:                                 MissingParameter + " messages[0].role",
		`[{"role":null}]`:                      MissingParameter + " messages[0].role",
		`[{"role":"user"},{"role":7}]`:         InvalidType + " messages[1].role",
		`[{"role":"x"}]`:                       InvalidValue + " messages[0].role",
		`[{"role":"User"}]`:                    InvalidValue + " messages[0].role",
		`[{"role":"user","content":7}]`:        InvalidType + " messages[0].content",
		`[{"role":"user","content":{}}]`:       InvalidType + " messages[0].content",
		`[{"role":"user","content":true}]`:     InvalidType + " messages[0].content",
		`[{"role":"user","role":"system"}]`:    DuplicateField + " messages[0].role",
		`[{"role":"user","Role":"x"}]`:         DuplicateField + " messages[0].Role",
		`[{"content":"a","content":"b"}]`:      DuplicateField + " messages[0].content",
		`[{"content":"a","c\u006fntent":"b"}]`: DuplicateField + " messages[0].content",
	} {
		code, param, _ := strings.Cut(want, " ")
		mustRefuse(t, Chat, `{"messages":`+messages+`}`, param, code)
	}
	mustRefuse(t, Chat, `{"model":"m"}`, "messages", MissingParameter)
}
