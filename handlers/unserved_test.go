package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// What no handler of a site answers would be an empty 200 of Caddy's.
func TestNothingAnswersWithAnEmpty200(t *testing.T) {
	for name, site := range map[string]string{
		"both planes":             "gw_admin\ngw_ratelimit\ngw_inference",
		"the data plane alone":    "gw_inference",
		"the control plane alone": "gw_admin",
	} {
		g := start(t, "", site)
		for path, want := range map[string]string{
			"/":                             "; the API is below /v1",
			"/index.html":                   "; the API is below /v1",
			"/v1":                           "; the API is below /v1",
			"/chat/completions":             ", expected /v1/chat/completions",
			"/chat/completions/":            ", expected /v1/chat/completions",
			"/openai/v1/models":             ", expected /v1/models",
			"/api/responses/resp_1":         ", expected /v1/responses/resp_1",
			"/chat/completion":              ", expected /v1/chat/completions",
			"/api-keys":                     ", expected /v1/api-keys",
			"/gateway/v1/virtual-keys":      ", expected /v1/virtual-keys",
			"/" + strings.Repeat("a/", 500): "; the API is below /v1",
		} {
			for _, method := range []string{"GET", "POST", "OPTIONS"} {
				a := g.Do(method, path, "")
				if a.Status != 404 || a.Header.Get("Content-Type") != "application/json" || a.Get("error.code").Str != "unknown_url" || !strings.HasSuffix(a.Get("error.message").Str, want) {
					t.Errorf("%s: %s %s: %d %s, want %s", name, method, path, a.Status, a.Body, want)
				}
			}
		}
		if name == "the control plane alone" {
			if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat); a.Status != 404 {
				t.Errorf("%s: a call of the data plane: %d %s", name, a.Status, a.Body)
			}
		}
	}
}

func TestOtherHandlersOfTheSiteAnswerWhatIsNotTheGateways(t *testing.T) {
	g := start(t, "", `gw_admin
	gw_ratelimit
	gw_inference
	handle_path /page {
		respond "a page" 200
	}
	handle /empty {
		respond 200
	}
	handle /failing {
		error 418
	}
	respond /health "mine" 200`)
	for path, want := range map[string]struct {
		status int
		body   string
	}{"/page": {200, "a page"}, "/empty": {200, ""}, "/failing": {418, ""}, "/health": {200, "mine"}} {
		if a := g.Do("GET", path, ""); a.Status != want.status || a.Body != want.body {
			t.Errorf("%s: %d %q, want %d %q", path, a.Status, a.Body, want.status, want.body)
		}
	}
}

func TestProbesAnswerWithoutAKey(t *testing.T) {
	for name, site := range map[string]string{"both planes": "gw_admin\ngw_ratelimit\ngw_inference", "the data plane alone": "gw_inference", "the control plane alone": "gw_admin"} {
		g := start(t, "", site)
		for _, path := range []string{"/health", "/livez", "/readyz"} {
			a := g.Do("GET", path, "")
			if a.Status != http.StatusOK || a.Body != `{"status":"ok"}` || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s: %d %s %v", name, path, a.Status, a.Body, a.Header)
			}
			if a := g.Do("HEAD", path, ""); a.Status != http.StatusOK || a.Body != "" {
				t.Errorf("%s: HEAD %s: %d %s", name, path, a.Status, a.Body)
			}
			if a := g.Do("POST", path, "{}"); a.Status != http.StatusNotFound || !gjson.Valid(a.Body) {
				t.Errorf("%s: POST %s: %d %s", name, path, a.Status, a.Body)
			}
		}
	}
}
