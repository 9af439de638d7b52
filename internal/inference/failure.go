package inference

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/providers"
)

// headersTooLarge reports whether a provider's headers are larger than the transport reads.
// net/http has no types for these errors.
func headersTooLarge(err error) bool {
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") || strings.Contains(text, "response header list larger than")
}

// codeNotReplayable is the error code of a call that should have been tried again but could not,
// because its body was too large to be kept.
const codeNotReplayable = "body_not_replayable"

// failure turns the failure of an attempt into an error for the client.
func (rt *roundTrip) failure(err error) *exchange.Error {
	e := rt.failed(err)
	if message := rt.mask(true).Text(e.Message); message != e.Message {
		other := *e
		other.Message = message
		return &other
	}
	return e
}

func (rt *roundTrip) failed(err error) *exchange.Error {
	provider := rt.target.Route.Provider
	switch {
	case errors.As(err, new(*exchange.Error)):
	case errors.Is(err, errAttemptTimeout):
		return exchange.TimedOut(rt.timing.limits.answer, err)
	case errors.Is(err, errHeadersLate):
		return exchange.ProviderTimedOut("Provider "+provider+" sent no response headers within "+strconv.FormatInt(rt.timing.limits.headers.Milliseconds(), 10)+"ms (provider_header_timeout)", err)
	case errors.Is(err, errBodyStalled):
		return exchange.ProviderTimedOut("Provider "+provider+" sent no more of its answer within "+strconv.FormatInt(rt.timing.stallGuard.after.Milliseconds(), 10)+"ms ("+rt.timing.stallGuard.option+")", err)
	case headersTooLarge(err):
		return misbehaved("Provider "+provider+" sent response headers larger than "+humanize.IBytes(uint64(rt.maxHeader)), err)
	}
	return rt.request.failure(err)
}

// misbehaved is the error of a provider that would fail in the same way again.
func misbehaved(message string, err error) *exchange.Error {
	return &exchange.Error{Status: http.StatusBadGateway, Type: "provider_error", Code: "provider_misbehaved", Pointless: true, Message: message, Err: err}
}

// failure turns the failure of a request into an error for the client.
func (q *request) failure(err error) *exchange.Error {
	var own *exchange.Error
	if errors.As(err, &own) {
		return own
	}
	provider := q.target.Route.Provider
	var host *credentials.HostError
	if errors.As(err, &host) && q.target.Route.CustomHost {
		return exchange.CredentialError(credentials.CustomHostError(err))
	}
	if inflight.Refused(err) && !errors.Is(err, exchange.ErrNotReplayable) {
		return exchange.Overloaded(err)
	}
	if refusal := q.call.Body.Refusal(err); refusal != nil {
		return refusal
	}
	if refusal := new(providers.RequestError); errors.As(err, &refusal) { // of a request that followed another
		e := refused(refusal)
		e.Caller = true
		return e
	}
	e := &exchange.Error{Status: http.StatusBadGateway, Type: "provider_error", Code: "provider_unreachable", Err: err}
	var dial *upstream.DialError
	var bad answerError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &bad):
		return misbehaved("Provider "+provider+" could not be used: "+string(bad), err)
	case errors.Is(err, errEmpty):
		e.Code = "provider_misbehaved"
		e.Message = "Provider " + provider + " answered 200 with an empty body, where there should be JSON"
	case errors.Is(err, errPage):
		e.Code = "provider_misbehaved"
		e.Message = "Provider " + provider + " answered 200 with a page in HTML, where there should be JSON"
	case errors.Is(err, exchange.ErrNotReplayable):
		e.Code = codeNotReplayable
		e.Message = "Provider " + provider + " could not be tried: " + exchange.ErrNotReplayable.Error()
	case errors.As(err, new(*providers.UploadError)):
		return unread(err)
	case errors.As(err, &dial):
		e.Status = http.StatusServiceUnavailable
		e.Message = "Provider " + provider + " could not be reached"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return exchange.ProviderTimedOut("Provider "+provider+" did not answer in time", err)
	default:
		e.Message = "Provider " + provider + " closed the connection without an answer"
	}
	return e
}
