package hooks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/guardrails"
)

// Windows judge the texts of a stream while they pass. Each text is searched in segments, whose
// ends depend only on the text: how it came does not matter. Of a segment, the first Window bytes
// are let go and the last Hold bytes held back, so that every place of up to Hold bytes is found
// whole.
type Windows struct {
	endpoint string
	scope    Scope // of all hooks together
	list     []*Hook
	uses     []*windowUse
	tracks   map[Track]*windowTrack
	now      func() time.Time
	left     time.Duration           // for the checks of all hooks
	spent    map[*Hook]time.Duration // by the checks of each

	Denied     *Hook // the first that refuses the stream; nil: none does
	Unfinished bool  // see [Outcome]
	Changed    bool  // a text was changed
}

// A windowUse is a check of a hook in all texts of a stream.
type windowUse struct {
	hook     *Hook
	use      *Use
	finder   guardrails.Finder
	redacts  bool // what it finds does not make its verdict false
	replaces bool // what it finds is replaced
	found    int
	read     bool // there was a text
	err      error
	spent    time.Duration
}

// A windowTrack is one text on its way through the checks.
type windowTrack struct {
	stages []*windowStage
	out    []byte // let go by the last of them, and not taken yet
	ended  bool
}

// MaxTexts is how many texts of a stream are judged: more choices and calls than any model gives.
const MaxTexts = 1000

// Texts is the number of texts that the stream has had so far.
func (w *Windows) Texts() int { return len(w.tracks) }

// NewWindows returns the windows of hooks that [Hook.ModeOf] says can be used in one.
func NewWindows(endpoint string, list []*Hook, now func() time.Time) *Windows {
	w := &Windows{endpoint: endpoint, list: list, tracks: make(map[Track]*windowTrack), now: now, left: budget(list), spent: make(map[*Hook]time.Duration)}
	for _, h := range list {
		w.scope.ToolArguments = w.scope.ToolArguments || h.Scope.ToolArguments
		w.scope.ToolResults = w.scope.ToolResults || h.Scope.ToolResults
		w.scope.Choices = w.scope.Choices || h.Scope.Choices
		var judging, changing []*windowUse
		for i := range h.Checks {
			u := &windowUse{hook: h, use: &h.Checks[i]}
			if u.use.Disabled {
				continue
			}
			u.finder = u.use.Check.(guardrails.Finder)
			_, u.redacts = u.finder.Finds()
			u.replaces = transforms(u.use.Check)
			if u.replaces || h.Sequential || h.Mutator {
				changing = append(changing, u)
			} else {
				judging = append(judging, u) // they judge what the hook before has left
			}
		}
		w.uses = append(append(w.uses, judging...), changing...)
	}
	return w
}

// Pieces returns the pieces of text in an event that some hook judges.
func (w *Windows) Pieces(data []byte) Event { return Pieces(w.endpoint, data, w.scope) }

// judges reports whether a hook judges a text.
func (w *Windows) judges(h *Hook, t Track) bool {
	switch {
	case t.Kind == ofCalls || t.Kind == "partial_json" || t.Kind == "function_call":
		return h.Scope.ToolArguments
	case t.Kind == ofResults:
		return h.Scope.ToolResults
	case w.endpoint == "chatComplete" || w.endpoint == "complete":
		return t.Index == 0 || h.Scope.Choices
	}
	return true
}

func (w *Windows) track(t Track) *windowTrack {
	track := w.tracks[t]
	if track == nil {
		track = w.newTrack(t)
		w.tracks[t] = track
	}
	return track
}

func (w *Windows) newTrack(t Track) *windowTrack {
	track := new(windowTrack)
	for _, u := range w.uses {
		if w.judges(u.hook, t) {
			track.stages = append(track.stages, &windowStage{window: w, track: track, use: u, at: len(track.stages)})
		}
	}
	return track
}

// Once takes a text that is alone, and returns what is let go of it.
func (w *Windows) Once(t Track, text string) string {
	track := w.newTrack(t)
	track.pass(0, text)
	track.flush(0)
	return track.take()
}

// Push takes a piece of a text, and returns what is let go of the text. Nothing more is once the
// stream is refused.
func (w *Windows) Push(t Track, piece string) string {
	track := w.track(t)
	if !track.ended {
		track.pass(0, piece)
	}
	return track.take()
}

// Flush ends a text, and returns the rest of it.
func (w *Windows) Flush(t Track) string {
	track := w.track(t)
	if !track.ended {
		track.ended = true
		track.flush(0)
	}
	return track.take()
}

// Ending returns the texts that end with an event, in an order that does not change.
func (w *Windows) Ending(e *Event) (ending []Track) {
	for t, track := range w.tracks {
		if !track.ended && (e.All || slices.Contains(e.Ends, t.Index)) {
			ending = append(ending, t)
		}
	}
	slices.SortFunc(ending, func(a, b Track) int {
		return cmp.Or(a.Index-b.Index, a.Part-b.Part, strings.Compare(a.Kind, b.Kind))
	})
	return ending
}

// pass gives a text to the stage with a number, or lets it go.
func (t *windowTrack) pass(stage int, text string) {
	if stage == len(t.stages) {
		t.out = append(t.out, text...)
		return
	}
	t.stages[stage].push(text)
}

func (t *windowTrack) flush(stage int) {
	if stage < len(t.stages) {
		t.stages[stage].flush()
	}
}

func (t *windowTrack) take() string {
	out := string(t.out)
	t.out = t.out[:0]
	return out
}

// A windowStage is a check in one text.
type windowStage struct {
	window *Windows
	track  *windowTrack
	use    *windowUse
	at     int
	before string // the last character that was let go, as it was
	held   []byte // the end of room
	room   []byte
}

// push takes a part of the text, and judges the segments that are complete, one after the other.
func (s *windowStage) push(text string) {
	s.use.read = s.use.read || text != ""
	// What is held is moved once for each piece, and not for each segment of it: a piece may be large.
	s.room = append(append(s.room[:0], s.held...), text...)
	s.held = s.room
	for s.window.Denied == nil {
		end := boundary(s.held, s.use.hook.Stream.Window+s.use.hook.Stream.Hold)
		if end < 0 {
			return
		}
		s.judge(boundary(s.held, s.use.hook.Stream.Window), end, false)
	}
}

// flush judges the rest of the text.
func (s *windowStage) flush() {
	if s.window.Denied == nil && len(s.held) > 0 {
		s.judge(len(s.held), len(s.held), true)
	}
	if s.window.Denied == nil {
		s.track.flush(s.at + 1)
	}
}

// boundary is where the first character begins at or after n bytes of a text; -1: the text has no n
// bytes.
func boundary(text []byte, n int) int {
	if len(text) < n {
		return -1
	}
	for n < len(text) && !utf8.RuneStart(text[n]) {
		n++
	}
	return n
}

// judge judges held[:end], and lets held[:cut] go, or more, so that no place is cut in two. last: the
// text ends there.
func (s *windowStage) judge(cut, end int, last bool) {
	places, err := s.find(end)
	if err != nil && s.use.err == nil {
		s.use.err = err
		s.window.Unfinished = s.window.Unfinished || s.use.replaces || s.use.hook.Mutator
		s.window.fail(s.use)
	}
	if s.window.Denied != nil {
		return
	}
	var out []byte
	at := 0
	for _, p := range places {
		if p.Start >= cut && (s.use.replaces || p.End == end && !last) {
			break // the next segment has it whole
		}
		if s.use.found++; !s.use.redacts {
			if s.window.fail(s.use); s.window.Denied != nil {
				return
			}
		}
		if !s.use.replaces {
			break // one is enough
		}
		out = append(append(out, s.held[at:p.Start]...), p.With...)
		at, s.window.Changed = p.End, true
		cut = max(cut, p.End)
	}
	if cut > at {
		out = append(out, s.held[at:cut]...)
	}
	if cut > 0 {
		_, size := utf8.DecodeLastRune(s.held[:cut])
		s.before = string(s.held[cut-size : cut])
	}
	s.held = s.held[cut:]
	s.track.pass(s.at+1, string(out))
}

// find returns the places in held[:end]. The character before them is looked at, too.
func (s *windowStage) find(end int) ([]guardrails.Place, error) {
	u, w := s.use, s.window
	if errors.Is(u.err, context.DeadlineExceeded) {
		return nil, nil
	}
	begun := w.now()
	left := min(u.hook.Timeout-w.spent[u.hook], w.left)
	defer func() {
		took := w.now().Sub(begun)
		u.spent += took
		w.spent[u.hook] += took
		w.left -= took
		if took > left && u.err == nil {
			u.err = context.DeadlineExceeded
			w.Unfinished = w.Unfinished || u.replaces || u.hook.Mutator
			w.fail(u)
		}
	}()
	ctx := context.Background()
	if end > longSegment {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	skip := len(s.before)
	places, err := safelyFind(ctx, u.finder, s.before+string(s.held[:end]))
	if err == nil && len(places) > 0 && places[0].Start < skip { // in what was let go already
		skip = 0
		places, err = safelyFind(ctx, u.finder, string(s.held[:end]))
	}
	if err != nil {
		return nil, err
	}
	moved := make([]guardrails.Place, len(places))
	for i, p := range places {
		moved[i] = guardrails.Place{Start: p.Start - skip, End: p.End - skip, With: p.With}
	}
	return moved, nil
}

// longSegment is the size of segments, in bytes, whose search may have to be given up.
const longSegment = 4 << 10

func safelyFind(ctx context.Context, f guardrails.Finder, text string) (places []guardrails.Place, err error) {
	defer func() {
		if recover() != nil { // what the panic says might repeat the text
			places, err = nil, errPanic
		}
	}()
	return f.Find(ctx, text)
}

// fail refuses the stream if a check that failed, or that errored, makes its hook refuse it.
func (w *Windows) fail(u *windowUse) {
	unread := u.err != nil && unreadable(u.err, u.use)
	failed := u.found > 0 && !u.redacts || u.err != nil && (unread || u.use.FailOnErr || u.hook.FailOnErr)
	if w.Denied == nil && failed && (u.hook.Deny || unread && u.hook.decides()) {
		w.Denied = u.hook
	}
}

// End says that no more text comes.
func (w *Windows) End() {
	for _, u := range w.uses {
		if !u.read && u.err == nil {
			u.err = guardrails.ErrNoText
			w.fail(u)
		}
	}
}

// Failed reports whether a check found what it objects to, or could not judge.
func (w *Windows) Failed() bool {
	return slices.ContainsFunc(w.uses, func(u *windowUse) bool { return u.found > 0 && !u.redacts || u.err != nil })
}

// Results are what the hooks say of the texts so far.
func (w *Windows) Results() (results []Result) {
	now := w.now()
	for _, h := range w.list {
		r := newResult(h, guardrails.Output, now)
		for _, u := range w.uses {
			if u.hook == h {
				c := u.result(now)
				r.Transformed = r.Transformed || c.Transformed
				r.add(&c)
			}
		}
		r.Deny = !r.Verdict && (h.Deny || w.Denied == h)
		r.grade(h)
		results = append(results, r)
	}
	return results
}

// result is what a check says.
func (u *windowUse) result(now time.Time) CheckResult {
	c := CheckResult{ID: u.use.ID, Verdict: true, CreatedAt: now.UTC(), ExecutionTime: u.spent.Milliseconds(), FailOnError: u.use.FailOnErr || u.hook.FailOnErr}
	err := u.err
	switch {
	case u.found > 0 && !u.redacts:
		c.Verdict = false
	case err != nil:
		c.Verdict = false
		c.Error = checkError(err, u.hook, u.use)
	}
	c.Transformed = u.found > 0 && u.replaces
	explanation := "The text has nothing that the check looks for."
	if u.found > 0 {
		explanation = "The text has what the check looks for."
	}
	c.Data = map[string]any{"explanation": explanation, "matches": u.found}
	return c
}
