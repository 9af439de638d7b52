package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/telemetry"
	"github.com/caddy-gw/gateway/internal/usage"
	"github.com/caddy-gw/gateway/providers"
)

// A Client makes the gateway's own calls. They contain nothing of a caller's request: no
// header, no setting, and no credential but the route's.
type Client struct {
	Options

	pools  Pools
	logins logins
}

// Options are the options of a [Client].
type Options struct {
	Guard    *credentials.HostGuard  // checks hosts that the operator did not choose
	Metrics  *telemetry.Metrics      // nil: no metrics
	Prices   *prices.Table           // nil: costs are unknown
	InFlight func() *inflight.Budget // bounds the memory of answers; may be nil
	Now      func() time.Time        // nil: the system's clock
	NewID    func() string           // generates ids for answers without one
	Machine  Machine                 // what the gateway's machine is, for providers
}

// NewClient returns a client over pools of connections.
func NewClient(pools Pools, o Options) *Client { return &Client{Options: o, pools: pools} }

// An Operation is a kind of call that the gateway itself makes.
type Operation struct {
	// Name is its purpose, such as semantic_cache. It is the endpoint in metrics.
	Name string
	// Endpoint, Method and Path are as in [providers.Call].
	Endpoint, Method, Path string
	// Model is the configured model; "" if there is none.
	Model string
	// Workspace is the workspace that the call is made for, and whose share of memory and
	// logins it uses; "" if there is none.
	Workspace string
	// Header has headers of the request in addition to the provider's own.
	Header http.Header
	// Timeout bounds the time until the answer is read; 0: thirty seconds.
	Timeout time.Duration
	// MaxAnswer bounds the size of the answer, in bytes; 0: 4 MiB.
	MaxAnswer int
}

const (
	defaultTimeout   = 30 * time.Second
	defaultMaxAnswer = 4 << 20
	leastRead        = 512
)

// An Answer is the answer of a provider.
type Answer struct {
	Status int
	Body   []byte // in OpenAI's form if the status is 200
	// Cost is what the call cost at list prices, if CostKnown.
	Cost      prices.Amount
	CostKnown bool

	memory inflight.Lease
}

// Release frees the memory of the answer, whose body must not be used afterwards.
func (a *Answer) Release() { a.memory.Close() }

// Do calls a provider and counts what the call used. body is the request's, or nil. The
// caller must release the answer.
//
// An error means that there is no answer. It may be a [providers.RequestError] if the
// provider's dialect or login cannot make the request, a [LoginError], a [DialError], a
// [credentials.HostError], one that [inflight.Refused] recognises, or that of ctx.
func (c *Client) Do(ctx context.Context, route *credentials.Route, op *Operation, body []byte) (_ *Answer, used prices.Usage, err error) {
	ctx, cancel := context.WithTimeout(WithVars(ctx), cmp.Or(op.Timeout, defaultTimeout))
	defer cancel()
	answer, err := c.open(op, len(body))
	if err != nil {
		return nil, used, err
	}
	defer func() {
		if err != nil {
			answer.Release()
		}
	}()
	defer answer.memory.Shrink(len(body))
	r, translation, err := c.request(ctx, route, op, body)
	if err != nil {
		return nil, used, err
	}
	header, err := answer.fetch(&carrier{client: c, ctx: ctx, op: op, provider: route.Provider, pool: c.pools.Of(route)}, r)
	if err != nil {
		return nil, used, err
	}
	if answer.Status == http.StatusOK && translation != nil && translation.Body != nil {
		whole, err := translation.Body(nil, answer.Body, header)
		if err != nil {
			return nil, used, err
		}
		if err := answer.memory.Grow(cap(whole)); err != nil {
			return nil, used, err
		}
		answer.memory.Shrink(cap(answer.Body))
		answer.Body = whole
	}
	return answer, c.book(route, op, answer), nil
}

// open returns the answer of an operation that is to come, whose memory has room for the body of the
// request.
func (c *Client) open(op *Operation, size int) (*Answer, error) {
	answer := new(Answer)
	if c.InFlight != nil {
		answer.memory.Open(c.InFlight(), op.Workspace, "")
	}
	if err := answer.memory.Grow(size); err != nil {
		answer.Release()
		return nil, err
	}
	return answer, nil
}

// fetch sends a request and reads its answer, whose header it returns.
func (a *Answer) fetch(c *carrier, r *http.Request) (http.Header, error) {
	res, err := c.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	a.Status = res.StatusCode
	a.Body, err = a.read(res.Body, cmp.Or(c.op.MaxAnswer, defaultMaxAnswer))
	return res.Header, err
}

// request returns the request of a call, including its credential.
func (c *Client) request(ctx context.Context, route *credentials.Route, op *Operation, body []byte) (*http.Request, *providers.Answer, error) {
	p, ok := providers.Lookup(route.Dialect)
	if !ok {
		return nil, nil, fmt.Errorf("there is no provider %q", route.Dialect)
	}
	setting := func(name string) string {
		v := route.Settings[name]
		return v.Reveal()
	}
	call := &providers.Call{
		Provider: p, Name: route.Provider, Endpoint: op.Endpoint, Method: op.Method, Path: op.Path, Base: route.BaseURL,
		Body: body, Model: op.Model, Strict: true, Key: route.Key, Setting: setting,
		Header: func(string) string { return "" }, Now: c.now(), NewID: c.NewID, Machine: route.Machine,
	}
	if call.Base == nil {
		var err error
		if call.Base, err = p.Base(setting); err != nil {
			return nil, nil, err
		}
	}
	if p.Login != nil {
		l, err := p.Login(call)
		if err != nil {
			return nil, nil, err
		}
		if l != nil {
			g, err := c.Grant(route, l)
			if err != nil {
				return nil, nil, err
			}
			if call.Token, err = c.Token(ctx, g, route.Provider, op.Workspace); err != nil {
				return nil, nil, err
			}
		}
	}
	made, err := p.Prepare(call)
	if err != nil {
		return nil, nil, err
	}
	if made.Answer != nil && made.Answer.Then != nil {
		return nil, nil, errors.New("provider " + route.Provider + " takes several requests for " + op.Name)
	}
	if made.Body != nil {
		body = made.Body
	}
	method := op.Method
	if made.Method != "" {
		method = made.Method
	}
	var content io.Reader
	if len(body) > 0 {
		content = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, made.URL.String(), content)
	if err != nil {
		return nil, nil, err
	}
	r.Header["User-Agent"] = []string{""} // no header instead of Go's
	if content != nil {
		r.Header["Content-Type"] = []string{"application/json"}
	}
	for _, headers := range []http.Header{op.Header, made.Header, route.Header} {
		for name, values := range headers {
			r.Header[name] = values
		}
	}
	return r, made.Answer, nil
}

// tooLong is the error of an answer with more bytes.
type tooLong int

func (e tooLong) Error() string { return fmt.Sprintf("an answer of more than %d bytes", int(e)) }

// read reads an answer of at most limit bytes. The answer's lease includes the capacity of
// the result.
func (a *Answer) read(r io.Reader, limit int) ([]byte, error) {
	var b []byte
	for {
		if len(b) == cap(b) {
			size := max(leastRead, 2*cap(b))
			if err := a.memory.Grow(size); err != nil {
				return nil, err
			}
			larger := append(make([]byte, 0, size), b...)
			a.memory.Shrink(cap(b))
			b = larger
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return nil, tooLong(limit)
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, err
		}
	}
}

// book counts the usage of an answer, and returns it with its cost.
func (c *Client) book(route *credentials.Route, op *Operation, a *Answer) (used prices.Usage) {
	if op.Model == "" { // the operation uses no model
		a.CostKnown = true
		return used
	}
	known := false
	if reported := gjson.GetBytes(a.Body, "usage"); reported.IsObject() {
		known = usage.Read(&used, []byte(reported.Raw), false, op.Endpoint == providers.Messages)
	}
	if c.Prices != nil {
		for _, model := range [...]string{op.Model, gjson.GetBytes(a.Body, "model").Str} {
			p := route.PriceOf(model, func(model string) *prices.Price { return c.Prices.Of(model, c.now(), route.Provider, route.Dialect) })
			if p != nil {
				if known || a.Status == http.StatusOK && p.OnlyCalls() {
					a.Cost, a.CostKnown = p.Cost(&used)
				}
				break
			}
		}
	}
	c.Metrics.Used(op.target(route.Provider), &used, a.Cost)
	return used
}

// target returns the labels of an operation in metrics. Its model is configured by the
// operator.
func (op *Operation) target(provider string) *telemetry.Target {
	return &telemetry.Target{Endpoint: op.Name, Provider: provider, Model: op.Model, SavedModel: op.Model != ""}
}

func (c *Client) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// WithVars returns a context for one of the gateway's own requests, with its own variables:
// Caddy stores the chosen proxy in them, and those of the client's request belong to the
// goroutine that serves it.
func WithVars(ctx context.Context) context.Context {
	return context.WithValue(ctx, caddyhttp.VarsCtxKey, make(map[string]any))
}

// A carrier sends the requests of one call, and counts them.
type carrier struct {
	client   *Client
	ctx      context.Context // oauth2 makes its requests without a context
	op       *Operation
	provider string
	pool     http.RoundTripper
	sent     bool
	err      error // of the last request
}

// RoundTrip sends a request.
func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	c.sent = true
	res, err := c.pool.RoundTrip(r.WithContext(c.ctx))
	status := 0
	if err == nil {
		status = res.StatusCode
	}
	c.client.Metrics.Attempt(c.op.target(c.provider), status, errors.Is(c.ctx.Err(), context.Canceled), false)
	c.err = err
	return res, err
}
