package handlers_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// varies is what differs between two answers to the same request.
var varies = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|20\d\d-[0-9TZ:.+ -]{8,}|-[0-9a-z]{6}\b|"key":"[^"]+"`)

// A provider of the Caddyfile that is for other workspaces is for a workspace as if it was not
// there, however the workspace names it: the same requests have the same answers without it.
func TestAProviderOfOtherWorkspacesIsAsIfItWasNotThere(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	limited := func(slug string) string {
		return strings.Replace(up.Provider(slug), "{", "{\n\t\t\tworkspaces first", 1)
	}
	scopes, err := json.Marshal(credentials.WorkspaceService.Scopes())
	if err != nil {
		t.Fatal(err)
	}
	type request struct {
		method, path, body string
		headers            []string
	}
	var requests []request
	add := func(method, path, body string, headers ...string) {
		requests = append(requests, request{method, path, body, headers})
	}
	chat := func(model string, headers ...string) {
		add("POST", "/v1/chat/completions", strings.Replace(gatewaytest.Chat, `"m"`, `"`+model+`"`, 1), headers...)
	}
	const bearer = "authorization: Bearer sk-of-the-caller"
	names := func(name string) {
		for _, provider := range []string{name, "@" + name, "@" + name + "/x", name + "x", "@" + name + "x"} {
			chat("m", "x-gw-provider: "+provider)
			chat("@"+name+"/m", "x-gw-provider: "+provider)
			chat("m", "x-gw-provider: "+provider, "x-gw-virtual-key: open")
			add("GET", "/v1/files", "", "x-gw-provider: "+provider)
			add("GET", "/v1/models", "", "x-gw-provider: "+provider)
			add("GET", "/v1/models", "", "x-gw-provider: "+provider, "x-gw-fetch-integrated-models: true")
			add("POST", "/v1/anything", "{}", "x-gw-provider: "+provider)
		}
		// The built-in provider of the name is at a host that answers nothing.
		chat("m", "x-gw-provider: "+name, bearer, "x-gw-custom-host: "+up.URL+"/v1")
		chat("m", "x-gw-provider: @"+name, bearer, "x-gw-custom-host: "+up.URL+"/v1")
		chat("m", "x-gw-virtual-key: "+name)
		chat("m", "x-gw-virtual-key: "+name, "x-gw-provider: "+name)
		chat("@" + name + "/m")
		chat(name + "/m")
		chat("to-"+name, "x-gw-provider: open")
		add("GET", "/v1/models", "")
		add("GET", "/v1/models/@"+name+"/m", "")
		add("GET", "/v1/models", "", "x-gw-virtual-key: "+name)
		for _, config := range []string{
			`{"provider":"$"}`, `{"provider":"@$"}`, `{"virtual_key":"$"}`, `{"override_params":{"model":"@$/m"}}`, `{"provider":"@$","override_params":{"model":"@$/m"}}`,
			`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@$"},{"provider":"@open"}]}`, `{"strategy":{"mode":"loadbalance"},"targets":[{"virtual_key":"$","weight":1}]}`,
		} {
			config = strings.ReplaceAll(config, "$", name)
			chat("m", "x-gw-config: "+config)
			add("GET", "/v1/models", "", "x-gw-config: "+strings.Replace(config, "{", `{"fetch_integrated_models":true,`, 1))
			add("POST", "/v1/configs", `{"name":"c","config":`+config+`}`)
		}
		add("POST", "/v1/model-aliases", `{"name":"to-`+name+`","model":"@`+name+`/m"}`)
		add("POST", "/v1/model-aliases", `{"name":"to-`+name+`-later","model":"@`+name+`/m","allow_missing":true}`)
		chat("to-" + name)
		chat("to-" + name + "-later")
		for _, key := range []string{name, "@" + name} {
			add("POST", "/v1/prompts", `{"name":"p","string":"s","virtual_key":"`+key+`","model":"m"}`)
		}
		add("POST", "/v1/policies/rate-limits", `{"name":"p","type":"requests","unit":"rpm","value":1000,"conditions":[{"key":"provider","value":"`+name+`"}]}`)
		for _, path := range []string{"virtual-keys", "providers", "integrations", "configs"} {
			add("GET", "/v1/"+path+"/"+name, "")
			add("GET", "/v1/"+path, "")
		}
	}
	for _, name := range []string{"lim", "groq"} {
		names(name)
		add("POST", "/v1/virtual-keys", `{"name":"n","slug":"`+name+`","provider":"openai","key":"sk","custom_host":"`+up.URL+`/v1"}`)
		names(name) // of the workspace's own
		add("DELETE", "/v1/virtual-keys/"+name, "")
	}

	chat("of-lim")
	var answers [2][]string
	for i, others := range []string{limited("lim") + limited("groq") + "alias of-lim @lim/m\n", ""} {
		t.Run(fmt.Sprint("with ", len(others), " bytes of others"), func(t *testing.T) {
			g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n"+up.Provider("open")+others)
			twoWorkspaces(g)
			key := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "k", "workspace_id": "second", "scopes": json.RawMessage(scopes)}).Get("key").Str
			for _, r := range requests {
				a := g.Do(r.method, r.path, r.body, append(slices.Clone(r.headers), "x-gw-api-key: "+key)...)
				var shown strings.Builder
				for name, values := range a.Header {
					if strings.HasPrefix(name, "X-Gw-") && name != "X-Gw-Trace-Id" {
						fmt.Fprintf(&shown, "%s: %s\n", name, values)
					}
				}
				lines := strings.Split(shown.String(), "\n")
				slices.Sort(lines)
				answers[i] = append(answers[i], fmt.Sprint(a.Status, " ", varies.ReplaceAllString(a.Body, "…"), strings.Join(lines, "\n")))
			}
		})
	}
	good := 0
	for n, r := range requests {
		if answers[0][n] != answers[1][n] {
			t.Errorf("%s %s %s %v\n%s\nbut without another workspace's provider\n%s", r.method, r.path, r.body, r.headers, answers[0][n], answers[1][n])
		}
		if strings.HasPrefix(answers[0][n], "200") {
			good++
		}
	}
	if good < len(requests)/5 || good > len(requests)*4/5 {
		t.Errorf("%d of %d requests did something", good, len(requests))
	}
}
