package exchange

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/calltest"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
)

const (
	limit       = 1 << 20
	adminKey    = "an admin key of more than 32 characters"
	providerKey = "sk-of-the-caller"
)

// messages are what a chat needs besides its model.
const messages = `"messages":[{"role":"user","content":"hi"}]`

// chat is a chat in its shortest form.
const chat = `{"model":"m",` + messages + `}`

// with is the chat with more members.
func with(members string) string { return strings.TrimSuffix(chat, "}") + "," + members + "}" }

// limits are those of calls for which limits are not the point.
var limits = Limits{Body: limit, Upload: limit, Replay: 1 << 20}

// A world is a gateway with a provider of the file, "file", and two service keys.
type world struct {
	*Gateway
	key      string // of workspace ws-1
	weak     string // of the same, without a scope
	db       *storage.DB
	keyring  *credentials.Keyring
	acquired atomic.Int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	stores := calltest.Open(t)
	db, k := stores.DB, stores.Keyring
	w := &world{db: db, keyring: k}
	var strong, weak credentials.Secret
	err := db.Update(t.Context(), func(tx *storage.Txn) (err error) {
		a := credentials.APIKey{
			Name: "ci", Kind: credentials.WorkspaceService, OrganisationID: "org", WorkspaceID: "ws-1", Scopes: []string{credentials.ScopeCompletions},
			Metadata: json.RawMessage(`{"team":"blue","fixed":1,"none":null}`),
		}
		if strong, err = k.Issue(tx, "key-1", "gw-", &a); err != nil {
			return err
		}
		b := credentials.APIKey{Name: "weak", Kind: credentials.WorkspaceService, WorkspaceID: "ws-1"}
		if weak, err = k.Issue(tx, "key-2", "gw-", &b); err != nil {
			return err
		}
		v := credentials.VirtualKey{Credential: credentials.Credential{ID: "vk-1", Provider: "openai"}, Slug: "own", WorkspaceID: "ws-1"}
		return k.AddVirtualKey(tx, &v, credentials.NewSecret("sk-stored"))
	})
	if err != nil {
		t.Fatal(err)
	}
	w.key, w.weak = strong.Reveal(), weak.Reveal()
	base := func(raw string) *url.URL {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	guard, err := credentials.NewHostGuard(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Gateway = &Gateway{
		Authenticator: stores.Authenticator(adminKey, "ws-default"),
		Router: &credentials.Router{
			Keyring:   k,
			Providers: map[string]*credentials.Provider{"file": {Slug: "file", Dialect: "openai", BaseURL: base("http://127.0.0.1:1/v1"), Key: credentials.NewSecret("sk-file"), Passthrough: credentials.Paths{{Path: "/v1/what/*"}}}},
			BuiltIn: func(name string) (*url.URL, bool, bool) {
				if name == "openai" {
					return base("https://api.openai.com/v1"), false, true
				}
				return nil, false, false
			},
			Guard:  guard,
			SlugOf: func(id string) string { return "slug-of-" + id },
		},
		Configs: &Configs{Store: stores.Configs, Options: routing.Options{Saved: true, SavedProvider: func(_, name string) bool { return name == "file" }}},
		Headers: headersOf(t, "x-acme-"),
		Now:     calltest.Now,
		Random:  rand.Reader,
		Acquire: func() func() {
			w.acquired.Add(1)
			return func() { w.acquired.Add(-1) }
		},
	}
	return w
}

// call is a request for a chat with a body and header pairs, as Caddy hands it on.
func (w *world) call(body string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{}))
}

// begin starts the exchange of a request to the file's provider with a good key,
// unless its headers say otherwise.
func (w *world) begin(t testing.TB, r *http.Request) *Exchange {
	t.Helper()
	x := w.Begin(httptest.NewRecorder(), r, endpointOf(r))
	t.Cleanup(x.Close)
	return x
}

// at is a request to another endpoint.
func at(r *http.Request, method, path string) *http.Request {
	r.Method = method
	r.URL.Path, r.URL.RawPath = path, ""
	return r
}

func (w *world) good(body string, header ...string) *http.Request {
	return w.call(body, append([]string{"x-gw-api-key", w.key, "x-gw-provider", "file"}, header...)...)
}

func TestCloseGivesBackWhatTheExchangeHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.good(chat)
	x := w.Begin(httptest.NewRecorder(), r, endpointOf(r))
	if Of(r) != x || w.acquired.Load() != 1 {
		t.Errorf("the request has the exchange %v, %d acquired", Of(r), w.acquired.Load())
	}
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	buffer := x.Body.buffer
	x.Close()
	if w.acquired.Load() != 0 || buffer.refs.Load() != 0 {
		t.Errorf("%d acquired, %d references", w.acquired.Load(), buffer.refs.Load())
	}
}

func TestFactsOfACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prepared := func(r *http.Request) *Exchange {
		x := w.begin(t, r)
		if err := x.Prepare(limits); err != nil {
			t.Fatal(err)
		}
		return x
	}
	for name, c := range map[string]struct {
		x    *Exchange
		want map[string][2]string // absent: no such fact
	}{
		"a virtual key": {prepared(w.call(`{"model":"@own/gpt/4",`+messages+`}`, "x-gw-api-key", w.key)), map[string][2]string{
			"api_key": {"key-1"}, "workspace_id": {"ws-1", "slug-of-ws-1"}, "organisation_id": {"org"}, "provider": {"openai", "own"}, "virtual_key": {"own", "vk-1"},
			"model": {"gpt/4", "@own/gpt/4"}, "endpoint_type": {"chatComplete"}, "metadata.team": {"blue"},
		}},
		"a provider of the file": {prepared(w.good(chat)), map[string][2]string{
			"api_key": {"key-1"}, "workspace_id": {"ws-1", "slug-of-ws-1"}, "organisation_id": {"org"}, "provider": {"file"}, "model": {"m", "@file/m"},
			"endpoint_type": {"chatComplete"}, "metadata.team": {"blue"},
		}},
		"no model": {prepared(at(w.good(`{"input":"hi"}`), "POST", "/v1/moderations")), map[string][2]string{
			"api_key": {"key-1"}, "workspace_id": {"ws-1", "slug-of-ws-1"}, "organisation_id": {"org"}, "provider": {"file"}, "endpoint_type": {"moderate"}, "metadata.team": {"blue"},
		}},
		"a path that is passed through": {prepared(at(w.good(`{"model":"@file/m"}`), "PUT", "/v1/what/ever")), map[string][2]string{
			"api_key": {"key-1"}, "workspace_id": {"ws-1", "slug-of-ws-1"}, "organisation_id": {"org"}, "provider": {"file"}, "model": {"m", "@file/m"},
			"endpoint_type": {"proxy"}, "metadata.team": {"blue"},
		}},
	} {
		for _, key := range []string{"api_key", "workspace_id", "organisation_id", "provider", "virtual_key", "model", "endpoint_type", "metadata.team", "metadata.absent", "metadata.", "metadata", "nonsense", ""} {
			value, alias, ok := c.x.chosen.Attribute(key)
			want, has := c.want[key]
			if ok != has || ok && (value != want[0] || alias != want[1]) {
				t.Errorf("%s, %q: got %q, %q, %v", name, key, value, alias, ok)
			}
		}
	}
}

func TestFailAnswersWithTheErrorAndTheGatewaysHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.good(chat)
	answer := httptest.NewRecorder()
	x := w.Begin(answer, r, endpointOf(r))
	defer x.Close()
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	x.AnswerHeader = []HeaderField{{"X-Ratelimit-Remaining-Requests", "0"}, {"X-Ratelimit-Limit-Requests", "9"}}
	x.Fail(answer, RateLimited("slow down", 1500*time.Millisecond))
	mustBeEnvelope(t, answer.Body.Bytes())
	for name, want := range map[string]string{
		"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Limit-Requests": "9", "Retry-After": "2", "X-Gw-Provider": "file", "X-Acme-Provider": "file", "X-Gw-Trace-Id": x.Trace.ID, "X-Gw-Gateway-Exception": "",
	} {
		if got := answer.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if answer.Code != 429 || x.Status != 429 || x.Failure != "slow down" {
		t.Errorf("status %d, noted %d, %q", answer.Code, x.Status, x.Failure)
	}
}

func endpointOf(r *http.Request) *Endpoint {
	e, _ := EndpointOf(r.Method, r.URL.EscapedPath())
	return e
}
