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
func (c *Call) refuseLoop() *Error {
	values := c.request.Header[loopHeader]
	if len(values) == 0 || c.Gateway.ID == "" {
		return nil
	}
	through := strings.Split(strings.Join(values, ","), ",")
	if len(through) <= maxThrough && !slices.ContainsFunc(through, func(one string) bool {
		id, _, _ := strings.Cut(one, ";")
		return strings.TrimSpace(id) == c.Gateway.ID
	}) {
		return nil
	}
	return &Error{
		Status: http.StatusLoopDetected, Type: typeInvalidRequest, Code: "loop_detected", Caller: true,
		Message: "The call came from this gateway: the custom host of its provider leads back to it. Set a host of a model provider",
	}
}

// Through returns the header by which the call is recognized if its host leads back here; values
// may be nil.
func (c *Call) Through() (name string, values []string) {
	if c.Gateway.ID == "" {
		return loopHeader, nil
	}
	return loopHeader, append(slices.Clone(c.request.Header[loopHeader]), c.Gateway.ID)
}
