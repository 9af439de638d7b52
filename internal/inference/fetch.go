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

// fetch gets a JSON answer of a provider that a caller's call needs first, or beside its own: a
// page of its list, or the batch whose output it asks for. It goes with the headers and settings
// of the call, and through the same pools and the same guard as its attempts.
func (f *Forwarder) fetch(ctx context.Context, x *exchange.Exchange, target *exchange.Attempt, t *routing.Target, to operation) (status int, body []byte, err error) {
	q := &request{call: x.Call, target: target}
	defer q.close()
	if refusal := f.shape(ctx, q, t, to, true); refusal != nil {
		return 0, nil, refusal
	}
	r, err := http.NewRequestWithContext(upstream.WithVars(ctx), q.method, q.url.String(), nil)
	if err != nil {
		return 0, nil, err
	}
	delete(q.header, "Content-Type")
	r.Header = q.header
	pool := f.transport.pools.Of(target.Route)
	res, err := q.send(pool, r)
	if err == nil {
		res, err = q.follow(pool, r, res, nil)
	}
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
