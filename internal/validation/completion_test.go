package validation

import "testing"

func TestCompletionRows(t *testing.T) {
	testRules(t, Completion, `{"suffix":null}END`, append([]rule{
		{"prompt", []string{`"x"`, `""`, `[]`, `["a","b"]`, `[1,2,3]`, `[1.0]`, `[[1,2],[3]]`, `[[]]`}, []string{`1`, `true`, `{}`}, map[string]string{
			`[1.5]`: InvalidType + " prompt[0]", `[true]`: InvalidType + " prompt[0]", `[{}]`: InvalidType + " prompt[0]", `[null]`: InvalidType + " prompt[0]",
			`["a",1]`: InvalidType + " prompt[1]", `[1,[1]]`: InvalidType + " prompt[1]", `[[1],["a"]]`: InvalidType + " prompt[1][0]", `[[1,1.5]]`: InvalidType + " prompt[0][1]",
		}},
		{"best_of", []string{`0`, `1`, `20`, `,"n":1,"best_of":2`, `,"best_of":20,"n":19`, `,"best_of":2,"n":null`, `,"best_of":2,"stream":false`, `,"best_of":null,"n":5,"stream":true`}, notInteger, map[string]string{
			`-1`: IntegerBelowMin, `21`: IntegerAboveMax,
			`,"n":2,"best_of":2`: InvalidValue, `,"best_of":1,"n":2`: InvalidValue, `,"best_of":1e0,"n":1.0`: InvalidValue,
			`,"stream":true,"best_of":2`: InvalidValue, `,"best_of":2,"stream":true`: InvalidValue,
		}},
		{"echo", []string{`true`, `false`}, notBoolean, nil},
		{"logprobs", []string{`0`, `5`}, notInteger, map[string]string{`-1`: IntegerBelowMin, `6`: IntegerAboveMax}},
		{"max_tokens", []string{`0`, `16`, `1e9`}, notInteger, map[string]string{`-1`: IntegerBelowMin}},
		{"seed", []string{`0`, `-9223372036854776001`}, notInteger, nil},
	}, generationRules...))
	testRules(t, Completion, `{"prompt":"x"}END`, []rule{{"suffix", []string{`""`, `"x"`}, notText, nil}})
}
