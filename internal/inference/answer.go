package inference

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// droppedHeaders are headers of a provider's answer that concern the provider and the gateway
// only.
var droppedHeaders = []string{
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin",
	"Access-Control-Expose-Headers", "Access-Control-Max-Age", "Alt-Svc", "Clear-Site-Data", "Server", "Set-Cookie", "Strict-Transport-Security",
}

// answered is called at the commit point: the answer goes to the client. It fixes the headers,
// and wraps the body so that what passes is watched.
func (rt *roundTrip) answered(res *http.Response) {
	x := rt.x
	rt.commit()
	rt.attempt.Mask = rt.mask(true)
	if rt.out == &rt.attempt.Outcome {
		x.AnswerBy(rt.attempt)
	}
	rt.out.Status, rt.out.Complete = res.StatusCode, res.Body == nil || res.Body == http.NoBody
	rt.remembers = x.Endpoint.Name == exchange.CreateResponse && !rt.conversation.adapted
	x.Gateway.Headers.Strip(res.Header)
	for _, name := range droppedHeaders {
		delete(res.Header, name)
	}
	for _, f := range x.AnswerHeader { // the gateway's own are set already
		delete(res.Header, f.Name)
	}

	media := mediaType(res.Header)
	x.Excerpts.SendsType(media, res.Header.Get("Content-Encoding"))
	for _, v := range rt.visits {
		if hook, ok := v.(DeliveryHook); ok {
			hook.Deliver(res, rt.attempt)
		}
	}
	rt.annotate(res)
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols || res.Body == nil || res.Body == http.NoBody:
	case media == "text/event-stream" && billed(res.StatusCode) && res.Header.Get("Content-Encoding") == "":
		rt.timing.stallGuard.lift()
		s := newStream(res.Body, &rt.watcher, rt.timing.limits.idle)
		s.addedUsage, s.hooks = rt.addedUsage, rt.eventHooks()
		if rt.attempt.Samples() {
			s.sampled = rt.attempt
		}
		res.Body = s
		res.ContentLength = -1 // an error event may follow; it also makes Caddy flush at once
		delete(res.Header, "Content-Length")
	default:
		b := &body{src: res.Body, to: &rt.watcher}
		if billed(res.StatusCode) && !x.Endpoint.NotJSON && !soundOrPicture(media) {
			// JSON is not always called that. Of anything else the bytes count.
			b.json = res.Header.Get("Content-Encoding") == ""
			b.counts = !b.json
		}
		res.Body = b
	}
	rt.timeAnswer(res)
}

// billed reports whether an answer of this status is one that providers bill for.
func billed(status int) bool { return status >= 200 && status < 300 }

// soundOrPicture reports whether an answer of this media type has no text.
func soundOrPicture(media string) bool {
	kind, _, _ := strings.Cut(media, "/")
	return kind == "audio" || kind == "video" || kind == "image"
}

// Why calls failed although their status was 200.
const (
	failureIn200    = "the provider answered with an error and status 200"
	failureInStream = "the provider's stream ended with an error"
	clientLeft      = "the client left"
	answerStalled   = "the gateway ended the answer: the client did not take it in time (body_timeout)"
	clientStalled   = "the gateway ended the WebSocket: the client did not take what it was sent in time"
	providerStalled = "the gateway ended the WebSocket: the provider did not take what it was sent in time"
	gatewayStopped  = "the gateway was shut down"
)

// maxDescribed bounds what is kept of an answer for its span.
const maxDescribed = 1 << 20

// A body watches an answer in one piece: the time of its first byte, its usage.
type body struct {
	src    io.ReadCloser
	to     *watcher
	json   bool
	counts bool // its bytes count, which are not read
	tap    tap
	begun  bool   // something of it was read
	kept   []byte // for a span
	long   bool   // too long to be kept, or out of memory
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.to.x.Excerpts.Sent(p[:n])
	whole := b.json && !b.begun && err == io.EOF // it is looked at where it lies
	answer := &b.tap.members
	if whole {
		answer = membersOf(p[:n])
	}
	if n > 0 {
		b.begun = true
		b.to.noteFirstByte()
		if b.counts {
			b.to.addBody(n, 0)
		}
		if b.json {
			before := b.tap.texts
			if !whole {
				b.tap.write(p[:n])
			}
			b.to.addBody(n, b.tap.texts-before)
			if b.to.x.Trace.Telemetry != nil && !b.long {
				b.keep(p[:n])
			}
		}
	}
	if err != nil && b.json { // usage counts even if the answer broke off
		b.to.book(answer)
		if whole && b.to.attempt != nil && (!b.to.attempt.Usage.Known || b.to.attempt.Usage.Nothing()) {
			b.to.addBody(0, textIn(p[:n], nil))
		}
	}
	switch out := b.to.out; {
	case err == io.EOF:
		out.Complete = true
		if b.json {
			if b.to.x.Endpoint.Cacheable && out.Failure == "" && answer.onlyError() {
				out.Failure = failureIn200
				if a := b.to.attempt; a != nil {
					a.Errored, a.TextBytes, a.BodyBytes = true, 0, 0 // what was read is not an answer
				}
			}
			if !b.long {
				b.to.describe(b.kept)
			}
			b.to.remember(answer)
			b.json, b.kept = false, nil
		}
	case errors.Is(err, context.Canceled): // the client left
		out.Failure = whyClientStopped(b.to.x)
	case errors.Is(err, errBodyStalled):
		out.Failure, out.Cut = "the gateway ended the provider's answer, because it stood still for too long (provider_header_timeout)", "provider_timeout"
	case err != nil:
		out.Failure = "the provider's answer broke off: " + b.to.plain(err)
	}
	return n, err
}

// keep keeps a part of the answer for its span, as long as there is memory for it.
func (b *body) keep(p []byte) {
	need := len(b.kept) + len(p)
	if size := max(need, 2*cap(b.kept)); need > cap(b.kept) {
		if b.long = need > maxDescribed || b.to.x.Memory.Reserve(size-cap(b.kept)) != nil; b.long {
			return
		}
		b.kept = append(make([]byte, 0, size), b.kept...)
	}
	b.kept = append(b.kept, p...)
}

func (b *body) Close() error { return b.src.Close() }
