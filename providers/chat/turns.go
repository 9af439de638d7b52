package chat

import "github.com/caddy-gw/gateway/internal/jsonscan"

// Turns writes messages for who wants the turns to alternate: neighbours of one role are
// one message. A message without content is never begun, as such APIs refuse it.
type Turns struct {
	jsonscan.Builder
	open bool
	role Role
}

// Turn begins a message of a role, unless it is open: of an assistant, or of the user.
func (t *Turns) Turn(role Role) {
	if t.open && t.role == role {
		return
	}
	t.End()
	t.open, t.role = true, role
	t.Open('{')
	if role == Assistant {
		t.Key("role").Text("assistant")
	} else {
		t.Key("role").Text("user")
	}
	t.Key("content").Open('[')
}

// End ends the message that is open, if one is.
func (t *Turns) End() {
	if t.open {
		t.Close(']')
		t.Close('}')
		t.open = false
	}
}
