// Package guardrails has the checks that judge calls and their answers. A check has an id, such as
// default.regexMatch, and parameters; a hook of a config or a saved guardrail names both, and says
// what follows from the verdict.
//
// The checks that are built in are in package standard. Others register theirs in an init
// function:
//
//	func init() {
//		guardrails.Register(guardrails.Kind{
//			ID:         "acme.shout",
//			Parameters: []guardrails.Parameter{{Name: "most", Type: guardrails.Integer, Default: "3"}},
//			New: func(p *guardrails.Parameters) (guardrails.Check, error) { … },
//		})
//	}
package guardrails

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// A Check judges calls or answers, with the parameters that it was made with. It may be used by
// several goroutines.
type Check interface {
	// Judge returns the verdict about a subject, which it must not change or keep. After an error
	// the check counts as errored, whatever the verdict. A panic is an error.
	Judge(ctx context.Context, s *Subject) (Result, error)
}

// A Finder is a check that judges a text by the places in it that it objects to. A stream can be
// judged by it while it passes.
type Finder interface {
	Check

	// Finds reports whether places decide, with the parameters that the check has: each of them
	// is either replaced (redacts), or makes the verdict false.
	Finds() (decides, redacts bool)

	// Find returns the places in a text, in order and without overlaps; of a check that does not
	// redact, the first is enough. It must find a place in every text around it, as long as the
	// characters next to the place are the same. The error is that of the context when its time
	// is over.
	Find(ctx context.Context, text string) ([]Place, error)
}

// A Place is a part of a text.
type Place struct {
	Start, End int    // offsets in bytes
	With       string // what replaces it, if the check redacts
}

// A Phase is when a check runs.
type Phase uint8

// The phases.
const (
	Input  Phase = iota // before a call is sent
	Output              // before its answer is given to the client
	Start               // before the body of a call is looked at; the subject has neither texts nor a body
)

// Event is the name of the phase in what checks of others are sent.
func (p Phase) Event() string {
	switch p {
	case Output:
		return "afterRequestHook"
	case Start:
		return "startHook"
	case Input:
	}
	return "beforeRequestHook"
}

// Phases are those that checks of a kind can judge.
type Phases uint8

// Sets of phases, which may be combined.
const (
	AnyPhase Phases = 0
	Calls    Phases = 1 << Input
	Answers  Phases = 1 << Output
	Starts   Phases = 1 << Start
)

// Has reports whether a phase is among them.
func (p Phases) Has(phase Phase) bool { return p == AnyPhase || p>>phase&1 != 0 }

// A Subject is what a check judges: a call or, in phase Output, its answer.
type Subject struct {
	Phase    Phase
	Type     string // the endpoint, such as chatComplete
	Stream   bool   // the call asks for a stream
	Provider string
	Model    string // that the call asks for
	// OtherModel: the provider may take the call for another model, which was not read.
	OtherModel bool
	// Workspace is whose call it is. Checks of large texts share the processor by workspaces.
	Workspace string
	// Caller is the id of the user who calls, or else of the API key.
	Caller string

	// Metadata is the call's metadata, an object; nil: it has none.
	Metadata json.RawMessage
	// Header has the headers of the call, credentials among them.
	Header http.Header
	// Request is the body of the call, and Response that of the answer, both in the dialect that
	// the client speaks. Response is nil in phase Input.
	Request, Response json.RawMessage
	// Status is that of the answer.
	Status int

	// Texts are those to judge, in order. Empty ones are among them.
	Texts []string
	// Asked returns, in phase Output, the text of the call, as [Subject.Text] does in phase Input;
	// nil: it is not known.
	Asked func() string
	// Services are for checks that ask others; nil: no service can be asked.
	Services Services
	// Calls: the answer calls tools.
	Calls bool
}

// Text returns the texts that are not empty, one on a line.
func (s *Subject) Text() string {
	switch len(s.Texts) {
	case 0:
		return ""
	case 1:
		return s.Texts[0]
	}
	var b strings.Builder
	for _, t := range s.Texts {
		if t == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(t)
	}
	return b.String()
}

// ErrNoText is the error of a check that finds no text to judge.
var ErrNoText = errors.New("there is no text to check")

// ErrUnreadable is what the errors of [Unreadable] are.
var ErrUnreadable = errors.New("the check cannot judge the call")

// Unreadable is the error of a check that cannot judge because of what it is to judge: a text that
// takes more time, steps or memory than the check has, that is nested too deeply, or that has too
// long numbers. A caller can choose such a text, so a hook that may refuse or change what it judges refuses
// it, whatever its fail_on_error. why must not repeat the text.
//
// Other errors, such as that of a service that does not answer, are let pass unless fail_on_error
// is set. The time of a hook that is over is such an error only for a [Waiter].
func Unreadable(why string) error { return unreadable(why) }

type unreadable string

func (e unreadable) Error() string { return string(e) }

// Is makes every such error an ErrUnreadable.
func (unreadable) Is(target error) bool { return target == ErrUnreadable }

// A Result is what a check says.
type Result struct {
	Verdict bool
	// Data explains the verdict to people. It is encoded as JSON.
	Data any
	// Texts replaces the texts of the subject, one for one, if it is not nil.
	Texts []string
	// Body replaces the body of the phase, if it is not nil.
	Body json.RawMessage
	// Header is what a [HeaderSetter] sets on the request to the provider. Names are in canonical form.
	Header http.Header
}

// Excerpt returns the beginning of a text, for the data of a result.
func Excerpt(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + "..."
		}
	}
	return text
}

// Replace replaces places in a text.
func Replace(text string, places []Place) string {
	if len(places) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, p := range places {
		b.WriteString(text[at:p.Start])
		b.WriteString(p.With)
		at = p.End
	}
	b.WriteString(text[at:])
	return b.String()
}

// ReplaceEach replaces what a finder finds in each text of a subject. It returns nil if it finds
// nothing, and how many places it found. The error is that of the context when its time is over.
func ReplaceEach(ctx context.Context, f Finder, s *Subject) (texts []string, found int, err error) {
	for i, text := range s.Texts {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		places, err := f.Find(ctx, text)
		if err != nil {
			return nil, 0, err
		}
		if len(places) == 0 {
			continue
		}
		if texts == nil {
			texts = append([]string(nil), s.Texts...)
		}
		texts[i] = Replace(text, places)
		found += len(places)
	}
	return texts, found, nil
}

// Sized is a check that has regular expressions.
type Sized interface {
	Check
	Size() int // of all of them, in instructions
}

// A Transformer is a check that may change what it judges. A [Finder] that redacts need not be one.
// Transformers judge what those before them have made of the texts.
type Transformer interface {
	Check
	Transforms() // it does nothing, and tells such checks from others
}

// A HeaderSetter is a check of calls that sets headers of the request to the provider, unless its hook
// is async. What authenticates the request is set afterwards.
type HeaderSetter interface {
	Check
	// Sets are the names of the headers, in canonical form. Those for which a result has no values are
	// removed, also if the check could not judge: they never come from the client.
	Sets() []string
}

// A ProxyJudge is a check that may judge calls of paths that the gateway only passes on, of which it has the
// body, if that is JSON, and no texts. Other checks do not run on them, and none on their answers.
type ProxyJudge interface {
	Check
	JudgesProxied() bool // with the parameters that the check has
}

// A Waiter is a check that waits for others, such as a service on the network. Several of them may
// wait at the same time, and none for longer than its hook has time.
type Waiter interface {
	Check
	Waits() // it does nothing, and tells such checks from others
}
