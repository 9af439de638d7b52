package rotation

import (
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/mail"
)

// message is the mail about an event of a key.
func message(name string, k *credentials.APIKey, unattended bool) mail.Message {
	key := "The API key " + k.Name + " (" + k.ID + ")"
	at := func(t *time.Time) string {
		if t == nil {
			return "soon"
		}
		return "on " + t.UTC().Format("2 January 2006, 15:04 UTC")
	}
	switch name {
	case EventExpired:
		return mail.Message{Subject: "An API key has expired", Paragraphs: []string{
			key + " has expired, and calls with it are refused.", "Whoever needs it makes another one.",
		}}
	case EventExpiring:
		return mail.Message{Subject: "An API key expires", Paragraphs: []string{
			key + " expires " + at(k.ExpiresAt) + ", and calls with it are refused from then on.", "Give it more time, or make another one.",
		}}
	case EventRotating:
		var next *time.Time
		if k.Rotation != nil {
			next = k.Rotation.NextAt
		}
		return mail.Message{Subject: "An API key will be rotated", Paragraphs: []string{
			key + " gets a new secret " + at(next) + ".", "Fetch it then: the secret that you have works for a while longer.",
		}}
	}
	m := mail.Message{Subject: "An API key was rotated", Paragraphs: []string{key + " has a new secret. The one before works until " + until(k.PreviousUntil) + "."}}
	if unattended {
		m.Paragraphs = append(m.Paragraphs, "Fetch the new one until then: it is returned once, to whoever rotates the key.")
	}
	return m
}

func until(t *time.Time) string {
	if t == nil {
		return "now"
	}
	return t.UTC().Format("2 January 2006, 15:04 UTC")
}
