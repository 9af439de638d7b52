package gatewaytest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// A Call is a request that an upstream received.
type Call struct {
	Method, Path, Query, Host string
	Header                    http.Header
	Body                      string
}

// An Upstream is a test's model provider, on loopback.
type Upstream struct {
	*httptest.Server

	open  atomic.Int64
	mu    sync.Mutex
	calls []Call
	serve http.HandlerFunc
}

// NewUpstream starts a provider that answers with serve, or with a fixed chat
// completion if serve is nil. The body has already been read when serve is called.
func NewUpstream(t testing.TB, serve http.HandlerFunc) *Upstream {
	u := newUpstream(t, serve)
	u.Start()
	return u
}

// NewHTTP2Upstream is like [NewUpstream], over TLS and HTTP/2, with an untrusted
// certificate.
func NewHTTP2Upstream(t testing.TB, serve http.HandlerFunc) *Upstream {
	u := newUpstream(t, serve)
	u.EnableHTTP2 = true
	u.StartTLS()
	return u
}

func newUpstream(t testing.TB, serve http.HandlerFunc) *Upstream {
	u := &Upstream{serve: serve}
	u.Server = httptest.NewUnstartedServer(u)
	u.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			u.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			u.open.Add(-1)
		}
	}
	t.Cleanup(u.Close)
	return u
}

func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.calls = append(u.calls, Call{r.Method, r.URL.Path, r.URL.RawQuery, r.Host, r.Header.Clone(), string(body)})
	u.mu.Unlock()
	if u.serve != nil {
		u.serve(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, Completion)
}

// Completion is the fixed answer of an upstream.
const Completion = `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`

// Open returns the number of open connections to the provider.
func (u *Upstream) Open() int { return int(u.open.Load()) }

// Calls returns the requests received so far.
func (u *Upstream) Calls() []Call {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]Call(nil), u.calls...)
}

// Last returns the most recent request.
func (u *Upstream) Last(t testing.TB) Call {
	t.Helper()
	calls := u.Calls()
	if len(calls) == 0 {
		t.Fatal("the provider was not called")
	}
	return calls[len(calls)-1]
}

// Provider returns the provider block of this upstream for the configuration.
func (u *Upstream) Provider(slug string) string { return provider(slug, u.URL) }

// UnreachableProvider returns the block of a provider that refuses connections.
func UnreachableProvider(t testing.TB, slug string) string {
	t.Helper()
	return provider(slug, "http://"+RefusingAddress(t))
}

func provider(slug, url string) string {
	return "provider " + slug + " {\n\t\t\ttype openai\n\t\t\tbase_url " + url + "/v1\n\t\t\tapi_key sk-of-the-file-" + slug + "\n\t\t}\n"
}
