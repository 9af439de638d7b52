package inference

import (
	"context"
	crand "crypto/rand"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/calltest"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/storage"
)

const operatorKey = "the operator's key of more than 32 characters"

// A bench is a forwarder whose providers, "one" and "two", are a round-tripper. No Caddy
// runs.
type bench struct {
	*Forwarder
	gateway *exchange.Gateway
	db      *storage.DB
	kept    int // bytes of bodies that are kept
	answers map[string]func() *http.Response
	noteURL bool                               // what is sent is noted with its whole URL
	serve   func(*http.Request) *http.Response // answers instead of all others, or returns nil when the request has ended; nil: it is not asked

	mu     sync.Mutex // several providers are asked for their models at once
	bodies []string   // that the providers got
	events []string   // by the stages and the providers, in order

	conclude func(*exchange.Exchange) // ends a call; nil: what runs after it runs at once
}

func (b *bench) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, what)
}

// RoundTrip is the providers: what has no answer of its own answers with its name.
func (b *bench) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.bodies = append(b.bodies, string(body))
		b.mu.Unlock()
	}
	if b.noteURL {
		b.note(r.URL.String())
	} else {
		b.note("sent to " + r.URL.Host)
	}
	if b.serve != nil {
		if res := b.serve(r); res != nil {
			return res, nil
		}
		return nil, context.Cause(r.Context())
	}
	if answer := b.answers[r.URL.Path]; answer != nil {
		b.note(r.URL.Path)
		return answer(), nil
	}
	if answer := b.answers[r.URL.Host]; answer != nil {
		return answer(), nil
	}
	return answering(200, "application/json", answerOf(r.URL.Host)), nil
}

// call makes a chat and returns its answer, and what became of it.
func (b *bench) call(t testing.TB, body string, limiter exchange.Limiter, header ...string) (*httptest.ResponseRecorder, *exchange.Exchange) {
	t.Helper()
	return b.request(t, http.MethodPost, "/chat/completions", body, limiter, header...)
}

// request makes a call of any endpoint, at a path below /v1.
func (b *bench) request(t testing.TB, method, path, body string, limiter exchange.Limiter, header ...string) (*httptest.ResponseRecorder, *exchange.Exchange) {
	t.Helper()
	r := httptest.NewRequest(method, "/v1"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("X-Gw-Api-Key", operatorKey)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{}))
	w := httptest.NewRecorder()
	e, err := exchange.EndpointOf(method, r.URL.Path)
	if err != nil {
		t.Fatal(err)
	}
	x := b.gateway.Begin(w, r, e)
	defer x.Close()
	if limiter != nil {
		x.Limit(limiter)
	}
	x.KeepExcerpts(b.kept)
	if err := x.Prepare(exchange.Limits{Body: 1 << 20, Upload: 1 << 20, Replay: 1 << 20}); err != nil {
		t.Fatalf("refused: %v", err)
	}
	if x.Catalogue != nil {
		b.ServeModels(w, r, x)
	} else {
		b.Serve(w, r, x)
	}
	x.End()
	switch {
	case b.conclude != nil:
		b.conclude(x)
	default:
		for n := range x.Notes.All() {
			if n, ok := n.(exchange.DeferredNote); ok {
				if _, work := n.Deferred(); work != nil {
					work(true)
				}
			}
		}
	}
	return w, x
}

// judged is what hooks say of a call; nil: none ran.
func judged(x *exchange.Exchange) *judgment {
	for n := range x.Notes.All() {
		return n.(*judgment)
	}
	return nil
}

// shared makes the credentials of the bench those of several workspaces.
func (b *bench) shared(t *testing.T) {
	t.Helper()
	owners, err := stored.OpenOwners(t.Context(), b.db)
	if err != nil {
		t.Fatal(err)
	}
	b.gateway.Owners, b.gateway.Responses = owners, stored.NewResponses(b.db, time.Now)
	b.gateway.Several = func() bool { return true }
	b.hooks = []Hook{&ownership{b.Forwarder}}
}

func newBench(t testing.TB) *bench {
	t.Helper()
	stores := calltest.Open(t)
	answers, err := cache.Open(t.Context(), stores.DB, calltest.Now)
	if err != nil {
		t.Fatal(err)
	}
	headers, err := exchange.NewHeaders(nil)
	if err != nil {
		t.Fatal(err)
	}
	saved := make(map[string]*credentials.Provider)
	for _, slug := range []string{"one", "two"} {
		saved[slug] = &credentials.Provider{Slug: slug, Dialect: "openai", BaseURL: &url.URL{Scheme: "fake", Host: slug, Path: "/v1"}, Key: credentials.NewSecret("sk-" + slug)}
	}
	b := &bench{db: stores.DB, answers: make(map[string]func() *http.Response)}
	b.gateway = &exchange.Gateway{
		Authenticator: stores.Authenticator(operatorKey, "ws"),
		Router:        &credentials.Router{Keyring: stores.Keyring, Providers: saved, BuiltIn: func(string) (*url.URL, bool, bool) { return nil, false, false }, SlugOf: func(id string) string { return id }},
		Configs:       &exchange.Configs{Store: stores.Configs, Options: routing.Options{Saved: true, SavedProvider: func(string, string) bool { return true }}},
		Headers:       headers, Now: calltest.Now, Random: crand.Reader, Acquire: func() func() { return func() {} },
	}
	connections := &http.Transport{}
	connections.RegisterProtocol("fake", b)
	transport := &Transport{pools: upstream.Pools{Operator: &upstream.Pool{Transport: connections}}}
	b.Forwarder = &Forwarder{
		Settings:  Settings{Answers: func() Answers { return answers }, Random: rand.New(rand.NewPCG(1, 2))},
		proxy:     passing{transport},
		transport: transport,
		client:    upstream.NewClient(transport.pools, upstream.Options{}),
		logger:    zap.NewNop(),
	}
	b.hooks = []Hook{&cacheHook{b.Forwarder}}
	return b
}

func answerOf(text string) string {
	return `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
}

func answering(status int, media, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {media}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), ProtoMajor: 1,
	}
}

// passing does what reverse_proxy does with a request: it passes the answer on.
type passing struct{ transport http.RoundTripper }

func (p passing) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	res, err := p.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	maps.Copy(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	_, err = io.Copy(w, res.Body)
	return err
}

const twoTargets = `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@one"},{"provider":"@two"}]}`

const plainChat = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

// A recordingLimiter records which calls it admits, and how its holds end.
type recordingLimiter struct {
	*bench
	refuse string // the target that it refuses
}

func (n *recordingLimiter) Admit(_ context.Context, _ *exchange.Call, target *exchange.Attempt) (exchange.Hold, *exchange.Error) {
	what := "call"
	if target != nil {
		what = target.Route.Provider
	}
	if what == n.refuse {
		n.note("refuse " + what)
		return nil, exchange.RateLimited("too many", 0)
	}
	n.note("admit " + what)
	return &recordedHold{n.bench, what}, nil
}

type recordedHold struct {
	*bench
	what string
}

func (n *recordedHold) Header() []exchange.HeaderField { return nil }

func (n *recordedHold) Settle(sent []*exchange.Attempt) { n.note("settle " + n.what) }

func (n *recordedHold) Release() { n.note("release " + n.what) }

// A scripted hook does what its functions say.
type scripted struct {
	*recordedHold
	before   func(*Candidate) (*Reply, *exchange.Error)
	counted  func() (*Reply, *exchange.Error)
	complete func(*Answer) *exchange.Error
	event    func([]byte) error
}

func (s *scripted) Before(_ context.Context, c *Candidate) (Visit, *Reply, *exchange.Error) {
	visit := *s
	visit.recordedHold = &recordedHold{s.bench, "hook"}
	s.note("before " + c.Chosen().Route.Provider)
	if s.before == nil {
		return &visit, nil, nil
	}
	r, refusal := s.before(c)
	return &visit, r, refusal
}

func (s *scripted) Counted(context.Context) (*Reply, *exchange.Error) {
	if s.counted == nil {
		return nil, nil
	}
	return s.counted()
}

func (s *scripted) Complete(_ context.Context, a *Answer) *exchange.Error {
	if s.complete == nil {
		return nil
	}
	return s.complete(a)
}

func (s *scripted) Event(data []byte) error {
	if s.event == nil {
		return nil
	}
	return s.event(data)
}
