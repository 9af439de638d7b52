package cohere_test

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

const calls = `[{"id":"f_1","type":"function","function":{"name":"f","arguments":"{\"city\":\"Paris\",\"n\":[1.50,\"ü\"]}"}},` +
	`{"id":"f_2","type":"function","function":{"name":"f","arguments":"{\"city\":\"Rome\"}"}},{"id":"now_3","type":"function","function":{"name":"now","arguments":"{}"}}]`

// What a client sends back of an answer is what the model said: the text, and the calls
// in their order, each with its id and its result.
func TestATurnComesBackAsItWasSaid(t *testing.T) {
	answer := []byte(`{"id":"c1","message":{"role":"assistant","tool_plan":"I will look.","content":[{"type":"text","text":"Let me see."}],"tool_calls":` + calls + `},"finish_reason":"TOOL_CALL"}`)
	for _, turn := range []dialecttest.Turn{{Strict: true}, {}, {Endpoint: providers.Messages}} {
		turn.Answer = answer
		body := dialect.Again(t, turn)
		dialecttest.SameJSON(t, gjson.GetBytes(body, "messages.#(role==assistant)").Raw, `{"role":"assistant","content":"Let me see.","tool_calls":`+calls+`}`)
		dialecttest.SameJSON(t, gjson.GetBytes(body, "messages.#(role==tool)#").Raw,
			`[{"role":"tool","tool_call_id":"f_1","content":"result 0"},{"role":"tool","tool_call_id":"f_2","content":"result 1"},{"role":"tool","tool_call_id":"now_3","content":"result 2"}]`)
	}
}
