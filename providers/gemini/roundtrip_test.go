package gemini_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

// What a client sends back of an answer is what the model said: names, arguments and
// signatures of several calls at once, and each result under the name of its call.
func TestCallsComeBackAsTheModelMadeThem(t *testing.T) {
	answer, err := os.ReadFile("testdata/answer-calls/answer.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, strict := range []bool{true, false} {
		body := dialect.Again(t, dialecttest.Turn{Strict: strict, Answer: answer})
		sent, said := gjson.GetBytes(body, "contents.1.parts").Array(), gjson.GetBytes(answer, "candidates.0.content.parts").Array()
		results := gjson.GetBytes(body, "contents.2.parts").Array()
		if len(sent) != len(said) || len(results) != len(said) {
			t.Fatalf("got %s", body)
		}
		for i := range said {
			if got, want := sent[i].Get("thoughtSignature").Str, said[i].Get("thoughtSignature").Str; got != want {
				t.Errorf("call %d: signature %q, want %q", i, got, want)
			}
			if got, want := sent[i].Get("functionCall.name").Str, said[i].Get("functionCall.name").Str; got != want || results[i].Get("functionResponse.name").Str != want {
				t.Errorf("call %d: name %q, want %q", i, got, want)
			}
			want := said[i].Get("functionCall.args|@ugly").Raw
			if want == "" {
				want = "{}"
			}
			if got := sent[i].Get("functionCall.args|@ugly").Raw; got != want {
				t.Errorf("call %d: arguments %s, want %s", i, got, want)
			}
			if got := results[i].Get("functionResponse.response.output").Str; got != fmt.Sprint("result ", i) {
				t.Errorf("call %d: result %q", i, got)
			}
		}
	}
}
