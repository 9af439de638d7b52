package inference

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// mode is how the hooks judge a stream: the strictest of what they say.
func (g *guard) mode() (mode hooks.StreamMode, most int) {
	mode = hooks.After
	for _, h := range g.after {
		switch h.ModeOf() {
		case hooks.Buffer:
			if mode != hooks.Buffer {
				most = h.Stream.Buffer
			}
			mode, most = hooks.Buffer, min(most, h.Stream.Buffer)
		case hooks.Window:
			if mode == hooks.After {
				mode = hooks.Window
			}
		}
	}
	return mode, most
}

// judgeWhole holds a stream back until hooks have judged all of it. It is judged in one piece, and
// goes on as it came where it says what was judged.
func (g *guard) judgeWhole(ctx context.Context, res *Response, most int) error {
	stream, err := readAtMost(g.x.Call, res.Body, most)
	defer g.x.Memory.Free(cap(stream))
	switch {
	case ctx.Err() != nil:
		res.Body.Close()
		return ctx.Err()
	case inflight.Refused(err), errors.Is(err, errBodyStalled):
		res.Body.Close()
		return err
	case len(stream) > most:
		res.AddText(textOf(stream))
		res.Body.Close()
		return exchange.Denied("The answer is longer than guardrails hold back (max_buffer_bytes)", g.judgment.JSON())
	case err != nil:
		res.AddText(textOf(stream))
		res.Body.Close()
		return incompleteError{"the provider's stream broke off", err}
	}
	if err := g.x.Memory.Reserve(len(stream)); err != nil {
		res.Body.Close()
		return err
	}
	defer g.x.Memory.Free(len(stream))
	stream = wellFormedEvents(stream, res.DropEvent)
	endpoint := g.x.Endpoint.Name
	whole, err := (&cache.Entry{Stream: true, Body: stream}).As(endpoint, false)
	hidden := res.Hide(whole) // a credential may come in several events
	if err != nil {
		res.AddText(textOf(stream))
		res.Body.Close()
		return misbehaved("Provider "+res.Attempt.Route.Provider+" sent a stream that guardrails cannot read", err)
	}
	answer := &Answer{Attempt: res.Attempt, Status: http.StatusOK, Body: whole}
	refusal := g.Complete(ctx, answer)
	res.Body.Close()
	if refusal != nil {
		res.Book(whole)
		return refusal
	}
	res.Replace(answer.Body)
	// A response is judged by its last event, so that the events before it must say the same.
	if hidden || endpoint == exchange.CreateResponse || !bytes.Equal(answer.Body, whole) {
		if stream, err = (&cache.Entry{Body: answer.Body}).As(endpoint, true); err != nil {
			return misbehaved("Provider "+res.Attempt.Route.Provider+" sent a stream that guardrails cannot change", err)
		}
	}
	if err := g.x.Memory.Reserve(cap(stream)); err != nil {
		return err
	}
	res.Body, res.StatusCode = &peeked{call: g.x.Call, seen: stream, src: http.NoBody}, answer.Status
	return nil
}

// wellFormedEvents returns a stream without the events that are not JSON objects, as it would be without
// hooks. dropped is called for each of them; if there is none, the stream is as it was.
func wellFormedEvents(stream []byte, dropped func()) []byte {
	var kept []byte
	malformed, events := false, new(chat.SSE)
	take := func(name string, data []byte) error {
		if events.Done() { // nothing follows it
			return nil
		}
		if jsonscan.Members(data, nil) != nil {
			malformed = true
			dropped()
			return nil //nolint:nilerr // the event is removed, and counted
		}
		if name != "" {
			kept = append(append(append(kept, "event: "...), name...), '\n')
		}
		kept = append(append(append(kept, "data: "...), bytes.ReplaceAll(data, []byte("\n"), []byte(" "))...), "\n\n"...)
		return nil
	}
	if events.Push(stream, take) != nil || events.Rest(take) != nil || !malformed {
		return stream
	}
	if events.Done() {
		kept = append(kept, "data: [DONE]\n\n"...)
	}
	return kept
}
