// Package secretstest has what tests of secret managers need.
package secretstest

import (
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/caddy-gw/gateway/secrets"
)

// Hosts answers requests by their hosts, without a network. A host that is not in it cannot
// be reached.
type Hosts map[string]http.Handler

// RoundTrip answers a request.
func (h Hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	handler, ok := h[r.URL.Host]
	if !ok {
		return nil, &unreachable{r.URL.Host}
	}
	w := httptest.NewRecorder()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.Host, in.RequestURI = r.URL.Host, r.URL.RequestURI()
	handler.ServeHTTP(w, in)
	return w.Result(), nil
}

type unreachable struct{ host string }

func (e *unreachable) Error() string { return "no route to " + e.host }

// Clients returns the clients of a fetch, with the hosts that either reaches. There is no metadata
// service.
func Clients(public, operator Hosts, now func() time.Time) *secrets.Clients {
	return &secrets.Clients{Public: client(public), Operator: client(operator), Metadata: client(nil), Now: now}
}

// OnMachine returns clients with the hosts of a metadata service.
func OnMachine(c *secrets.Clients, metadata Hosts) *secrets.Clients {
	with := *c
	with.Metadata = client(metadata)
	return &with
}

func client(hosts Hosts) *http.Client {
	return &http.Client{Transport: hosts, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
