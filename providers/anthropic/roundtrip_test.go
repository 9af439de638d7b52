package anthropic_test

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

const (
	thoughts = `{"type":"thinking","thinking":"First \"this\",\nthen that.","signature":"c2ln/+=="},{"type":"redacted_thinking","data":"b3Bh"},`
	text     = `{"type":"text","text":"Let me see: ü ✓"}`
	later    = `,{"type":"thinking","thinking":"Now.","signature":"c2ln"},{"type":"text","text":" Both."}`
	calls    = `,{"type":"tool_use","id":"toolu_1","name":"f","input":{"city":"Paris","n":{"day":1,"at":[1.50,"x"]}}},` +
		`{"type":"tool_use","id":"toolu_2","name":"f","input":{"city":"Rome"}},{"type":"tool_use","id":"toolu_3","name":"now","input":{}}`
	results = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"result 0"},` +
		`{"type":"tool_result","tool_use_id":"toolu_2","content":"result 1"},{"type":"tool_result","tool_use_id":"toolu_3","content":"result 2"}]}`
)

// What a client sends back of an answer is what the model said, in its order: thoughts
// with their seals, texts and calls. A strict client has no thoughts to send.
func TestATurnComesBackAsItWasSaid(t *testing.T) {
	answer := []byte(`{"id":"msg_1","model":"m","content":[` + thoughts + text + later + calls + `],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`)
	for strict, want := range map[bool]string{
		false: `[` + thoughts + text + later + calls + `]`,
		true:  `[{"type":"text","text":"Let me see: ü ✓ Both."}` + calls + `]`,
	} {
		body := dialect.Again(t, dialecttest.Turn{Strict: strict, Answer: answer})
		dialecttest.SameJSON(t, gjson.GetBytes(body, "messages.1.content").Raw, want)
		dialecttest.SameJSON(t, gjson.GetBytes(body, "messages.2").Raw, results)
	}
}
