package validation

import "testing"

func TestResponseRows(t *testing.T) {
	testRules(t, Response, `{"store":true}END`, append([]rule{
		{"input", []string{`"x"`, `[]`, `[{"role":"user","content":"x"}]`}, []string{`1`, `true`, `{}`}, nil},
		metadataRule,
		{"instructions", []string{`"x"`}, notText, nil},
		{"tools", []string{`[]`, `[{"type":"computer_use_preview"}]`, list(200, `{}`)}, []string{`"x"`, `1`, `true`, `{}`}, map[string]string{`[{},1]`: InvalidType + " tools[1]"}},
		{"tool_choice", []string{`"auto"`, `"none"`, `"required"`, `{"type":"function","name":"f"}`}, []string{`1`, `true`, `[]`}, map[string]string{`"sometimes"`: InvalidValue}},
		{"parallel_tool_calls", []string{`true`}, notBoolean, nil},
		{"user", []string{`"u"`}, notText, nil},
		{"previous_response_id", []string{`"resp_1"`}, notText, nil},
		{"reasoning", []string{`{"effort":"low"}`}, notObject, nil},
		{"max_output_tokens", []string{`1`, `1e9`}, notInteger, nil},
		{"text", []string{`{"format":{"type":"text"}}`}, notObject, nil},
		{"truncation", []string{`"auto"`, `"disabled"`}, notText, map[string]string{`"enabled"`: InvalidValue, `""`: InvalidValue}},
		{"stream", []string{`true`, `false`}, notBoolean, nil},
	}, samplingRules...))
}
