package handlers_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	_ "github.com/caddy-gw/gateway/docs/acme" // as xcaddy --with would
	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// The example of docs/providers.md is the file that is compiled, and works in every
// caller's dialect, whole and streamed.
func TestTheDocumentedProviderWorks(t *testing.T) {
	code, err := os.ReadFile("../docs/acme/acme.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```go\n"+string(code)+"```\n") {
		t.Error("docs/providers.md does not hold docs/acme/acme.go as it is")
	}
	acme := gatewaytest.NewUpstream(t, respond(http.StatusOK, `{"says":"Good day","over":true}`))
	live := gatewaytest.NewUpstream(t, stream("data: {\"says\":\"Good \"}\n\n", "data: {\"says\":\"day\"}\n\n", "data: {\"over\":true}\n\n"))
	g := gatewaytest.Start(t, trustLoopback)
	service, _ := g.Key("k")
	ask := func(to *gatewaytest.Upstream, path, body string) *gatewaytest.Answer {
		t.Helper()
		a := g.Do("POST", path, body, "x-gw-api-key: "+service, "x-gw-provider: acme", "x-gw-custom-host: "+to.URL, "authorization: Bearer of-acme")
		if a.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, a.Status, a.Body)
		}
		return a
	}
	const turns = `"messages":[{"role":"user","content":"Hello"}]`
	if got := ask(acme, "/v1/chat/completions", `{"model":"one",`+turns+`}`).Get("choices.0.message.content").Str; got != "Good day" {
		t.Errorf("chat: %q", got)
	}
	if got := ask(acme, "/v1/messages", `{"model":"one","max_tokens":9,`+turns+`}`).Get("content.0.text").Str; got != "Good day" {
		t.Errorf("messages: %q", got)
	}
	if got := ask(live, "/v1/chat/completions", `{"model":"one","stream":true,`+turns+`}`).Body; !strings.Contains(got, `"content":"day"`) || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("stream: %q", got)
	}
	calls := acme.Calls()
	if got, want := calls[0].Body, `{"engine":"one","live":false,"turns":[{"who":"human","says":"Hello"}]}`; got != want || calls[0].Path != "/talk" || calls[0].Header.Get("X-Acme-Key") != "of-acme" || calls[0].Header.Get("Authorization") != "" {
		t.Errorf("got  %s %s %v\nwant %s", calls[0].Path, got, calls[0].Header, want)
	}
	// What it does not have is refused, and names what is missing.
	a := g.Do("POST", "/v1/embeddings", `{"model":"one","input":"x"}`, "x-gw-api-key: "+service, "x-gw-provider: acme", "x-gw-custom-host: "+acme.URL, "authorization: Bearer of-acme")
	if a.Status != http.StatusBadRequest || a.Get("error.code").Str != "endpoint_not_supported" {
		t.Errorf("embeddings: %d %s", a.Status, a.Body)
	}
}
