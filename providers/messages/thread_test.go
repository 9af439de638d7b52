package messages_test

import (
	"errors"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
)

func TestAThreadIsRefusedWhereNobodyKeepsOne(t *testing.T) {
	for body, refused := range map[string]bool{
		`{"messages":[],"thread":{"type":"create"}}`:                                 true,
		`{"messages":[],"thread":{"type":"continue","previous_message_id":"msg_1"}}`: true,
		`{"messages":[],"thread":null}`:                                              false,
		`{"messages":[]}`:                                                            false,
	} {
		_, err := messages.Parse([]byte(body), "openai")
		var unsupported *chat.Unsupported
		if errors.As(err, &unsupported) != refused || refused && unsupported.Param != "thread" {
			t.Errorf("%s: got %v", body, err)
		}
	}
}
