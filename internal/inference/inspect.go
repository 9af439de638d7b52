package inference

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
)

// inspect looks at an answer before its commit point: nothing of it has been sent to the client,
// and another attempt may follow. The error says why the client does not get it; the answer of a
// tentative attempt is then held.
func (rt *roundTrip) inspect(ctx context.Context, res *http.Response) error {
	for _, v := range rt.followers {
		if hook, ok := v.(ResponseHook); ok {
			if err := hook.Response(ctx, res); err != nil {
				return err
			}
		}
	}
	if err := noJSON(res, rt.x.Endpoint); err != nil {
		res.Body.Close()
		return err
	}
	if err := rt.matchStreaming(res); err != nil {
		return err
	}
	var why error
	switch ok := res.StatusCode == http.StatusOK; {
	case ok:
		why = checkBeginning(rt.call, res, rt.readsAhead(), rt.timing.timeoutBody)
		switch {
		case ctx.Err() != nil:
			res.Body.Close()
			return ctx.Err()
		case inflight.Refused(why):
			res.Body.Close()
			return why
		case why != nil && mediaType(res.Header) == "text/event-stream":
			if err := rt.refuseStream(res, why); err != nil {
				return err
			}
		}
	case !ok && res.StatusCode >= http.StatusMultipleChoices:
		why = errors.New("the provider answered " + statusOf(res.StatusCode))
	}
	switch {
	case why == nil:
		return rt.look(ctx, res)
	case rt.tentative:
		rt.held = res
		return why
	}
	return nil
}

// errEmpty is the failure of an attempt whose answer has status 200 and an empty body.
var errEmpty = errors.New("the provider answered 200 with an empty body")

// errPage is the failure of an attempt whose answer is a web page, probably of a proxy in front
// of the provider.
var errPage = errors.New("the provider answered 200 with a page in HTML")

// noJSON returns why an answer with status 200 cannot be JSON although the endpoint answers JSON,
// or nil.
func noJSON(res *http.Response, endpoint *exchange.Endpoint) error {
	if res.StatusCode != http.StatusOK || !endpoint.AnswersJSON() {
		return nil
	}
	if media := mediaType(res.Header); media == "text/html" {
		return errPage
	}
	if emptyBody(res) {
		return errEmpty
	}
	return nil
}

// emptyBody reports whether an answer with status 200 has an empty body. If the length is
// unknown, it waits for the first byte, except of a stream: an empty stream is reported as one
// that broke off.
func emptyBody(res *http.Response) bool {
	if res.ContentLength > 0 {
		return false
	}
	if res.ContentLength == 0 || res.Body == http.NoBody {
		return true
	}
	if media := mediaType(res.Header); media == "text/event-stream" {
		return false
	}
	var first [1]byte
	n, err := io.ReadFull(res.Body, first[:])
	if err == io.EOF {
		return true
	}
	res.Body = &peeked{seen: first[:n:n], src: res.Body, joined: true}
	return false
}
