package exchange

import (
	"encoding/json"
	"testing"

	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/validation"
)

// What was noted of the client's body does not hold for a body that was changed.
func TestAChangedBodyMayHaveAnyMember(t *testing.T) {
	t.Parallel()
	content := []byte(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	report, err := validation.Check(validation.Chat, content)
	if err != nil {
		t.Fatal(err)
	}
	attempt := func(change func(*Attempt)) *Attempt {
		a := &Attempt{call: &Call{Body: RequestBody{buffer: &Buffer{b: content}, report: report}}}
		change(a)
		return a
	}
	for name, a := range map[string]*Attempt{
		"edited": attempt(func(a *Attempt) {
			a.Edit = new(routing.Edit).With("messages.0.content_blocks", json.RawMessage(`[]`))
		}),
		"replaced": attempt(func(a *Attempt) { a.rewritten = new(Buffer) }),
		"opaque":   attempt(func(a *Attempt) { a.call.Body.opaque = true }),
	} {
		if !a.Payload().MayHave("content_blocks") {
			t.Errorf("%s: it has none", name)
		}
	}
	if attempt(func(*Attempt) {}).Payload().MayHave("content_blocks") {
		t.Error("unchanged: it may have one")
	}
}
