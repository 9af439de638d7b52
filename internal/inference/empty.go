package inference

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// errEmpty is the failure of an attempt whose answer has status 200 and nothing in it.
var errEmpty = errors.New("the provider answered 200 with an empty body")

// errPage is the failure of an attempt whose answer is a page, as of something between the
// gateway and the provider.
var errPage = errors.New("the provider answered 200 with a page in HTML")

// noJSON is why an answer with status 200 cannot be the JSON that it should be, nil where it
// may be.
func noJSON(res *http.Response, endpoint *exchange.Endpoint) error {
	if res.StatusCode != http.StatusOK || !endpoint.AnswersJSON() {
		return nil
	}
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media == "text/html" {
		return errPage
	}
	if emptyBody(res) {
		return errEmpty
	}
	return nil
}

// emptyBody reports whether an answer with status 200 has an empty body.
// It waits for the first byte where the length is unknown, save for that of a stream,
// which says itself that it broke off.
func emptyBody(res *http.Response) bool {
	if res.ContentLength > 0 {
		return false
	}
	if res.ContentLength == 0 || res.Body == http.NoBody {
		return true
	}
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media == "text/event-stream" {
		return false
	}
	var first [1]byte
	n, err := io.ReadFull(res.Body, first[:])
	if err == io.EOF {
		return true
	}
	res.Body = &peeked{seen: first[:n:n], src: res.Body}
	return false
}
