package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// webhook is the operation of posting to a URL of the operator's.
var webhook = Operation{Name: "webhook", Timeout: 5 * time.Second}

// maxIgnored is how much is read of an answer that is ignored, so that its connection can be used again.
const maxIgnored = 16 << 10

// Notify posts a JSON body to a URL that the operator chose, and returns the status of the answer.
// Redirects are not followed. The error does not name the URL, which may be a secret.
func (c *Client) Notify(ctx context.Context, address string, header http.Header, body []byte) (status int, err error) {
	ctx, cancel := context.WithTimeout(WithVars(ctx), webhook.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the address of the webhook is not a URL")
	}
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header["User-Agent"] = []string{""} // no header instead of Go's
	res, err := (&carrier{client: c, ctx: ctx, op: &webhook, provider: webhook.Name, pool: c.pools.Operator}).RoundTrip(r)
	if err != nil {
		return 0, err // without the URL, unlike that of an http.Client
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxIgnored)
	return res.StatusCode, nil
}
