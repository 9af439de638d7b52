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

// maxFollowing bounds the requests that a call makes one after the other: an upload in as
// many parts as S3 takes, with its beginning and its end.
const maxFollowing = 10_002

// followed sends what follows a request whose answer is not yet the call's, through the
// same pool, and returns the answer that is. One with an error ends the row.
func (a *attempt) followed(pool http.RoundTripper, out *http.Request, res *http.Response) (*http.Response, error) {
	for range maxFollowing {
		if a.answer == nil || a.answer.Then == nil || res.StatusCode < 200 || res.StatusCode >= 300 {
			return res, nil
		}
		body, err := readAtMost(a.x, res.Body, maxFetched)
		res.Body.Close()
		a.x.Drop(cap(body))
		switch {
		case inflight.Refused(err):
			return nil, err
		case err != nil:
			return nil, unusableError("the provider's answer broke off: " + err.Error())
		}
		next, err := a.answer.Then(a.x.Gateway.Now(), body, res.Header)
		refusal, upload := new(providers.Refusal), new(providers.UploadError)
		switch {
		case errors.As(err, &refusal), errors.As(err, &upload): // the caller's fault
			return nil, err
		case err != nil:
			return nil, unusableError("the provider's answer cannot be read: " + err.Error())
		}
		if next == nil {
			res.Body = io.NopCloser(bytes.NewReader(body))
			return res, nil
		}
		if next.Body == nil {
			next.Body = []byte{} // none, and not the call's
		}
		a.header = a.common.Clone()
		if err := a.set(next); err != nil {
			return nil, err
		}
		a.again()
		if res, err = pool.RoundTrip(a.request(out)); err != nil {
			return nil, err
		}
	}
	res.Body.Close()
	return nil, unusableError("the call does not come to an end")
}

// unread is the refusal of a call whose body could not be read while it was put into a
// provider's words.
func unread(err error) *exchange.Error {
	return &exchange.Error{
		Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "body_unreadable", Caller: true, Err: err,
		Message: "The request body could not be read to its end",
	}
}
