package inference

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/upstream"
)

// A Forwarder forwards calls through Caddy's reverse proxy.
type Forwarder struct {
	Settings
	hooks      []Hook
	proxy      caddyhttp.MiddlewareHandler
	transport  *Transport
	client     *upstream.Client // for the calls of the gateway's own
	logger     *zap.Logger
	background backgroundQueue
}

// Settings are shared by all forwarders.
type Settings struct {
	Hooks []Hook // stages that are asked before the cache
	// Breakers are those of a saved config.
	Breakers func(workspaceID, configID string) routing.ConfigBreakers
	Answers  func() Answers // that are kept
	// SharedCache: the workspaces of the organisation share answers.
	SharedCache bool
	Semantic    *Semantic // nil: only equal questions share answers
	Own         upstream.Options
	Checks      upstream.Checks
	Random      routing.Rand
	Timeout     time.Duration // of an attempt, unless the request or its config sets one; 0: none
	Idle        time.Duration // that a stream may be silent; 0: no limit
	Headers     time.Duration // until an answer's headers come, if there is no timeout; 0: no limit
}

// Answers are those that are kept, see [cache.Cache].
type Answers interface {
	Get(ctx context.Context, key cache.Key, maxAge time.Duration) (*cache.Entry, error)
	Similar(ctx context.Context, m *cache.Meaning, threshold float64, maxAge time.Duration) (*cache.Entry, error)
	Join(key cache.Key) (f *cache.Flight, leads bool)
	Put(ctx context.Context, key cache.Key, e *cache.Entry, m *cache.Meaning, maxAge time.Duration) error
}

// NewForwarder returns a forwarder over a provisioned transport. WebSockets outlive
// a reload of the configuration for streamCloseDelay. Call Cleanup when done.
func NewForwarder(ctx caddy.Context, t *Transport, streamCloseDelay time.Duration, s Settings) (*Forwarder, error) {
	proxy := &reverseproxy.Handler{
		Transport: t, DynamicUpstreams: Upstreams{}, StreamCloseDelay: caddy.Duration(streamCloseDelay),
	}
	own := s.Own
	own.Guard = t.guard
	f := &Forwarder{Settings: s, proxy: proxy, transport: t, client: upstream.NewClient(t.pools, own), logger: ctx.Logger()}
	f.hooks = f.stages(s.Hooks)
	return f, proxy.Provision(ctx)
}

// stages returns the stages of the gateway with others among them, in the order in which they
// are asked.
func (f *Forwarder) stages(others []Hook) []Hook {
	return slices.Concat([]Hook{&ownership{f}, &batches{f}}, others, []Hook{&guardrailHook{f}, &cacheHook{f}, &batchOutput{f}})
}

// Cleanup releases what the forwarder holds.
func (f *Forwarder) Cleanup() error {
	if proxy, ok := f.proxy.(caddy.CleanerUpper); ok {
		return proxy.Cleanup()
	}
	return nil
}

// counted holds a call that the gateway answers itself against its limits. If they refuse it, the
// client is told, and it reports false.
func counted(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) bool {
	err := x.AdmitCall(r.Context())
	if err != nil && !clientGone(r, x) {
		x.Fail(w, err)
	}
	return err == nil
}

// forward sends one attempt. It reports whether the client has its answer. If not, why says what
// went wrong, and the attempt may hold the provider's answer.
func (f *Forwarder) forward(w http.ResponseWriter, r *http.Request, rt *roundTrip) (answered bool, why error) {
	rt.startSpan()
	defer func() { rt.count(r.Context(), why) }() // also when the answer breaks off and panics
	if rt.held == nil {                           // otherwise the attempt has ended
		defer rt.conclude(rt.x.Gateway.Now(), &why)
	}
	why = f.proxy.ServeHTTP(w, shell(r, rt), caddyhttp.HandlerFunc(noNext))
	if rt.clientGone(r) {
		why = nil
	}
	return why == nil, why
}

// clientGone reports whether the client of a call has left, and notes it.
func clientGone(r *http.Request, x *exchange.Exchange) bool {
	if r.Context().Err() == nil || x.Body.Stalled() != nil {
		return false
	}
	x.Conclude(statusClientGone, whyClientStopped(x))
	return true
}

// clientGone reports whether the client has left before the answer was complete, and notes it.
func (rt *roundTrip) clientGone(r *http.Request) bool {
	if r.Context().Err() == nil || rt.x.Body.Stalled() != nil || rt.out.Complete {
		return false
	}
	rt.out.Status, rt.out.Failure = rt.attempt.ProviderStatus, whyClientStopped(rt.x)
	return clientGone(r, rt.x)
}

// statusClientGone is what Caddy answers, and logs, if the client left.
const statusClientGone = 499

func noNext(http.ResponseWriter, *http.Request) error { return nil }

// shell is the request that reverse_proxy sees. It carries the attempt, but none of the client's
// headers or body, because Caddy's debug log prints them. Only a request to upgrade to a
// WebSocket is passed on.
func shell(r *http.Request, rt *roundTrip) *http.Request {
	out := r.WithContext(withRoundTrip(r.Context(), rt))
	out.Header = make(http.Header)
	out.RequestURI, _ = rt.x.Gateway.Headers.RedactURI(r.RequestURI, nil)
	if exchange.UpgradesToWebSocket(r.Header) {
		out.Header["Connection"], out.Header["Upgrade"] = r.Header["Connection"], r.Header["Upgrade"]
	}
	out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, 0, nil
	return out
}

// whyClientStopped is why the client of a call reads no further.
func whyClientStopped(x *exchange.Exchange) string {
	switch {
	case x.Client.AnswerStalled():
		return answerStalled
	case x.Client.Stalled():
		return clientStalled
	case caddy.Exiting():
		return gatewayStopped
	}
	return clientLeft
}
