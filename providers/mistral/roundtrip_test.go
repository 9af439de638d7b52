package mistral_test

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

const (
	calls = `[{"id":"abcDEF123","function":{"name":"f","arguments":"{\"city\":\"Paris\",\"n\":[1.50,\"ü\"]}"},"index":0},` +
		`{"id":"abcDEF124","function":{"name":"f","arguments":"{\"city\":\"Rome\"}"},"index":1},{"id":"abcDEF125","function":{"name":"now","arguments":"{}"},"index":2}]`
	sent = `[{"id":"abcDEF123","type":"function","function":{"name":"f","arguments":"{\"city\":\"Paris\",\"n\":[1.50,\"ü\"]}"}},` +
		`{"id":"abcDEF124","type":"function","function":{"name":"f","arguments":"{\"city\":\"Rome\"}"}},{"id":"abcDEF125","type":"function","function":{"name":"now","arguments":"{}"}}]`
)

// What a client sends back of an answer is what the model said: what it thought, unless
// the client is strict, and the calls in their order, each with its id and its result.
func TestATurnComesBackAsItWasSaid(t *testing.T) {
	answer := []byte(`{"id":"m1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},` +
		`{"type":"text","text":"Let me see."}],"tool_calls":` + calls + `},"finish_reason":"tool_calls"}]}`)
	const thought = `[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"Let me see."}]`
	for content, turn := range map[string]dialecttest.Turn{
		`"Let me see."`: {Strict: true},
		thought:         {},
		thought + " ":   {Endpoint: providers.Messages},
	} {
		turn.Answer = answer
		body := dialect.Again(t, turn)
		dialecttest.SameJSON(t, gjson.GetBytes(body, "messages.#(role==assistant)").Raw, `{"role":"assistant","content":`+content+`,"tool_calls":`+sent+`}`)
		dialecttest.SameJSON(t, gjson.GetBytes(body, "messages.#(role==tool)#").Raw,
			`[{"role":"tool","tool_call_id":"abcDEF123","content":"result 0"},{"role":"tool","tool_call_id":"abcDEF124","content":"result 1"},{"role":"tool","tool_call_id":"abcDEF125","content":"result 2"}]`)
	}
}
