package inference

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// kindHooksFailed is the kind of a cut by which a guardrail ends a stream.
const kindHooksFailed = "hooks_failed"

// A windowed stream is one whose texts hooks judge while it passes. What is not judged yet is held
// back; the events go on at once, with the text that was let go in place of their own.
type windowed struct {
	res      *Response
	g        *guard
	endpoint string
	src      io.ReadCloser
	window   *hooks.Windows
	frames   chat.SSE

	in   []byte
	out  []byte
	read int // so far, of out
	held int // memory reserved for out, frames and texts
	err  error

	came     int  // bytes of text
	let      int  // bytes of text that were let go; they are counted as they pass
	gave     bool // a text was let go
	over     bool // what the hooks say is noted
	ends     bool // a text has ended, so that the model has said all of it
	latest   []byte
	deltas   map[hooks.Track][]byte // of a response: the latest event of each text
	texts    map[hooks.Track]string // of a response: what was let go of each text
	usage    []byte                 // of a stream that was refused, as the provider says
	inserted int64                  // events of a response that the provider did not send
}

// judgeWindows has hooks judge a stream while it passes. A refusal of the first window comes
// before the commit point, as does all that is reported of a stream that is over by then.
func (g *guard) judgeWindows(ctx context.Context, res *Response) error {
	w := &windowed{
		res: res, g: g, endpoint: g.x.Endpoint.Name, src: res.Body, in: make([]byte, startSize),
		deltas: make(map[hooks.Track][]byte), texts: make(map[hooks.Track]string),
	}
	w.window = hooks.NewWindows(w.endpoint, g.windows(), g.x.Gateway.Now)
	for w.err == nil && !w.gave {
		w.fill()
	}
	switch own := new(exchange.Error); {
	case ctx.Err() != nil:
		w.Close()
		return ctx.Err()
	case w.window.Denied != nil && !w.gave:
		w.Close()
		return w.refuse()
	case inflight.Refused(w.err), errors.Is(w.err, errBodyStalled), errors.As(w.err, &own):
		w.Close()
		return w.err
	case w.err != nil && !errors.Is(w.err, io.EOF) && !w.gave:
		w.Close()
		return incompleteError{"the provider's stream broke off", w.err}
	}
	res.StoreLater()
	res.Body = w
	return nil
}

// windows are the hooks that judge windows.
func (g *guard) windows() (list []*hooks.Hook) {
	for _, h := range g.after {
		if h.ModeOf() == hooks.Window {
			list = append(list, h)
		}
	}
	return list
}

// refuse answers for a stream that was refused before any text of it went to the client.
func (w *windowed) refuse() error {
	g, denied := w.g, w.window.Denied
	why := hooks.Why(denied, guardrails.Output)
	if denied.SoftDeny {
		if body := g.softRefusal(w.res.Attempt, why); body != nil {
			switch {
			case w.usage != nil:
				body, _ = sjson.SetRawBytes(body, "usage", w.usage)
			case w.endpoint != providers.Messages: // it is not known, and not nothing
				body, _ = sjson.DeleteBytes(body, "usage")
			}
			stream, err := (&cache.Entry{Body: body}).As(w.endpoint, true)
			if err == nil {
				err = g.x.Memory.Reserve(cap(stream))
			}
			if err != nil {
				return err
			}
			g.judgment.failed, w.res.Attempt.Private = false, true
			w.res.Replace(body)
			w.res.Body = &peeked{call: g.x.Call, seen: stream, src: http.NoBody}
			return nil
		}
	}
	return exchange.Denied(why, g.judgment.JSON())
}

func (w *windowed) Read(p []byte) (int, error) {
	for w.read == len(w.out) {
		if w.err != nil {
			return 0, w.err
		}
		w.fill()
	}
	n := copy(p, w.out[w.read:])
	w.read += n
	return n, nil
}

// Close ends the stream, also where the client has left before its end.
func (w *windowed) Close() error {
	w.conclude()
	w.g.x.Memory.Free(w.held)
	w.held = 0
	return w.src.Close()
}

// fill reads from the provider once, and judges what came.
func (w *windowed) fill() {
	if w.read == len(w.out) {
		w.out, w.read = w.out[:0], 0
	}
	n, err := w.src.Read(w.in)
	if wrong := w.frames.Push(w.in[:n], w.event); wrong != nil {
		err = wrong
	}
	if err == nil && n > 0 && w.in[0] == ':' && len(w.out) == 0 {
		w.out = append(w.out, ":\n\n"...) // a comment keeps the client waiting
	}
	if err != nil && w.window.Denied == nil && !errors.As(err, new(*cut)) {
		if wrong := w.frames.Rest(w.event); wrong != nil {
			err = wrong
		}
		for _, t := range w.window.Ending(&hooks.Event{All: true}) { // also of a stream that broke off
			w.insert(t, w.window.Flush(t))
		}
		if errors.Is(err, io.EOF) {
			w.window.End()
		}
		if w.frames.Done() && errors.Is(err, io.EOF) {
			w.out = append(w.out, "data: [DONE]\n\n"...)
		}
	}
	if w.window.Denied != nil {
		w.drain()
		err = &cut{kind: kindHooksFailed, why: "was refused by the guardrail " + w.window.Denied.ID}
	}
	if err != nil {
		w.conclude()
	}
	if w.err = err; err == nil {
		w.pay()
	}
}

// pay reserves the memory that the stream holds.
func (w *windowed) pay() {
	need := cap(w.out) + w.frames.Buffered() + len(w.latest)
	for _, text := range w.texts {
		need += len(text)
	}
	if need <= w.held {
		return
	}
	if err := w.g.x.Memory.Reserve(need - w.held); err != nil {
		w.err = outOfMemory(err)
		if !w.gave {
			w.err = err
		}
		return
	}
	w.held = need
}

// drain reads what follows the last text, which says what was used.
func (w *windowed) drain() {
	if !w.ends {
		return
	}
	for range maxDrained / startSize {
		n, err := w.src.Read(w.in)
		if w.frames.Push(w.in[:n], w.book) != nil || err != nil {
			return
		}
	}
}

// book books what an event says that was used.
func (w *windowed) book(_ string, data []byte) error {
	if response := gjson.GetBytes(data, "response"); response.IsObject() {
		data = []byte(response.Raw)
	}
	w.res.Book(data)
	if usage := gjson.GetBytes(data, "usage"); usage.IsObject() {
		w.usage = []byte(usage.Raw)
	}
	return nil
}

// conclude notes what the hooks say of the stream.
func (w *windowed) conclude() {
	if w.over {
		return
	}
	w.over = true
	w.res.AddText(max(0, w.came-w.let)) // the rest was used too, though no client gets it
	j, attempt := w.g.judgment, w.res.Attempt
	j.after = w.window.Results()
	if w.window.Denied != nil || w.window.Changed || w.window.Unfinished {
		j.after = hooks.Explanations(j.after)
	}
	j.hideAnswer = w.window.Unfinished
	attempt.Private = attempt.Private || w.window.Unfinished || w.window.Denied != nil || w.window.Failed()
	w.g.count("output", j.after)
}

// event judges an event, and passes it on. Nothing follows [DONE].
func (w *windowed) event(name string, data []byte) error {
	if w.frames.Done() {
		return nil
	}
	if w.window.Denied != nil {
		return w.book(name, data)
	}
	if jsonscan.Members(data, nil) != nil {
		w.res.DropEvent()
		return nil //nolint:nilerr // the event is removed, and counted
	}
	e := w.window.Pieces(data)
	w.note(data)
	spans, texts := make([]hooks.Span, len(e.Pieces)), make([]string, len(e.Pieces))
	for i, p := range e.Pieces {
		spans[i] = p.Span
		piece := jsonscan.Unquote(data[p.Start:p.End])
		if p.Alone {
			texts[i] = w.window.Once(p.Track, piece)
			continue
		}
		if !p.Whole {
			w.came += len(piece)
			texts[i] = w.window.Push(p.Track, piece)
			w.keep(p.Track, texts[i])
			w.deltas[p.Track] = w.like(w.deltas[p.Track], data)
			continue
		}
		if _, known := w.deltas[p.Track]; !known { // its text comes at once
			w.keep(p.Track, w.window.Push(p.Track, piece))
		}
		if rest := w.window.Flush(p.Track); rest != "" {
			w.insert(p.Track, rest)
			w.keep(p.Track, rest)
		}
		texts[i] = w.texts[p.Track]
	}
	if w.window.Texts() > hooks.MaxTexts {
		return &cut{kind: "stream_malformed", why: "has more than " + strconv.Itoa(hooks.MaxTexts) + " texts, and so cannot be checked by guardrails"}
	}
	for _, t := range w.window.Ending(&e) {
		w.ends = true
		rest := w.window.Flush(t)
		w.keep(t, rest)
		if at := lastOf(e.Pieces, t); at >= 0 {
			texts[at] += rest
		} else {
			w.insert(t, rest)
		}
	}
	if w.window.Denied != nil {
		// What was let go before the place that is refused is the client's.
		for i, p := range e.Pieces {
			if !p.Whole && !p.Alone {
				w.insert(p.Track, texts[i])
			}
		}
		return nil
	}
	changed, err := hooks.Replace(data, spans, texts)
	if err != nil {
		return &cut{kind: "stream_malformed", why: "cannot be read: " + err.Error()}
	}
	changed = w.bare(changed)
	if err := w.store(changed); err != nil {
		return err
	}
	w.write(name, changed)
	for _, text := range texts {
		w.gave = w.gave || text != ""
	}
	return nil
}

// Interface guards
var _ io.ReadCloser = (*windowed)(nil)
