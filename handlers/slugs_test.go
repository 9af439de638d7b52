package handlers_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Two workspaces have a virtual key of the same slug: whatever names it reaches the caller's
// own, with its own credential, and each has the limits to itself.
func TestASlugMeansTheVirtualKeyOfTheCallersWorkspace(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n"+up.Provider("file"))
	type tenant struct{ name, key, id, config string }
	var tenants []*tenant
	for _, name := range []string{"red", "blue"} {
		g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": name, "slug": name})
		x := &tenant{name: name}
		x.key = g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": name, "workspace_id": name, "scopes": []string{"completions.write", "configs.create"}}).Get("key").Str
		x.id = g.Admin("POST", "/v1/virtual-keys", map[string]any{
			"name": name, "slug": "same", "provider": "openai", "key": "canary-of-" + name, "custom_host": up.URL + "/v1", "workspace_id": name,
		}).Get("data.id").Str
		x.config = g.Admin("POST", "/v1/configs", map[string]any{"name": name, "workspace_id": name, "config": map[string]any{"virtual_key": "same"}}).Get("slug").Str
		tenants = append(tenants, x)
	}
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "n", "slug": "of-red", "provider": "openai", "key": "canary-of-red", "custom_host": up.URL + "/v1", "workspace_id": "red"})
	ask := func(x *tenant, model string, headers ...string) *gatewaytest.Answer {
		t.Helper()
		body := strings.Replace(gatewaytest.Chat, `"m"`, `"`+model+`"`, 1)
		return g.Do("POST", "/v1/chat/completions", body, append([]string{"x-gw-api-key: " + x.key}, headers...)...)
	}
	for _, when := range []string{"", " after a restart"} {
		for _, x := range tenants {
			for name, call := range map[string]func() *gatewaytest.Answer{
				"x-gw-virtual-key": func() *gatewaytest.Answer { return ask(x, "m", "x-gw-virtual-key: same") },
				"its id":           func() *gatewaytest.Answer { return ask(x, "m", "x-gw-virtual-key: "+x.id) },
				"x-gw-provider":    func() *gatewaytest.Answer { return ask(x, "m", "x-gw-provider: @same") },
				"the model":        func() *gatewaytest.Answer { return ask(x, "@same/m") },
				"a config":         func() *gatewaytest.Answer { return ask(x, "m", `x-gw-config: {"provider":"@same"}`) },
				"a saved config":   func() *gatewaytest.Answer { return ask(x, "m", "x-gw-config: "+x.config) },
			} {
				if a := call(); a.Status != 200 {
					t.Errorf("%s by %s%s: %d %s", x.name, name, when, a.Status, a.Body)
				} else if got := up.Last(t).Header.Get("Authorization"); got != "Bearer canary-of-"+x.name {
					t.Errorf("%s by %s%s: sent %q", x.name, name, when, got)
				}
			}
		}
		if when == "" {
			g.Stop()
			g.Load()
		}
	}
	red, blue := tenants[0], tenants[1]
	nowhere := ask(blue, "m", "x-gw-virtual-key: nope").Body
	for _, name := range []string{red.id, "of-red", "red/same"} {
		if a := ask(blue, "m", "x-gw-virtual-key: "+name); a.Status != 400 || strings.ReplaceAll(a.Body, name, "nope") != nowhere {
			t.Errorf("another workspace's %s: %d %s, nowhere %s", name, a.Status, a.Body, nowhere)
		}
	}

	for name, fields := range map[string]map[string]any{
		"one for each":        {"value": 1, "group_by": by("virtual_key")},
		"its slug":            {"value": 1, "conditions": when("virtual_key", "same")},
		"a provider by slug":  {"value": 1, "conditions": when("provider", "@same")},
		"the models of it":    {"value": 1, "conditions": when("model", "@same/*")},
		"red's alone, by id":  {"value": 1, "conditions": when("virtual_key", red.id)},
		"red's own, by slug":  {"value": 1, "conditions": when("virtual_key", "same"), "workspace_id": "red"},
		"blue's own, by slug": {"value": 1, "conditions": when("virtual_key", "same"), "workspace_id": "blue"},
	} {
		t.Run(name, func(t *testing.T) {
			id := policy(g, fields)
			defer g.Admin("DELETE", "/v1/policies/rate-limits/"+id, nil)
			counts := map[*tenant]bool{red: !strings.HasPrefix(name, "blue"), blue: !strings.HasPrefix(name, "red")}
			for i := range 2 {
				for _, x := range tenants {
					want := 200
					if i == 1 && counts[x] {
						want = 429
					}
					if a := ask(x, "m", "x-gw-virtual-key: same"); a.Status != want {
						t.Errorf("call %d of %s: %d %s", i, x.name, a.Status, a.Body)
					}
				}
			}
		})
	}
}

// The operator's providers are the organisation's: their slugs come first in every workspace.
func TestASlugOfTheCaddyfileComesFirst(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n")
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "n", "slug": "file", "provider": "openai", "key": "canary", "custom_host": up.URL + "/v1"})
	g.Stop()
	g.Options += up.Provider("file")
	g.Load()
	for header, want := range map[string]string{"x-gw-provider: @file": "sk-of-the-file-file", "x-gw-virtual-key: file": "canary"} {
		a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, header)
		if got := up.Last(t).Header.Get("Authorization"); a.Status != 200 || got != "Bearer "+want {
			t.Errorf("%s: %d, sent %q", header, a.Status, got)
		}
	}
	if a := g.Do("POST", "/v1/virtual-keys", `{"name":"n","slug":"file","provider":"openai","key":"sk"}`, "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 409 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
