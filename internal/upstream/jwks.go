package upstream

import (
	"net/http"
	"time"
)

// keySets is the operation of a request for the keys of an issuer of JWTs.
var keySets = Operation{Name: "jwks", Timeout: 5 * time.Second, MaxAnswer: 256<<10 + 1}

// KeySetClient returns the HTTP client for the requests for keys of issuers, whose addresses the
// operator chose, or, if public is set, somebody else.
func (c *Client) KeySetClient(public bool) *http.Client {
	return &http.Client{
		Transport:     keySetTransport{c, bounded{c.pools.of(public), int64(keySets.MaxAnswer)}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       keySets.Timeout,
	}
}

type keySetTransport struct {
	client *Client
	pool   http.RoundTripper
}

// RoundTrip sends a request.
func (t keySetTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return (&carrier{client: t.client, ctx: WithVars(r.Context()), op: &keySets, provider: "jwks", pool: t.pool}).RoundTrip(r)
}
