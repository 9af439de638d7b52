package inference

import (
	"context"
	"net/http"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/upstream"
)

// maxFetched bounds the answers that the gateway reads for itself.
const maxFetched = 4 << 20

// fetch gets a JSON answer of a provider that a caller's call needs first, or in addition to its own: a
// page of its list, or the batch whose output it asks for.
func (f *Forwarder) fetch(ctx context.Context, x *exchange.Exchange, target *exchange.Attempt, t *routing.Target, to operation) (status int, body []byte, err error) {
	q := &request{call: x.Call, target: target}
	defer q.close()
	res, err := f.open(ctx, q, t, to)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = readAtMost(x.Call, res.Body, maxFetched) // held until the call is over
	if err == nil && q.answer != nil && res.StatusCode == http.StatusOK {
		body, err = q.answer.Body(nil, body, res.Header)
	}
	q.mask(false).Hide(body)
	return res.StatusCode, body, err
}

// open sends a request without a body that a caller's call needs first, or in addition to its own. It goes
// with the headers and settings of the call, and through the same pools and the same guard as its
// attempts. The caller closes the answer's body, and then the request.
func (f *Forwarder) open(ctx context.Context, q *request, t *routing.Target, to operation) (*http.Response, error) {
	if refusal := f.shape(ctx, q, t, to, true); refusal != nil {
		return nil, refusal
	}
	r, err := http.NewRequestWithContext(upstream.WithVars(ctx), q.method, q.url.String(), nil)
	if err != nil {
		return nil, err
	}
	delete(q.header, "Content-Type")
	r.Header = q.header
	pool := f.transport.pools.Of(q.target.Route)
	res, err := q.send(pool, r)
	if err != nil {
		return nil, err
	}
	return q.follow(pool, r, res, nil)
}
