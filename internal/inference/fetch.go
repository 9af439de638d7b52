package inference

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

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
	return res.StatusCode, body, err
}

// batchOutput returns the path of the file that holds a batch's output, which is what a call
// for the output is about.
func (f *Forwarder) batchOutput(ctx context.Context, x *exchange.Exchange, t *routing.Target) (path string, refusal *exchange.Error) {
	target, batch := x.Chosen(), strings.TrimSuffix(x.Path, "/output")
	status, body, err := f.fetch(ctx, x, target, t, operation{"retrieveBatch", http.MethodGet, batch, ""})
	switch {
	case err != nil:
		return "", (&request{call: x.Call, target: target}).failure(err)
	case status != http.StatusOK:
		return "", &exchange.Error{
			Status: status, Type: "provider_error", Code: "batch_unavailable",
			Message: "Provider " + target.Route.Provider + " answered " + strconv.Itoa(status) + " for the batch",
		}
	}
	for _, field := range []string{"output_file_id", "error_file_id"} {
		if id := gjson.GetBytes(body, field).Str; id != "" && !strings.ContainsAny(id, "/?#%\\") {
			return "/files/" + id + "/content", nil
		}
	}
	return "", &exchange.Error{
		Status: http.StatusBadRequest, Type: "invalid_request_error", Param: "batch_id", Code: "batch_not_completed",
		Message: "The batch has no output yet; its status is " + gjson.GetBytes(body, "status").Str,
	}
}
