package exchange

import (
	"net/http"
	"slices"
	"strings"
)

// loopHeader names the gateways that a call came through (RFC 8586).
const loopHeader = "Cdn-Loop"

// maxThrough is the most gateways that a call may have passed.
const maxThrough = 10

// refuseLoop refuses a call that this gateway has sent: it would be sent again and again.
func (p *preparation) refuseLoop() *Error {
	values := p.request.Header[loopHeader]
	if len(values) == 0 || p.Gateway.ID == "" {
		return nil
	}
	through := strings.Split(strings.Join(values, ","), ",")
	if len(through) <= maxThrough && !slices.ContainsFunc(through, func(one string) bool {
		id, _, _ := strings.Cut(one, ";")
		return strings.TrimSpace(id) == p.Gateway.ID
	}) {
		return nil
	}
	return &Error{
		Status: http.StatusLoopDetected, Type: typeInvalidRequest, Code: "loop_detected", Caller: true,
		Message: "The call came from this gateway: the custom host of its provider leads back to it. Set a host of a model provider",
	}
}

// Through returns the header of requests to hosts that the operator did not choose, by which the gateway
// recognizes what they send back to it, or nil. before is the header of the request because of which they are made.
func (g *Gateway) Through(before http.Header) http.Header {
	if g.ID == "" {
		return nil
	}
	return http.Header{loopHeader: append(slices.Clone(before[loopHeader]), g.ID)}
}
