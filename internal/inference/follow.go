package inference

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/providers"
)

// maxFollowing bounds the requests of one call that follow each other: an upload to S3 in as many
// parts as S3 accepts, with its beginning and its end.
const maxFollowing = 10_002

// follow sends the requests that follow one whose answer is not yet the call's, through the same
// pool, and returns the final answer. An error ends the sequence. headers, which may be nil,
// starts over with each request.
func (q *request) follow(pool http.RoundTripper, out *http.Request, res *http.Response, headers *deadline) (*http.Response, error) {
	for range maxFollowing {
		if q.answer == nil || q.answer.Then == nil || res.StatusCode < 200 || res.StatusCode >= 300 {
			return res, nil
		}
		body, err := readAtMost(q.call, res.Body, maxFetched)
		res.Body.Close()
		q.call.Memory.Free(cap(body))
		switch {
		case inflight.Refused(err):
			return nil, err
		case err != nil:
			return nil, answerError("the provider's answer broke off: " + err.Error())
		}
		next, err := q.answer.Then(q.call.Gateway.Now(), body, res.Header)
		refusal, upload := new(providers.RequestError), new(providers.UploadError)
		switch {
		case errors.As(err, &refusal), errors.As(err, &upload): // the caller's fault
			return nil, err
		case err != nil:
			return nil, answerError("the provider's answer cannot be read: " + err.Error())
		}
		if next == nil {
			res.Body = io.NopCloser(bytes.NewReader(body))
			return res, nil
		}
		if next.Body == nil {
			next.Body = []byte{} // no body, instead of the call's
		}
		q.header = q.common.Clone()
		if err := q.set(next); err != nil {
			return nil, err
		}
		headers.restart()
		if res, err = q.send(pool, q.http(out.Context())); err != nil {
			return nil, err
		}
	}
	res.Body.Close()
	return nil, answerError("the call does not come to an end")
}

// unread refuses a call whose body could not be read by the provider's dialect.
func unread(err error) *exchange.Error {
	return &exchange.Error{
		Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "body_unreadable", Caller: true, Err: err,
		Message: "The request body could not be read to its end",
	}
}
