package inference

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers"
)

// refuseStream makes an HTTP error of a stream that failed before anything of it was sent: clients
// try again by the status, and not by what a stream says. The error returned is one of the
// gateway's own.
func (rt *roundTrip) refuseStream(res *http.Response, why error) error {
	if own := new(exchange.Error); errors.As(why, &own) {
		res.Body.Close()
		return own
	}
	provider := rt.target.Route.Provider
	failure := &providers.Failure{
		Status: http.StatusBadGateway, Type: "provider_error", Code: "stream_interrupted",
		Message: "Provider " + provider + " sent a stream that broke off before any output",
	}
	var body []byte
	rt.fail(why.Error())
	if event := new(failedEvent); errors.As(why, &event) {
		rt.fail(failureInStream)
		rt.erred()
		body = event.data
		rt.mask(true).Hide(body)
		failure = providers.ReadEvent(body)
		rt.ownStatus(failure)
	}
	return rt.refuse(res, failure, body)
}

// ownStatus gives a failure the status of the provider's own words for it, which the translation may
// not have.
func (rt *roundTrip) ownStatus(f *providers.Failure) {
	if rt.answer == nil || f.Status != http.StatusBadGateway {
		return
	}
	if s, ok := rt.answer.Stream.(interface{ Failed() (string, []byte) }); ok {
		if name, data := s.Failed(); data != nil {
			f.Status = providers.EventStatus(name, data)
			if f.Type == "api_error" { // which says less
				f.Type = ""
			}
		}
	}
}

// refuse makes an HTTP error of an answer with status 200. body is what the provider sent for it, or
// nil.
func (rt *roundTrip) refuse(res *http.Response, failure *providers.Failure, body []byte) error {
	setStatus(res, failure.Status)
	rt.overflow(res, failure)
	failure.Status = res.StatusCode
	out, ok := body, rt.x.Endpoint.Passes && body != nil
	if !ok && body != nil && rt.answer == nil && membersOf(body).onlyError() && (rt.x.Endpoint.Name != providers.Messages || gjson.GetBytes(body, "type").Str == "error") {
		out, ok = withProvider(body, rt.target.Route.Provider, rt.ownKeyRefused(res.StatusCode))
	}
	if !ok {
		out = failure.Append(nil, rt.x.Endpoint.Name, rt.target.Route.Provider)
	}
	return rt.replaceBody(res, out)
}

func setStatus(res *http.Response, status int) {
	res.StatusCode, res.Status = status, strconv.Itoa(status)+" "+http.StatusText(status)
}
