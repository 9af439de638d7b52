package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/tidwall/gjson"
)

// forReaders makes an example of a body that the tests send.
var forReaders = strings.NewReplacer(
	`"name":"n"`, `"name":"Example"`, `"name":"m"`, `"name":"Another name"`, operationSecret, "sk-…", "$workspace", "my-workspace", "$token", "the token of the link",
	"$other", "5a2d5a07-8c5c-4a14-9b2c-3f0d2a1e7c11", "$guardrail", "pg-example-a1b2c3", `"red"`, `"my-workspace"`,
)

// The examples of bodies are those with which the tests change something.
func TestExamplesOfBodiesAreThoseOfTheTests(t *testing.T) {
	a := newAPI(t)
	examples := make(map[string]json.RawMessage)
	for path, methods := range a.paths() {
		for method, operation := range methods.Map() {
			name := strings.ToUpper(method) + " " + path
			if !operation.Get("requestBody").Exists() {
				continue
			}
			body := changeBodies[name]
			if other := operationBodies[name]; len(other) > len(body) {
				body = other
			}
			if own, ok := callBodies[name]; ok && body == "" {
				body = own
			}
			if body == "" {
				body = "{}"
			}
			examples[name] = json.RawMessage(forReaders.Replace(body))
			for _, fault := range a.handler().Unlike(path, strings.ToUpper(method), examples[name]) {
				t.Errorf("%s: %s: %s", name, body, fault)
			}
			if got := operation.Get("requestBody.content.application/json.example"); os.Getenv("UPDATE_EXAMPLES") == "" && !sameJSON(got.Raw, string(examples[name])) {
				t.Errorf("%s has the example %s, want %s; update it with UPDATE_EXAMPLES=1", name, got.Raw, examples[name])
			}
		}
	}
	if len(examples) < 40 {
		t.Errorf("%d examples", len(examples))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	if err := e.Encode(examples); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_EXAMPLES") != "" {
		if err := os.WriteFile("examples.json", b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	one, _ := json.Marshal(x)
	other, _ := json.Marshal(y)
	return bytes.Equal(one, other)
}

func TestTheDocumentNeedsNoKeyAndSaysWhereTheAPIIs(t *testing.T) {
	a := newAPI(t)
	get := func(original, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		u, err := url.Parse(original)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		a.handler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), caddyhttp.OriginalRequestCtxKey, http.Request{URL: u})))
		if w.Code != 200 {
			t.Fatalf("%s: %d %s", original, w.Code, w.Body)
		}
		return w
	}
	for original, want := range map[string]string{
		"/v1/openapi.json": "/", "/gw/v1/openapi.json": "/gw", "/a/b%20c/v1/openapi.json": "/a/b%20c", "/elsewhere": "/", "/" + strings.Repeat("x", 999) + "/v1/openapi.json": "/",
	} {
		if got := gjson.Get(get(original, "/v1/openapi.json").Body.String(), "servers.0.url").Str; got != want {
			t.Errorf("%s: got %q, want %q", original, got, want)
		}
	}
	if w := get("/gw/v1/openapi.yaml", "/v1/openapi.yaml"); !strings.Contains(w.Body.String(), "url: /gw\n") || w.Header().Get("Content-Type") != "application/openapi+yaml" {
		t.Errorf("%v %.200s", w.Header(), w.Body)
	}
	for _, page := range []string{a.as("", "GET", "/docs", "").body} {
		if strings.Contains(page, `"/v1/openapi.json"`) || !strings.Contains(page, `fetch("v1/openapi.json")`) {
			t.Error("the page is only right at the root of a site")
		}
	}
}

// Prompts are rendered by the data plane, but who reads of them looks for that here.
func TestTheDocumentHasTheCallsOfPrompts(t *testing.T) {
	doc := gjson.Parse(newAPI(t).do("GET", "/v1/openapi.json", "").body)
	for _, action := range []string{"render", "completions"} {
		operation := doc.Get("paths./v1/prompts/{prompt_id}/" + action + ".post")
		if !operation.Get("requestBody.content.application/json.example.variables").Exists() || !operation.Get("responses.default.content.application/json.example.error.message").Exists() {
			t.Errorf("%s: %s", action, operation.Raw)
		}
	}
	refused := doc.Get("paths./v1/api-keys/workspace/service.post.responses.default.content.application/json.example")
	if refused.Get("data.errorCode").Str != "AB01" || refused.Get("success").Bool() {
		t.Errorf("the form of errors: %s", refused.Raw)
	}
}
