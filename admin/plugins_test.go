package admin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/guardrails"
)

// A vendor of tests, with two checks.
func init() {
	v := &guardrails.Vendor{ID: "test", Settings: []guardrails.Parameter{
		{Name: "key", Required: true, Secret: true}, {Name: "token", Secret: true}, {Name: "baseUrl"}, {Name: "host"}, {Name: "mode", OneOf: []string{"a", "b"}, Default: `"a"`},
	}}
	for _, id := range []string{"test.judge", "test.other"} {
		guardrails.Register(guardrails.Kind{ID: id, Vendor: v, New: func(*guardrails.Parameters) (guardrails.Check, error) { return passes{}, nil }})
	}
}

const pluginsPath = "/v1/plugins"

func TestPluginsAreSealedAndMasked(t *testing.T) {
	a := newAPI(t)
	const secret = "secret-0123456789"
	out := a.ok("POST", pluginsPath, `{"plugin_id":"TEST","credentials":{"key":"`+secret+`","baseUrl":"https://checks.example.com"}}`)
	if out.get("plugin_id").Str != "test" || out.get("object").Str != "plugin" {
		t.Fatalf("%s", out.body)
	}
	a.ok("POST", pluginsPath, `{"plugin_id":"test.judge","credentials":{"key":"of-the-check","mode":"b"}}`)
	list := a.ok("GET", "/v2/plugins", "")
	first := list.get("data.0")
	if list.get("total").Int() != 2 || first.Get("id").Str != out.get("id").Str || first.Get("credentials.key").Str != "se*****789" || first.Get("credentials.baseUrl").Str != "https://checks.example.com" || strings.Contains(list.body, secret) {
		t.Fatalf("%s", list.body)
	}
	if list.get("data.1.plugin_id").Str != "test.judge" {
		t.Fatalf("%s", list.body)
	}
	if page := a.ok("GET", pluginsPath+"?page_size=1&current_page=1", ""); page.get("total").Int() != 2 || page.get("data.0.plugin_id").Str != "test.judge" {
		t.Errorf("%s", page.body)
	}
	for name, want := range map[string]string{"test": `{"baseUrl":"https://checks.example.com","key":"` + secret + `","mode":"a"}`, "test.judge": `{"key":"of-the-check","mode":"b"}`, "test.other": "null"} {
		settings, err := a.s.Plugins.Settings(name)
		got, _ := json.Marshal(settings)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	row, ok := a.s.Plugins.Get(out.get("id").Str)
	if !ok || strings.Contains(string(row.Settings), secret) {
		t.Error("the settings are not sealed")
	}
	for _, r := range a.trail() {
		if row, err := json.Marshal(r); err != nil || strings.Contains(string(row), secret) {
			t.Errorf("the audit trail has the secret: %s, %v", row, err)
		}
	}
}

func TestWrongPluginsAreRefused(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", pluginsPath, `{"plugin_id":"test","credentials":{"key":"k"}}`)
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"plugin_id":"nobody","credentials":{}}`, 400, "plugin_id"},
		{`{"plugin_id":"default.contains","credentials":{}}`, 400, "plugin_id"},
		{`{"plugin_id":"test.other","credentials":{}}`, 400, "credentials.key: required"},
		{`{"plugin_id":"test.other","credentials":{"key":"k","mode":"c"}}`, 400, "credentials.mode"},
		{`{"plugin_id":"test.other","credentials":{"key":"k","more":"c"}}`, 400, "credentials.more"},
		{`{"plugin_id":"test.other","credentials":{"key":1}}`, 400, "credentials.key"},
		{`{"plugin_id":"test.other","credentials":{"key":"k*****k"}}`, 400, "credentials.key"},
		{`{"plugin_id":"test.other"}`, 400, "credentials"},
		{`{"plugin_id":"test","credentials":{"key":"k"}}`, 409, "has credentials already"},
		{`{"plugin_id":"test.other","credentials":{"key":"k"},"organisation_id":"other"}`, 404, "organisation_id"},
	} {
		if out := a.as(ownerKey, "POST", pluginsPath, c.body); out.status != c.status || !strings.Contains(out.body, c.want) {
			t.Errorf("%s: %d %s", c.body, out.status, out.body)
		}
	}
	if n := a.ok("GET", pluginsPath, "").get("total").Int(); n != 1 {
		t.Errorf("%d plugins", n)
	}
	if out := a.as(ownerKey, "PUT", pluginsPath+"/lakera", `{"credentials":{}}`); out.status != 404 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.as(ownerKey, "DELETE", pluginsPath+"/test", ""); out.status != 405 {
		t.Errorf("%d %s", out.status, out.body)
	}
}

// A stored secret is not sent to where it was not saved for.
func TestSecretsOfPluginsStayWhereTheyWereSavedFor(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", pluginsPath, `{"plugin_id":"test","credentials":{"key":"secret-0123456789","baseUrl":"https://checks.example.com"}}`)
	masked := a.ok("GET", pluginsPath, "").get("data.0.credentials.key").Str
	settings := func() string {
		t.Helper()
		all, err := a.s.Plugins.Settings("test")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(all)
		return string(text)
	}
	before := settings()
	for _, c := range []struct{ body, want string }{
		{`{"credentials":{"baseUrl":"https://other.example.com"}}`, "credentials.baseUrl: send credentials.key along"},
		{`{"credentials":{"baseUrl":null}}`, "credentials.baseUrl"},
		{`{"credentials":{"host":"other.example.com"}}`, "credentials.host"},
		{`{"credentials":{"key":"` + masked + `","baseUrl":"https://other.example.com"}}`, "credentials.baseUrl"},
		{`{"credentials":{"token":"` + masked + `"}}`, "credentials.token"},
		{`{"credentials":{"key":null}}`, "credentials.key: required"},
		{`{}`, "credentials"},
	} {
		if out := a.as(ownerKey, "PUT", pluginsPath+"/test", c.body); out.status != 400 || !strings.Contains(out.body, c.want) || settings() != before {
			t.Errorf("%s: %d %s, %s", c.body, out.status, out.body, settings())
		}
	}
	for _, c := range []struct{ body, want string }{
		{`{"credentials":{"key":"` + masked + `"}}`, before},
		{`{"credentials":{"token":"t"}}`, `{"baseUrl":"https://checks.example.com","key":"secret-0123456789","mode":"a","token":"t"}`},
		{`{"credentials":{"token":null}}`, before},
		{`{"credentials":{"key":"other","baseUrl":"https://other.example.com"}}`, `{"baseUrl":"https://other.example.com","key":"other","mode":"a"}`},
		{`{"credentials":null}`, "null"},
	} {
		if out := a.as(ownerKey, "PUT", pluginsPath+"/test", c.body); out.status != 200 || settings() != c.want {
			t.Errorf("%s: %d %s, %s", c.body, out.status, out.body, settings())
		}
	}
	if shown := a.ok("GET", pluginsPath, "").get("data.0.credentials"); shown.Raw != "null" {
		t.Errorf("shown %s", shown.Raw)
	}
}
