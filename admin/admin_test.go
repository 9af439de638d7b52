package admin_test

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/credentials"
	_ "github.com/caddy-gw/gateway/guardrails/external"
	_ "github.com/caddy-gw/gateway/guardrails/standard"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/plugins"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/removal"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/stores"
	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/secrets/awssm"
	"github.com/caddy-gw/gateway/secrets/azurekv"
	"github.com/caddy-gw/gateway/secrets/local"
	"github.com/caddy-gw/gateway/secrets/vault"
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

const (
	ownerKey    = "owner-key-of-the-tests"
	systemToken = "data-service-token-of-the-tests"
)

// An api is a control plane with its own store and a clock that stands still.
type api struct {
	t      testing.TB
	store  storage.Store
	mu     sync.Mutex
	served *admin.API // nil until it is used
	s      admin.Services
	kept   *audit.Trail
	now    atomic.Int64
	full   atomic.Bool // the store refuses writes

	objects   *stored.Owners
	responses *stored.Responses
}

// space simulates a full disk.
func (a *api) space(string) (badger.Space, error) {
	if a.full.Load() {
		return badger.Space{}, nil
	}
	return badger.Space{Free: 1 << 40}, nil
}

func newAPI(t testing.TB) *api {
	t.Helper()
	a := &api{t: t}
	store, err := badger.Open(t.TempDir(), badger.Options{Space: a.space})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.full.Store(false)
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	a.open(store)
	return a
}

// unfed is a store whose commits are not reported to other processes.
type unfed struct{ storage.Store }

// second returns a second control plane with the same store, like one in another
// process that does not receive the changes written from now on.
func (a *api) second() *api {
	a.t.Helper()
	other := &api{t: a.t}
	other.open(unfed{a.store})
	return other
}

// open opens the services with a store.
func (a *api) open(store storage.Store) {
	t := a.t
	t.Helper()
	a.store = store
	a.now.Store(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC).UnixNano())
	now := func() time.Time { return time.Unix(0, a.now.Load()) }
	db := storage.NewDB(store)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	d, err := directory.Open(ctx, db, now, rand.Reader)
	must(err)
	if d.Organisation() == nil {
		must(db.Update(ctx, func(tx *storage.Txn) error {
			_, _, err := d.Create(tx)
			return err
		}))
	}
	keyring, err := credentials.OpenKeyring(ctx, db, credentials.NewSecret(strings.Repeat("m", 32)), now, rand.Reader)
	must(err)
	l, err := ledger.Open(ctx, db, ledger.Options{Now: now})
	must(err)
	limits, err := policies.Open(ctx, db, l, now, zap.NewNop())
	must(err)
	configs, err := routing.OpenConfigStore(ctx, db, keyring, now, rand.Reader)
	must(err)
	aliases, err := routing.OpenAliases(ctx, db, now, rand.Reader)
	must(err)
	templates, err := prompts.Open(ctx, db, now, rand.Reader)
	must(err)
	rails, err := hooks.OpenStore(ctx, db, keyring, now, rand.Reader)
	must(err)
	saves, err := plugins.Open(ctx, db, keyring, now, rand.Reader)
	must(err)
	guard, err := credentials.NewHostGuard(nil)
	must(err)
	headers, err := exchange.NewHeaders(nil)
	must(err)
	digest, system := credentials.DigestOf(ownerKey), credentials.DigestOf(systemToken)
	seal, err := audit.NewKey("the key of the audit trail in tests")
	must(err)
	a.kept, err = audit.Open(ctx, db, audit.Options{Key: seal, Now: now, Random: rand.Reader, Logger: zap.NewNop()})
	must(err)
	owners, err := stored.OpenOwners(ctx, db)
	must(err)
	a.objects, a.responses = owners, stored.NewResponses(db, time.Now)
	set := stores.Set{
		Directory: d, Keyring: keyring, Configs: configs, Aliases: aliases, Prompts: templates, Guardrails: rails, Plugins: saves, Limits: limits, RateLimits: limits.Rates, UsageLimits: limits.Budgets, Batches: limits.Batches,
		Responses: a.responses, Owners: owners,
	}
	a.s = admin.Services{
		Set: set, MayUse: func(_, slug string) bool { return slug == "local" }, ParseOptions: routing.Options{Saved: true, SavedProvider: func(_, name string) bool { return name == "local" }, CheckHost: func(host string) error { _, err := guard.Check(host); return err }}, Breakers: routing.NewBreakers(now, 0),
		DB: db, Trail: a.kept, Guard: guard, Headers: headers,
		CountryHeader: "Cf-Ipcountry",
		Authenticator: &credentials.Authenticator{
			Keyring: keyring, OrganisationID: d.Organisation().ID, DefaultWorkspace: d.DefaultWorkspace().ID, AdminKey: &digest, DataService: &system,
			HasWorkspace: d.HasWorkspace, Tokens: tokens(t, d, now),
		},
		Managers: managers(t), KeyPrefix: "gw-", BaseURL: "http://gw.test", Now: now, Random: rand.Reader, Logger: zap.NewNop(),
	}
	records, err := reqlog.Open(ctx, db, reqlog.Options{Now: now, Random: rand.Reader, Logger: zap.NewNop()})
	must(err)
	t.Cleanup(records.Close)
	a.s.Records = records
	remover := removal.Open(db, d, removal.Parts(db, &set), zap.NewNop())
	t.Cleanup(remover.Close)
	a.s.Removals = remover
	a.serve()
}

// serve has the control plane made again, because a service was changed.
func (a *api) serve() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.served = nil
}

// handler is the API for the present services, which takes its time to make.
func (a *api) handler() *admin.API {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.served == nil {
		a.served = admin.New(a.s)
	}
	return a.served
}

// managers are those that are there without configuration, and the environment.
func managers(t testing.TB) map[string]secrets.Manager {
	t.Helper()
	all := map[string]secrets.Manager{
		"hashicorp_vault": new(vault.Vault), "aws_sm": new(awssm.Manager), "azure_kv": new(azurekv.Manager), "environment": &local.Environment{Names: []string{"TEAM_*"}},
	}
	for name, m := range all {
		if err := m.(caddy.Provisioner).Provision(caddy.Context{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return all
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) get(path string) gjson.Result { return gjson.Get(a.body, path) }

// message and code are those of an error, in either envelope. Which one it has, the OpenAPI document says,
// with which each answer is compared.
func (a answer) message() string { return a.either("data.message", "error.message") }
func (a answer) code() string    { return a.either("data.errorCode", "error.code") }

func (a answer) either(paths ...string) string {
	for _, path := range paths {
		if v := a.get(path); v.Exists() {
			return v.Str
		}
	}
	return ""
}

func (a *api) as(key, method, path, body string) answer {
	a.t.Helper()
	r := httptest.NewRequestWithContext(a.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Gw-Api-Key", a.token(key))
	w := httptest.NewRecorder()
	a.handler().ServeHTTP(w, r)
	for _, fault := range a.handler().Undocumented(r, w.Code, w.Body.Bytes()) {
		a.t.Errorf("%s %s: %d, unlike the OpenAPI document: %s: %s", method, path, w.Code, fault, w.Body)
	}
	return answer{w.Code, w.Header(), w.Body.String()}
}

// paths are the operations of the OpenAPI document, but for those of the data plane.
func (a *api) paths() map[string]gjson.Result {
	a.t.Helper()
	all := a.as(ownerKey, "GET", "/v1/openapi.json", "").get("paths").Map()
	maps.DeleteFunc(all, func(path string, _ gjson.Result) bool { return !admin.Reserved(path) })
	return all
}

func (a *api) do(method, path, body string) answer {
	a.t.Helper()
	return a.as(ownerKey, method, path, body)
}

func (a *api) ok(method, path, body string) answer {
	a.t.Helper()
	out := a.do(method, path, body)
	if out.status != 200 || !gjson.Valid(out.body) || !strings.HasPrefix(out.header.Get("Content-Type"), "application/json") {
		a.t.Fatalf("%s %s: %d %s", method, path, out.status, out.body)
	}
	return out
}

// key creates an API key and returns it with its id.
func (a *api) key(kind, scopes string) (key, id string) {
	a.t.Helper()
	out := a.ok("POST", "/v1/api-keys/"+kind, `{"name":"k","scopes":[`+scopes+`]}`)
	return out.get("key").Str, out.get("id").Str
}

func (a *api) trail() []*audit.Record {
	a.t.Helper()
	list, err := a.kept.List(a.t.Context(), new(audit.Filter), 0, 1000)
	if err != nil {
		a.t.Fatal(err)
	}
	return list.Records
}

const iso = "2026-11-27T12:00:00.000Z"

func TestBadInputNamesTheFieldAndChangesNothing(t *testing.T) {
	a := newAPI(t)
	_, keyID := a.key("workspace/service", `"logs.view"`)
	a.ok("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk-1"}`)
	limit := a.ok("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":3}`).get("id").Str
	keys, limits, vks := "/v1/api-keys/workspace/service", "/v1/policies/rate-limits", "/v1/virtual-keys"
	before := len(a.s.Keyring.APIKeys()) + len(a.s.Keyring.VirtualKeys()) + len(a.s.RateLimits.All())
	for _, c := range []struct {
		method, path, body string
		status             int
		message            string
	}{
		{"POST", keys, ``, 400, "body"},
		{"POST", keys, `{`, 400, "body"},
		{"POST", keys, `[]`, 400, "object"},
		{"POST", keys, `{"scopes":["logs.view"]}`, 400, "name"},
		{"POST", keys, `{"name":"","scopes":["logs.view"]}`, 400, "name"},
		{"POST", keys, `{"name":7,"scopes":["logs.view"]}`, 400, "name"},
		{"POST", keys, `{"name":"n"}`, 400, "scopes"},
		{"POST", keys, `{"name":"n","scopes":[]}`, 400, "scopes"},
		{"POST", keys, `{"name":"n","scopes":["nope.nope"]}`, 400, "scopes[0]"},
		{"POST", keys, `{"name":"n","scopes":["organisation_settings.read"]}`, 400, "scopes[0]"},
		{"POST", keys, `{"name":"n","scopes":["logs.view"],"nope":1}`, 400, "nope"},
		{"POST", keys, `{"name":"n","Name":"m","scopes":["logs.view"]}`, 400, "Name"},
		{"POST", keys, `{"name":"n","name":"m","scopes":["logs.view"]}`, 400, "name"},
		{"POST", keys, `{"name":"n","scopes":["logs.view"],"workspace_id":"nope"}`, 404, "workspace_id"},
		{"POST", keys, `{"name":"n","scopes":["logs.view"],"expires_at":"2026-11-27T11:59:59Z"}`, 400, "expires_at"},
		{"POST", keys, `{"name":"n","scopes":["logs.view"],"expires_at":"soon"}`, 400, "expires_at"},
		{"POST", keys, `{"name":"n","scopes":["logs.view"],"user_id":"0191e7a3-0000-7000-8000-000000000000"}`, 400, "user_id"},
		{"POST", keys, `{"name":"n","scopes":["logs.view"],"usage_limits":{"credit_limit":-1}}`, 400, "usage_limits"},
		{"POST", keys, `{"name":"n","scopes":["logs.view"],"rate_limits":[{"type":"requests","unit":"nope","value":1}]}`, 400, "rate_limits"},
		{"POST", keys, `{"name":"n","scopes":["logs.view"],"defaults":{"config_id":"pc-x"}}`, 404, "defaults.config_id"},
		{"POST", "/v1/api-keys/organisation/service", `{"name":"n","scopes":["logs.view"],"workspace_id":"x"}`, 400, "workspace_id"},
		{"PUT", "/v1/api-keys/" + keyID, `{"scopes":["completions.write","nope"]}`, 400, "scopes[1]"},
		{"PUT", "/v1/api-keys/nope", `{"name":"n"}`, 404, "nope"},
		{"POST", vks, `{"name":"n","provider":"nope","key":"k"}`, 400, "provider"},
		{"POST", vks, `{"name":"n","key":"k"}`, 400, "provider"},
		{"POST", vks, `{"name":"n","provider":"openai","key":"k","slug":"a b"}`, 400, "slug"},
		{"POST", vks, `{"name":"n","provider":"openai","key":"k","slug":"vk"}`, 409, "slug"},
		{"POST", vks, `{"name":"n","provider":"openai","key":"k","custom_host":"http://127.0.0.1/v1"}`, 400, "custom_host"},
		{"POST", vks, `{"name":"n","provider":"openai","key":"k","custom_host":"ftp://a.example"}`, 400, "custom_host"},
		{"PUT", vks + "/vk", `{"custom_host":"https://elsewhere.net/v1"}`, 400, "custom_host: send key along"},
		{"PUT", vks + "/vk", `{"provider":"groq"}`, 400, "provider"},
		{"GET", vks + "/nope", ``, 404, "nope"},
		{"POST", limits, `{"type":"requests","unit":"rpm"}`, 400, "value"},
		{"POST", limits, `{"type":"requests","unit":"rpm","value":-1}`, 400, "value"},
		{"POST", limits, `{"type":"requests","unit":"rpm","value":1.5}`, 400, "value"},
		{"POST", limits, `{"type":"requests","unit":"rpm","value":"3"}`, 400, "value"},
		{"POST", limits, `{"type":"requests","unit":"rpy","value":1}`, 400, "unit"},
		{"POST", limits, `{"type":"cost","unit":"rpm","value":1}`, 400, "type"},
		{"POST", limits, `{"type":"cost","unit":"rpm","value":1}`, 400, "type"},
		{"POST", limits, `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"nope","value":"x"}]}`, 400, "conditions[0].key"},
		{"POST", limits, `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"model","value":[]}]}`, 400, "conditions[0].value"},
		{"POST", limits, `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"model"}]}`, 400, "value"},
		{"POST", limits, `{"type":"requests","unit":"rpm","value":1,"group_by":[{"key":"model"},{"key":"model"}]}`, 400, "group_by[1].key"},
		{"PUT", limits + "/" + limit, `{"value":2.5}`, 400, "value"},
		{"PUT", limits + "/" + limit, `{"type":"requests"}`, 400, "type"},
		{"GET", limits + "?unit=nope", ``, 400, "unit"},
		{"GET", limits + "?page_size=-1", ``, 400, "page_size"},
		{"GET", limits + "?current_page=x", ``, 400, "current_page"},
		{"GET", limits + "/nope", ``, 404, "nope"},
		{"GET", "/v1/nope", ``, 404, "/v1/nope"},
		{"PATCH", "/v1/virtual-keys/vk", `{}`, 405, "expected GET or PUT or DELETE"},
		{"GET", "/v1/admin//workspaces", ``, 404, "Nothing is served"},
		{"GET", "/v1/admin/../admin/workspaces", ``, 404, "Nothing is served"},
	} {
		out := a.do(c.method, c.path, c.body)
		if out.status != c.status || out.get("success").Raw != "false" || !strings.Contains(out.message(), c.message) || out.code() == "" {
			t.Errorf("%s %s %s: %d %s, want %d %q", c.method, c.path, c.body, out.status, out.body, c.status, c.message)
		}
	}
	if after := len(a.s.Keyring.APIKeys()) + len(a.s.Keyring.VirtualKeys()) + len(a.s.RateLimits.All()); after != before {
		t.Errorf("%d items before, %d after", before, after)
	}
	if big := a.do("POST", keys, `{"name":"`+strings.Repeat("x", 2<<20)+`"}`); big.status != 413 {
		t.Errorf("%d %s", big.status, big.body)
	}
}

func TestAStoreThatCannotBeWrittenRefusesWritesAndServesReads(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk-1"}`)
	a.full.Store(true)
	out := a.do("POST", "/v1/virtual-keys", `{"name":"n","provider":"openai","key":"sk-1"}`)
	if out.status != 503 || !strings.Contains(out.message(), "cannot be written") || out.code() != "AB10" {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.do("DELETE", "/v1/virtual-keys/vk", ""); out.status != 503 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.ok("GET", "/v1/virtual-keys", ""); out.get("total").Int() != 1 {
		t.Errorf("%s", out.body)
	}
	a.full.Store(false)
	a.ok("DELETE", "/v1/virtual-keys/vk", "")
}

func TestTheOpenAPIDocumentDescribesEveryRoute(t *testing.T) {
	a := newAPI(t)
	doc := a.do("GET", "/v1/openapi.json", "")
	if doc.get("openapi").Str != "3.1.0" {
		t.Errorf("openapi %q", doc.get("openapi").Str)
	}
	for _, path := range []string{"/v1/api-keys", "/v1/api-keys/workspace/user", "/v1/virtual-keys/{slug}", "/v1/policies/rate-limits/{id}", "/v1/admin/workspaces"} {
		if !doc.get("paths").Map()[path].Exists() {
			t.Errorf("%s is missing", path)
		}
	}
	named := make(map[string]bool)
	for _, scheme := range doc.get("components.securitySchemes").Map() {
		named[scheme.Get("name").Str+scheme.Get("scheme").Str] = true
	}
	if len(named) != 3 || !named["x-gw-api-key"] || !named["bearer"] || !named["x-api-key"] || len(doc.get("security").Array()) != 3 {
		t.Errorf("a service key is sent as %s", doc.get("components.securitySchemes").Raw)
	}
	for path, methods := range doc.get("paths").Map() {
		list := strings.Contains(methods.Get("get.responses.200").Raw, "/schemas/List")
		if paged := strings.Contains(methods.Get("get.parameters").Raw, `"page_size"`); list && !paged {
			t.Errorf("%s is a list without pages", path)
		}
	}
	schemas := doc.get("components.schemas").Map()
	valid := regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
	for name := range schemas {
		if !valid.MatchString(name) {
			t.Errorf("a schema has the name %q", name)
		}
	}
	if _, ok := schemas["ErrorModel"]; ok || !schemas["Error"].Get("properties.data").Exists() {
		t.Error("the error schema is not the gateway's")
	}
}
