package chat

import "github.com/caddy-gw/gateway/providers/jsonscan"

// Turns writes messages for APIs in which the roles must alternate: consecutive messages of
// one role are merged. Messages without content are dropped, because such APIs refuse them.
type Turns struct {
	jsonscan.Builder
	open bool
	role Role
}

// In reports whether the current message is of a role.
func (t *Turns) In(role Role) bool { return t.open && t.role == role }

// Turn starts a message of a role, or continues the current one. The role is the assistant
// or the user.
func (t *Turns) Turn(role Role) {
	if t.In(role) {
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

// End ends the current message, if there is one.
func (t *Turns) End() {
	if t.open {
		t.Close(']')
		t.Close('}')
		t.open = false
	}
}
