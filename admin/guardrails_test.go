package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/storage"
)

func init() {
	guardrails.Register(guardrails.Kind{
		ID: "test.remote", Parameters: []guardrails.Parameter{{Name: "url", Required: true}, {Name: "token", Required: true, Secret: true}},
		New: func(*guardrails.Parameters) (guardrails.Check, error) { return passes{}, nil },
	})
}

type passes struct{}

func (passes) Judge(context.Context, *guardrails.Subject) (guardrails.Result, error) {
	return guardrails.Result{Verdict: true}, nil
}

const noDigits = `{"name":"No digits","checks":[{"id":"default.regexReplace","parameters":{"rule":"\\d","redactText":"#"}}],"actions":{"deny":true}}`

func TestAGuardrailHasVersions(t *testing.T) {
	a := newAPI(t)
	made := a.ok("POST", "/v1/guardrails", noDigits)
	slug, path := made.get("slug").Str, "/v1/guardrails/"+made.get("slug").Str
	if !strings.HasPrefix(slug, "pg-no-digits-") || made.get("id").Str == "" || made.get("version_id").Str == "" {
		t.Errorf("made %s", made.body)
	}
	first := a.ok("GET", path, "")
	if first.get("workspace_id").Raw != "null" || first.get("target").Str != "llm" || first.get("status").Str != "active" || first.get("version").Int() != 1 ||
		first.get("checks.0.id").Str != "default.regexReplace" || !first.get("actions.deny").Bool() || first.get("created_at").Str != iso {
		t.Errorf("shown as %s", first.body)
	}
	if same := a.ok("GET", "/v2/guardrails/"+made.get("id").Str, ""); same.body != first.body {
		t.Errorf("by its id it is %s", same.body)
	}
	if out := a.ok("PUT", path, `{"name":"renamed"}`); out.get("version_id").Str != made.get("version_id").Str {
		t.Errorf("another name is another version: %s", out.body)
	}
	a.ok("PUT", path, `{"actions":{"deny":false}}`)
	if now := a.ok("GET", path, ""); now.get("version").Int() != 2 || now.get("checks.0.id").Str != "default.regexReplace" || now.get("actions.deny").Bool() || now.get("name").Str != "renamed" {
		t.Errorf("shown as %s", now.body)
	}
	a.ok("PUT", path, `{"version_id":"1"}`)
	versions := a.ok("GET", path+"/versions", "")
	if versions.get("total").Int() != 3 || versions.get("data.2.actions.deny").Raw != "true" || versions.get("data.2.version").Int() != 3 {
		t.Errorf("versions %s", versions.body)
	}
	if v := a.ok("GET", path+"/versions/2", ""); v.get("actions.deny").Bool() {
		t.Errorf("version 2 is %s", v.body)
	}
	a.ok("DELETE", path, "")
	if out := a.do("GET", path, ""); out.status != 404 {
		t.Errorf("%d %s", out.status, out.body)
	}
}

func TestFaultsOfGuardrailsNameTheField(t *testing.T) {
	a := newAPI(t)
	path := "/v1/guardrails/" + a.ok("POST", "/v1/guardrails", noDigits).get("slug").Str
	for _, c := range []struct {
		method, path, body string
		status             int
		message            string
	}{
		{"POST", "/v1/guardrails", `{"checks":[{"id":"default.notNull"}]}`, 400, "name"},
		{"POST", "/v1/guardrails", `{"name":"n"}`, 400, "checks: required"},
		{"POST", "/v1/guardrails", `{"name":"n","checks":[]}`, 400, "checks: expected"},
		{"POST", "/v1/guardrails", `{"name":"n","checks":[7]}`, 400, "checks[0]"},
		{"POST", "/v1/guardrails", `{"name":"n","checks":[{"id":"nope"}]}`, 400, "checks[0].id: there is no check"},
		{"POST", "/v1/guardrails", `{"name":"n","checks":[{"id":"default.contains","parameters":{"words":"x"}},{"id":"default.notNull","parameters":{"nope":1}}]}`, 400, "checks[1].parameters.nope"},
		{"POST", "/v1/guardrails", `{"name":"n","checks":[{"id":"default.notNull"}],"actions":{"deny":1}}`, 400, "actions.deny"},
		{"POST", "/v1/guardrails", `{"name":"n","checks":[{"id":"default.notNull"}],"actions":{"nope":1}}`, 400, "actions.nope"},
		{"POST", "/v1/guardrails", `{"name":"n","checks":[{"id":"default.notNull"}],"target":"mcp_tools"}`, 400, "target"},
		{"POST", "/v1/guardrails", `{"name":"n","checks":[{"id":"default.notNull"}],"organisation_id":"x"}`, 403, "organisation_id"},
		{"POST", "/v1/guardrails", `{"name":"n","checks":[{"id":"default.notNull"}],"workspace_id":"nope"}`, 404, "workspace_id"},
		{"PUT", path, `{"checks":[]}`, 400, "checks"},
		{"PUT", path, `{"version_id":"9"}`, 404, "version_id"},
		{"PUT", path, `{"version_id":"1","actions":{}}`, 400, "version_id"},
		{"GET", path + "/versions/9", ``, 404, "9"},
	} {
		if out := a.do(c.method, c.path, c.body); out.status != c.status || !strings.Contains(out.message(), c.message) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, out.status, out.body)
		}
	}
	if all := a.ok("GET", "/v1/guardrails", ""); all.get("total").Int() != 1 || a.ok("GET", path, "").get("version").Int() != 1 {
		t.Errorf("changed to %s", all.body)
	}
}

func TestGuardrailsAreListedByWhatIsAskedFor(t *testing.T) {
	a := newAPI(t)
	blue := a.workspace("blue")
	var ids []string
	for i, workspace := range []string{"", "", "blue"} {
		ids = append(ids, a.ok("POST", "/v1/guardrails", fmt.Sprintf(`{"name":"g%d","checks":[{"id":"default.notNull"}],"workspace_id":%q}`, i, workspace)).get("id").Str)
	}
	for query, want := range map[string]string{
		"":                              "g0 g1 g2",
		"?page_size=2":                  "g0 g1",
		"?page_size=2&current_page=1":   "g2",
		"?workspace_id=blue":            "g2",
		"?workspace_id=" + blue:         "g2",
		"?ids=" + ids[0] + "," + ids[2]: "g0 g2",
		"?id=" + ids[1]:                 "g1",
		"?search=G1":                    "g1",
		"?target=llm":                   "g0 g1 g2",
		"?target=mcp_tools":             "",
		"?target=mcp_tools,llm":         "g0 g1 g2",
	} {
		var got []string
		for _, name := range a.ok("GET", "/v1/guardrails"+query, "").get("data.#.name").Array() {
			got = append(got, name.Str)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
}

// The scopes for guardrails of the organisation are others than those for guardrails of workspaces.
func TestGuardrailsOfTheOrganisationHaveScopesOfTheirOwn(t *testing.T) {
	a := newAPI(t)
	shared := "/v1/guardrails/" + a.ok("POST", "/v1/guardrails", noDigits).get("slug").Str
	workspaces, _ := a.key("organisation/service", `"guardrails.create","guardrails.read","guardrails.update","guardrails.delete","guardrails.list"`)
	organisation, _ := a.key("organisation/service", `"organisation_guardrails.create","organisation_guardrails.read","organisation_guardrails.list"`)
	inside, _ := a.key("workspace/service", `"guardrails.create","guardrails.read","guardrails.update","guardrails.delete","guardrails.list"`)
	of := strings.Replace(noDigits, "{", `{"workspace_id":"`+a.s.Directory.DefaultWorkspace().Slug+`",`, 1)
	own := "/v1/guardrails/" + a.ok("POST", "/v1/guardrails", of).get("slug").Str
	for _, c := range []struct {
		key, method, path, body string
		status                  int
	}{
		{workspaces, "POST", "/v1/guardrails", noDigits, 403},
		{workspaces, "POST", "/v1/guardrails", of, 200},
		{workspaces, "GET", shared, "", 403},
		{workspaces, "PUT", shared, `{"name":"n"}`, 403},
		{workspaces, "DELETE", shared, "", 403},
		{workspaces, "GET", own, "", 200},
		{organisation, "GET", shared, "", 200},
		{organisation, "PUT", shared, `{"name":"n"}`, 403},
		{organisation, "GET", own, "", 403},
		{organisation, "POST", "/v1/guardrails", of, 403},
		{inside, "GET", shared, "", 404},
		{inside, "DELETE", shared, "", 404},
		{inside, "GET", own, "", 200},
		{inside, "POST", "/v1/guardrails", noDigits, 200},
	} {
		if out := a.as(c.key, c.method, c.path, c.body); out.status != c.status {
			t.Errorf("%s %s %s: %d %s, want %d", c.method, c.path, c.body, out.status, out.body, c.status)
		}
	}
	for key, want := range map[string]int64{workspaces: 3, organisation: 1, inside: 3} {
		if out := a.as(key, "GET", "/v1/guardrails", ""); out.get("total").Int() != want {
			t.Errorf("lists %s, want %d", out.body, want)
		}
	}
}

// A credential among the parameters is sealed, and stays where it was sent to.
func TestCredentialsOfChecksAreMasked(t *testing.T) {
	a := newAPI(t)
	check := func(url, token string) string {
		return `{"name":"n","checks":[{"id":"test.remote","parameters":{"url":"` + url + `","token":"` + token + `"}}]}`
	}
	path := "/v1/guardrails/" + a.ok("POST", "/v1/guardrails", check("https://a.example", "secret-0123456789")).get("slug").Str
	shown := a.ok("GET", path, "")
	masked := shown.get("checks.0.parameters.token").Str
	if strings.Contains(shown.body, "0123456789") || masked == "" {
		t.Fatalf("shown as %s", shown.body)
	}
	g, _ := a.s.Guardrails.Get(shown.get("slug").Str)
	if strings.Contains(string(g.Current().Sealed), "secret-") {
		t.Error("it is stored in clear")
	}
	kept := func() string {
		g, _ := a.s.Guardrails.Get(shown.get("slug").Str)
		text, err := a.s.Guardrails.Text(g.Current())
		if err != nil {
			t.Fatal(err)
		}
		return gjson.GetBytes(text.Checks, "0.parameters.token").Str
	}
	put := func(url, token string) answer {
		return a.do("PUT", path, strings.Replace(check(url, token), `"name":"n",`, "", 1))
	}
	if out := put("https://a.example", masked); out.status != 200 || kept() != "secret-0123456789" {
		t.Errorf("sent back as shown it is %s: %s", kept(), out.body)
	}
	if out := put("https://b.example", masked); out.status != 400 || !strings.Contains(out.body, "checks.0.parameters.token") || kept() != "secret-0123456789" {
		t.Errorf("sent elsewhere: %d %s", out.status, out.body)
	}
	if out := put("https://b.example", "secret-9876543210"); out.status != 200 || kept() != "secret-9876543210" {
		t.Errorf("replaced: %d %s", out.status, out.body)
	}
}

// Credentials in objects among the parameters are masked and kept one by one.
func TestCredentialsOfServicesAreMasked(t *testing.T) {
	a := newAPI(t)
	body := func(key, base, header string) string {
		return `{"name":"Asks","checks":[{"id":"mistral.moderateContent","parameters":{"categories":["pii"],"credentials":{"apiKey":"` + key + `","baseUrl":"` + base + `"}}},
			{"id":"default.webhook","parameters":{"webhookURL":"https://a.example.com","headers":{"X.Own":"` + header + `"}}}]}`
	}
	path := "/v1/guardrails/" + a.ok("POST", "/v1/guardrails", body("secret-0123456789", "https://b.example.com", "header-0123456789")).get("slug").Str
	shown := a.ok("GET", path, "")
	key, header := shown.get("checks.0.parameters.credentials.apiKey").Str, shown.get(`checks.1.parameters.headers.X\.Own`).Str
	if strings.Contains(shown.body, "0123456789") || key == "" || header == "" || shown.get("checks.0.parameters.credentials.baseUrl").Str != "https://b.example.com" {
		t.Fatalf("shown as %s", shown.body)
	}
	kept := func() gjson.Result {
		g, _ := a.s.Guardrails.Get(shown.get("slug").Str)
		text, err := a.s.Guardrails.Text(g.Current())
		if err != nil {
			t.Fatal(err)
		}
		return gjson.ParseBytes(text.Checks)
	}
	a.ok("PUT", path, body(key, "https://b.example.com", header))
	if now := kept(); now.Get("0.parameters.credentials.apiKey").Str != "secret-0123456789" || now.Get(`1.parameters.headers.X\.Own`).Str != "header-0123456789" {
		t.Errorf("kept %s", now)
	}
	if out := a.do("PUT", path, body(key, "https://c.example.com", header)); out.status != 400 || !strings.Contains(out.body, "checks.0.parameters.credentials.apiKey") {
		t.Errorf("a kept credential goes elsewhere: %d %s", out.status, out.body)
	}
	if out := a.do("PUT", path, strings.Replace(body(key, "https://b.example.com", header), "a.example", "d.example", 1)); out.status != 400 || !strings.Contains(out.body, `headers.X\\.Own`) {
		t.Errorf("a kept header goes elsewhere: %d %s", out.status, out.body)
	}
}

// The values of a URL's query may be credentials: they are shown to nobody, also not in the audit trail, and go
// nowhere else.
func TestQueriesOfURLsOfChecksAreMasked(t *testing.T) {
	a := newAPI(t)
	body := func(url, header string) string {
		return `{"name":"Asks","checks":[{"id":"default.webhook","parameters":{"webhookURL":"` + url + `","headers":{"x-own":"` + header + `"}}},
			{"id":"default.log","parameters":{"logURL":"https://log.example.com/?k=CANARY-2"}},
			{"id":"default.jwt","parameters":{"jwksUri":"https://login.example.com/keys?k=CANARY-3"}}]}`
	}
	path := "/v1/guardrails/" + a.ok("POST", "/v1/guardrails", body("https://a.example.com/hook?k=CANARY-1&l=CANARY-4", "header-0123456789")).get("slug").Str
	shown := a.ok("GET", path, "")
	url, header := shown.get("checks.0.parameters.webhookURL").Str, shown.get("checks.0.parameters.headers.x-own").Str
	if strings.Contains(shown.body, "CANARY") || url != "https://a.example.com/hook?k=*****&l=*****" {
		t.Errorf("shown as %s", shown.body)
	}
	kept := func() gjson.Result {
		g, _ := a.s.Guardrails.Get(shown.get("slug").Str)
		text, err := a.s.Guardrails.Text(g.Current())
		if err != nil {
			t.Fatal(err)
		}
		return gjson.ParseBytes(text.Checks)
	}
	sent := func(checks string) answer { return a.do("PUT", path, `{"checks":`+checks+`}`) }
	mustKeep := func(what string) {
		t.Helper()
		now := kept()
		for path, want := range map[string]string{
			"0.parameters.webhookURL": "https://a.example.com/hook?k=CANARY-1&l=CANARY-4", "0.parameters.headers.x-own": "header-0123456789",
			"1.parameters.logURL": "https://log.example.com/?k=CANARY-2", "2.parameters.jwksUri": "https://login.example.com/keys?k=CANARY-3",
		} {
			if got := now.Get(path).Str; got != want {
				t.Errorf("%s: %s is %s", what, path, got)
			}
		}
	}
	checks := shown.get("checks").Raw
	if out := sent(checks); out.status != 200 {
		t.Errorf("as shown: %d %s", out.status, out.body)
	}
	mustKeep("as shown")
	for what, replaced := range map[string][2]string{
		"another host":                          {"a.example.com", "b.example.com"},
		"another path":                          {"/hook", "/other"},
		"another scheme":                        {"https://a.", "http://a."},
		"another parameter":                     {"l=*****", "m=*****"},
		"of another check":                      {"https://login.example.com/keys", "https://log.example.com/"},
		"a header, the values of another query": {"k=*****&l=*****", "k=new&l=new"},
	} {
		if out := sent(strings.Replace(checks, replaced[0], replaced[1], 1)); out.status != 400 || !strings.Contains(out.body, "checks.") {
			t.Errorf("%s: %d %s", what, out.status, out.body)
		}
		mustKeep(what)
	}
	if out := sent(strings.Replace(strings.Replace(checks, url, "https://b.example.com/?k=CANARY-5", 1), header, "header-9876543210", 1)); out.status != 200 || kept().Get("0.parameters.webhookURL").Str != "https://b.example.com/?k=CANARY-5" {
		t.Errorf("another URL in clear: %d %s", out.status, out.body)
	}
	for _, url := range []string{"https://user:pass@a.example.com", "https://user@a.example.com/?k=v"} {
		if out := a.do("POST", "/v1/guardrails", body(url, "h")); out.status != 400 || !strings.Contains(out.body, "webhookURL") {
			t.Errorf("%s: %d %s", url, out.status, out.body)
		}
	}
	for _, url := range []string{"https://user:pass@a.example.com", "https://a.example.com?k=v"} {
		out := a.do("POST", "/v1/guardrails", `{"name":"n","checks":[{"id":"mistral.moderateContent","parameters":{"categories":["pii"],"credentials":{"apiKey":"k","baseUrl":"`+url+`"}}}]}`)
		if out.status != 400 || !strings.Contains(out.body, "baseUrl") {
			t.Errorf("%s: %d %s", url, out.status, out.body)
		}
	}
	a.ok("DELETE", path, "")
	err := a.store.View(t.Context(), func(tx storage.Tx) error {
		for item, err := range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
			if bytes.Contains(item.Value, []byte("CANARY")) {
				t.Errorf("the store has in clear: %q = %.300q", item.Key, item.Value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A mask that stands for nothing that is stored is refused, and is not taken for the credential.
func TestMasksOfChecksThatStandForNothingAreRefused(t *testing.T) {
	a := newAPI(t)
	const url = "https://a.example.com/hook?k=CANARY-1"
	check := func(url, headers string) string {
		return `{"name":"Asks","checks":[{"id":"default.webhook","parameters":{"webhookURL":"` + url + `","headers":` + headers + `}}]}`
	}
	const headers = `{"X-Own":"header-0123456789"}`
	path := "/v1/guardrails/" + a.ok("POST", "/v1/guardrails", check(url, headers)).get("slug").Str
	shown := a.ok("GET", path, "")
	shownURL, mask := shown.get("checks.0.parameters.webhookURL").Str, shown.get("checks.0.parameters.headers.X-Own").Str
	if !strings.Contains(shownURL, "*****") || !strings.Contains(mask, "*****") {
		t.Fatal(shown.body)
	}
	kept := func() string {
		g, _ := a.s.Guardrails.Get(shown.get("slug").Str)
		text, err := a.s.Guardrails.Text(g.Current())
		if err != nil {
			t.Fatal(err)
		}
		return string(text.Checks)
	}
	before := kept()
	for name, c := range map[string]struct{ url, headers, field string }{
		"another header":              {shownURL, `{"X-Other":"` + mask + `"}`, "headers.X-Other"},
		"one more header":             {shownURL, `{"X-Own":"` + mask + `","X-Other":"` + mask + `"}`, "checks.0.parameters.headers"},
		"in other letters":            {shownURL, `{"x-own":"` + mask + `"}`, "headers.x-own"},
		"JSON in a string":            {shownURL, `"{\"X-Own\":\"` + mask + `\"}"`, "checks.0.parameters.headers"},
		"another mask":                {shownURL, `{"X-Own":"xx*****yyy"}`, "headers.X-Own"},
		"after a scheme":              {shownURL, `{"X-Own":"Bearer ` + mask + `"}`, "headers.X-Own"},
		"in the path of a URL":        {"https://a.example.com/*****", headers, "webhookURL"},
		"after a semicolon":           {"https://a.example.com/hook;k=*****", headers, "webhookURL"},
		"in the host of a URL":        {"https://*****.example.com/hook", headers, "webhookURL"},
		"in a fragment":               {shownURL + "#*****", headers, "webhookURL"},
		"in clear, and one in a path": {"https://a.example.com/*****?k=new", headers, "webhookURL"},
	} {
		changed := strings.Replace(check(c.url, c.headers), `"name":"Asks",`, "", 1)
		if out := a.do("PUT", path, changed); out.status != 400 || !strings.Contains(out.body, c.field) || kept() != before {
			t.Errorf("%s: %d %s; kept %s", name, out.status, out.body, kept())
		}
		if out := a.do("POST", "/v1/guardrails", check(c.url, c.headers)); out.status != 400 || !strings.Contains(out.body, "checks.0.parameters.") {
			t.Errorf("%s, of a new one: %d %s", name, out.status, out.body)
		}
	}
	if a.ok("PUT", path, strings.Replace(check(shownURL, `{"X-Own":"`+mask+`"}`), `"name":"Asks",`, "", 1)); kept() != before {
		t.Errorf("as shown, it is %s", kept())
	}
}

func TestAGuardrailInUseIsNotDeleted(t *testing.T) {
	a := newAPI(t)
	a.workspace("blue")
	slug := a.ok("POST", "/v1/guardrails", noDigits).get("slug").Str
	path := "/v1/guardrails/" + slug
	config := a.ok("POST", "/v1/configs", `{"name":"c","workspace_id":"blue","config":{"strategy":{"mode":"fallback"},"targets":[{"provider":"@local","input_guardrails":["`+slug+`"]}]}}`).get("slug").Str
	explicit := a.ok("POST", "/v1/configs", `{"name":"d","config":{"provider":"@local","before_request_hooks":[{"type":"guardrail","id":"`+slug+`"}]}}`).get("slug").Str
	a.ok("PUT", "/v1/admin/workspaces/blue", `{"defaults":{"output_guardrails":["`+slug+`"]}}`)
	a.ok("PUT", "/v1/admin/organisation/defaults", `{"input_guardrails":["`+slug+`"]}`)
	out := a.do("DELETE", path, "")
	for _, by := range []string{config + " (targets[0].input_guardrails[0])", explicit, "workspace blue (output_guardrails)", "the organisation (input_guardrails)"} {
		if out.status != 409 || !strings.Contains(out.message(), by) {
			t.Errorf("%d %s lacks %s", out.status, out.body, by)
		}
	}
	a.ok("DELETE", "/v1/configs/"+config, "")
	a.ok("DELETE", "/v1/configs/"+explicit, "")
	a.ok("PUT", "/v1/admin/workspaces/blue", `{"defaults":null}`)
	a.ok("PUT", "/v1/admin/organisation/defaults", `{"input_guardrails":null}`)
	a.ok("DELETE", path, "")
}

func TestConfigsNameGuardrailsThatAreThere(t *testing.T) {
	a := newAPI(t)
	a.workspace("blue")
	foreign := a.ok("POST", "/v1/guardrails", strings.Replace(noDigits, "{", `{"workspace_id":"blue",`, 1)).get("slug").Str
	shared := a.ok("POST", "/v1/guardrails", noDigits).get("slug").Str
	for hook, status := range map[string]int{
		`"nope"`:            400,
		`"` + foreign + `"`: 400,
		`"` + shared + `"`:  200,
		`{"id":"` + shared + `","guardrail_version_id":"1"}`: 200,
		`{"id":"` + shared + `","guardrail_version_id":"2"}`: 400,
	} {
		out := a.do("POST", "/v1/configs", `{"name":"c","config":{"provider":"@local","input_guardrails":[`+hook+`]}}`)
		if out.status != status || status == 400 && !strings.Contains(out.body, "input_guardrails[0]") {
			t.Errorf("%s: %d %s", hook, out.status, out.body)
		}
	}
}

// A config with a check that is written wrongly is refused as a saved guardrail is.
func TestChecksOfConfigsAreValidated(t *testing.T) {
	a := newAPI(t)
	slug := a.ok("POST", "/v1/configs", `{"name":"c","config":{"provider":"@local","input_guardrails":[{"regexMatch":{"rule":"x"},"deny":true}]}}`).get("slug").Str
	for hooks, want := range map[string][]string{
		`"input_guardrails":[{"default.regexMach":{"rule":"x"},"deny":true}]`:                                        {"config: input_guardrails[0].default.regexMach: there is no check default.regexMach"},
		`"output_mutators":[{"default.regexMatch":{"rule":"(","nott":true}}]`:                                        {"output_mutators[0].default.regexMatch.rule: ", "output_mutators[0].default.regexMatch.nott: unknown parameter"},
		`"before_request_hooks":[{"checks":[{"id":"default.nope"}]}],"input_guardrails":[{"contains":{"wrods":[]}}]`: {"before_request_hooks[0].checks[0].id: ", "input_guardrails[0].contains.wrods: "},
		`"targets":[{"provider":"@local","input_guardrails":[{"nope":{}}]}],"retry":7`:                               {"targets[0].input_guardrails[0].nope: ", "retry: "},
		`"start_hooks":[{"regexMatch":{"rule":"x"}}],"output_mutators":[{"addPrefix":{"prefix":"x"}}]`: {
			"start_hooks[0].regexMatch: default.regexMatch cannot judge the start of a call", "output_mutators[0].addPrefix: default.addPrefix cannot judge answers",
		},
		`"input_guardrails":[{"webhook":{"webhookURL":"http://169.254.169.254/judge"}}]`: {"input_guardrails[0].webhook.webhookURL: "},
	} {
		for method, path := range map[string]string{"POST": "/v1/configs", "PUT": "/v1/configs/" + slug} {
			out := a.do(method, path, `{"name":"c","config":{"provider":"@local",`+hooks+`}}`)
			for _, message := range want {
				if out.status != 400 || !strings.Contains(out.message(), message) {
					t.Errorf("%s %s: %d %s, want %s", method, hooks, out.status, out.body, message)
				}
			}
		}
	}
	// Masked credentials are not what is validated.
	webhook := `{"config":{"provider":"@local","input_guardrails":[{"default.regexMatch":{"rule":"x"},"deny":true}],"api_key":"sk-0123456789"}}`
	a.ok("PUT", "/v1/configs/"+slug, webhook)
	shown := a.ok("GET", "/v1/configs/"+slug, "").get("config").Str
	a.ok("PUT", "/v1/configs/"+slug, `{"config":`+shown+`}`)
}

// A guardrail is used only where its checks judge, and stays one that judges there.
func TestGuardrailsAreUsedWhereTheyJudge(t *testing.T) {
	a := newAPI(t)
	a.workspace("blue")
	const prefix = `{"name":"p","checks":[{"id":"default.addPrefix","parameters":{"prefix":"a"}}]}`
	texts, prefixes := a.ok("POST", "/v1/guardrails", noDigits).get("slug").Str, a.ok("POST", "/v1/guardrails", prefix).get("slug").Str
	const organisation, workspace = "/v1/admin/organisation/defaults", "/v1/admin/workspaces/blue"
	for _, c := range [][4]string{
		{"PUT", organisation, `{"start_hooks":["` + texts + `"]}`, "start_hooks[0]: default.regexReplace cannot judge the start of a call"},
		{"PUT", organisation, `{"output_guardrails":["` + prefixes + `"]}`, "output_guardrails[0]: default.addPrefix cannot judge answers: expected it in before_request_hooks, input_guardrails, input_mutators"},
		{"PUT", workspace, `{"defaults":{"start_hooks":["` + prefixes + `"]}}`, "defaults.start_hooks[0]: default.addPrefix cannot judge the start of a call"},
		{"PUT", workspace, `{"defaults":{"output_guardrails":["` + prefixes + `"]}}`, "defaults.output_guardrails[0]: default.addPrefix cannot judge answers"},
		{"POST", "/v1/configs", `{"name":"c","config":{"provider":"@local","output_guardrails":["` + prefixes + `"]}}`, "output_guardrails[0]: default.addPrefix cannot judge answers"},
		{"POST", "/v1/guardrails", `{"name":"w","checks":[{"id":"default.webhook","parameters":{"webhookURL":"http://169.254.169.254/judge"}}]}`, "checks[0].parameters.webhookURL: "},
		{"POST", "/v1/guardrails", `{"name":"w","checks":[{"id":"default.jwt","parameters":{"jwksUri":"http://169.254.169.254/keys"}}]}`, "checks[0].parameters.jwksUri: "},
	} {
		if out := a.do(c[0], c[1], c[2]); out.status != 400 || !strings.Contains(out.message(), c[3]) {
			t.Errorf("%s: %d %s, want %s", c[2], out.status, out.body, c[3])
		}
	}
	used := func(method, path, body, undo string) {
		t.Helper()
		out := a.ok(method, path, body)
		if refused := a.do("PUT", "/v1/guardrails/"+texts, prefix); refused.status != 400 || !strings.Contains(refused.message(), "default.addPrefix cannot judge answers") {
			t.Errorf("%s: %d %s", body, refused.status, refused.body)
		}
		if undo == "" {
			a.ok("DELETE", path+"/"+out.get("slug").Str, "")
		} else {
			a.ok(method, path, undo)
		}
	}
	used("PUT", organisation, `{"output_guardrails":["`+texts+`"]}`, `{"output_guardrails":null}`)
	used("PUT", workspace, `{"defaults":{"output_guardrails":["`+texts+`"]}}`, `{"defaults":null}`)
	used("POST", "/v1/configs", `{"name":"c","config":{"provider":"@local","output_guardrails":["`+texts+`"]}}`, "")
	a.ok("POST", "/v1/configs", `{"name":"d","config":{"provider":"@local","input_guardrails":["`+texts+`"]}}`)
	a.ok("PUT", "/v1/guardrails/"+texts, prefix)
}

func TestTheOrganisationHasGuardrailsOfAllCalls(t *testing.T) {
	a := newAPI(t)
	blue := a.workspace("blue")
	first, second := a.ok("POST", "/v1/guardrails", noDigits), a.ok("POST", "/v1/guardrails", noDigits)
	own := a.ok("POST", "/v1/guardrails", strings.Replace(noDigits, "{", `{"workspace_id":"blue",`, 1)).get("slug").Str
	const defaults = "/v2/admin/organisation/defaults"
	a.ok("PUT", defaults, `{"input_guardrails":["`+second.get("slug").Str+`","`+first.get("id").Str+`"]}`)
	a.ok("PUT", defaults, `{"output_guardrails":["`+first.get("slug").Str+`"]}`)
	out := a.ok("GET", defaults, "")
	if out.get("input_guardrails.#.id").Raw != `["`+second.get("id").Str+`","`+first.get("id").Str+`"]` || out.get("output_guardrails.0.slug").Str != first.get("slug").Str {
		t.Errorf("defaults %s", out.body)
	}
	for body, at := range map[string]string{
		`{"input_guardrails":["nope"]}`:        "input_guardrails[0]",
		`{"input_guardrails":["` + own + `"]}`: "input_guardrails[0]", // of a workspace
		`{"output_guardrails":["` + first.get("slug").Str + `","` + first.get("id").Str + `"]}`: "output_guardrails[1]",
	} {
		if out := a.do("PUT", defaults, body); out.status < 400 || !strings.Contains(out.message(), at) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	a.ok("PUT", "/v1/admin/workspaces/blue", `{"defaults":{"input_guardrails":["`+own+`","`+first.get("id").Str+`"]}}`)
	if w := a.ok("GET", "/v1/admin/workspaces/blue", ""); w.get("defaults.input_guardrails").Raw != `["`+own+`","`+first.get("slug").Str+`"]` {
		t.Errorf("the workspace is %s", w.body)
	}
	if out := a.do("PUT", "/v1/admin/workspaces/"+a.s.Directory.DefaultWorkspace().ID, `{"defaults":{"input_guardrails":["`+own+`"]}}`); out.status != 404 {
		t.Errorf("a guardrail of another workspace: %d %s", out.status, out.body)
	}

	const exclusions = "/v1/workspace-exclusions/input-guardrails"
	excluded := func(of string) string {
		var names []string
		a.ok("GET", of, "").get("workspaces").ForEach(func(_, w gjson.Result) bool {
			if w.Get("excluded").Bool() {
				names = append(names, w.Get("workspace_id").Str)
			}
			return true
		})
		return strings.Join(names, " ")
	}
	standard := a.s.Directory.DefaultWorkspace().ID
	a.ok("PUT", exclusions, `{"workspaces":[{"workspace_id":"blue","excluded":true}]}`)
	a.ok("PUT", exclusions, `{"workspaces":[{"workspace_id":"`+standard+`","excluded":true}]}`)
	if got := excluded(exclusions); got != standard+" "+blue {
		t.Errorf("excluded %s", got)
	}
	if got := excluded("/v1/workspace-exclusions/output-guardrails"); got != "" {
		t.Errorf("excluded from the other list: %s", got)
	}
	a.ok("PUT", exclusions, `{"workspaces":[{"workspace_id":"`+standard+`","excluded":true}],"override_existing":true}`)
	if got := excluded(exclusions); got != standard {
		t.Errorf("excluded %s", got)
	}
	a.ok("PUT", exclusions, `{"workspaces":[{"workspace_id":"`+standard+`","excluded":false}]}`)
	if got := excluded(exclusions); got != "" {
		t.Errorf("excluded %s", got)
	}
	for body, status := range map[string]int{
		`{"workspaces":[]}`: 400,
		`{"workspaces":[{"workspace_id":"nope","excluded":true}]}`:                                                  404,
		`{"workspaces":[{"workspace_id":"blue","excluded":true},{"workspace_id":"` + blue + `","excluded":false}]}`: 400,
		`{"workspaces":[{"workspace_id":"blue","excluded":true}],"organisation_id":"x"}`:                            403,
	} {
		if out := a.do("PUT", exclusions, body); out.status != status {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	inside, _ := a.key("workspace/service", `"workspaces.read"`)
	for _, path := range []string{exclusions, defaults} {
		if out := a.as(inside, "GET", path, ""); out.status != 403 {
			t.Errorf("%s: %d %s", path, out.status, out.body)
		}
	}
}

func TestAGuardrailIsTried(t *testing.T) {
	a := newAPI(t)
	key, _ := a.key("workspace/service", `"guardrails.create","guardrails.invoke"`)
	make := func(checks, actions string) string {
		return "/v1/guardrails/" + a.as(key, "POST", "/v1/guardrails", `{"name":"n","checks":[`+checks+`],"actions":`+actions+`}`).get("slug").Str + "/invoke"
	}
	redacts := make(`{"id":"default.regexReplace","parameters":{"rule":"\\d+","redactText":"#"}}`, `{}`)
	denies := make(`{"id":"default.contains","parameters":{"words":["bad"],"operator":"none"}}`, `{"deny":true,"async":true}`)
	warns := make(`{"id":"default.modelwhitelist","parameters":{"models":["m"]}}`, `{}`)
	for _, c := range []struct {
		path, body string
		verdict    bool
		status     int64
		at, want   string
	}{
		{redacts, `{"text":"card 1234"}`, true, 200, "text", "card #"},
		{redacts, `{"text":"card 1234","phase":"output"}`, true, 200, "text", "card #"},
		{redacts, `{"messages":[{"role":"system","content":"1"},{"role":"user","content":"2"}]}`, true, 200, "messages.1.content", "#"},
		{denies, `{"text":"bad"}`, false, 446, "hook_results.before_request_hooks.0.state", "failed"},
		{denies, `{"text":"bad","phase":"output"}`, false, 446, "hook_results.after_request_hooks.0.state", "failed"},
		{denies, `{"text":"good"}`, true, 200, "text", "good"},
		{warns, `{"text":"x","model":"n"}`, false, 246, "text", "x"},
		{warns, `{"text":"x","model":"m"}`, true, 200, "text", "x"},
	} {
		out := a.as(key, "POST", c.path, c.body)
		if out.status != 200 || out.get("verdict").Bool() != c.verdict || out.get("status").Int() != c.status || out.get(c.at).Str != c.want {
			t.Errorf("%s: %d %s", c.body, out.status, out.body)
		}
	}
	for body, field := range map[string]string{`{}`: "text", `{"text":"a","messages":[]}`: "text", `{"messages":[],"phase":"output"}`: "messages", `{"text":"a","phase":"x"}`: "phase"} {
		if out := a.as(key, "POST", redacts, body); out.status != 400 || !strings.Contains(out.message(), field) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	// Workspaces may try those of the organisation, which they may name in configs, and see no more of them.
	organisations := "/v1/guardrails/" + a.ok("POST", "/v1/guardrails", `{"name":"o","organisation_id":"`+a.s.Directory.Organisation().ID+`","checks":[{"id":"default.regexReplace","parameters":{"rule":"\\d+","redactText":"#"}}]}`).get("slug").Str
	if out := a.as(key, "POST", organisations+"/invoke", `{"text":"card 1234"}`); out.status != 200 || out.get("text").Str != "card #" {
		t.Errorf("the organisation's: %d %s", out.status, out.body)
	}
	reader, _ := a.key("workspace/service", `"guardrails.read","guardrails.list","guardrails.invoke"`)
	if out := a.as(reader, "GET", organisations, ""); out.status != 404 {
		t.Errorf("the organisation's is shown: %d %s", out.status, out.body)
	}
	a.workspace("elsewhere")
	stranger := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"s","workspace_id":"elsewhere","scopes":["guardrails.invoke"]}`).get("key").Str
	if out := a.as(stranger, "POST", redacts, `{"text":"a"}`); out.status != 404 {
		t.Errorf("another workspace's: %d %s", out.status, out.body)
	}
	other, _ := a.key("workspace/service", `"guardrails.read"`)
	if out := a.as(other, "POST", redacts, `{"text":"a"}`); out.status != 403 {
		t.Errorf("without the scope: %d %s", out.status, out.body)
	}
}
