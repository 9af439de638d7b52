package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/fairshare"
)

// An Outcome is what the hooks of a phase come to.
type Outcome struct {
	Results []Result // in the order of the hooks; those that run later are not among them
	Body    []byte   // the body of the phase, if it was changed; nil: it was not
	Denied  *Hook    // the first that refuses; nil: none does
	Failed  bool     // some hook failed that does not refuse
	Errored int      // hooks that passed although a check could not judge
	// Header is what checks set on the request to the provider, where a name without values is removed
	// from it; nil: nothing.
	Header http.Header

	// Unread says why no hook could read the body, in which case nothing may be done with it: a
	// text is longer than [MaxText], or there are numbers of tokens instead of texts. "": they
	// could. It begins in the middle of a sentence.
	Unread string
	// Unfinished: a check errored that might have changed the texts, which still have what it
	// would have removed.
	Unfinished bool
}

// MaxText bounds what a hook judges of a body, in bytes of JSON.
const MaxText = 16 << 20

// largeText is the size of texts, in bytes, from which the checks in process that judge them take
// turns: as many at the same time as there are processors, and of a workspace no more than its
// share.
const largeText = 64 << 10

var turns = sync.OnceValue(func() *fairshare.Semaphore { return fairshare.NewSemaphore(runtime.GOMAXPROCS(0)) })

// Run runs the hooks of a phase, in their order, that are async or not. A hook judges what those
// before it made of the body. The body is that of the subject's phase, and valid JSON.
//
// Each hook has its timeout, and all of them together have a minute, or as long as the one that has
// most. A check that is not done then counts as one that could not judge because of what it is to
// judge, whatever it waits for: others decide how long those before it take.
func Run(ctx context.Context, list []*Hook, s guardrails.Subject, async bool, now func() time.Time) *Outcome {
	return runWith(ctx, turns(), list, s, async, now)
}

func runWith(ctx context.Context, turns *fairshare.Semaphore, list []*Hook, s guardrails.Subject, async bool, now func() time.Time) *Outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, budget(list), errPhase)
	defer cancel()
	out := new(Outcome)
	r := &run{subject: s, now: now, phase: ctx, turns: turns}
	r.body = s.Request
	if s.Phase == guardrails.Output {
		r.body = s.Response
		r.subject.Asked = requestText(&s)
		if s.Type == "createModelResponse" && !async && Decides(list) {
			r.body = WithoutOutputText(r.body)
		}
	}
	for _, h := range list {
		if h.Async != async {
			continue
		}
		result := r.hook(ctx, h)
		if r.unread != "" && !async {
			out.Unread = r.unread
			return out
		}
		out.Results = append(out.Results, result)
		switch {
		case result.Verdict && result.State == ErroredPassed:
			out.Errored++
		case result.Verdict:
		case result.Deny:
			if out.Denied == nil {
				out.Denied = h
			}
		default:
			out.Failed = true
		}
	}
	out.Unfinished, out.Header = r.unfinished, r.header
	switch {
	case async:
	case r.changed && s.Phase == guardrails.Output:
		out.Body = withoutCopies(r.body)
	case r.changed, s.Phase == guardrails.Output && len(r.body) < len(s.Response):
		out.Body = r.body
	}
	if r.changed || r.unfinished || out.Denied != nil && s.Phase == guardrails.Output {
		conceal(out.Results)
	}
	return out
}

// A run is the hooks of a phase that run.
type run struct {
	subject guardrails.Subject
	body    json.RawMessage
	changed bool
	now     func() time.Time
	phase   context.Context //nolint:containedctx // it ends with the run
	turns   *fairshare.Semaphore

	// The texts of the body for a scope.
	scope  Scope
	spans  []Span
	read   bool
	unread string // see [Outcome]

	unfinished bool
	header     http.Header // see [Outcome]
}

// requestText returns a function that reads the text of the call whose answer is judged.
func requestText(s *guardrails.Subject) func() string {
	endpoint, body := s.Type, s.Request
	return sync.OnceValue(func() string {
		reading := Texts(endpoint, guardrails.Input, body, Scope{})
		if sizeOf(reading.Spans) > MaxText {
			return ""
		}
		call := guardrails.Subject{Texts: values(body, reading.Spans)}
		return call.Text()
	})
}

// readTexts has the subject show the body, and its texts for a scope.
func (r *run) readTexts(scope Scope) {
	if r.subject.Phase == guardrails.Start || r.read && scope == r.scope {
		return
	}
	reading := Texts(r.subject.Type, r.subject.Phase, r.body, scope)
	r.spans, r.subject.Calls = reading.Spans, reading.Calls
	switch {
	case sizeOf(r.spans) > MaxText:
		r.unread = "the texts have more than " + strconv.Itoa(MaxText>>20) + " MiB"
	case reading.Unread != "":
		r.unread = reading.Unread
	}
	if r.unread != "" {
		r.spans = nil
	}
	r.subject.Texts = values(r.body, r.spans)
	r.scope, r.read = scope, true
	if r.subject.Phase == guardrails.Output {
		r.subject.Response = r.body
	} else {
		r.subject.Request = r.body
	}
}

// hook runs one hook.
func (r *run) hook(ctx context.Context, h *Hook) Result {
	begun := r.now()
	result := newResult(h, r.subject.Phase, begun)
	if h.Mutator && h.Async {
		result.Skipped = true
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	r.readTexts(h.Scope)
	if r.unread != "" && !h.Async {
		return result
	}
	original := r.subject
	remote := r.ahead(ctx, h)
	checks := make([]*CheckResult, len(h.Checks))
	for _, waited := range [...]bool{false, true} { // a service that does not answer takes no time from the other checks
		for i := range h.Checks {
			if done := remote[i]; (done != nil) == waited && !h.Checks[i].Disabled {
				checks[i] = r.check(ctx, h, &h.Checks[i], done, &original)
			}
		}
	}
	fails := false
	for _, c := range checks {
		if c != nil {
			result.Transformed = result.Transformed || c.Transformed
			fails = fails || c.Error != nil && c.Error.fails
			result.add(c)
		}
	}
	result.Deny = !result.Verdict && !h.Async && (h.Deny || fails && h.decides())
	result.ExecutionTime = r.now().Sub(begun).Milliseconds()
	result.grade(h)
	if h.Concealed {
		conceal([]Result{result})
	}
	return result
}

// check has a check judge what the hooks before have left, or, if it runs in parallel with the others of its
// hook, what they all judge. done has its answer, if it was started ahead.
func (r *run) check(ctx context.Context, h *Hook, u *Use, done chan answered, original *guardrails.Subject) *CheckResult {
	r.readTexts(h.Scope)
	subject := *original
	if h.Sequential || h.Mutator || transforms(u.Check) {
		subject = r.subject
	}
	began := r.now()
	var judged guardrails.Result
	var err error
	switch {
	case r.unread != "":
		err = guardrails.Unreadable(r.unread)
	case done != nil:
		answer := <-done
		judged, err = answer.Result, answer.err
	default:
		judged, err = r.judge(ctx, u, &subject)
	}
	c := &CheckResult{ID: u.ID, Verdict: judged.Verdict, Data: judged.Data, CreatedAt: began.UTC(), FailOnError: u.FailOnErr || h.FailOnErr}
	switch changes := judged.Texts != nil || judged.Body != nil; {
	case err != nil || !changes || h.Async:
	case !transforms(u.Check) && !h.Mutator:
		err = errNoTransformer // nobody would know that it may change an answer
	default:
		c.Transformed, err = r.apply(&judged, &subject)
	}
	if setter, ok := u.Check.(guardrails.HeaderSetter); ok && !h.Async && subject.Phase != guardrails.Output {
		r.set(setter, judged.Header)
	}
	if err != nil && errors.Is(context.Cause(r.phase), errPhase) {
		err = errPhase
	}
	if err != nil {
		c.Error = checkError(err, h, u)
		c.Verdict = false
		if !errors.Is(err, guardrails.ErrNoText) {
			r.unfinished = r.unfinished || h.Mutator || u.Check == nil || transforms(u.Check)
		}
	}
	c.ExecutionTime = r.now().Sub(began).Milliseconds()
	return c
}

// set notes what a check sets on the request to the provider.
func (r *run) set(setter guardrails.HeaderSetter, h http.Header) {
	for _, name := range setter.Sets() {
		if r.header == nil {
			r.header = make(http.Header)
		}
		r.header[name] = h[name]
	}
}

// checkError says why a check of a hook could not judge. It fails if that is because of what it was
// to judge, or if it cannot be made, and so would never judge, and the hook is to refuse or change
// what it judges.
func checkError(err error, h *Hook, u *Use) *CheckError {
	e := &CheckError{Name: "Error", Message: err.Error(), fails: unreadable(err, u)}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e.Name, e.Message = "TimeoutError", fmt.Sprintf("the checks took longer than %v", h.Timeout)
	case e.fails:
		e.Name = "UnreadableError"
	case u.Check == nil:
		e.fails = h.decides() && !h.Async
	}
	return e
}

// unreadable reports whether it is what a check was to judge that kept it from judging: see
// [guardrails.Unreadable]. That is so of a check that had no time left, unless it waits for others,
// and of one that panicked.
func unreadable(err error, u *Use) bool {
	if errors.Is(err, guardrails.ErrUnreadable) || errors.Is(err, errPanic) {
		return true
	}
	_, waits := u.Check.(guardrails.Waiter)
	return u.Check != nil && !waits && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// apply puts what a check has changed into the body.
func (r *run) apply(judged *guardrails.Result, subject *guardrails.Subject) (changed bool, err error) {
	body := r.body
	switch {
	case judged.Body != nil:
		if !isObject(judged.Body) {
			return false, errors.New("the check replaced the body by what is not a JSON object")
		}
		body = judged.Body
	case judged.Texts != nil:
		if len(judged.Texts) != len(subject.Texts) {
			return false, ErrReplacement
		}
		if body, err = Replace(r.body, r.spans, judged.Texts); err != nil {
			return false, err
		}
	}
	if bytes.Equal(body, r.body) {
		return false, nil
	}
	r.body, r.changed, r.read = body, true, false
	return true, nil
}

// transforms reports whether a check may change what it judges.
func transforms(c guardrails.Check) bool {
	switch c := c.(type) {
	case guardrails.Transformer:
		return true
	case guardrails.Finder:
		_, redacts := c.Finds()
		return redacts
	}
	return false
}

// An answered is the result of a check that waits for others.
type answered struct {
	guardrails.Result
	err error
}

// ahead starts the checks of a hook that wait for others, all together.
func (r *run) ahead(ctx context.Context, h *Hook) map[int]chan answered {
	if h.Sequential || h.Mutator {
		return nil
	}
	var started map[int]chan answered
	for i := range h.Checks {
		u := &h.Checks[i]
		if _, waits := u.Check.(guardrails.Waiter); !waits || u.Disabled || transforms(u.Check) {
			continue
		}
		if started == nil {
			started = make(map[int]chan answered)
		}
		done := make(chan answered, 1)
		started[i] = done
		subject := r.subject
		go func() {
			result, err := r.judge(ctx, u, &subject)
			done <- answered{result, err}
		}()
	}
	return started
}

var (
	errPanic         = errors.New("the check panicked")
	errPhase         = guardrails.Unreadable("all checks of the phase together took too long")
	errNoTransformer = errors.New("the check changes what it judges, and is not a Transformer")
)

// judge has a check judge a subject. A check that waits for others is left behind when the time is
// over; a panic is an error.
func (r *run) judge(ctx context.Context, u *Use, s *guardrails.Subject) (guardrails.Result, error) {
	switch {
	case u.Check == nil:
		return guardrails.Result{}, u.Err
	case ctx.Err() != nil:
		return guardrails.Result{}, ctx.Err()
	}
	if _, waits := u.Check.(guardrails.Waiter); !waits {
		if totalOf(s.Texts) > largeText {
			release, err := r.turns.Acquire(ctx, s.Workspace)
			if err != nil {
				return guardrails.Result{}, err
			}
			defer release()
		}
		return safely(ctx, u.Check, s)
	}
	done := make(chan answered, 1)
	go func() {
		result, err := safely(ctx, u.Check, s)
		done <- answered{result, err}
	}()
	select {
	case a := <-done:
		return a.Result, a.err
	case <-ctx.Done():
		return guardrails.Result{}, ctx.Err()
	}
}

func totalOf(texts []string) (n int) {
	for _, t := range texts {
		n += len(t)
	}
	return n
}

func safely(ctx context.Context, c guardrails.Check, s *guardrails.Subject) (result guardrails.Result, err error) {
	defer func() {
		if recover() != nil { // what the panic says might repeat the text
			result, err = guardrails.Result{}, errPanic
		}
	}()
	return c.Judge(ctx, s)
}

// Decides reports whether some hook of a list may refuse or change what it judges before anybody
// gets it.
func Decides(list []*Hook) bool {
	return slices.ContainsFunc(list, func(h *Hook) bool { return !h.Async && h.decides() })
}

// Has reports whether a list has hooks that are async, or that are not.
func Has(list []*Hook, async bool) bool {
	return slices.ContainsFunc(list, func(h *Hook) bool { return h.Async == async })
}

// Informed returns the results of hooks that came too late to refuse anything.
func (o *Outcome) Informed() []Result {
	for i := range o.Results {
		o.Results[i].Deny = false
	}
	return o.Results
}
