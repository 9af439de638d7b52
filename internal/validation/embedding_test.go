package validation

import "testing"

func TestEmbeddingRows(t *testing.T) {
	testRules(t, Embedding, `{"input":"x"}END`, []rule{
		{"model", []string{`"m"`}, notText, nil},
		{"dimensions", []string{`1`, `1536`}, notInteger, map[string]string{`0`: IntegerBelowMin}},
		{"encoding_format", []string{`"float"`, `"base64"`, `"int8"`}, notText, nil},
		{"user", []string{`"u"`}, notText, nil},
	})
	for _, input := range []string{`""`, `["a","b"]`, `[1,2]`, `[[1],[2,3]]`, `[{"text":"a"},{"image":"b"}]`} {
		mustAccept(t, Embedding, `{"input":`+input+`}`)
	}
	for input, param := range map[string]string{`1`: "input", `{}`: "input", `true`: "input", `[1.5]`: "input[0]", `[true]`: "input[0]", `[[1],["a"]]`: "input[1][0]"} {
		mustRefuse(t, Embedding, `{"input":`+input+`}`, param, InvalidType)
	}
	mustRefuse(t, Embedding, `{"input":null}`, "input", MissingParameter)
}

func TestUnlistedRows(t *testing.T) {
	testRules(t, Unlisted, `{"x":1}END`, []rule{
		{"model", []string{`"m"`}, notText, nil},
		{"stream", []string{`true`}, notBoolean, nil},
		{"max_tokens", []string{`1`, `"x"`}, nil, nil},
		{"n", []string{`1`, `,"n":1,"N":2,"n":3`}, nil, nil},
	})
}
