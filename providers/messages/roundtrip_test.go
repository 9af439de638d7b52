package messages_test

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

const calls = `[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"city\":\"Paris\",\"n\":[1.50,\"ü\"]}"}},` +
	`{"id":"call_2","type":"function","function":{"name":"f","arguments":"{\"city\":\"Rome\"}"}},{"id":"call_3","type":"function","function":{"name":"now","arguments":"{}"}}]`

// What a client of Messages sends back of an answer is what the model said: the text, and
// the calls in their order, each with its id and its result.
func TestATurnComesBackAsItWasSaid(t *testing.T) {
	answer := []byte(`{"id":"c1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Let me see.","reasoning_content":"Hm.","tool_calls":` + calls + `},"finish_reason":"tool_calls"}]}`)
	body := dialect.Again(t, dialecttest.Turn{Endpoint: providers.Messages, Answer: answer})
	dialecttest.SameJSON(t, gjson.GetBytes(body, "messages.#(role==assistant)").Raw, `{"role":"assistant","content":"Let me see.","tool_calls":`+calls+`}`)
	dialecttest.SameJSON(t, gjson.GetBytes(body, "messages.#(role==tool)#").Raw,
		`[{"role":"tool","tool_call_id":"call_1","content":"result 0"},{"role":"tool","tool_call_id":"call_2","content":"result 1"},{"role":"tool","tool_call_id":"call_3","content":"result 2"}]`)
}
