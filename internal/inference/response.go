package inference

import (
	"net/http"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// A Response is a provider's answer before its commit point, in the caller's dialect.
type Response struct {
	*http.Response
	Attempt *exchange.Attempt

	rt *roundTrip
}

// Hide hides the credentials that the provider got in a part of the answer, and reports whether
// there were any.
func (r *Response) Hide(part []byte) bool { return r.rt.mask(false).Hide(part) }

// AddText counts bytes of the text, for when the provider does not report its usage.
func (r *Response) AddText(bytes int) { r.rt.addText(bytes) }

// Book books what a part of the answer, an object, says that was used.
func (r *Response) Book(part []byte) { r.rt.book(membersOf(part)) }

// DropEvent counts an event that is removed because it cannot be read.
func (r *Response) DropEvent() { r.rt.out.Malformed++ }

// Stores reports whether the answer is a response that the gateway stores.
func (r *Response) Stores() bool { return r.rt.unstored != nil }

// Replace sets the response that is stored, if the gateway stores it.
func (r *Response) Replace(response []byte) {
	if r.Stores() {
		r.rt.unstored = response
	}
}

// StoreLater has the hook itself call Store, when it has seen the whole answer.
func (r *Response) StoreLater() { r.rt.storesLater = true }

// Store stores the response, if the gateway stores it.
func (r *Response) Store() error { return r.rt.storeWithheld() }
