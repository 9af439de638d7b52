package upstream

import (
	"context"
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/secrets"
)

// secret is the operation of a request to a secret manager.
var secret = Operation{Name: "secret", Timeout: 15 * time.Second, MaxAnswer: secrets.MaxValue + 1}

// SecretClients returns the HTTP clients for the requests to a secret manager in ctx.
func (c *Client) SecretClients(ctx context.Context, manager string) *secrets.Clients {
	return c.clientsOf(ctx, &secret, manager)
}

// clientsOf returns the HTTP clients for an operation, whose requests go to somebody that is asked.
func (c *Client) clientsOf(ctx context.Context, op *Operation, asked string) *secrets.Clients {
	client := func(pool *Pool) *http.Client {
		return &http.Client{
			Transport:     &carrier{client: c, ctx: WithVars(ctx), op: op, provider: asked, pool: bounded{pool, int64(op.MaxAnswer)}},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       op.Timeout,
		}
	}
	return &secrets.Clients{Public: client(c.pools.Public), Operator: client(c.pools.Operator), Metadata: client(c.pools.Metadata), Now: c.now}
}
