package bedrock

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
)

// sealedTurn is a turn of a model: sealed and redacted reasoning, text, and calls at
// once, one of a tool without parameters.
const sealedTurn = `[
	{"reasoningContent":{"reasoningText":{"text":"First \"this\",\nthen that.","signature":"c2ln/+=="}}},
	{"reasoningContent":{"redactedContent":"b3BhcXVl"}},
	{"text":"Let me see: ü ✓"},
	{"toolUse":{"toolUseId":"tooluse_1","name":"get_weather","input":{"city":"Paris","when":{"day":1,"at":[1.50,"x"]}}}},
	{"toolUse":{"toolUseId":"tooluse_2","name":"get_weather","input":{"city":"Rome"}}},
	{"toolUse":{"toolUseId":"tooluse_3","name":"now","input":{}}}
]`

// sameJSON reports whether two texts are the same JSON.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}

// answered is an answer in a caller's dialect with what the model said.
func answered(t *testing.T, endpoint, ask string) string {
	t.Helper()
	body := fmt.Sprintf(`{"output":{"message":{"role":"assistant","content":%s}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}`, sealedTurn)
	out, err := prepare(t, newCall(t, endpoint, ask)).Answer.Body(nil, []byte(body), answerHeader)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestATurnComesBackAsItWasSaid answers a call, sends the answer back with the results of
// its calls, as clients do, and expects the model to read its own words.
func TestATurnComesBackAsItWasSaid(t *testing.T) {
	const model = "amazon.nova-x-v1:0" // through the conversation in either dialect
	for name, c := range map[string]struct{ endpoint, ask, again string }{
		"Chat Completions": {
			providers.ChatComplete,
			`{"model":"` + model + `","messages":[{"role":"user","content":"Weather?"}]}`,
			`{"model":"` + model + `","messages":[{"role":"user","content":"Weather?"},%s,` +
				`{"role":"tool","tool_call_id":"tooluse_1","content":"sunny"},{"role":"tool","tool_call_id":"tooluse_2","content":"rain"},{"role":"tool","tool_call_id":"tooluse_3","content":"noon"}]}`,
		},
		"Messages": {
			providers.Messages,
			`{"model":"` + model + `","max_tokens":9,"messages":[{"role":"user","content":"Weather?"}]}`,
			`{"model":"` + model + `","max_tokens":9,"messages":[{"role":"user","content":"Weather?"},{"role":"assistant","content":%s},{"role":"user","content":[` +
				`{"type":"tool_result","tool_use_id":"tooluse_1","content":"sunny"},{"type":"tool_result","tool_use_id":"tooluse_2","content":[{"type":"text","text":"rain"}]},{"type":"tool_result","tool_use_id":"tooluse_3","content":"noon"}]}]}`,
		},
	} {
		answer := answered(t, c.endpoint, c.ask)
		turn := gjson.Get(answer, "choices.0.message").Raw
		if c.endpoint == providers.Messages {
			turn = gjson.Get(answer, "content").Raw
		}
		up := prepare(t, newCall(t, c.endpoint, fmt.Sprintf(c.again, turn))).Body
		if got := gjson.GetBytes(up, "messages.1.content").Raw; !sameJSON(t, got, sealedTurn) {
			t.Errorf("%s: got %s", name, got)
		}
		const results = `{"role":"user","content":[{"toolResult":{"toolUseId":"tooluse_1","content":[{"text":"sunny"}]}},{"toolResult":{"toolUseId":"tooluse_2","content":[{"text":"rain"}]}},{"toolResult":{"toolUseId":"tooluse_3","content":[{"text":"noon"}]}}]}`
		if got := gjson.GetBytes(up, "messages.2").Raw; gjson.GetBytes(up, "messages.#").Int() != 3 || !sameJSON(t, got, results) {
			t.Errorf("%s: results: got %s", name, got)
		}
	}
}
