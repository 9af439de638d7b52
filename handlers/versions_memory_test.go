package handlers_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A page of versions reads only the versions that are on it, and what it reads counts as memory in flight:
// two hundred long ones, a few times at once, would take gigabytes.
func TestVersionsAreReadWithinMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of versions take long under the race detector, and nothing of them runs at once")
	}
	g := gatewaytest.Start(t, gatewaytest.NewUpstream(t, nil).Provider("file")+"max_inflight_bytes 8MiB\n")
	long := strings.Repeat("long ", 50_000)
	words := func(of string) []any {
		return []any{map[string]any{"id": "default.contains", "parameters": map[string]any{"operator": "any", "words": []string{of}}}}
	}
	for _, of := range []struct {
		path         string
		create, then func(text string) map[string]any
	}{
		{"/v1/prompts", func(text string) map[string]any {
			return map[string]any{"name": "p", "string": text, "parameters": map[string]any{}, "model": "m", "virtual_key": "file"}
		}, func(text string) map[string]any {
			return map[string]any{"string": text, "parameters": map[string]any{}, "model": "m"}
		}},
		{"/v1/prompts/partials", func(text string) map[string]any { return map[string]any{"name": "p", "string": text} }, func(text string) map[string]any { return map[string]any{"string": text} }},
		{"/v1/guardrails", func(text string) map[string]any { return map[string]any{"name": "g", "checks": words(text)} }, func(text string) map[string]any { return map[string]any{"checks": words(text)} }},
	} {
		row := of.path + "/" + g.Admin("POST", of.path, of.create(long)).Get("slug").Str
		for _, letter := range "abcdefghi" {
			g.Admin("PUT", row, of.then(string(letter)+long))
		}
		key := "x-gw-api-key: " + gatewaytest.OwnerKey
		if a := g.Do("GET", row+"/versions", "", key); a.Status != 503 || a.Header.Get("Retry-After") == "" || len(a.Body) > 1000 {
			t.Errorf("%s: all at once: %d, %d bytes", of.path, a.Status, len(a.Body))
		}
		if a := g.Do("GET", row+"/versions?page_size=3&current_page=3", "", key); a.Status != 200 || a.Get("total").Int() != 10 || len(a.Get("data").Array()) != 1 || len(a.Body) < len(long) {
			t.Errorf("%s: the last page: %d, %d bytes", of.path, a.Status, len(a.Body))
		}
		if a := g.Do("GET", row, "", key); a.Status != 200 {
			t.Errorf("%s: %d", of.path, a.Status)
		}
	}
}
