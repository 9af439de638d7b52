package validation

import "testing"

func TestModerationRows(t *testing.T) {
	testRules(t, Moderation, `{"input":"x"}END`, []rule{
		{"model", []string{`"text-moderation-stable"`, `"omni-moderation-latest"`}, notText, nil},
		{"user", []string{`{}`, `1`}, nil, nil},
	})
	for _, input := range []string{`""`, `[]`, `["a","b"]`, `[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]`} {
		mustAccept(t, Moderation, `{"input":`+input+`}`)
	}
	for input, want := range map[string]string{`1`: "input", `true`: "input", `{}`: "input", `["a",1]`: "input[1]", `[null]`: "input[0]", `[[]]`: "input[0]"} {
		mustRefuse(t, Moderation, `{"input":`+input+`}`, want, InvalidType)
	}
	mustRefuse(t, Moderation, `{"input":null}`, "input", MissingParameter)
	mustRefuse(t, Moderation, `{}`, "input", MissingParameter)
}
