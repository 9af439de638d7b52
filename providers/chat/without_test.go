package chat_test

import (
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
)

func TestMembersThatAProviderRefusesAreLeftOutWhereverTheyStand(t *testing.T) {
	const body = `{"messages":[{"role":"tool","tool_call_id":"i","name":"f","content":"r"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}}]}`
	for _, c := range []struct {
		words chat.Encoder
		want  string
	}{
		{chat.Encoder{}, body},
		{
			chat.Encoder{Omit: []string{"name", "strict"}},
			`{"messages":[{"role":"tool","tool_call_id":"i","content":"r"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`,
		},
	} {
		r, err := chat.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(c.words.Append(nil, r)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
