package inference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// maxFetched bounds the answers that the gateway reads for itself.
const maxFetched = 4 << 20

// withVars is the context of a request that the gateway makes for itself, with variables of
// its own: Caddy notes the proxy that it chose among them, and those of the client's request
// belong to the goroutine that serves it.
func withVars(ctx context.Context) context.Context {
	return context.WithValue(ctx, caddyhttp.VarsCtxKey, make(map[string]any))
}

// fetch gets a JSON answer of a provider for the gateway itself, through the same
// pools and the same guard as every attempt. content, which may be nil, is the body of the
// request.
func (f *Forwarder) fetch(ctx context.Context, x *exchange.Exchange, target *exchange.Attempt, t *routing.Target, to operation, content []byte) (status int, body []byte, err error) {
	q := &request{call: x.Call, target: target}
	defer q.close()
	if content != nil {
		if q.body, err = x.NewBuffer(content); err != nil {
			return 0, nil, err
		}
	}
	if refusal := f.shape(ctx, q, t, to, true); refusal != nil {
		return 0, nil, refusal
	}
	var sent io.Reader
	if q.body != nil {
		sent = bytes.NewReader(q.body.Bytes())
	}
	r, err := http.NewRequestWithContext(withVars(ctx), q.method, q.url.String(), sent)
	if err != nil {
		return 0, nil, err
	}
	delete(q.header, "Content-Type")
	if sent != nil {
		q.header["Content-Type"] = []string{"application/json"}
	}
	r.Header = q.header
	pool := f.transport.poolOf(target.Route)
	res, err := pool.RoundTrip(r)
	if err == nil {
		res, err = q.follow(pool, r, res, nil)
	}
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = readAtMost(x.Call, res.Body, maxFetched) // held until the call is over
	if err == nil && q.answer != nil && res.StatusCode == http.StatusOK {
		body, err = q.answer.Whole(nil, body, res.Header)
	}
	return res.StatusCode, body, err
}

// batchOutput returns the path of the file that holds a batch's output, which is what a call
// for the output is about.
func (f *Forwarder) batchOutput(ctx context.Context, x *exchange.Exchange, t *routing.Target) (path string, refusal *exchange.Error) {
	target, batch := x.Chosen(), strings.TrimSuffix(x.Path, "/output")
	status, body, err := f.fetch(ctx, x, target, t, operation{"retrieveBatch", http.MethodGet, batch, "", ""}, nil)
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

const (
	catalogueTime = 10 * time.Second // for all providers together
	modelsTime    = 3 * time.Second  // for each of them, from its turn on
	atOnce        = 8                // providers
)

// A model is a row of the unified list.
type model struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Created  int64  `json:"created"`
	OwnedBy  string `json:"owned_by"`
	Provider string `json:"provider"`
}

// ServeModels answers with the models of every saved provider that the caller may
// use, and the call does not exclude, each under the name by which a call reaches it: @slug/model. A provider that
// does not list its models, or not in time, is left out.
func (f *Forwarder) ServeModels(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) {
	ctx, cancel := context.WithTimeout(r.Context(), catalogueTime)
	defer cancel()
	slugs := x.Listed(x.Gateway.Router.Saved(x.Caller))
	lists := make([][]model, len(slugs))
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, slug := range slugs {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			lists[i] = f.models(ctx, x, slug)
		})
	}
	wg.Wait()
	all := make([]model, 0, 64)
	for _, list := range lists {
		all = append(all, list...)
	}
	body, err := json.Marshal(struct {
		Object     string  `json:"object"`
		TotalCount int     `json:"total_count"`
		Data       []model `json:"data"`
	}{"list", len(all), all})
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	x.Conclude(http.StatusOK, "")
	w.Header().Set("Content-Type", "application/json")
	x.Sent(body)
	_, _ = w.Write(body)
}

func (f *Forwarder) models(ctx context.Context, x *exchange.Exchange, slug string) []model {
	route, refusal := x.Gateway.Router.Route(x.Caller, credentials.Selection{Provider: "@" + slug})
	if refusal != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, modelsTime)
	defer cancel()
	status, body, err := f.fetch(ctx, x, x.NewAttempt("", route, nil), &direct, operation{providers.ListModels, http.MethodGet, "/models", "", ""}, nil)
	if err != nil || status != http.StatusOK || errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	var list []model
	gjson.GetBytes(body, "data").ForEach(func(_, m gjson.Result) bool {
		if id := m.Get("id").Str; id != "" {
			list = append(list, model{"@" + slug + "/" + id, "model", m.Get("created").Int(), m.Get("owned_by").Str, slug})
		}
		return true
	})
	return list
}
