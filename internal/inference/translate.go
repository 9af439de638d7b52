package inference

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
)

const (
	maxWhole   = 64 << 20 // of an answer that is translated in one piece
	maxFailure = 1 << 20  // of an error answer

	failureTimeout = 2 * time.Second // for an error answer to arrive
)

// translate puts a provider's answer into the caller's dialect; the status stays. An answer that
// needs no translation passes as it is, except that errors get the provider's name.
func (rt *roundTrip) translate(res *http.Response) error {
	rt.mask(true).Header(res.Header)
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols:
		return rt.upgraded(res)
	case res.StatusCode >= http.StatusBadRequest:
		return rt.translateFailure(res)
	case rt.answer == nil && rt.x.Endpoint.Passes:
		return rt.maskBody(res)
	case rt.answer == nil || rt.answer.Body == nil && rt.answer.Stream == nil:
		if rt.answer != nil && rt.answer.Begin != nil {
			rt.answer.Begin(res.Header)
		}
		if rt.listsModels() && res.Header.Get("Content-Encoding") == "" {
			body, err := rt.readWhole(res)
			defer rt.x.Memory.Free(cap(body))
			if err != nil {
				return err
			}
			media := res.Header["Content-Type"]
			err = rt.replaceBody(res, ofProvider(body, rt.target.Route.Provider))
			res.Header["Content-Type"] = media
			return err
		}
		return rt.maskBody(res)
	case res.Header.Get("Content-Encoding") != "":
		return rt.unreadable(res, "the provider sent "+res.Header.Get("Content-Encoding")+", which was not requested")
	}
	if rt.answer.Begin != nil {
		rt.answer.Begin(res.Header)
	}
	media := mediaType(res.Header)
	if rt.answer.Stream != nil && (rt.answer.Media != "" || isStream(media)) {
		if rt.answer.Media != "" {
			media = rt.answer.Media
			withoutDigests(res.Header)
		} else {
			media = "text/event-stream"
		}
		res.Body = &translated{src: res.Body, stream: rt.answer.Stream, to: &rt.watcher}
		res.Header["Content-Type"] = []string{media}
		delete(res.Header, "Content-Length")
		res.ContentLength = -1
		return rt.maskBody(res)
	}
	body, err := rt.readWhole(res)
	defer rt.x.Memory.Free(cap(body))
	if err != nil {
		return err
	}
	out, err := rt.answer.Body(make([]byte, 0, len(body)+256), body, res.Header)
	var failure *providers.Failure
	var own *exchange.Error
	switch {
	case errors.As(err, &own):
		res.Body.Close()
		return own
	case errors.As(err, &failure): // with status 200
		if failure.Status == 0 {
			failure.Status = providers.ReadEvent(body).Status
		}
		setStatus(res, failure.Status)
		rt.overflow(res, failure)
		failure.Status = res.StatusCode
		out = failure.Append(nil, rt.x.Endpoint.Name, rt.target.Route.Provider)
	case err != nil:
		return rt.unreadable(res, "the provider's answer cannot be read: "+err.Error())
	}
	if res.StatusCode == http.StatusNoContent { // there is a body
		res.StatusCode, res.Status = http.StatusOK, "200 OK"
	}
	if rt.listsModels() {
		out = ofProvider(out, rt.target.Route.Provider)
	}
	rt.translated = rt.store == nil
	return rt.replaceBody(res, out)
}

// unreadable discards an answer that cannot be passed on.
func (rt *roundTrip) unreadable(res *http.Response, why string) error {
	res.Body.Close()
	return answerError(why)
}

// translateFailure makes the envelope of an error answer, with the provider's name in it. An
// error that is in the caller's dialect already keeps its bytes.
func (rt *roundTrip) translateFailure(res *http.Response) error {
	var body []byte
	if res.Body == nil {
		res.Body = http.NoBody
	}
	if src := res.Body; res.Header.Get("Content-Encoding") == "" {
		stop := time.AfterFunc(failureTimeout, func() { src.Close() })
		var err error
		body, err = readAtMost(rt.call, src, maxFailure)
		defer rt.x.Memory.Free(cap(body))
		if err != nil {
			body = nil // the status is enough
		}
		stop.Stop()
		if err == nil && rt.x.Endpoint.Passes {
			media := res.Header["Content-Type"]
			rt.mask(true).Hide(body)
			err = rt.replaceBody(res, body)
			res.Header["Content-Type"] = media
			return err
		}
	}
	rt.mask(true).Hide(body)
	if rt.answer == nil {
		if out, ok := withProvider(body, rt.target.Route.Provider, rt.ownKeyRefused(res.StatusCode)); ok {
			return rt.replaceBody(res, out)
		}
	}
	read := providers.ReadFailure
	if rt.answer != nil && rt.answer.Failure != nil {
		read = rt.answer.Failure
	}
	failure := read(res.StatusCode, res.Header, body)
	failure.Status = res.StatusCode
	rt.overflow(res, failure)
	failure.Code = cmp.Or(failure.Code, rt.ownKeyRefused(res.StatusCode))
	delete(res.Header, "Content-Encoding")
	return rt.replaceBody(res, failure.Append(nil, rt.x.Endpoint.Name, rt.target.Route.Provider))
}

// ownKeyRefused is the code of a provider's 401 that has none: the credential for the provider was
// refused, and not the caller's service key. Errors of Messages have no code.
func (rt *roundTrip) ownKeyRefused(status int) string {
	if status != http.StatusUnauthorized || strings.HasPrefix(rt.x.Endpoint.Name, "messages") {
		return ""
	}
	return "provider_unauthorized"
}

// isEnvelope reports whether a body is an error in OpenAI's or Anthropic's shape.
func isEnvelope(body []byte) bool {
	v := gjson.ParseBytes(body)
	return gjson.ValidBytes(body) && v.IsObject() && v.Get("error.message").Type == gjson.String
}

// withProvider adds the provider's name to an error in OpenAI's or Anthropic's shape, and the code,
// unless that is "" or the error has one.
func withProvider(body []byte, provider, code string) ([]byte, bool) {
	v := gjson.ParseBytes(body)
	if !isEnvelope(body) || v.Get("provider").Exists() {
		return nil, false
	}
	out, err := sjson.SetBytes(body, "provider", provider)
	if err == nil && code != "" && v.Get("error.code").Type == gjson.Null {
		out, err = sjson.SetBytes(out, "error.code", code)
	}
	return out, err == nil
}

// replaceBody replaces the body of an answer by another one, in which it hides credentials. The call
// pays for its memory until it was read; the error means that there is none.
func (rt *roundTrip) replaceBody(res *http.Response, body []byte) error {
	res.Body.Close()
	if err := rt.call.Memory.Reserve(cap(body)); err != nil {
		return err
	}
	rt.mask(false).Hide(body)
	res.Body, res.ContentLength = &peeked{call: rt.call, seen: body, src: http.NoBody}, int64(len(body))
	res.Header["Content-Type"] = []string{"application/json"}
	res.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	withoutDigests(res.Header)
	res.TransferEncoding, res.Trailer = nil, nil
	return nil
}

// withoutDigests removes the headers that describe the original body.
func withoutDigests(h http.Header) {
	for _, name := range []string{"Etag", "Content-Md5", "Digest", "Content-Digest", "Accept-Ranges"} {
		delete(h, name)
	}
}

// readWhole reads an answer that is looked at in one piece. Also if it fails, the capacity of the
// result is reserved for the call, until the caller frees it.
func (rt *roundTrip) readWhole(res *http.Response) ([]byte, error) {
	body, err := readAtMost(rt.call, res.Body, maxWhole)
	switch {
	case inflight.Refused(err), errors.Is(err, errBodyStalled):
		res.Body.Close()
		return body, err
	case err != nil:
		return body, rt.unreadable(res, "the provider's answer broke off: "+err.Error())
	}
	return body, nil
}

// readAtMost reads all of r, which has at most limit bytes. Also if it fails, the capacity of the
// result is reserved for the call, until the caller frees it.
func readAtMost(c *exchange.Call, r io.Reader, limit int) ([]byte, error) {
	var b []byte
	for {
		if len(b) == cap(b) {
			size := max(leastRead, 2*cap(b))
			if err := c.Memory.Reserve(size); err != nil {
				return b, err
			}
			larger := append(make([]byte, 0, size), b...)
			c.Memory.Free(cap(b))
			b = larger
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return b, fmt.Errorf("it has more than %d bytes", limit)
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		}
	}
}

// A translated body is a provider's stream in the caller's dialect.
type translated struct {
	src    io.ReadCloser
	stream providers.Stream
	to     *watcher
	in     []byte
	full   bool  // the last Read filled in
	pooled *pair // of a stream that comes fast
	out    []byte
	held   int // memory reserved for out and for stream
	read   int // so far, of out
	err    error
}

func (t *translated) Read(p []byte) (int, error) {
	for t.read == len(t.out) {
		if t.err != nil {
			return 0, t.err
		}
		if err := t.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.out[t.read:])
	t.read += n
	return n, nil
}

// fill reads from the provider once, and translates what came. It returns errReadTimeout if nothing did in
// time; other errors are kept in t.
func (t *translated) fill() error {
	switch {
	case t.in == nil:
		t.in = make([]byte, smallSize)
	case t.full && t.pooled == nil:
		t.pooled = pairs.Get().(*pair)
		t.in = t.pooled.in[:]
		if cap(t.pooled.out) > cap(t.out) {
			t.out = t.pooled.out
		}
	}
	t.out, t.read = t.out[:0], 0
	n, err := t.src.Read(t.in)
	if errors.Is(err, errReadTimeout) {
		return err
	}
	t.full = n == len(t.in)
	if n > 0 {
		var wrong error
		if t.out, wrong = t.stream.Translate(t.out, t.in[:n]); wrong != nil {
			err = malformed(wrong)
		}
		more := cap(t.out) - t.held
		if s, ok := t.stream.(interface{ Buffered() int }); ok {
			more += s.Buffered()
		}
		if more > 0 {
			if wrong = t.to.x.Memory.Reserve(more); wrong != nil {
				err = outOfMemory(wrong)
			} else {
				t.held += more
			}
		}
	}
	if errors.Is(err, io.EOF) {
		t.out, err = t.stream.End(t.out)
		if err == nil {
			err = io.EOF
		}
	}
	t.err = err
	return nil
}

// A pair is the buffers of a translation: of what is read, and of what it becomes, of at most
// maxPooledOut bytes.
type pair struct {
	in  [startSize]byte
	out []byte
}

const maxPooledOut = 64 << 10

var pairs = sync.Pool{New: func() any { return &pair{out: make([]byte, 0, 2*startSize)} }}

// malformed is the error of a stream that cannot be translated. An error of the gateway's own is
// kept.
func malformed(err error) error {
	if own := new(exchange.Error); errors.As(err, &own) {
		return err
	}
	return &cut{kind: "stream_malformed", why: "cannot be read: " + err.Error()}
}

func (t *translated) Close() error {
	if s, ok := t.stream.(interface{ Skips() int }); ok {
		t.to.out.Malformed += s.Skips()
	}
	if s, ok := t.stream.(interface{ Used() (chat.Usage, bool) }); ok && !t.to.attempt.Usage.Known {
		if u, told := s.Used(); told { // of a stream that was cut off
			t.to.attempt.Usage = exchange.Usage{Known: true, Usage: tokensOf(&u)}
		}
	}
	if t.pooled != nil {
		if cap(t.out) <= maxPooledOut {
			t.pooled.out = t.out[:0]
		}
		pairs.Put(t.pooled)
		t.pooled = nil
	}
	t.in, t.out, t.read = nil, nil, 0
	if t.err == nil {
		t.err = errStreamClosed
	}
	return t.src.Close()
}
