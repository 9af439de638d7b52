package messages_test

import (
	"testing"

	"github.com/caddy-gw/gateway/providers/messages"
)

func TestOfABodyOnlySealsOnCallsAreTaken(t *testing.T) {
	const seal = `{"type":"redacted_thinking","data":"gw:call:google:U0lH"}`
	for body, want := range map[string]string{
		`{ "messages": [] }`: ``,
		`{ "messages": [{"content":[{"type":"redacted_thinking","data":"U0lH"}]}]}`:                            ``,
		`{"a":1,"messages":[{"role":"assistant","content":[` + seal + `,{"type":"tool_use"}]},{"b": 2}]}`:      `{"a":1,"messages":[{"role":"assistant","content":[{"type":"tool_use"}]},{"b": 2}]}`,
		`{"messages":[{"content":[{"type":"text","text":"x"},` + seal + `]}, "y", null]}`:                      `{"messages":[{"content":[{"type":"text","text":"x"}]}, "y", null]}`,
		`{"messages":[{"content":[{"type":"text","text":"gw:call:google:U0lH"}]}]}`:                            ``,
		`{"messages":[{"content":"gw:call:google:U0lH"}]}`:                                                     ``,
		`{"messages":[{"content":[{"type":"tool_result","content":[` + seal + `]}]}],"system":[` + seal + `]}`: ``,
		`{"messages":[{"content":[` + seal:                                                                     ``,
	} {
		if want == "" {
			want = body
		}
		got, _ := messages.Pass([]byte(body))
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
