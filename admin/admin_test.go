package admin_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

const (
	ownerKey    = "owner-key-of-the-tests"
	systemToken = "data-service-token-of-the-tests"
)

// An api is the control plane over a store of its own, with a clock that stands.
type api struct {
	t       *testing.T
	store   storage.Store
	handler *admin.API
	s       admin.Services
	kept    *audit.Trail
	now     atomic.Int64
	full    atomic.Bool // the store refuses writes
}

// space pretends that the disk is full.
func (a *api) space(string) (badger.Space, error) {
	if a.full.Load() {
		return badger.Space{}, nil
	}
	return badger.Space{Free: 1 << 40}, nil
}

func newAPI(t *testing.T) *api {
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

// unfed is a store of which nobody tells what others commit to it.
type unfed struct{ storage.Store }

// beside is another control plane over the same store, as another process has it that
// has not been told yet of what is written from now on.
func (a *api) beside() *api {
	a.t.Helper()
	other := &api{t: a.t}
	other.open(unfed{a.store})
	return other
}

// open opens the services of a store.
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
	limits, err := policies.OpenRateLimits(ctx, db, l, now)
	must(err)
	configs, err := routing.OpenConfigStore(ctx, db, keyring, now, rand.Reader)
	must(err)
	aliases, err := routing.OpenAliases(ctx, db, now, rand.Reader)
	must(err)
	saved, err := prompts.Open(ctx, db, now, rand.Reader)
	must(err)
	guard, err := credentials.NewHostGuard(nil)
	must(err)
	headers, err := exchange.NewHeaders(nil)
	must(err)
	digest, system := credentials.DigestOf(ownerKey), credentials.DigestOf(systemToken)
	a.kept = audit.Open(db, now, rand.Reader)
	a.s = admin.Services{
		Configs: configs, Aliases: aliases, Prompts: saved, MayUse: func(_, slug string) bool { return slug == "local" }, ParseOptions: routing.Options{Saved: true, SavedProvider: func(name string) bool { return name == "local" }}, Breakers: routing.NewBreakers(now, 0),
		DB: db, Directory: d, Keyring: keyring, RateLimits: limits, Trail: a.kept, Guard: guard, Headers: headers,
		Authenticator: &credentials.Authenticator{
			Keyring: keyring, OrganisationID: d.Organisation().ID, DefaultWorkspace: d.DefaultWorkspace().ID, AdminKey: &digest, DataService: &system,
		},
		KeyPrefix: "gw-", Now: now, Random: rand.Reader, Logger: zap.NewNop(),
	}
	records, err := reqlog.Open(ctx, db, reqlog.Options{Now: now, Random: rand.Reader, Logger: zap.NewNop()})
	must(err)
	t.Cleanup(records.Close)
	a.s.Records = records
	a.handler = admin.New(a.s)
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) get(path string) gjson.Result { return gjson.Get(a.body, path) }

func (a *api) as(key, method, path, body string) answer {
	a.t.Helper()
	r := httptest.NewRequestWithContext(a.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Gw-Api-Key", key)
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	for _, fault := range a.handler.Undocumented(r, w.Code, w.Body.Bytes()) {
		a.t.Errorf("%s %s: %d, unlike the OpenAPI document: %s: %s", method, path, w.Code, fault, w.Body)
	}
	return answer{w.Code, w.Header(), w.Body.String()}
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

// key makes an API key and returns it with its id.
func (a *api) key(kind, scopes string) (key, id string) {
	a.t.Helper()
	out := a.ok("POST", "/v1/api-keys/"+kind, `{"name":"k","scopes":[`+scopes+`]}`)
	return out.get("key").Str, out.get("id").Str
}

func (a *api) trail() []*audit.Record {
	a.t.Helper()
	all, err := a.kept.Records(a.t.Context(), 1000)
	if err != nil {
		a.t.Fatal(err)
	}
	return all
}

const iso = "2026-11-27T12:00:00.000Z"

func TestWorkspacesListTheDefaultOne(t *testing.T) {
	a := newAPI(t)
	for _, path := range []string{"/v1/admin/workspaces", "/v2/workspaces", "/v2/admin/workspaces", "/v1/admin/workspaces?name=default%20workspace&status=active"} {
		out := a.ok("GET", path, "")
		w := out.get("data.0")
		if out.get("object").Str != "list" || out.get("total").Int() != 1 || len(w.Get("id").Str) != 36 || !strings.HasPrefix(w.Get("slug").Str, "ws-") ||
			w.Get("is_default").Int() != 1 || w.Get("object").Str != "workspace" || w.Get("created_at").Str != iso {
			t.Errorf("%s: %s", path, out.body)
		}
		for _, id := range []string{w.Get("id").Str, w.Get("slug").Str} {
			if one := a.ok("GET", "/v2/workspaces/"+id, ""); one.get("id").Str != w.Get("id").Str {
				t.Errorf("%s", one.body)
			}
		}
	}
	if out := a.ok("GET", "/v1/admin/workspaces?status=archived", ""); out.get("total").Int() != 0 || out.get("data").Raw != "[]" {
		t.Errorf("%s", out.body)
	}
}

func TestAPIKeysLiveAndDie(t *testing.T) {
	a := newAPI(t)
	out := a.ok("POST", "/v1/api-keys/workspace/user", `{"type":"workspace","sub-type":"user","name":"k","description":"d","user_id":"0191E7A3-0000-7000-8000-000000000000",
		"scopes":["logs.view","completions.write","logs.view"],"defaults":{"metadata":{"team":"red"},"allow_config_override":false},
		"alert_emails":["a@example.com"],"expires_at":"2026-12-01T00:00:00Z","rate_limits":[],"usage_limits":null,"rotation_policy":null}`)
	key, id := out.get("key").Str, out.get("id").Str
	if !strings.HasPrefix(key, "gw-") || len(key) < 50 || out.get("object").Str != "api-key" {
		t.Fatal(out.body)
	}
	read := a.ok("GET", "/v2/api-keys/"+id, "")
	want := map[string]string{
		"id": id, "key": key[:2] + "*****" + key[len(key)-3:], "name": "k", "description": "d", "type": "workspace-user", "status": "active",
		"user_id": "0191e7a3-0000-7000-8000-000000000000", "scopes": `["completions.write","logs.view"]`, "defaults.metadata": `{"team":"red"}`,
		"allow_config_override": "false", "expires_at": "2026-12-01T00:00:00.000Z", "created_at": iso, "creation_mode": "api", "rate_limits": "[]",
		"usage_limits": "", "object": "api-key", "workspace_id": a.s.Directory.DefaultWorkspace().ID, "alert_emails.0": "a@example.com",
	}
	for path, v := range want {
		if got := read.get(path).String(); got != v {
			t.Errorf("%s: %q, want %q", path, got, v)
		}
	}
	a.ok("PUT", "/v1/api-keys/"+id, `{"id":"`+id+`","name":"renamed","expires_at":null,"description":null}`)
	read = a.ok("GET", "/v1/api-keys/"+id, "")
	if read.get("name").Str != "renamed" || read.get("expires_at").Type != gjson.Null || read.get("description").Type != gjson.Null || len(read.get("scopes").Array()) != 2 {
		t.Errorf("after the update: %s", read.body)
	}
	other, _ := a.key("organisation/service", `"logs.view"`)
	if list := a.ok("GET", "/v1/api-keys?ids="+id, ""); list.get("total").Int() != 1 || list.get("data.0.id").Str != id {
		t.Errorf("%s", list.body)
	}
	if list := a.ok("GET", "/v1/api-keys?page_size=1&current_page=1", ""); list.get("total").Int() != 2 || list.get("data.#").Int() != 1 || list.get("data.0.type").Str != "organisation-service" {
		t.Errorf("%s", list.body)
	}
	if list := a.ok("GET", "/v1/api-keys?page_size=0", ""); list.get("total").Int() != 2 || list.get("data").Raw != "[]" {
		t.Errorf("%s", list.body)
	}
	a.ok("DELETE", "/v1/api-keys/"+id, `{"id":"`+id+`"}`)
	if out := a.do("GET", "/v1/api-keys/"+id, ""); out.status != 404 || out.get("data.errorCode").Str != "AB08" {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.as(key, "GET", "/v1/api-keys", ""); out.status != 401 {
		t.Errorf("the revoked key: %d", out.status)
	}
	if strings.Contains(a.ok("GET", "/v1/api-keys", "").body, other) {
		t.Error("a key is listed in the clear")
	}
}

func TestScopesDenyByDefault(t *testing.T) {
	a := newAPI(t)
	lists, _ := a.key("workspace/service", `"virtual_keys.list"`)
	manages, _ := a.key("workspace/service", `"workspace_user_api_keys.create","virtual_keys.create"`)
	organisation, _ := a.key("organisation/service", `"workspace_service_api_keys.create","organisation_service_api_keys.create"`)
	for name, c := range map[string]struct {
		key, method, path, body string
		status                  int
	}{
		"no key":                                  {"", "GET", "/v1/virtual-keys", "", 401},
		"unknown key":                             {"nope", "GET", "/v1/virtual-keys", "", 401},
		"its scope":                               {lists, "GET", "/v1/virtual-keys", "", 200},
		"another action":                          {lists, "POST", "/v1/virtual-keys", `{}`, 403},
		"another resource":                        {lists, "GET", "/v2/policies/rate-limits", "", 403},
		"scopes come before validation":           {lists, "POST", "/v1/policies/rate-limits", `nonsense`, 403},
		"grants what it holds":                    {manages, "POST", "/v1/api-keys/workspace/user", `{"name":"n","scopes":["virtual_keys.create"]}`, 200},
		"grants more than it holds":               {manages, "POST", "/v1/api-keys/workspace/user", `{"name":"n","scopes":["completions.write"]}`, 403},
		"another kind of key":                     {manages, "POST", "/v1/api-keys/workspace/service", `{"name":"n","scopes":["virtual_keys.create"]}`, 403},
		"an organisation key for a workspace":     {organisation, "POST", "/v1/api-keys/workspace/service", `{"name":"n","scopes":["completions.write"]}`, 200},
		"an organisation key gives what it lacks": {organisation, "POST", "/v1/api-keys/organisation/service", `{"name":"n","scopes":["policies.create"]}`, 403},
		"a workspace key of an organisation's":    {lists, "POST", "/v1/api-keys/organisation/service", `{"name":"n","scopes":["policies.create"]}`, 403},
	} {
		t.Run(name, func(t *testing.T) {
			out := a.as(c.key, c.method, c.path, c.body)
			if out.status != c.status {
				t.Fatalf("%d %s", out.status, out.body)
			}
			code := map[int]string{401: "AB05", 403: "AB03"}[c.status]
			if c.status != 200 && (out.get("success").Raw != "false" || out.get("data.errorCode").Str != code || out.get("data.message").Str == "") {
				t.Errorf("%s", out.body)
			}
		})
	}
}

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
		{"POST", keys, `{"name":"n","scopes":["logs.view"],"usage_limits":{"credit_limit":1}}`, 400, "usage_limits"},
		{"POST", keys, `{"name":"n","scopes":["logs.view"],"rate_limits":[{"type":"requests","unit":"rpm","value":1}]}`, 400, "rate_limits"},
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
		{"POST", limits, `{"type":"tokens","unit":"rpm","value":1}`, 400, "type"},
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
		if out.status != c.status || out.get("success").Raw != "false" || !strings.Contains(out.get("data.message").Str, c.message) || out.get("data.errorCode").Str == "" {
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

func TestVirtualKeysShowTheirSecretMasked(t *testing.T) {
	a := newAPI(t)
	created := a.ok("POST", "/v1/virtual-keys", `{"name":"My Key","provider":"openai","key":"sk-secret-123456789","note":"n"}`)
	slug := created.get("data.slug").Str
	if created.get("success").Raw != "true" || !strings.HasPrefix(slug, "my-key-") {
		t.Fatal(created.body)
	}
	read := a.ok("GET", "/v1/virtual-keys/"+slug, "")
	for path, want := range map[string]string{
		"slug": slug, "name": "My Key", "ai_provider_name": "openai", "key": "", "masked_api_key": "sk*****789", "note": "n", "status": "active",
		"object": "virtual-key", "model_config": "{}", "rate_limits": "[]", "workspace_name": "Default workspace", "created_at": iso,
	} {
		if got := read.get(path).String(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	secret := func() string {
		t.Helper()
		router := credentials.Router{Keyring: a.s.Keyring, Guard: a.s.Guard.(*credentials.HostGuard), BuiltIn: builtIn}
		route, refusal := router.Route(&credentials.Caller{WorkspaceID: a.s.Directory.DefaultWorkspace().ID}, credentials.Selection{VirtualKey: slug})
		if refusal != nil {
			t.Fatal(refusal)
		}
		return route.Key.Reveal()
	}
	a.ok("PUT", "/v1/virtual-keys/"+slug, `{"name":"renamed","key":"sk*****789"}`)
	if secret() != "sk-secret-123456789" {
		t.Error("a masked value that was sent back replaced the secret")
	}
	a.ok("PUT", "/v1/virtual-keys/"+slug, `{"key":"sk-other-987654321","note":null}`)
	if secret() != "sk-other-987654321" {
		t.Error("the secret was not replaced")
	}
	list := a.ok("GET", "/v1/virtual-keys?current_page=0&page_size=10", "")
	if list.get("object").Str != "list" || list.get("total").Int() != 1 || list.get("data.0.name").Str != "renamed" || list.get("data.0.note").Type != gjson.Null {
		t.Errorf("%s", list.body)
	}
	a.ok("DELETE", "/v1/virtual-keys/"+slug, "")
	if out := a.do("GET", "/v1/virtual-keys/"+slug, ""); out.status != 404 {
		t.Errorf("%d", out.status)
	}
}

func TestVirtualKeysKeepTheSettingsOfTheirProvider(t *testing.T) {
	a := newAPI(t)
	for body, why := range map[string]string{
		`{"name":"n","provider":"azure-openai","key":"k"}`:                                                      "azure_resource_name is required",
		`{"name":"n","provider":"azure-openai","key":"k","model_config":{"azure_resource_name":"a/b"}}`:         "azure_resource_name: expected letters",
		`{"name":"n","provider":"azure-openai","key":"k","model_config":{"azureResourceName":"a"}}`:             "write azure_resource_name",
		`{"name":"n","provider":"openai","key":"k","model_config":{"colour":"red"}}`:                            "colour: unknown key",
		`{"name":"n","provider":"azure-ai","key":"k","model_config":{"azure_foundry_url":"https://10.0.0.1/"}}`: "custom_host",
		`{"name":"n","provider":"azure-ai","key":"k"}`:                                                          "custom_host",
	} {
		if out := a.do("POST", "/v1/virtual-keys", body); out.status != 400 || !strings.Contains(out.body, why) {
			t.Errorf("%s: %d %s, want %s", body, out.status, out.body, why)
		}
	}
	settings := func(slug string) string {
		v, ok := a.s.Keyring.VirtualKey(a.s.Directory.DefaultWorkspace().ID, slug)
		if !ok {
			t.Fatalf("no %s", slug)
		}
		opened, err := a.s.Keyring.OpenSettings(&v.Credential)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for name, s := range opened {
			all = append(all, name+"="+s.Reveal())
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"az","provider":"azure-openai","key":"k1","apiVersion":"2024-10-21","resourceName":"res",
		"deploymentConfig":[{"deploymentName":"dep","apiVersion":"2024-06-01","alias":"gpt","is_default":true}]}`)
	want := `azure_api_version=2024-10-21 azure_deployment_config=[{"alias":"gpt","apiVersion":"2024-06-01","deploymentName":"dep","is_default":true}] azure_resource_name=res`
	if got := settings("az"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"entra","provider":"azure-openai","key":"k1","model_config":{"azure_resource_name":"res","azure_auth_mode":"entra","azure_entra_client_secret":"secret-of-the-application"}}`)
	shown := a.ok("GET", "/v1/virtual-keys/entra", "")
	if strings.Contains(shown.body, "secret-of-the") || shown.get("model_config.azure_resource_name").Str != "res" {
		t.Errorf("shown %s", shown.body)
	}
	// What is sent back as it was shown changes nothing, and other settings need the key.
	a.ok("PUT", "/v1/virtual-keys/entra", `{"model_config":`+shown.get("model_config").Raw+`}`)
	if got := settings("entra"); got != "azure_auth_mode=entra azure_entra_client_secret=secret-of-the-application azure_resource_name=res" {
		t.Errorf("sent back: %s", got)
	}
	if out := a.do("PUT", "/v1/virtual-keys/entra", `{"model_config":{"azure_resource_name":"of-somebody-else"}}`); out.status != 400 || !strings.Contains(out.body, "send key along") {
		t.Errorf("another resource: %d %s", out.status, out.body)
	}
	a.ok("PUT", "/v1/virtual-keys/entra", `{"key":"k2","model_config":{"azure_resource_name":"other"}}`)
	if got := settings("entra"); got != "azure_resource_name=other" {
		t.Errorf("replaced: %s", got)
	}
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"foundry","provider":"azure-ai","key":"k","model_config":{"azure_foundry_url":"https://p.services.ai.azure.com/models"}}`)
	if got := a.ok("GET", "/v1/virtual-keys/foundry", "").get("custom_host").Str; got != "https://p.services.ai.azure.com/models" {
		t.Errorf("custom host %q", got)
	}
}

func TestRateLimitPoliciesAreListedFilteredAndArchived(t *testing.T) {
	a := newAPI(t)
	workspace := a.s.Directory.DefaultWorkspace()
	created := a.ok("POST", "/v2/policies/rate-limits", `{"name":"n","type":"requests","unit":"rpm","value":3,"workspace_id":"`+workspace.Slug+`",
		"conditions":[{"key":"workspace_id","value":"`+workspace.Slug+`"},{"key":"model","value":["a","b"]}],"group_by":[{"key":"api_key"}]}`)
	id := created.get("id").Str
	read := a.ok("GET", "/v1/policies/rate-limits/"+strings.ToUpper(id), "")
	if read.body != created.body {
		t.Errorf("created %s\nread %s", created.body, read.body)
	}
	for path, want := range map[string]string{
		"name": "n", "type": "requests", "unit": "rpm", "value": "3", "status": "active", "workspace_id": workspace.ID, "object": "policy_rate_limits",
		"organisation_id": a.s.Directory.Organisation().ID, "created_at": iso, "last_updated_at": iso, "group_by": `[{"key":"api_key"}]`,
		"conditions": `[{"key":"workspace_id","value":"` + workspace.Slug + `"},{"key":"model","value":["a","b"]}]`,
	} {
		if got := read.get(path).String(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	bare := a.ok("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpd","value":0}`)
	if bare.get("conditions").Raw != "[]" || bare.get("group_by").Raw != "[]" || bare.get("name").Type != gjson.Null {
		t.Errorf("%s", bare.body)
	}
	for query, want := range map[string]int64{
		"": 2, "unit=rpm": 1, "unit=rph": 0, "type=requests": 2, "type=tokens": 0, "status=archived": 0, "workspace_id=" + workspace.ID: 2,
		"workspace_id=" + workspace.Slug: 2, "page_size=1&current_page=7": 2,
	} {
		out := a.ok("GET", "/v1/policies/rate-limits?"+query, "")
		if out.get("total").Int() != want || out.get("object").Str != "list" {
			t.Errorf("%q: %s", query, out.body)
		}
	}
	a.ok("PUT", "/v1/policies/rate-limits/"+id, `{"value":5,"unit":"rph","conditions":[]}`)
	if out := a.ok("GET", "/v1/policies/rate-limits/"+id, ""); out.get("value").Int() != 5 || out.get("unit").Str != "rph" || out.get("conditions").Raw != "[]" || out.get("name").Str != "n" {
		t.Errorf("%s", out.body)
	}
	if out := a.ok("DELETE", "/v1/policies/rate-limits/"+id, ""); out.body != "{}" {
		t.Errorf("%s", out.body)
	}
	if out := a.do("GET", "/v1/policies/rate-limits/"+id, ""); out.status != 404 {
		t.Errorf("%d", out.status)
	}
	if out := a.ok("GET", "/v1/policies/rate-limits/"+id+"?status=archived", ""); out.get("status").Str != "archived" {
		t.Errorf("%s", out.body)
	}
	if out := a.do("PUT", "/v1/policies/rate-limits/"+id, `{"value":1}`); out.status != 404 {
		t.Errorf("an archived policy was changed: %d", out.status)
	}
}

func TestEveryAdministrativeActionIsInTheAuditTrail(t *testing.T) {
	a := newAPI(t)
	key, keyID := a.key("workspace/service", `"virtual_keys.list"`)
	a.ok("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk-canary"}`)
	a.do("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk-canary"}`)
	a.do("POST", "/v1/virtual-keys", `{"name":1,"key":{"sk-canary":1}}`)
	a.as(key, "DELETE", "/v1/virtual-keys/vk", "")
	a.do("DELETE", "/v1/virtual-keys/nope", "")
	a.ok("DELETE", "/v2/virtual-keys/vk", "")
	a.as("unknown", "DELETE", "/v1/virtual-keys/vk", "")
	var got []string
	for _, r := range a.trail() {
		got = append(got, r.Action+" "+r.Resource+" "+http.StatusText(r.Status)+" "+r.KeyID[:5])
		if r.At.IsZero() || r.IP == "" || r.Method == "" || !strings.HasPrefix(r.Path, "/v") || r.OrganisationID == "" || strings.Contains(strings.Join(r.Fields, " "), "canary") {
			t.Errorf("%+v", r)
		}
	}
	want := []string{ // newest first
		"virtual_keys.delete vk OK admin",
		"virtual_keys.delete nope Not Found admin",
		"virtual_keys.delete  Forbidden " + keyID[:5],
		"virtual_keys.create  Bad Request admin",
		"virtual_keys.create vk Conflict admin",
		"virtual_keys.create vk OK admin",
		"workspace_service_api_keys.create " + keyID + " OK admin",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if fields := a.trail()[5].Fields; strings.Join(fields, " ") != "key name provider slug" {
		t.Errorf("fields %q", fields)
	}
}

func TestAStoreThatCannotBeWrittenRefusesWritesAndServesReads(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk-1"}`)
	a.full.Store(true)
	out := a.do("POST", "/v1/virtual-keys", `{"name":"n","provider":"openai","key":"sk-1"}`)
	if out.status != 503 || !strings.Contains(out.get("data.message").Str, "cannot be written") || out.get("data.errorCode").Str != "AB10" {
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
	if _, ok := schemas["ErrorModel"]; ok || !schemas["Error"].Get("properties.data").Exists() {
		t.Error("the error schema is not the gateway's")
	}
}

func TestARefusedRequestWhoseClientLeftIsStillRecorded(t *testing.T) {
	a := newAPI(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("left"))
	r := httptest.NewRequestWithContext(ctx, "DELETE", "/v1/virtual-keys/nope", nil)
	r.Header.Set("Authorization", "Bearer "+ownerKey)
	a.handler.ServeHTTP(httptest.NewRecorder(), r)
	if trail := a.trail(); len(trail) != 1 || trail[0].Status < 400 {
		t.Errorf("%d records", len(trail))
	}
}

func TestNobodyChangesAKeyThatMayDoMore(t *testing.T) {
	a := newAPI(t)
	_, strong := a.key("organisation/service", `"organisation_service_api_keys.update","organisation_service_api_keys.delete","policies.create"`)
	weak, weakID := a.key("organisation/service", `"organisation_service_api_keys.update","organisation_service_api_keys.delete"`)
	var owner string
	if err := a.s.DB.Update(t.Context(), func(tx *storage.Txn) error {
		owner = storage.NewID(rand.Reader)
		_, err := a.s.Keyring.Issue(tx, owner, "gw-", &credentials.APIKey{Name: "Owner", Kind: credentials.OrganisationService, Owner: true, Scopes: []string{"logs.view"}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{strong, owner} {
		for _, c := range []struct{ method, body string }{
			{"PUT", `{"name":"mine"}`}, {"PUT", `{"expires_at":"2026-11-28T00:00:00Z"}`}, {"DELETE", ""},
		} {
			if out := a.as(weak, c.method, "/v1/api-keys/"+id, c.body); out.status != 403 {
				t.Errorf("%s %s: %d %s", c.method, c.body, out.status, out.body)
			}
		}
	}
	for _, body := range []string{`{"expires_at":null}`, `{"scopes":["organisation_service_api_keys.update"]}`, `{"defaults":{"metadata":{"a":"b"}}}`} {
		if out := a.as(weak, "PUT", "/v1/api-keys/"+weakID, body); out.status != 403 {
			t.Errorf("%s of itself: %d %s", body, out.status, out.body)
		}
	}
	if out := a.as(weak, "PUT", "/v1/api-keys/"+weakID, `{"name":"renamed"}`); out.status != 200 {
		t.Errorf("its own name: %d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/api-keys/"+owner, "")
}

// Otherwise a key that ends, or that is bound to its config, could make itself one that
// does not and is not.
func TestAKeyMakesNoKeyOfMoreThanItself(t *testing.T) {
	a := newAPI(t)
	const scopes = `"scopes":["workspace_service_api_keys.create","workspace_service_api_keys.update","completions.write"]`
	make := func(as, fields string) answer {
		body := `{"name":"n",` + scopes + fields + `}`
		if as == "" {
			return a.ok("POST", "/v1/api-keys/workspace/service", body)
		}
		return a.as(as, "POST", "/v1/api-keys/workspace/service", body)
	}
	config := a.ok("POST", "/v1/configs", `{"name":"c","config":{"retry":{"attempts":1}}}`).get("slug").Str
	locked := `,"defaults":{"config_id":"` + config + `","allow_config_override":false}`
	ends := make("", `,"expires_at":"2026-12-01T00:00:00Z"`)
	bound := make("", locked)
	for _, c := range []struct {
		as, fields string
		want       int
	}{
		{ends.get("key").Str, ``, 403},
		{ends.get("key").Str, `,"expires_at":null`, 403},
		{ends.get("key").Str, `,"expires_at":"2026-12-01T00:00:01Z"`, 403},
		{ends.get("key").Str, `,"expires_at":"2026-12-01T00:00:00Z"`, 200},
		{bound.get("key").Str, ``, 200}, // it has the same
		{bound.get("key").Str, `,"defaults":{"config_id":"` + config + `"}`, 403},
		{bound.get("key").Str, `,"defaults":{"allow_config_override":false}`, 403},
		{bound.get("key").Str, locked, 200},
	} {
		if out := make(c.as, c.fields); out.status != c.want {
			t.Errorf("%s: %d %s", c.fields, out.status, out.body)
		}
	}
	other := make("", locked).get("id").Str
	if out := a.as(bound.get("key").Str, "PUT", "/v1/api-keys/"+other, `{"defaults":{}}`); out.status != 403 {
		t.Errorf("unbinding another: %d %s", out.status, out.body)
	}
	other = make("", `,"expires_at":"2026-11-30T00:00:00Z"`).get("id").Str
	if out := a.as(ends.get("key").Str, "PUT", "/v1/api-keys/"+other, `{"expires_at":null}`); out.status != 403 {
		t.Errorf("more time for another: %d %s", out.status, out.body)
	}
}

func TestRefusalsWithoutEndAreThrottled(t *testing.T) {
	a := newAPI(t)
	key, _ := a.key("workspace/service", `"logs.view"`)
	statuses := map[int]int{}
	for range 200 {
		out := a.as(key, "GET", "/v1/virtual-keys/x", "")
		statuses[out.status]++
		if out.status == 429 && (out.get("data.errorCode").Str != "AB06" || out.header.Get("Retry-After") == "") {
			t.Fatalf("%s", out.body)
		}
	}
	if statuses[403] != 120 || statuses[429] != 80 || len(a.trail()) != 121 {
		t.Errorf("%v, %d records", statuses, len(a.trail()))
	}
	a.now.Add(int64(time.Minute))
	if out := a.as(key, "GET", "/v1/virtual-keys/x", ""); out.status != 403 {
		t.Errorf("a minute later: %d", out.status)
	}
	a.ok("GET", "/v1/virtual-keys", "")
}

// Who looks for what does not exist, or errs, is not locked out; and yet does not fill
// the audit trail.
func TestLookupsOfMissingObjectsLockNobodyOut(t *testing.T) {
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"missing": {"GET", "/v1/virtual-keys/x", "", 404},
		"invalid": {"POST", "/v1/policies/rate-limits", `{}`, 400},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			key, _ := a.key("workspace/service", `"virtual_keys.read","virtual_keys.list","policies.create"`)
			before := len(a.trail())
			for range 300 {
				if out := a.as(key, c.method, c.path, c.body); out.status != c.status {
					t.Fatalf("%d %s", out.status, out.body)
				}
			}
			if out := a.as(key, "GET", "/v1/virtual-keys", ""); out.status != 200 {
				t.Errorf("locked out: %d %s", out.status, out.body)
			}
			if rows := len(a.trail()) - before; rows != 120 {
				t.Errorf("%d records of 300 refusals", rows)
			}
			if out := a.as(key, "GET", "/v1/logs/x", ""); out.status != 403 {
				t.Errorf("forbidden: %d %s", out.status, out.body)
			}
			if rows := len(a.trail()) - before; rows != 120+1 {
				t.Errorf("%d records: what is forbidden is recorded nevertheless", rows)
			}
			a.now.Add(int64(time.Minute))
			a.as(key, c.method, c.path, c.body)
			if rows := len(a.trail()) - before; rows != 120+2 {
				t.Errorf("%d records after a minute", rows)
			}
		})
	}
}

func TestConditionsThatCouldNeverHoldAreRefused(t *testing.T) {
	a := newAPI(t)
	_, id := a.key("workspace/service", `"logs.view"`)
	virtualKey := a.ok("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk"}`).get("data.id").Str
	for value, status := range map[string]int{
		"openai": 200, "@openai": 200, "local": 200, "@local": 200, "vk": 200, "@vk": 200, "*": 200,
		"opnai": 404, "@opnai": 404, "OpenAI": 404, "@": 404, "@@openai": 404, "@*": 404, virtualKey: 404,
	} {
		out := a.do("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"provider","value":["openai","`+value+`"]}]}`)
		if out.status != status || status == 404 && (!strings.Contains(out.body, "conditions[0].value") || !strings.Contains(out.body, "there is no provider")) {
			t.Errorf("provider %s: %d %s", value, out.status, out.body)
		}
	}
	for value, status := range map[string]int{strings.ToUpper(id): 200, "nobody": 404, "*": 200} {
		out := a.do("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"api_key","value":"`+value+`"}]}`)
		if out.status != status {
			t.Errorf("%s: %d %s", value, out.status, out.body)
		}
		if out.status == 200 && value != "*" && out.get("conditions.0.value").Str != id {
			t.Errorf("kept as %s", out.get("conditions").Raw)
		}
	}
}

func TestConfigsAreSavedInVersionsWithTheirSecretsMasked(t *testing.T) {
	a := newAPI(t)
	created := a.ok("POST", "/v1/configs", `{"name":"My config","config":{"provider":"openai","api_key":"sk-0123456789abcdef"},"isDefault":1}`)
	slug := created.get("slug").Str
	if !strings.HasPrefix(slug, "pc-my-config-") || created.get("data.slug").Str != slug || created.get("version_id").Str == "" {
		t.Fatal(created.body)
	}
	read := a.ok("GET", "/v1/configs/"+slug, "")
	if read.get("config").Str != `{"provider":"openai","api_key":"sk*****def"}` || read.get("is_default").Int() != 1 || read.get("format").Str != "json" {
		t.Errorf("%s", read.body)
	}
	a.ok("PUT", "/v1/configs/"+slug, `{"config":"{\"provider\":\"openai\",\"api_key\":\"sk*****def\",\"retry\":{\"attempts\":1}}"}`)
	versions := a.ok("GET", "/v2/configs/"+slug+"/versions", "")
	if versions.get("total").Int() != 2 || versions.get("data.1.version").Int() != 2 || strings.Contains(versions.body, "0123456789") {
		t.Errorf("%s", versions.body)
	}
	s, _ := a.s.Configs.Get(slug)
	if text, err := a.s.Configs.Text(s.Current()); err != nil || !strings.Contains(text, "sk-0123456789abcdef") {
		t.Errorf("a masked credential that was sent back replaced the stored one: %s %v", text, err)
	}
	out := a.do("POST", "/v1/configs", `{"name":"n","config":{"retry":{"attempts":9},"nope":1,"strategy":{"mode":"x"},"targets":[]}}`)
	for _, path := range []string{"retry.attempts", "nope", "strategy.mode"} {
		if out.status != 400 || !strings.Contains(out.get("data.message").Str, path) {
			t.Errorf("%s is missing in %d %s", path, out.status, out.body)
		}
	}
	if out := a.do("POST", "/v1/configs", `{"name":"n","config":{"virtual_key":"a","input_guardrails":["x"]}}`); out.status != 400 || !strings.Contains(out.body, "not supported yet") {
		t.Errorf("%d %s", out.status, out.body)
	}
	key := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["completions.write"],"defaults":{"config_id":"`+slug+`"}}`).get("id").Str
	if out := a.do("DELETE", "/v1/configs/"+slug, ""); out.status != 409 || out.get("data.errorCode").Str != "AB07" {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/api-keys/"+key, "")
	a.ok("DELETE", "/v1/configs/"+slug, "")
	if list := a.ok("GET", "/v1/configs", ""); list.get("total").Int() != 0 {
		t.Errorf("%s", list.body)
	}
}

func TestAWorkspaceCanBlockInlineConfigs(t *testing.T) {
	a := newAPI(t)
	slug := a.s.Directory.DefaultWorkspace().Slug
	key, _ := a.key("workspace/service", `"workspaces.update"`)
	if out := a.as(key, "PUT", "/v2/workspaces/"+slug, `{"name":"Renamed","description":"d","settings":{"block_inline_config":true}}`); out.status != 200 || out.body != "{}" {
		t.Fatalf("%d %s", out.status, out.body)
	}
	w := a.ok("GET", "/v1/admin/workspaces/"+slug, "")
	if w.get("settings.block_inline_config").Raw != "true" || w.get("name").Str != "Renamed" || w.get("description").Str != "d" || !a.s.Directory.DefaultWorkspace().BlockInline {
		t.Errorf("%s", w.body)
	}
	if out := a.as(key, "PUT", "/v1/admin/workspaces/"+slug, `{"settings":{"block_inline_config":false}}`); out.status != 403 {
		t.Errorf("a workspace key turned it off: %d %s", out.status, out.body)
	}
	a.ok("PUT", "/v1/admin/workspaces/"+slug, `{"settings":{"block_inline_config":false},"description":null}`)
	if w := a.ok("GET", "/v1/admin/workspaces/"+slug, ""); w.get("settings.block_inline_config").Raw != "false" || w.get("description").Type != gjson.Null {
		t.Errorf("%s", w.body)
	}
	a.ok("PUT", "/v1/admin/workspaces/"+slug, `{"defaults":{"metadata":{"team":"blue"}}}`)
	a.ok("PUT", "/v1/admin/workspaces/"+slug, `{"name":"Renamed"}`)
	if w := a.ok("GET", "/v1/admin/workspaces/"+slug, ""); w.get("defaults").Raw != `{"metadata":{"team":"blue"}}` {
		t.Errorf("defaults: %s", w.get("defaults").Raw)
	}
	for _, metadata := range []string{`{"team":1}`, `{"team":null}`, `[]`, `{"team":"` + strings.Repeat("x", 129) + `"}`, `{"` + strings.Repeat("x", 129) + `":"x"}`} {
		if out := a.do("PUT", "/v1/admin/workspaces/"+slug, `{"defaults":{"metadata":`+metadata+`}}`); out.status != 400 {
			t.Errorf("metadata %s: %d %s", metadata, out.status, out.body)
		}
	}
	a.ok("PUT", "/v1/admin/workspaces/"+slug, `{"defaults":null}`)
	if w := a.ok("GET", "/v1/admin/workspaces/"+slug, ""); w.get("defaults").Raw != "null" {
		t.Errorf("cleared defaults: %s", w.get("defaults").Raw)
	}
	if out := a.do("PUT", "/v1/admin/workspaces/nope", `{"name":"x"}`); out.status != 404 {
		t.Errorf("%d", out.status)
	}
}

func TestPoliciesOfAWorkspaceAreBounded(t *testing.T) {
	a := newAPI(t)
	w := a.ok("GET", "/v1/admin/workspaces", "").get("data.0.id").Str
	err := a.s.DB.Update(t.Context(), func(tx *storage.Txn) error {
		for i := range policies.MaxOfWorkspace {
			p := &policies.RateLimit{ID: strconv.Itoa(i), Type: policies.Requests, Unit: "rpm", WorkspaceID: w}
			if err := a.s.RateLimits.Put(tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const path, limit = "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":3`
	out := a.do("POST", path, limit+`,"workspace_id":"`+w+`"}`)
	if out.status != 409 || !strings.Contains(out.body, "A workspace has at most 200 rate-limit policies; archive one first") {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.ok("POST", path, limit+`}`)
	a.ok("DELETE", path+"/0", "")
	a.ok("POST", path, limit+`,"workspace_id":"`+w+`"}`)
}

// Bodies are held in the budget of all calls, of which the caller's workspace has its share.
func TestBodiesNeedRoomInTheBudget(t *testing.T) {
	a := newAPI(t)
	a.s.InFlight = inflight.New(1000)
	a.handler = admin.New(a.s)
	const path = "/v1/policies/rate-limits"
	w := a.ok("GET", "/v1/admin/workspaces", "").get("data.0.id").Str
	key := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["policies.create"],"workspace_id":"`+w+`"}`).get("key").Str
	body := `{"type":"requests","unit":"rpm","value":3,"name":"` + strings.Repeat("n", 200) + `"}`
	var held inflight.Lease
	held.Open(a.s.InFlight, w, "another key")
	if err := held.Grow(600); err != nil {
		t.Fatal(err)
	}
	out := a.as(key, "POST", path, body)
	if out.status != 503 || out.header.Get("Retry-After") != "1" || !strings.Contains(out.body, "max_inflight_bytes") {
		t.Errorf("%d %v %s", out.status, out.header, out.body)
	}
	a.ok("POST", path, `{"type":"requests","unit":"rpm","value":3}`) // of the owner's key, which is of no workspace
	held.Close()
	if out := a.as(key, "POST", path, body); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if n := a.s.InFlight.InUse(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}
