package inference

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
)

// kindHooksFailed is the kind of a cut by which a guardrail ends a stream.
const kindHooksFailed = "hooks_failed"

// A windowed stream is one whose texts hooks judge while it passes. What is not judged yet is held
// back; the events go on at once, with the text that was let go in place of their own.
type windowed struct {
	rt       *roundTrip
	g        *guard
	endpoint string
	src      io.ReadCloser
	window   *hooks.Windows
	frames   chat.SSE

	in   []byte
	tail []byte // the end of what was read, in which [DONE] may begin
	done bool   // [DONE] came
	out  []byte
	read int // so far, of out
	held int // memory reserved for out, frames and texts
	err  error

	gave     bool // a text was let go
	over     bool // what the hooks say is noted
	ends     bool // a text has ended, so that the model has said all of it
	latest   []byte
	deltas   map[hooks.Track][]byte // of a response: the latest event of each text
	texts    map[hooks.Track]string // of a response: what was let go of each text
	usage    []byte                 // of a stream that was refused, as the provider says
	inserted int64                  // events of a response that the provider did not send
}

// windowedStream has hooks judge a stream while it passes. A refusal of the first window comes
// before the commit point, as does all that is said of a stream that is over by then.
func (rt *roundTrip) windowedStream(ctx context.Context, res *http.Response, g *guard) error {
	w := &windowed{
		rt: rt, g: g, endpoint: rt.x.Endpoint.Name, src: res.Body, in: make([]byte, startSize),
		deltas: make(map[hooks.Track][]byte), texts: make(map[hooks.Track]string),
	}
	w.window = hooks.NewWindows(w.endpoint, g.windows(), rt.x.Gateway.Now)
	for w.err == nil && !w.gave {
		w.fill()
	}
	switch own := new(exchange.Error); {
	case ctx.Err() != nil:
		w.Close()
		return ctx.Err()
	case w.window.Denied != nil && !w.gave:
		w.Close()
		return w.refuse(res)
	case inflight.Refused(w.err), errors.Is(w.err, errBodyStalled), errors.As(w.err, &own):
		w.Close()
		return w.err
	case w.err != nil && !errors.Is(w.err, io.EOF) && !w.gave:
		w.Close()
		return incompleteError{"the provider's stream broke off", w.err}
	}
	rt.windowing, res.Body = true, w
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
func (w *windowed) refuse(res *http.Response) error {
	g, denied := w.g, w.window.Denied
	why := hooks.Why(denied, guardrails.Output)
	if denied.SoftDeny {
		if body := g.softly(w.rt.attempt, why); body != nil {
			switch {
			case w.usage != nil:
				body, _ = sjson.SetRawBytes(body, "usage", w.usage)
			case w.endpoint != providers.Messages: // it is not known, and not nothing
				body, _ = sjson.DeleteBytes(body, "usage")
			}
			stream, err := (&cache.Entry{Body: body}).As(w.endpoint, true)
			if err == nil {
				err = w.rt.call.Reserve(cap(stream))
			}
			if err != nil {
				return err
			}
			g.x.Judged.Failed, g.x.Judged.Unshared, g.final = false, true, body
			res.Body = &peeked{call: w.rt.call, seen: stream, src: http.NoBody}
			return nil
		}
	}
	return exchange.Denied(why, g.x.Judged.JSON())
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
	w.rt.x.Free(w.held)
	w.held = 0
	return w.src.Close()
}

// fill reads from the provider once, and judges what came.
func (w *windowed) fill() {
	if w.read == len(w.out) {
		w.out, w.read = w.out[:0], 0
	}
	n, err := w.src.Read(w.in)
	w.noteDone(w.in[:n])
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
		if w.done && errors.Is(err, io.EOF) {
			w.out = append(w.out, "data: [DONE]\n\n"...)
		}
	}
	if w.window.Denied != nil {
		w.drain()
		err = &cut{kindHooksFailed, "was refused by the guardrail " + w.window.Denied.ID}
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
	if err := w.rt.x.Reserve(need - w.held); err != nil {
		w.err = &cut{"gateway_overloaded", "needs more memory than the gateway has for it: " + err.Error()}
		if !w.gave {
			w.err = err
		}
		return
	}
	w.held = need
}

// noteDone looks for [DONE], which is not an event.
func (w *windowed) noteDone(p []byte) {
	const most = len("\ndata: [DONE]")
	seen := slices.Concat(w.tail, p)
	for _, line := range []string{"data: [DONE]", "data:[DONE]"} {
		w.done = w.done || bytes.Contains(seen, []byte("\n"+line)) || bytes.HasPrefix(seen, []byte(line))
	}
	w.tail = append(w.tail[:0], seen[max(0, len(seen)-most):]...)
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
	m := membersOf(data)
	if response := gjson.GetBytes(data, "response"); response.IsObject() {
		m = membersOf([]byte(response.Raw))
	}
	w.rt.book(m)
	if usage := bytes.TrimSpace(m.usage); len(usage) > 0 && usage[0] == '{' {
		w.usage = bytes.Clone(usage)
	}
	return nil
}

// conclude notes what the hooks say of the stream.
func (w *windowed) conclude() {
	if w.over {
		return
	}
	w.over = true
	j := w.g.x.Judged
	j.After = w.window.Results()
	if w.window.Denied != nil || w.window.Changed || w.window.Unfinished {
		j.After = hooks.Explanations(j.After)
	}
	j.HideAnswer = w.window.Unfinished
	j.Unshared = j.Unshared || w.window.Unfinished || w.window.Denied != nil || w.window.Failed()
	w.g.count("output", j.After)
}

// event judges an event, and passes it on.
func (w *windowed) event(name string, data []byte) error {
	if w.window.Denied != nil {
		return w.book(name, data)
	}
	if jsonscan.Members(data, nil) != nil {
		w.rt.out.Malformed++
		return nil //nolint:nilerr // the event is removed, and counted
	}
	e := w.window.Pieces(data)
	w.note(data)
	spans, texts := make([]hooks.Span, len(e.Pieces)), make([]string, len(e.Pieces))
	for i, p := range e.Pieces {
		spans[i] = p.Span
		piece := jsonscan.Unquote(data[p.Start:p.End])
		if !p.Whole {
			w.rt.saw(len(piece))
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
			if !p.Whole {
				w.insert(p.Track, texts[i])
			}
		}
		return nil
	}
	changed, err := hooks.Replace(data, spans, texts)
	if err != nil {
		return &cut{"stream_malformed", "cannot be read: " + err.Error()}
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

// lastOf is the last piece of a text among those of an event, or -1.
func lastOf(pieces []hooks.Piece, t hooks.Track) int {
	for i := len(pieces) - 1; i >= 0; i-- {
		if pieces[i].Track == t {
			return i
		}
	}
	return -1
}

// note keeps the latest event, whose other members an inserted one has.
func (w *windowed) note(data []byte) {
	if w.endpoint == "chatComplete" || w.endpoint == "complete" {
		w.latest = append(w.latest[:0], data...)
	}
}

// like keeps the latest event of a text of a response.
func (w *windowed) like(old, data []byte) []byte {
	if w.endpoint != exchange.CreateResponse {
		return []byte{}
	}
	return append(old[:0], data...)
}

// keep keeps what was let go of a text of a response, which later events repeat.
func (w *windowed) keep(t hooks.Track, text string) {
	if w.endpoint == exchange.CreateResponse {
		w.texts[t] += text
	}
}

// store stores a response that is complete, if the gateway itself stores it.
func (w *windowed) store(data []byte) error {
	if w.rt.unkept == nil || w.endpoint != exchange.CreateResponse {
		return nil
	}
	response := gjson.GetBytes(data, "response")
	if kind := gjson.GetBytes(data, "type").Str; kind != "response.completed" && kind != "response.incomplete" || !response.IsObject() {
		return nil
	}
	w.rt.unkept = []byte(response.Raw)
	if err := w.rt.storeJudged(); err != nil {
		return &cut{"response_not_stored", "could not be stored: " + err.Error()}
	}
	return nil
}

// bare removes from an event what repeats its texts.
func (w *windowed) bare(data []byte) []byte {
	drop := func(path string) {
		if gjson.GetBytes(data, path).Exists() {
			if out, err := sjson.DeleteBytes(data, path); err == nil {
				data = out
			}
		}
	}
	switch w.endpoint {
	case "chatComplete", "complete":
		if !jsonscan.Mentions(data, `logprobs"`, `content_blocks"`, `audio"`) {
			return data
		}
		for i := range gjson.GetBytes(data, "choices.#").Int() {
			choice := "choices." + strconv.FormatInt(i, 10)
			drop(choice + ".logprobs")
			drop(choice + ".delta.content_blocks")
			drop(choice + ".delta.audio.data")
		}
	case exchange.CreateResponse:
		if jsonscan.Mentions(data, `logprobs"`) {
			drop("logprobs")
			drop("part.logprobs")
			data = withoutLogprobs(data, "item.content")
			for i := range gjson.GetBytes(data, "response.output.#").Int() {
				data = withoutLogprobs(data, "response.output."+strconv.FormatInt(i, 10)+".content")
			}
		}
	}
	return data
}

func withoutLogprobs(data []byte, list string) []byte {
	for i := range gjson.GetBytes(data, list+".#").Int() {
		if path := list + "." + strconv.FormatInt(i, 10) + ".logprobs"; gjson.GetBytes(data, path).Exists() {
			if out, err := sjson.DeleteBytes(data, path); err == nil {
				data = out
			}
		}
	}
	return data
}

// insert writes an event with a piece of text that the provider's events do not have, unless it is
// empty.
func (w *windowed) insert(t hooks.Track, text string) {
	if text == "" {
		return
	}
	w.gave = true
	var b jsonscan.Builder
	switch w.endpoint {
	case "chatComplete", "complete":
		b.Open('[')
		b.Open('{')
		b.Key("index").Int(int64(t.Index))
		if w.endpoint == "complete" {
			b.Key("text").Text(text)
		} else {
			b.Key("delta").Open('{')
			appendDelta(&b, t, text)
			b.Close('}')
		}
		b.Key("finish_reason").Raw([]byte("null"))
		b.Close('}')
		b.Close(']')
		if event, err := sjson.SetRawBytes(bytes.Clone(w.latest), "choices", b); err == nil {
			if gjson.GetBytes(event, "usage").Exists() {
				event, _ = sjson.DeleteBytes(event, "usage")
			}
			w.write("", event)
		}
	case providers.Messages:
		kind := map[string]string{"text": "text_delta", "thinking": "thinking_delta", "partial_json": "input_json_delta"}[t.Kind]
		b.Open('{')
		b.Key("type").Text("content_block_delta")
		b.Key("index").Int(int64(t.Index))
		b.Key("delta").Open('{')
		b.Key("type").Text(kind)
		b.Key(t.Kind).Text(text)
		b.Close('}')
		b.Close('}')
		w.write("content_block_delta", b)
	case exchange.CreateResponse:
		like := w.deltas[t]
		if len(like) == 0 {
			return // the event that has all of the text follows
		}
		if event, err := sjson.SetBytes(bytes.Clone(like), "delta", text); err == nil {
			w.write(gjson.GetBytes(event, "type").Str, event)
			w.inserted++
		}
	}
}

// appendDelta appends the member of a chat's delta that has a piece of a text.
func appendDelta(b *jsonscan.Builder, t hooks.Track, text string) {
	switch t.Kind {
	case "arguments":
		b.Key("tool_calls").Open('[')
		b.Open('{')
		b.Key("index").Int(int64(t.Part))
		b.Key("function").Open('{')
		b.Key("arguments").Text(text)
		b.Close('}')
		b.Close('}')
		b.Close(']')
	case "transcript":
		b.Key("audio").Open('{')
		b.Key("transcript").Text(text)
		b.Close('}')
	case "reasoning_details":
		b.Key(t.Kind).Open('[')
		b.Open('{')
		b.Key("index").Int(int64(t.Part))
		b.Key("type").Text("reasoning.text")
		b.Key("text").Text(text)
		b.Close('}')
		b.Close(']')
	default:
		b.Key(t.Kind).Text(text)
	}
}

// write writes an event. Those of a response are numbered.
func (w *windowed) write(name string, data []byte) {
	if w.inserted > 0 && w.endpoint == exchange.CreateResponse {
		if n := gjson.GetBytes(data, "sequence_number"); n.Exists() {
			if out, err := sjson.SetBytes(data, "sequence_number", n.Int()+w.inserted); err == nil {
				data = out
			}
		}
	}
	if name != "" {
		w.out = append(append(append(w.out, "event: "...), name...), '\n')
	}
	w.out = append(w.out, "data: "...)
	w.out = append(w.out, bytes.ReplaceAll(data, []byte{'\n'}, []byte{' '})...)
	w.out = append(w.out, "\n\n"...)
}

// Interface guards
var _ io.ReadCloser = (*windowed)(nil)
