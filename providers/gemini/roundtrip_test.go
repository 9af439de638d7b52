package gemini_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

// What a client sends back of an answer is what the model said: names, arguments and
// signatures of several calls at once, and each result under the name of its call.
func TestCallsComeBackAsTheModelMadeThem(t *testing.T) {
	answer, err := os.ReadFile("testdata/answer-calls/answer.json")
	if err != nil {
		t.Fatal(err)
	}
	out, err := translator(t, providers.ChatComplete).Whole(nil, answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	message := gjson.GetBytes(out, "choices.0.message")
	turns := `{"role":"user","content":"Go"},` + message.Raw
	ids := make(map[string]bool)
	for i, c := range message.Get("tool_calls").Array() {
		id := c.Get("id").Str
		if id == "" || ids[id] {
			t.Errorf("id %q is not unique", id)
		}
		ids[id] = true
		turns += fmt.Sprintf(`,{"role":"tool","tool_call_id":%q,"content":"%d"}`, id, i)
	}
	c := (&dialecttest.Case{Endpoint: providers.ChatComplete, Body: json.RawMessage(`{"model":"gemini-2.5-flash","messages":[` + turns + `]}`)}).Call("google")
	r, err := c.Provider.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	sent, said := gjson.GetBytes(r.Body, "contents.1.parts").Array(), gjson.GetBytes(answer, "candidates.0.content.parts").Array()
	results := gjson.GetBytes(r.Body, "contents.2.parts").Array()
	if len(sent) != len(said) || len(results) != len(said) {
		t.Fatalf("got %s", r.Body)
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
		if got := results[i].Get("functionResponse.response.output").Str; got != fmt.Sprint(i) {
			t.Errorf("call %d: result %q", i, got)
		}
	}
}
