package rotation

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/mail"
)

type outbox struct{ messages []*mail.Message }

func (o *outbox) Send(m *mail.Message) { o.messages = append(o.messages, m) }

// What is about to happen to a key, and what did, its alert_emails are told by mail.
func TestEventsOfKeysAreMailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sent := new(outbox)
	f.rotator.Configure(Settings{KeyPrefix: "gw-", Mail: sent})
	expires, next, until := noon.Add(time.Hour), noon.Add(2*time.Hour), noon.Add(3*time.Hour)
	k := &credentials.APIKey{
		ID: "id-1", Name: "checkout", AlertEmails: []string{"a@example.com", "b@example.com"}, ExpiresAt: &expires,
		Rotation: &credentials.Rotation{NextAt: &next}, PreviousUntil: &until,
	}
	for name, want := range map[string]string{
		EventExpiring: "expires on 27 November 2026, 13:00 UTC", EventExpired: "has expired", EventRotating: "on 27 November 2026, 14:00 UTC",
		EventRotated: "works until 27 November 2026, 15:00 UTC",
	} {
		sent.messages = nil
		f.rotator.queue(name, k, true)
		f.rotator.tell(<-f.rotator.events)
		if len(sent.messages) != 2 || sent.messages[0].To != "a@example.com" || sent.messages[1].To != "b@example.com" {
			t.Fatalf("%s: %+v", name, sent.messages)
		}
		for _, m := range sent.messages {
			if text := strings.Join(m.Paragraphs, " "); m.Subject == "" || !strings.Contains(text, want) || !strings.Contains(text, "checkout (id-1)") {
				t.Errorf("%s: %q", name, text)
			}
		}
	}
	sent.messages, k.AlertEmails = nil, nil
	f.rotator.queue(EventExpired, k, false)
	f.rotator.tell(<-f.rotator.events)
	if len(sent.messages) != 0 {
		t.Errorf("%d messages to nobody", len(sent.messages))
	}
}
