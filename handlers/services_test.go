package handlers

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inference"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
)

// fakes are what the handlers use of the gateway, without a store, a provider or a running Caddy.
type fakes struct {
	startErr error // of the gateway, which has not started

	deny    *policies.Rule
	admit   error
	refuses bool   // the forwarder does, before the call is forwarded
	failing string // on_store_failure

	did     []string
	records []*reqlog.Record
}

func (f *fakes) note(what string) { f.did = append(f.did, what) }

func (f *fakes) Admit(_ context.Context, workspaceID string, _ policies.Call, which policies.Scope, _ time.Duration) (*policies.Verdict, error) {
	f.note("admit " + workspaceID)
	if which != policies.ScopeAll {
		f.note("in part")
	}
	if f.admit != nil {
		return nil, f.admit
	}
	state := &ledger.State{Limit: 5, Remaining: 2, Reset: 1500 * time.Millisecond}
	v := &policies.Verdict{Requests: state}
	if f.deny != nil {
		state.RetryAfter = 7 * time.Second
		v.Denied = &policies.Denial{Rule: f.deny, State: *state}
	}
	return v, nil
}

func (f *fakes) Grow(context.Context, *policies.Verdict, policies.Used) (*policies.Denial, error) {
	return nil, nil
}

func (f *fakes) Settle(context.Context, *policies.Verdict, policies.Used) error { return nil }

func (f *fakes) Uncounted(why error) { f.note("uncounted: " + why.Error()) }

func (f *fakes) Estimates() *estimate.Estimator { return estimate.New() }

func (f *fakes) Release(*policies.Verdict) { f.note("release") }

func (f *fakes) Add(r *reqlog.Record) bool {
	f.records = append(f.records, r)
	return true
}

func (f *fakes) Serve(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) {
	f.note("serve")
	if refusal := x.AdmitCall(r.Context()); refusal != nil {
		x.Fail(w, refusal)
		return
	}
	if f.refuses {
		x.Fail(w, &exchange.Error{Status: http.StatusBadRequest, Message: "refused"})
		return
	}
	a := x.Begin(0)
	a.Status = http.StatusOK
	x.AnswerBy(a)
	x.SetHeader(w.Header())
	w.WriteHeader(http.StatusOK)
}

func (f *fakes) ServeModels(w http.ResponseWriter, _ *http.Request, _ *exchange.Exchange) {
	f.note("models")
	w.WriteHeader(http.StatusOK)
}

func (f *fakes) Conclude(x *exchange.Exchange, add func(*reqlog.Record) bool) {
	add(inference.Record(x))
}

func (f *fakes) ServeStored(w http.ResponseWriter, _ *http.Request, _ *exchange.Exchange) {
	f.note("stored")
	w.WriteHeader(http.StatusOK)
}

func (f *fakes) Cleanup() error { return nil }

// onlyKey is an authenticator that knows one key.
type onlyKey string

func (k onlyKey) Knows(token string) bool { return token == string(k) }

func (k onlyKey) IsOperatorKey(string) bool { return false }

func (k onlyKey) AuthenticateCall(token, _ string, _ ...string) (*credentials.Caller, *credentials.Error) {
	if !k.Knows(token) {
		return nil, &credentials.Error{Reason: credentials.InvalidKey, Field: "x-gw-api-key", Message: "unknown"}
	}
	return &credentials.Caller{KeyID: "key-1", WorkspaceID: "ws-1"}, nil
}

// noConfigs are the saved configs of a workspace that has none.
type noConfigs struct{ exchange.SavedConfigs }

func (noConfigs) DefaultOf(string) *routing.Saved { return nil }

// serve lets gw_ratelimit and gw_inference serve a request one after the other.
func (f *fakes) serve(t *testing.T, method, path, body, key string) *httptest.ResponseRecorder {
	t.Helper()
	access := accessLogOf(t)
	gateway := &exchange.Gateway{
		Authenticator: onlyKey("key"), Configs: &exchange.Configs{Store: noConfigs{}}, Headers: access.headers, Now: time.Now, Random: rand.Reader, Acquire: func() func() { return func() {} },
		Router: &credentials.Router{
			Providers: map[string]*credentials.Provider{"one": {Slug: "one", Dialect: "openai", BaseURL: &url.URL{Scheme: "https", Host: "one.example", Path: "/v1"}, Key: credentials.NewSecret("sk")}},
			BuiltIn:   func(string) (*url.URL, bool, bool) { return nil, false, false },
			SlugOf:    func(id string) string { return id },
		},
	}
	limits := exchange.Limits{Body: 1 << 10}
	before := &RateLimit{
		OnStoreFailure: f.failing,
		running:        func(context.Context) (limitingServices, error) { return limitingServices{gateway, f}, f.startErr },
		most:           func() exchange.Limits { return limits }, access: access, logger: zap.NewNop(),
	}
	h := &Inference{
		MaxBody: limits.Body, headers: access.headers, ready: func() error { return nil }, access: access, logger: zap.NewNop(), forwarder: f,
		running: func(context.Context) (inferenceServices, error) {
			return inferenceServices{gateway, f, func(string) int { return 0 }}, f.startErr
		},
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Gw-Api-Key", key)
	r.Header.Set("X-Gw-Provider", "@one")
	w := httptest.NewRecorder()
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, nil)
	last := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		f.note("next")
		return nil
	})
	err := before.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, last) }))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Which services the handlers use for a call, in order, and what the caller is answered.
func TestHandlersUseTheServicesTheyName(t *testing.T) {
	t.Parallel()
	const chat, completions = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "/v1/chat/completions"
	failed := errors.New("the disk is gone")
	for name, c := range map[string]struct {
		fakes             fakes
		method, path, key string
		status            int
		says              string // in the answer
		did               string
		records           int
	}{
		"forwarded":                          {status: 200, did: "serve, admit ws-1", records: 1},
		"over a limit":                       {fakes: fakes{deny: &policies.Rule{Policy: &policies.Policy{ID: "p1"}, Limit: 5, Unit: "rpm"}}, status: 429, says: "policy p1 allows 5 rpm", did: "serve, admit ws-1", records: 1},
		"not counted":                        {fakes: fakes{admit: failed}, status: 503, says: "cannot be counted", did: "serve, admit ws-1", records: 1},
		"a full disk":                        {fakes: fakes{admit: storage.ErrUnwritable}, status: 503, says: "store cannot be written", did: "serve, admit ws-1", records: 1},
		"a full disk, allowed":               {fakes: fakes{admit: storage.ErrUnwritable, failing: "allow"}, status: 200, did: "serve, admit ws-1, uncounted: the store cannot be written", records: 1},
		"not counted, not for want of space": {fakes: fakes{admit: failed, failing: "allow"}, status: 503, says: "cannot be counted", did: "serve, admit ws-1", records: 1},
		"counted, not forwarded":             {fakes: fakes{refuses: true}, status: 400, says: "refused", did: "serve, admit ws-1, release", records: 1},
		"an unknown key":                     {key: "other", status: 401, says: "unknown"},
		"of the control plane":               {path: "/v1/organisation", status: 404, says: "/v1/organisation"},
		"outside of the API":                 {path: "/elsewhere", status: 404, did: "next"},
		"not started, not served":            {fakes: fakes{startErr: context.Canceled}, status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, method, path, key := c.fakes, c.method, c.path, c.key
			if method == "" {
				method = http.MethodPost
			}
			if path == "" {
				path = completions
			}
			if key == "" {
				key = "key"
			}
			w := f.serve(t, method, path, chat, key)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%d %s, want %d with %q", w.Code, w.Body, c.status, c.says)
			}
			if did := strings.Join(f.did, ", "); did != c.did || len(f.records) != c.records {
				t.Errorf("%s, %d records; want %s, %d", did, len(f.records), c.did, c.records)
			}
			counted := c.fakes.admit == nil && strings.Contains(c.did, "admit")
			if limit := w.Header()[limitRequests]; counted && c.status != 200 && (len(limit) != 1 || limit[0] != "5") {
				t.Errorf("%s is %q", limitRequests, limit)
			}
			if warning := w.Header().Get("X-Gw-Warning"); (warning != "") != strings.Contains(c.did, "uncounted") {
				t.Errorf("the warning is %q", warning)
			}
			if retry := w.Header().Get("Retry-After"); (c.fakes.deny != nil) != (retry == "7") {
				t.Errorf("Retry-After is %q", retry)
			}
		})
	}
}

// gw_admin asks for nothing but what serves the control plane.
func TestTheControlPlaneIsServedOnceTheGatewayRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path     string
		only     bool
		startErr error
		body     string
	}{
		"its own path":               {path: "/v1/organisation", body: "the control plane"},
		"a path of the data plane":   {path: "/v1/chat/completions", body: "next"},
		"alone on its server":        {path: "/v1/elsewhere", only: true, body: "next"},
		"the client left in a hurry": {path: "/v1/organisation", startErr: context.Canceled},
	} {
		api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the control plane") })
		h := &Admin{
			only: c.only, access: accessLogOf(t), ready: func() error { return nil },
			running: func(context.Context) (http.Handler, error) { return api, c.startErr },
		}
		w := httptest.NewRecorder()
		r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, c.path, nil), caddy.NewReplacer(), w, nil)
		err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.WriteString(w, "next")
			return err
		}))
		if err != nil || w.Body.String() != c.body {
			t.Errorf("%s: %q %v, want %q", name, w.Body, err, c.body)
		}
	}
}

// A handler holds no service of the gateway but through what it declares itself: what it may use
// is plain from its own file.
func TestHandlersHoldNoService(t *testing.T) {
	t.Parallel()
	for _, h := range []any{Admin{}, RateLimit{}, Inference{}, inferenceServices{}, limitingServices{}} {
		of := reflect.TypeOf(h)
		for i := range of.NumField() {
			f := of.Field(i)
			named := f.Type
			if named.Kind() == reflect.Pointer {
				named = named.Elem()
			}
			switch pkg := named.PkgPath(); {
			case named.Kind() != reflect.Struct, strings.HasSuffix(pkg, "/handlers"), !strings.Contains(pkg, "caddy-gw/gateway"):
			case f.IsExported(), named == reflect.TypeFor[exchange.Headers](): // options, and names
			default:
				t.Errorf("%s.%s is a %s", of.Name(), f.Name, f.Type)
			}
		}
	}
}
