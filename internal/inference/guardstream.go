package inference

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/inflight"
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

// completeStream holds a stream back until hooks have judged all of it, if one of them asks for
// that. It is judged in one piece, and goes on as it came where it says what was judged.
func (rt *roundTrip) completeStream(ctx context.Context, res *http.Response) error {
	if mediaType(res.Header) != "text/event-stream" {
		return nil
	}
	g := rt.guard()
	if g == nil {
		return nil
	}
	g.begin()
	mode, most := g.mode()
	switch mode {
	case hooks.Window:
		return rt.windowedStream(ctx, res, g)
	case hooks.After:
		return nil
	}
	stream, err := readAtMost(rt.call, res.Body, most)
	defer rt.call.Free(cap(stream))
	switch {
	case ctx.Err() != nil:
		res.Body.Close()
		return ctx.Err()
	case inflight.Refused(err), errors.Is(err, errBodyStalled):
		res.Body.Close()
		return err
	case len(stream) > most:
		rt.saw(textOf(stream))
		res.Body.Close()
		return exchange.Denied("The answer is longer than guardrails hold back (max_buffer_bytes)", g.x.Judged.JSON())
	case err != nil:
		rt.saw(textOf(stream))
		res.Body.Close()
		return incompleteError{"the provider's stream broke off", err}
	}
	endpoint := rt.x.Endpoint.Name
	whole, err := (&cache.Entry{Stream: true, Body: stream}).As(endpoint, false)
	hidden := rt.mask(false).Hide(whole) // a credential may come in several events
	if err != nil {
		rt.saw(textOf(stream))
		res.Body.Close()
		return misbehaved("Provider "+rt.target.Route.Provider+" sent a stream that guardrails cannot read", err)
	}
	answer := &Answer{Attempt: rt.attempt, Status: http.StatusOK, Body: whole}
	if refusal := g.Complete(ctx, answer); refusal != nil {
		rt.book(membersOf(whole))
		res.Body.Close()
		return refusal
	}
	res.Body.Close()
	// A response is judged by its last event, so that the events before it must say the same.
	if hidden || endpoint == exchange.CreateResponse || !bytes.Equal(answer.Body, whole) {
		if stream, err = (&cache.Entry{Body: answer.Body}).As(endpoint, true); err != nil {
			return misbehaved("Provider "+rt.target.Route.Provider+" sent a stream that guardrails cannot change", err)
		}
	}
	if err := rt.call.Reserve(cap(stream)); err != nil {
		return err
	}
	res.Body, res.StatusCode = &peeked{call: rt.call, seen: stream, src: http.NoBody}, answer.Status
	return nil
}

// guard is the visit of the hooks of configs; nil: none judge the call.
func (rt *roundTrip) guard() *guard { return guardOf(rt.visits) }

func guardOf(visits []Visit) *guard {
	for _, v := range visits {
		if g, ok := v.(*guard); ok {
			return g
		}
	}
	return nil
}

// unchecked returns an error for an answer that hooks have to judge and cannot read.
func (rt *roundTrip) unchecked(res *http.Response) error {
	g := rt.guard()
	switch {
	case g == nil || !hooks.Asks(g.after, false) || res.StatusCode >= http.StatusMultipleChoices || res.StatusCode < http.StatusOK:
		return nil
	case res.StatusCode != http.StatusOK: // such an answer is not read
		if !hooks.Decides(g.after) || res.Body == nil || emptyBody(res) {
			return nil
		}
		res.Body.Close()
		return misbehaved("Provider "+rt.target.Route.Provider+" answered with status "+strconv.Itoa(res.StatusCode)+", whose body guardrails cannot check", nil)
	}
	media := mediaType(res.Header)
	if res.Header.Get("Content-Encoding") == "" && (media == "text/event-stream" || strings.HasSuffix(media, "json")) {
		return nil
	}
	res.Body.Close()
	return misbehaved("Provider "+rt.target.Route.Provider+" answered with what is neither JSON nor a stream, so that guardrails cannot check it", nil)
}

// begin forgets what hooks said of the answer of another attempt.
func (g *guard) begin() {
	g.x.Judged.After, g.x.Judged.Failed = nil, failed(g.x.Judged.Before)
	g.x.Judged.HideAnswer, g.x.Judged.Unshared = false, false
	g.x.Afterwards = nil
	g.x.Free(g.reserved)
	g.reserved = 0
	g.answer, g.final, g.recorder, g.annotated, g.end = nil, nil, nil, false, 0
}
