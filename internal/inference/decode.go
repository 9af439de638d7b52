package inference

import (
	"errors"
	"io"
	"net/http"

	"github.com/caddy-gw/gateway/internal/coding"
)

// identity is what every request accepts: answers are read as they pass. It is shared, and not
// changed.
var identity = []string{"identity"}

// send sends a request over a pool. The answer is decoded, should the provider have encoded it
// nevertheless.
func (q *request) send(pool http.RoundTripper, r *http.Request) (*http.Response, error) {
	res, err := pool.RoundTrip(r)
	if err != nil || res.Header["Content-Encoding"] == nil {
		return res, err
	}
	codings := coding.Of(res.Header)
	switch unknown := coding.Unknown(codings); {
	case res.StatusCode == http.StatusPartialContent, res.StatusCode == http.StatusSwitchingProtocols:
		return res, nil // it cannot be decoded, nor looked into
	case unknown != "" && res.StatusCode < http.StatusBadRequest:
		res.Body.Close()
		return nil, answerError("the provider sent " + unknown + ", which was not requested")
	case unknown != "": // the status says enough
		return res, nil
	}
	delete(res.Header, "Content-Encoding")
	if len(codings) == 0 || res.Body == http.NoBody || res.ContentLength == 0 {
		return res, nil
	}
	body := &decoded{coding.NewReader(res.Body, codings, &q.call.Memory), res.Body}
	res.Body, res.ContentLength = body, -1
	if mediaType(res.Header) != "text/event-stream" { // whose first event is waited for later
		var first [1]byte
		n, err := io.ReadFull(body, first[:])
		if wrong := new(coding.Error); errors.As(err, &wrong) {
			body.Close()
			return nil, answerError("the provider's answer is not the " + wrong.Coding + " that it says")
		}
		res.Body = &peeked{seen: first[:n:n], src: body, joined: true}
	}
	delete(res.Header, "Content-Length")
	withoutDigests(res.Header)
	return res, nil
}

// A decoded body is an answer that was encoded. The memory of its decoder is the call's until that
// ends. Close may be called during a Read, which it ends.
type decoded struct {
	io.Reader
	src io.Closer
}

func (d *decoded) Close() error { return d.src.Close() }
