package inference

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// Headers of a provider's answer that are between the provider and the gateway.
var notAnswered = []string{
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin",
	"Access-Control-Expose-Headers", "Access-Control-Max-Age", "Alt-Svc", "Clear-Site-Data", "Set-Cookie", "Strict-Transport-Security",
}

// answered takes a provider's answer in: fixes its headers, and wraps its body so
// that what passes is watched.
func (a *attempt) answered(res *http.Response) {
	x := a.x
	a.commit()
	x.Status, x.Whole = res.StatusCode, res.Body == nil || res.Body == http.NoBody
	x.Gateway.Headers.Strip(res.Header)
	for _, name := range notAnswered {
		delete(res.Header, name)
	}
	for _, f := range x.AnswerHeader { // the gateway's own stand in the answer already
		delete(res.Header, f.Name)
	}

	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	x.HearText(media, res.Header.Get("Content-Encoding"))
	if t := a.tape; t != nil && res.StatusCode == http.StatusOK && res.Body != nil && res.Header.Get("Content-Encoding") == "" {
		t.src, t.media, t.stream = res.Body, res.Header.Get("Content-Type"), media == "text/event-stream"
		res.Body = t
	}
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols || res.Body == nil || res.Body == http.NoBody:
	case media == "text/event-stream" && res.StatusCode == http.StatusOK && res.Header.Get("Content-Encoding") == "":
		a.steady.lift()
		s := newStream(res.Body, x, a.idle)
		s.unasked, s.claims = a.unasked, a.claims
		res.Body = s
		res.ContentLength = -1 // an error event may follow; also makes Caddy flush at once
		delete(res.Header, "Content-Length")
	default:
		res.Body = &body{src: res.Body, x: x, json: strings.HasSuffix(media, "json") && res.StatusCode == http.StatusOK && res.Header.Get("Content-Encoding") == ""}
	}
}

// Why calls failed though their status was 200.
const (
	failureIn200    = "the provider answered with an error and status 200"
	failureInStream = "the provider's stream ended with an error"
	clientLeft      = "the client left"
	gatewayStopped  = "the gateway was shut down"
)

// maxDescribed bounds what is kept of an answer that a span is to tell of.
const maxDescribed = 1 << 20

// A body watches an answer in one piece: the time of its first byte, its usage.
type body struct {
	src  io.ReadCloser
	x    *exchange.Exchange
	json bool
	tap  tap
	kept []byte // where there is a span
	long bool   // it is too long to be kept, or there is no memory for it
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.x.Hear(p[:n])
	if n > 0 {
		if b.x.FirstByte.IsZero() {
			b.x.FirstByte = b.x.Gateway.Now()
		}
		if b.json {
			b.tap.write(p[:n])
			if b.x.Trace != nil && !b.long {
				b.keep(p[:n])
			}
		}
	}
	if err != nil && b.json { // what it said counts, also where it broke off
		b.tap.book(b.x)
	}
	switch {
	case err == io.EOF:
		b.x.Whole = true
		if b.json {
			answer := &b.tap.members
			if b.x.Endpoint.Cacheable && b.x.Failure == "" && answer.onlyError() {
				b.x.Failure = failureIn200
			}
			if !b.long {
				describe(b.x, b.kept)
			}
			if b.x.Endpoint.Name == exchange.CreateResponse {
				b.x.Remember(text(answer.id))
			}
			b.json, b.kept = false, nil
		}
	case errors.Is(err, context.Canceled): // the client left; nobody reads on
		b.x.Failure = gone()
	case errors.Is(err, errBodyStalled):
		b.x.Failure, b.x.Cut = "the gateway ended the provider's answer, because it stood still for too long (provider_header_timeout)", "provider_timeout"
	case err != nil:
		b.x.Failure = "the provider's answer broke off: " + plain(err)
	}
	return n, err
}

// keep notes what a span is to tell of, as long as there is memory for it.
func (b *body) keep(p []byte) {
	need := len(b.kept) + len(p)
	if size := max(need, 2*cap(b.kept)); need > cap(b.kept) {
		if b.long = need > maxDescribed || b.x.Hold(size-cap(b.kept)) != nil; b.long {
			return
		}
		b.kept = append(make([]byte, 0, size), b.kept...)
	}
	b.kept = append(b.kept, p...)
}

func (b *body) Close() error { return b.src.Close() }
