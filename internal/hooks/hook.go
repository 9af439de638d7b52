// Package hooks has the hooks of configs: guardrails, which judge calls and answers, and mutators,
// which change them. [Parse] reads them, [Texts] finds what they judge in a body, whatever
// dialect the caller speaks, and [Run] runs those of a phase.
package hooks

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/caddy-gw/gateway/guardrails"
)

// A Hook is one guardrail or mutator.
type Hook struct {
	ID      string
	Slug    string // or id, of the saved guardrail that it stands for; it has nothing else then, but perhaps a version
	Mutator bool
	Checks  []Use

	Deny       bool // a false verdict refuses the call, or the answer
	SoftDeny   bool // such a refusal is an answer with status 200
	Async      bool // it runs after the answer, and decides nothing
	Sequential bool // each check judges what the one before it made of the texts
	FailOnErr  bool // a check that errored has failed

	OnSuccess, OnFail *Feedback
	VersionID         string
	Scope             Scope
	Stream            Stream
	// Concealed: results have of its checks only verdicts and explanations, since those who get them may not
	// read its parameters, which the data of checks repeats.
	Concealed bool
	// Key distinguishes the hook from those that judge otherwise.
	Key     string
	Timeout time.Duration // of all checks together
}

// A Use is a check in a hook.
type Use struct {
	ID        string
	Check     guardrails.Check // nil: it cannot be made
	Err       error            // why
	Disabled  bool
	FailOnErr bool
}

// A Feedback is a grade that a hook gives to a call.
type Feedback struct {
	Value    float64
	Weight   float64
	Metadata json.RawMessage // an object, or nil
}

// A Scope is what a hook judges besides the latest message, or the first choice.
type Scope struct {
	AllTurns      bool // the messages before the latest
	System        bool // the system's and the developer's messages
	ToolArguments bool // what tools are called with
	ToolResults   bool // what tools have returned
	Choices       bool // the choices after the first
	Instructions  bool // of a response
}

// A Stream is how a hook judges answers that stream.
type Stream struct {
	Mode   StreamMode
	Buffer int // the most bytes that are held back in mode Buffer
	Window int // bytes of text that are judged at a time in mode Window
	Hold   int // bytes of text that are held back in it
}

// A StreamMode says when a stream that is judged goes to the client.
type StreamMode string

// The modes. Unset, a hook that may refuse or change an answer uses Window where its checks can,
// and Buffer otherwise; another hook uses After.
const (
	Unset  StreamMode = ""
	Buffer StreamMode = "buffer" // once all of it was judged
	Window StreamMode = "window" // a window after another, as they are judged
	After  StreamMode = "after"  // at once; it is judged when it is over
)

// Bounds and defaults.
const (
	maxHooks  = 50 // of a list
	maxChecks = 50 // of a hook

	defaultTimeout = 30 * time.Second
	maxTimeout     = 5 * time.Minute
	phaseTimeout   = time.Minute // of all hooks of a phase, unless one of them may take longer
	defaultBuffer  = 1 << 20
	maxBuffer      = 16 << 20
	defaultHold    = 256
	defaultWindow  = 64
	minHold        = 16
	maxWindow      = 64 << 10
)

// Proxied returns those of the hooks that judge calls of paths that pass through, with their checks that
// do.
func Proxied(list []*Hook) (proxied []*Hook) {
	for _, h := range list {
		uses := slices.DeleteFunc(slices.Clone(h.Checks), func(u Use) bool {
			judge, ok := u.Check.(guardrails.ProxyJudge)
			return u.Disabled || !ok || !judge.JudgesProxied()
		})
		if len(uses) > 0 {
			with := *h
			with.Checks = uses
			proxied = append(proxied, &with)
		}
	}
	return proxied
}

// budget is how long the hooks of a phase may take together.
func budget(list []*Hook) time.Duration {
	longest := phaseTimeout
	for _, h := range list {
		longest = max(longest, h.Timeout+time.Second) // so that its own is over first
	}
	return longest
}

// ModeOf is how a hook judges streams.
func (h *Hook) ModeOf() StreamMode {
	switch {
	case h.Async:
		return After
	case h.Stream.Mode == Window && !h.windows(), h.Stream.Mode == Unset && h.decides() && !h.windows():
		return Buffer
	case h.Stream.Mode != Unset:
		return h.Stream.Mode
	case h.decides():
		return Window
	}
	return After
}

// decides reports whether the hook may refuse or change an answer.
func (h *Hook) decides() bool {
	if h.Deny || h.Mutator {
		return true
	}
	for _, u := range h.Checks {
		if finder, ok := u.Check.(guardrails.Finder); ok && !u.Disabled {
			if _, redacts := finder.Finds(); redacts {
				return true
			}
		}
		if _, ok := u.Check.(guardrails.Transformer); ok && !u.Disabled {
			return true
		}
	}
	return false
}

// windows reports whether all checks can judge a stream window by window.
func (h *Hook) windows() bool {
	for _, u := range h.Checks {
		if u.Disabled {
			continue
		}
		finder, ok := u.Check.(guardrails.Finder)
		if !ok { // or it cannot be made
			return false
		}
		if decides, _ := finder.Finds(); !decides {
			return false
		}
	}
	return true
}
