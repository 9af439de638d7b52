package exchange

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

const (
	limit       = 1 << 20
	adminKey    = "an admin key of more than 32 characters"
	providerKey = "sk-of-the-caller"
)

// messages are what a chat needs beside its model.
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
	store, err := badger.Open(t.TempDir(), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db := storage.NewDB(store)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	now := func() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }
	k, err := credentials.OpenKeyring(context.Background(), db, credentials.NewSecret("master"), now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	shelf, err := routing.OpenConfigStore(context.Background(), db, k, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{db: db, keyring: k}
	var strong, weak credentials.Secret
	err = db.Update(context.Background(), func(tx *storage.Txn) (err error) {
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
	admin := credentials.DigestOf(adminKey)
	w.Gateway = &Gateway{
		Authenticator: &credentials.Authenticator{Keyring: k, OrganisationID: "org", DefaultWorkspace: "ws-default", AdminKey: &admin},
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
		Configs: &Configs{Store: shelf, Options: routing.Options{Saved: true, SavedProvider: func(name string) bool { return name == "file" }}},
		Headers: headersOf(t, "x-acme-"),
		Now:     now,
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

func TestPrepareFindsTheCallersFacts(t *testing.T) {
	w := newWorld(t)
	x := w.begin(t, w.good(`{"model":"gpt-4o","stream":true,`+messages+`}`))
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	if x.Caller.KeyID != "key-1" || x.chosen.Route.Provider != "file" || x.Model != "gpt-4o" || !x.Stream {
		t.Errorf("got %+v, %+v, %q, %v", x.Caller, x.chosen.Route, x.Model, x.Stream)
	}
	if x.chosen.Route.Key.Reveal() != "sk-file" || x.chosen.Route.Inline {
		t.Errorf("got %+v", x.chosen.Route)
	}
}

func TestPrepareReadsTheCredentialsHeaders(t *testing.T) {
	w := newWorld(t)
	const bearer = "Bearer " + providerKey
	for _, c := range []struct {
		name   string
		header []string
		route  string // provider, virtual key and the secret that goes upstream
		status int
		code   string
	}{
		{"key and provider of the file", []string{"x-gw-api-key", w.key, "x-gw-provider", "file"}, "file  sk-file", 0, ""},
		{"key and virtual key", []string{"x-gw-api-key", w.key, "x-gw-virtual-key", "own"}, "openai own sk-stored", 0, ""},
		{"key, bearer and provider", []string{"x-gw-api-key", w.key, "authorization", bearer, "x-gw-provider", "openai"}, "openai  " + providerKey, 0, ""},
		{"key, bearer and provider under an alias", []string{"x-acme-api-key", w.key, "authorization", bearer, "x-acme-provider", "openai"}, "openai  " + providerKey, 0, ""},
		{"the key as bearer alone, which goes nowhere", []string{"authorization", "Bearer " + w.key, "x-gw-provider", "openai"}, "", 400, "provider_required"},
		{"the key in both, which goes nowhere", []string{"x-gw-api-key", w.key, "authorization", "Bearer " + w.key, "x-gw-provider", "openai"}, "", 400, "provider_required"},
		{"a provider by name and no credential", []string{"x-gw-api-key", w.key, "x-gw-provider", "openai"}, "", 400, "provider_required"},
		{"a custom host that needs no credential", []string{"x-gw-api-key", w.key, "x-gw-provider", "openai", "x-gw-custom-host", "https://models.example.com/v1"}, "openai  ", 0, ""},
		{"the key as bearer alone, to a custom host, which does not get it", []string{"authorization", "Bearer " + w.key, "x-gw-provider", "openai", "x-gw-custom-host", "https://models.example.com/v1"}, "openai  ", 0, ""},
		{"two bearers", []string{"x-gw-api-key", w.key, "authorization", bearer, "authorization", "Bearer other", "x-gw-provider", "openai"}, "", 400, "ambiguous_header"},
		{"the key as bearer, to the file's provider", []string{"authorization", "bearer " + w.key, "x-gw-provider", "file"}, "file  sk-file", 0, ""},
		{"no key", []string{"x-gw-provider", "file"}, "", 401, "03"},
		{"an empty key", []string{"x-gw-api-key", "", "x-gw-provider", "file"}, "", 401, "03"},
		{"an unknown key", []string{"x-gw-api-key", "gw-unknown", "x-gw-provider", "file"}, "", 401, "03"},
		{"an unknown key beside a known bearer", []string{"x-gw-api-key", "gw-unknown", "authorization", "Bearer " + w.key, "x-gw-provider", "file"}, "", 401, "03"},
		{"x-api-key", []string{"x-api-key", w.key, "x-gw-provider", "file"}, "file  sk-file", 0, ""},
		{"x-api-key alone, which goes nowhere", []string{"x-api-key", w.key, "x-gw-provider", "openai"}, "", 400, "provider_required"},
		{"x-api-key beside the provider's credential", []string{"x-api-key", w.key, "authorization", bearer, "x-gw-provider", "openai"}, "openai  " + providerKey, 0, ""},
		{"x-api-key beside another key as bearer, which comes first", []string{"x-api-key", w.weak, "authorization", "Bearer " + w.key, "x-gw-provider", "file"}, "file  sk-file", 0, ""},
		{"x-gw-api-key before x-api-key", []string{"x-gw-api-key", w.weak, "x-api-key", w.key, "x-gw-provider", "file"}, "", 403, "033"},
		{"an unknown key beside a known x-api-key", []string{"x-gw-api-key", "gw-unknown", "x-api-key", w.key, "x-gw-provider", "file"}, "", 401, "03"},
		{"a provider's credential as x-api-key beside the key", []string{"x-gw-api-key", w.key, "x-api-key", providerKey, "x-gw-provider", "openai"}, "", 400, "provider_required"},
		{"an unknown x-api-key", []string{"x-api-key", providerKey, "x-gw-provider", "file"}, "", 401, "03"},
		{"an x-api-key of no scope", []string{"x-api-key", w.weak, "x-gw-provider", "file"}, "", 403, "033"},
		{"x-api-key twice", []string{"x-api-key", w.key, "x-api-key", w.key, "x-gw-provider", "file"}, "", 400, "ambiguous_header"},
		{"a provider's credential as the key", []string{"authorization", bearer, "x-gw-provider", "openai"}, "", 401, "03"},
		{"a key of no scope", []string{"x-gw-api-key", w.weak, "x-gw-provider", "file"}, "", 403, "033"},
		{"two keys", []string{"x-gw-api-key", w.key, "x-gw-api-key", w.weak, "x-gw-provider", "file"}, "", 400, "ambiguous_header"},
		{"two keys under two prefixes", []string{"x-gw-api-key", w.key, "x-acme-api-key", w.weak, "x-gw-provider", "file"}, "", 400, "ambiguous_header"},
		{"two providers", []string{"x-gw-api-key", w.key, "x-gw-provider", "file", "x-acme-provider", "openai"}, "", 400, "ambiguous_header"},
		{"two virtual keys", []string{"x-gw-api-key", w.key, "x-gw-virtual-key", "own", "x-gw-virtual-key", "other"}, "", 400, "ambiguous_header"},
		{"two configs", []string{"x-gw-api-key", w.key, "x-gw-config", "a", "x-gw-config", "b"}, "", 400, "ambiguous_header"},
		{"two custom hosts", []string{"x-gw-api-key", w.key, "x-gw-custom-host", "a", "x-gw-custom-host", "b"}, "", 400, "ambiguous_header"},
		{"no provider", []string{"x-gw-api-key", w.key}, "", 400, "provider_required"},
		{"a bad provider", []string{"x-gw-api-key", w.key, "authorization", bearer, "x-gw-provider", "nonsense"}, "", 400, "invalid_provider"},
		{"a bad custom host", []string{"x-gw-api-key", w.key, "authorization", bearer, "x-gw-provider", "openai", "x-gw-custom-host", "http://10.0.0.1"}, "", 400, "invalid_custom_host"},
		{"a custom host beside a virtual key", []string{"x-gw-api-key", w.key, "x-gw-virtual-key", "own", "x-gw-custom-host", "https://x.example.com"}, "", 400, "invalid_custom_host"},
		{"an unknown virtual key", []string{"x-gw-api-key", w.key, "x-gw-virtual-key", "other"}, "", 400, "invalid_virtual_key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := w.begin(t, w.call(`{"model":"gpt",`+messages+`}`, c.header...))
			err := x.Prepare(limits)
			if c.status != 0 {
				if err == nil || err.Status != c.status || err.Code != c.code {
					t.Fatalf("got %+v", err)
				}
				mustBeEnvelope(t, err.JSON())
				for _, secret := range []string{w.key, w.weak, providerKey, "sk-stored", "sk-file"} {
					if bytes.Contains(err.JSON(), []byte(secret)) {
						t.Errorf("a secret in %s", err.JSON())
					}
				}
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if got := x.chosen.Route.Provider + " " + x.chosen.Route.VirtualKey + " " + x.chosen.Route.Key.Reveal(); got != c.route {
				t.Errorf("got %q, want %q", got, c.route)
			}
		})
	}
}

func TestTheOwnersKeyCallsInTheDefaultWorkspace(t *testing.T) {
	w := newWorld(t)
	x := w.begin(t, w.call(chat, "x-gw-api-key", adminKey, "x-gw-provider", "file"))
	if err := x.Prepare(limits); err != nil || x.Caller.WorkspaceID != "ws-default" {
		t.Errorf("got %+v, %v", x.Caller, err)
	}
}

func TestPrepareRefusesWhatIsNoGoodCall(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("m", maxModel)
	for _, c := range []struct {
		name, body string
		status     int // 0: accepted
		code       string
		param      any
	}{
		{"a chat", chat, 0, "", nil},
		{"a chat with space around it", " \r\n\t{ \"model\" : \"m\" , " + messages + " } \n", 0, "", nil},
		{"no body", ``, 400, "invalid_json", nil},
		{"an array", `[]`, 400, "invalid_json", nil},
		{"a string", `"model"`, 400, "invalid_json", nil},
		{"half an object", `{"model":"m"`, 400, "invalid_json", nil},
		{"two objects", chat + chat, 400, "invalid_json", nil},
		{"a byte order mark", "\ufeff" + chat, 400, "invalid_json", nil},
		{"a form", `model=m`, 400, "invalid_json", nil},
		{"a fault far behind the model", `{"model":"m","messages":[{]}`, 400, "invalid_json", nil},
		{"the deepest nesting", with(`"a":` + strings.Repeat("[", 255) + strings.Repeat("]", 255)), 0, "", nil},
		{"a deeper one", with(`"a":` + strings.Repeat("[", 256) + strings.Repeat("]", 256)), 400, "invalid_json", nil},

		{"model twice", with(`"model":"b"`), 400, "duplicate_field", "model"},
		{"model twice, alike", with(`"x":1,"model":"m"`), 400, "duplicate_field", "model"},
		{"model twice, first null", `{"model":null,"model":"b",` + messages + `}`, 400, "duplicate_field", "model"},
		{"model twice, once escaped", with(`"mod\u0065l":"b"`), 400, "duplicate_field", "model"},
		{"model twice, both escaped", `{"\u006dodel":"a","\u006d\u006fdel":"b",` + messages + `}`, 400, "duplicate_field", "model"},
		{"model in another letter case", `{"Model":"a",` + messages + `}`, 400, "duplicate_field", "Model"},
		{"model in two letter cases", with(`"MODEL":"b"`), 400, "duplicate_field", "MODEL"},
		{"model in another letter case, escaped", with(`"\u004dodel":"b"`), 400, "duplicate_field", "Model"},
		{"stream twice", with(`"stream":true,"stream":false`), 400, "duplicate_field", "stream"},
		{"stream twice, once escaped", with(`"stream":true,"\u0073tream":false`), 400, "duplicate_field", "stream"},
		{"stream in another letter case", with(`"STREAM":true`), 400, "duplicate_field", "STREAM"},
		{"stream with a letter that folds to s", with(`"` + "\u017f" + `tream":true`), 400, "duplicate_field", "\u017ftream"},
		{"stream with an escaped letter that folds to s", with(`"\u017ftream":true`), 400, "duplicate_field", "\u017ftream"},
		{"messages twice", with(messages), 400, "duplicate_field", "messages"},
		{"model further in, which nobody reads", with(`"x":{"model":"b","MODEL":"c"}`), 0, "", nil},
		{"a field twice that a rule reads", with(`"top_p":1,"top_p":0`), 400, "duplicate_field", "top_p"},
		{"a field twice that the gateway does not read", with(`"top_k":1,"top_k":0`), 0, "", nil},
		{"a field whose name is longer", with(`"model_":"b","models":["c"]," model":"d"`), 0, "", nil},

		{"no messages", `{"model":"m"}`, 400, "missing_required_parameter", "messages"},
		{"null as messages", `{"model":"m","messages":null}`, 400, "missing_required_parameter", "messages"},
		{"empty messages", `{"model":"m","messages":[]}`, 400, "array_below_min_length", "messages"},
		{"a text as messages", `{"model":"m","messages":"hi"}`, 400, "invalid_type", "messages"},
		{"a message without a role", `{"model":"m","messages":[{"role":"user"},{"content":"hi"}]}`, 400, "missing_required_parameter", "messages[1].role"},
		{"a message of no known role", `{"model":"m","messages":[{"role":"x"}]}`, 400, "invalid_value", "messages[0].role"},
		{"no model", `{"stream":false,` + messages + `}`, 400, "missing_required_parameter", "model"},
		{"a null model", `{"model":null,` + messages + `}`, 400, "missing_required_parameter", "model"},
		{"a number as model", `{"model":1,` + messages + `}`, 400, "invalid_type", "model"},
		{"a list as model", `{"model":["a"],` + messages + `}`, 400, "invalid_type", "model"},
		{"an object as model", `{"model":{},` + messages + `}`, 400, "invalid_type", "model"},
		{"true as model", `{"model":true,` + messages + `}`, 400, "invalid_type", "model"},
		{"the longest model", `{"model":"` + long[2:] + `",` + messages + `}`, 0, "", nil},
		{"a longer model", `{"model":"` + long[1:] + `",` + messages + `}`, 400, "string_above_max_length", "model"},
		{"null as stream", with(`"stream":null`), 0, "", nil},
		{"a string as stream", with(`"stream":"true"`), 400, "invalid_type", "stream"},
		{"a number as stream", with(`"stream":1`), 400, "invalid_type", "stream"},
		{"an object as stream", with(`"stream":{}`), 400, "invalid_type", "stream"},
		{"a temperature that is too high", with(`"temperature":2.1`), 400, "decimal_above_max_value", "temperature"},
		{"top_logprobs without logprobs", with(`"top_logprobs":1`), 400, "invalid_value", "top_logprobs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := w.begin(t, w.good(c.body)).Prepare(limits)
			if c.status == 0 {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			inner := mustBeEnvelope(t, err.JSON())
			if err.Status != c.status || err.Code != c.code || inner["param"] != c.param {
				t.Errorf("got %d %s", err.Status, err.JSON())
			}
		})
	}
}

func TestPrepareLooksAtTheContentType(t *testing.T) {
	w := newWorld(t)
	for value, want := range map[string]bool{
		"": true, "application/json": true, "application/json; charset=utf-8": true, "APPLICATION/JSON": true, "application/vnd.api+json": true, "application/json;": true,
		"text/plain": false, "application/xml": false, "multipart/form-data; boundary=x": false, "application/x-www-form-urlencoded": false, "text/json": false,
		"application/jsonp": false, "json": false, "audio/+json": false, ";": false,
	} {
		r := w.good(chat)
		if r.Header.Set("Content-Type", value); value == "" {
			r.Header.Del("Content-Type")
		}
		err := w.begin(t, r).Prepare(limits)
		if (err == nil) != want {
			t.Errorf("%q: got %v", value, err)
		}
		if err != nil && (err.Status != 400 || err.Code != "invalid_content_type") {
			t.Errorf("%q: got %+v", value, err)
		}
	}
}

func TestPrepareEnforcesTheLimitOfTheBody(t *testing.T) {
	w := newWorld(t)
	body := chat
	for _, c := range []struct {
		limit int64
		want  int
	}{{int64(len(body)) - 1, 413}, {int64(len(body)), 0}, {0, 413}} {
		err := w.begin(t, w.good(body)).Prepare(Limits{Body: c.limit, Upload: c.limit, Replay: 1 << 20})
		if (err == nil) != (c.want == 0) || err != nil && err.Status != c.want {
			t.Errorf("limit %d: got %v", c.limit, err)
		}
	}
	broken := w.good("")
	broken.Body, broken.ContentLength = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), -1
	if err := w.begin(t, broken).Prepare(limits); err == nil || err.Status != 400 || err.Code != "body_unreadable" || err.Err == nil {
		t.Errorf("a body that breaks off: got %+v", err)
	}
}

func TestPrepareWorksOnceAndStillEnforcesALowerLimit(t *testing.T) {
	w := newWorld(t)
	x := w.begin(t, w.good(chat))
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	route := x.chosen.Route
	if err := x.Prepare(Limits{Body: 5, Upload: 5, Replay: 1 << 20}); err == nil || err.Status != 413 {
		t.Errorf("a lower limit: got %v", err)
	}
	if err := x.Prepare(limits); err != nil || x.chosen.Route != route {
		t.Errorf("got %v", err)
	}

	x = w.begin(t, w.good(`{"model":1}`))
	first := x.Prepare(limits)
	if second := x.Prepare(Limits{Body: 1, Upload: 1, Replay: 1 << 20}); first == nil || second != first {
		t.Errorf("got %v, then %v", first, second)
	}
}

func TestPrepareDoesNotReadTheBodyOfAStranger(t *testing.T) {
	w := newWorld(t)
	body := &countingReader{}
	r := w.call("", "x-gw-api-key", "unknown", "x-gw-provider", "file")
	r.Body, r.ContentLength = io.NopCloser(body), -1
	if err := w.begin(t, r).Prepare(limits); err == nil || err.Status != 401 || body.n != 0 {
		t.Errorf("got %v after %d bytes", err, body.n)
	}
}

func TestCloseGivesBackWhatTheExchangeHolds(t *testing.T) {
	w := newWorld(t)
	r := w.good(chat)
	x := w.Begin(httptest.NewRecorder(), r, endpointOf(r))
	if Of(r) != x || w.acquired.Load() != 1 {
		t.Errorf("the request has the exchange %v, %d acquired", Of(r), w.acquired.Load())
	}
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	buffer := x.buffer
	x.Close()
	if w.acquired.Load() != 0 || buffer.refs.Load() != 0 {
		t.Errorf("%d acquired, %d references", w.acquired.Load(), buffer.refs.Load())
	}
}

func TestBeginNamesTheTrace(t *testing.T) {
	w := newWorld(t)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	made := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, c := range []struct {
		name   string
		header []string
		want   string // "": a new one
	}{
		{"none", nil, ""},
		{"the caller's", []string{"x-gw-trace-id", "mine 1"}, "mine 1"},
		{"the caller's under an alias", []string{"x-acme-trace-id", "mine"}, "mine"},
		{"the caller's before the traceparent", []string{"x-gw-trace-id", "mine", "traceparent", parent}, "mine"},
		{"the traceparent", []string{"traceparent", parent}, "4bf92f3577b34da6a3ce929d0e0e4736"},
		{"no traceparent", []string{"traceparent", "00-xyz-00f067aa0ba902b7-01"}, ""},
		{"a traceparent that is no number", []string{"traceparent", "00-" + strings.Repeat("x", 32) + "-00f067aa0ba902b7-01"}, ""},
		{"two", []string{"x-gw-trace-id", "a", "x-gw-trace-id", "b"}, ""},
		{"one that is too long", []string{"x-gw-trace-id", strings.Repeat("a", maxTraceID+1)}, ""},
		{"the longest one", []string{"x-gw-trace-id", strings.Repeat("a", maxTraceID)}, strings.Repeat("a", maxTraceID)},
		{"one with control characters", []string{"x-gw-trace-id", "a\tb"}, ""},
		{"one outside ASCII", []string{"x-gw-trace-id", "ä"}, ""},
	} {
		r := w.call(`{}`, c.header...)
		answer := httptest.NewRecorder()
		x := w.Begin(answer, r, endpointOf(r))
		x.Close()
		if c.want == "" && !made.MatchString(x.TraceID) || c.want != "" && x.TraceID != c.want {
			t.Errorf("%s: got %q", c.name, x.TraceID)
		}
		if answer.Header().Get("X-Gw-Trace-Id") != x.TraceID || answer.Header().Get("X-Acme-Trace-Id") != x.TraceID {
			t.Errorf("%s: answered with %v", c.name, answer.Header())
		}
	}
}

func TestMetadataOfTheKeyGoesBeforeTheRequests(t *testing.T) {
	w := newWorld(t)
	x := w.begin(t, w.good(chat, "x-gw-metadata", `{"team":"red","env":"prod","n":7,"deep":{"a":1},"b\u0061se":"x","twice":"1","twice":"2","a.b":"dots","*":"star"}`))
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"team": "blue", "fixed": "1", "env": "prod", "n": "7", "deep": `{"a":1}`, "base": "x", "twice": "2", "a.b": "dots", "*": "star",
	} {
		if got, ok := x.Metadata(key); !ok || got != want {
			t.Errorf("%s: got %q, %v", key, got, ok)
		}
		if got, _, ok := x.Attribute("metadata." + key); !ok || got != want {
			t.Errorf("fact metadata.%s: got %q, %v", key, got, ok)
		}
	}
	for _, key := range []string{"absent", "", "deep.a", "TEAM", "a", "@this", "#", "e*"} {
		if got, ok := x.Metadata(key); ok {
			t.Errorf("%q: got %q", key, got)
		}
	}
}

func TestMetadataMustBeOneObject(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name   string
		values []string
		want   bool
	}{
		{"an object", []string{`{"a":"b"}`}, true},
		{"an empty one", []string{`{}`}, true},
		{"nothing", []string{``}, true},
		{"the same twice", []string{`{"a":"b"}`, `{"a":"b"}`}, true},
		{"two", []string{`{"a":"b"}`, `{"a":"c"}`}, false},
		{"a list", []string{`["a"]`}, false},
		{"a string", []string{`"a"`}, false},
		{"null", []string{`null`}, false},
		{"no JSON", []string{`a=b`}, false},
		{"half an object", []string{`{"a":`}, false},
	} {
		var header []string
		for _, v := range c.values {
			header = append(header, "x-gw-metadata", v)
		}
		err := w.begin(t, w.good(chat, header...)).Prepare(limits)
		if (err == nil) != c.want || err != nil && (err.Status != 400 || err.Param != "x-gw-metadata") {
			t.Errorf("%s: got %+v", c.name, err)
		}
	}
}

func TestFactsOfACall(t *testing.T) {
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

// forwarded prepares a call and returns the body that goes upstream.
func (w *world) forwarded(t testing.TB, r *http.Request) (*Exchange, string) {
	t.Helper()
	x := w.Begin(httptest.NewRecorder(), r, endpointOf(r))
	defer x.Close()
	if err := x.Prepare(limits); err != nil {
		t.Fatalf("refused: %v", err)
	}
	b, _, err := x.chosen.Body(false)
	if err != nil {
		t.Fatalf("no body: %v", err)
	}
	defer b.Release()
	return x, string(b.Bytes())
}

func TestBodyGoesOnByteForByteSaveForTheModel(t *testing.T) {
	w := newWorld(t)
	const rest = ` , "messages":[{"role":"user","content":"\u00e9 \"@own/gpt\" \/"}],"unknown":{"a":[1e400,-0.0,1.10]},"z":null , "dup":1,"dup":2 }` + "\n\t"
	for _, c := range []struct{ body, want string }{
		{`{"model":"gpt"` + rest, ``},
		{`{"model":"@cf/meta/llama"` + rest, ``},
		{`{"model":"@hf/a/b"` + rest, ``},
		{`{"model":"@file/gpt"` + rest, `{"model":"gpt"` + rest},
		{` { "model" : "@file/a/b"` + rest, ` { "model" : "a/b"` + rest},
		{`{"mod\u0065l":"@file/gpt"` + rest, `{"mod\u0065l":"gpt"` + rest},
		{`{"model":"\u0040file\/gpt"` + rest, `{"model":"gpt"` + rest},
		{`{"model":"@file/a\"b\\c\u00e9"` + rest, `{"model":"a\"b\\cé"` + rest},
		{`{"model":"@file/@cf/x"` + rest, `{"model":"@cf/x"` + rest},
	} {
		if c.want == "" {
			c.want = c.body
		}
		if x, got := w.forwarded(t, w.good(c.body)); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s (model %q)", c.body, got, c.want, x.Model)
		}
	}
}

// The body that goes upstream is the client's with another model in it, for
// whoever parses both.
func mustReplaceOnlyTheModel(t testing.TB, x *Exchange, body, got string) {
	t.Helper()
	if x.chosen.Route.Model == "" {
		if got != body {
			t.Fatalf("%q became %q", body, got)
		}
		return
	}
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &after); err != nil {
		t.Fatalf("%q became %q, which is no JSON: %v", body, got, err)
	}
	var asked, sent string
	if err := errors.Join(json.Unmarshal(before["model"], &asked), json.Unmarshal(after["model"], &sent)); err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(asked, "/")
	before["model"], after["model"] = nil, nil
	if sent != name || !reflect.DeepEqual(before, after) {
		t.Fatalf("%q became %q", body, got)
	}
	head, tail := x.model.Start, len(body)-x.model.End
	if got[:head] != body[:head] || got[len(got)-tail:] != body[len(body)-tail:] {
		t.Fatalf("%q became %q outside the model", body, got)
	}
}

func TestBodyIsTheClientsWithTheModelReplaced(t *testing.T) {
	w := newWorld(t)
	value := rapid.OneOf(rapid.Just("null"), rapid.Just("1e5"), rapid.Just(`[{"model":"x"}]`), rapid.Just(`{"stream":"y"}`), rapid.Map(rapid.String(), quote))
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringN(1, 40, 80).Draw(rt, "model")
		members := []string{messages, `"model":` + quote("@file/"+name)}
		for i, v := range rapid.SliceOfN(value, 0, 4).Draw(rt, "others") {
			members = append(members, quote(fmt.Sprint("k", i, rapid.String().Draw(rt, "key")))+rapid.SampledFrom([]string{":", " : ", ":\n\t"}).Draw(rt, "colon")+v)
		}
		body := "{" + strings.Join(rapid.Permutation(members).Draw(rt, "order"), rapid.SampledFrom([]string{",", " ,\r\n"}).Draw(rt, "comma")) + "}"
		x, got := w.forwarded(t, w.good(body))
		if x.Model != name {
			rt.Fatalf("the model is %q", x.Model)
		}
		mustReplaceOnlyTheModel(t, x, body, got)
	})
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// What policies see of the model must be what the provider reads.
func TestTheModelIsWhatOtherParsersRead(t *testing.T) {
	w := newWorld(t)
	for _, model := range []string{
		`"gpt"`, `"g\u0070t"`, `"\"\\\/\b\f\n\r\t"`, `"é\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00x"`, `"\ud83dx"`, `"\ud83d\u0041bc"`, `"\ud83d\n"`, `"a\u0000b"`, `""`,
	} {
		var want string
		if err := json.Unmarshal([]byte(model), &want); err != nil {
			t.Fatal(err)
		}
		if x, _ := w.forwarded(t, w.good(`{"model":`+model+`,`+messages+`}`)); x.Model != want {
			t.Errorf("%s: got %q, want %q", model, x.Model, want)
		}
	}
}

func FuzzPrepare(f *testing.F) {
	for _, seed := range []string{
		`{}`, chat, `{"model":"@file/gpt","stream":true,` + messages + `}`, `{"model":"gpt","Model":"x",` + messages + `}`, `{"mod\u0065l":"@file/a/b",` + messages + `}`,
		`{"model":"@file/",` + messages + `}`, `{"stream":1,` + messages + `}`, `{"model":null,"stream":null,` + messages + `}`, `{"model":"@own/x",` + messages + `}`,
		`{"model":"@file/\ud800\u0041",` + messages + `}`, "{\"model\":\"@file/\xff\"," + messages + "}",
	} {
		f.Add(seed)
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, body string) {
		r := w.good(body)
		x := w.Begin(httptest.NewRecorder(), r, endpointOf(r))
		defer x.Close()
		if err := x.Prepare(limits); err != nil {
			mustBeEnvelope(t, err.JSON())
			if err.Status != 400 {
				t.Fatalf("status %d of %q", err.Status, body)
			}
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &members); err != nil {
			t.Fatalf("accepted %q: %v", body, err)
		}
		// A decoder that takes keys in any letter case reads what the gateway read.
		var loose struct {
			Model  *string
			Stream *bool
		}
		if err := json.Unmarshal([]byte(body), &loose); err != nil {
			t.Fatalf("accepted %q: %v", body, err)
		}
		if (loose.Stream != nil && *loose.Stream) != x.Stream {
			t.Fatalf("%q: stream is %v", body, x.Stream)
		}
		if loose.Model != nil && x.chosen.Route.Model == "" && string([]rune(x.Model)) != *loose.Model {
			t.Fatalf("%q: the model is %q, others read %q", body, x.Model, *loose.Model)
		}
		b, _, err := x.chosen.Body(false)
		if err != nil {
			t.Fatalf("no body of %q: %v", body, err)
		}
		defer b.Release()
		mustReplaceOnlyTheModel(t, x, body, string(b.Bytes()))
	})
}

func TestFailAnswersWithTheErrorAndTheGatewaysHeaders(t *testing.T) {
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
		"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Limit-Requests": "9", "Retry-After": "2", "X-Gw-Provider": "file", "X-Acme-Provider": "file", "X-Gw-Trace-Id": x.TraceID, "X-Gw-Gateway-Exception": "",
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
