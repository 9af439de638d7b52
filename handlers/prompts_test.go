package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// answering is a provider's answer to a chat or a text completion.
func answering(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		respond(200, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)(w, r)
		return
	}
	respond(200, `{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"hi","finish_reason":"stop","logprobs":null}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)(w, r)
}

// promptOf saves a prompt for the provider "file".
func promptOf(g *gatewaytest.Gateway, fields map[string]any) string {
	prompt := map[string]any{"name": "p", "virtual_key": "@file", "model": "m", "parameters": map[string]any{"max_tokens": 9, "stream": true}}
	for name, v := range fields {
		prompt[name] = v
	}
	return g.Admin("POST", "/v1/prompts", prompt).Get("slug").Str
}

func TestCompletionsOfAPromptAreCalls(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	chat := promptOf(g, map[string]any{"string": `[{"role":"user","content":"Ask {{what}}"}]`})
	text := promptOf(g, map[string]any{"string": "Say {{what}}"})
	for _, c := range []struct{ slug, body, path, sent string }{
		{chat, `{"variables":{"what":"\"why\""}}`, "/v1/chat/completions", `{"max_tokens":9,"model":"m","messages":[{"role":"user","content":"Ask \"why\""}]}`},
		{chat + "@1", `{"variables":{},"max_tokens":2,"model":"n"}`, "/v1/chat/completions", `{"max_tokens":2,"model":"n","messages":[{"role":"user","content":"Ask "}]}`},
		{text + "%40latest", `{"variables":{"what":1}}`, "/v1/completions", `{"max_tokens":9,"model":"m","prompt":"Say 1"}`},
	} {
		before := len(up.Calls())
		a := g.Do("POST", "/v1/prompts/"+c.slug+"/completions", c.body, "x-gw-api-key: "+key)
		too := g.Do("POST", "/v2/prompts/"+c.slug+"/completions", c.body, "x-gw-api-key: "+key)
		calls := up.Calls()
		if len(calls) != before+2 || calls[before].Body != calls[before+1].Body || calls[before].Path != calls[before+1].Path {
			t.Errorf("%s: below /v2: %d %s", c.slug, too.Status, too.Body)
		}
		if a.Status != 200 || len(calls) == 0 {
			t.Fatalf("%s: %d %s", c.slug, a.Status, a.Body)
		}
		last := calls[len(calls)-1]
		same := len(gjson.Parse(last.Body).Map()) == len(gjson.Parse(c.sent).Map())
		gjson.Parse(c.sent).ForEach(func(name, v gjson.Result) bool {
			same = same && gjson.Get(last.Body, name.Str).Raw == v.Raw
			return true
		})
		if !same || last.Path != c.path {
			t.Errorf("%s %s: sent %s %s, expected %s", c.slug, c.body, last.Path, last.Body, c.sent)
		}
	}
	a := g.Do("POST", "/v1/prompts/"+chat+"/completions", `{"variables":{}}`, "x-gw-api-key: "+key)
	if a.Status != 200 {
		t.Fatal(a.Body)
	}
	saved := g.Admin("GET", "/v1/prompts/"+chat, nil)
	if r := logOf(g, a); r.Get("metrics.prompt_slug").Str != chat || r.Get("metrics.prompt_version").Int() != 1 ||
		r.Get("metrics.prompt_id").Str != saved.Get("id").Str || r.Get("metrics.prompt_version_id").Str != saved.Get("prompt_version_id").Str || saved.Get("id").Str == "" {
		t.Errorf("the record is %s", r.Body)
	}
	for query, want := range map[string]int64{chat: 5, text: 2, chat + "," + text: 7, chat + "@1": 0, "nope": 0} {
		if list := g.Admin("GET", "/v1/logs?prompt_slug="+query, nil); list.Get("total").Int() != want {
			t.Errorf("%d records of %s, want %d", list.Get("total").Int(), query, want)
		}
	}
}

// What a prompt names answers it, whatever the default of the workspace or of the key is, unless that is binding.
func TestAPromptIsBeforeDefaultConfigs(t *testing.T) {
	up, other := gatewaytest.NewUpstream(t, answering), gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file")+other.Provider("other"))
	slug := promptOf(g, map[string]any{"string": "Say"})
	saved := g.Admin("POST", "/v1/configs", map[string]any{"name": "c", "config": map[string]any{"provider": "@other"}}).Get("data.id").Str
	free, _ := g.Key("free")
	defaulted, id := g.Key("defaulted")
	g.Admin("PUT", "/v1/api-keys/"+id, map[string]any{"defaults": map[string]any{"config_id": saved}})
	bound, id := g.Key("bound")
	g.Admin("PUT", "/v1/api-keys/"+id, map[string]any{"defaults": map[string]any{"config_id": saved, "allow_config_override": false}})
	for i, c := range []struct {
		key     string
		headers []string
		want    *gatewaytest.Upstream
	}{{free, nil, up}, {defaulted, nil, up}, {defaulted, []string{"x-gw-config: " + saved}, other}, {bound, nil, other}} {
		before := len(c.want.Calls())
		if a := g.Do("POST", "/v1/prompts/"+slug+"/completions", `{"variables":{}}`, append(c.headers, "x-gw-api-key: "+c.key)...); a.Status != 200 || len(c.want.Calls()) != before+1 {
			t.Errorf("%d: %d %s, X-Gw-Provider %s", i, a.Status, a.Body, a.Header.Get("X-Gw-Provider"))
		}
	}
	g.Admin("PUT", "/v1/configs/"+saved, map[string]any{"isDefault": 1})
	if a := g.Do("POST", "/v1/prompts/"+slug+"/completions", `{"variables":{}}`, "x-gw-api-key: "+free); a.Status != 200 || a.Header.Get("X-Gw-Provider") != "file" {
		t.Errorf("%d %s, X-Gw-Provider %s", a.Status, a.Body, a.Header.Get("X-Gw-Provider"))
	}
}

func TestPromptCallsThatAreRefused(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file"))
	slug := promptOf(g, map[string]any{"string": `[{"role":"user","content":"{{>>which}}"}]`})
	for _, action := range []string{"render", "completions"} {
		key := gatewaytest.OwnerKey
		for _, c := range []struct {
			slug, body string
			status     int
			message    string
		}{
			{"nope", `{"variables":{}}`, 404, "Invalid prompt id"},
			{slug + "@7", `{"variables":{}}`, 404, "Invalid prompt id"},
			{slug, `{"variables":{"which":"nowhere"}}`, 400, "Missing prompt partials: nowhere"},
			{slug, `{}`, 400, "variables: required"},
			{slug, `{"variables":"x"}`, 400, "variables: expected an object"},
			{slug, `{`, 400, "Invalid request body"},
		} {
			a := g.Do("POST", "/v1/prompts/"+c.slug+"/"+action, c.body, "x-gw-api-key: "+key)
			if a.Status != c.status || !strings.Contains(a.Get("message").Str, c.message) {
				t.Errorf("%s of %s %s: %d %s", action, c.slug, c.body, a.Status, a.Body)
			}
		}
	}
	if n := len(up.Calls()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
}

// What a prompt has for calls that are streamed, or that are not, is not in the others.
func TestSavedOptionsOfStreams(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file"))
	parameters := map[string]any{"max_tokens": 9, "stream": true, "best_of": 3, "stream_options": map[string]any{"include_usage": true}}
	text := promptOf(g, map[string]any{"string": "Say {{what}}", "parameters": parameters})
	config := configOf(g, map[string]any{"prompt_id": text})
	for body, want := range map[string]string{
		`{"variables":{}}`:                `true,false`,
		`{"variables":{},"stream":false}`: `true,false`,
		`{"variables":{},"stream":true}`:  `false,true`,
	} {
		rendered := g.Do("POST", "/v1/prompts/"+text+"/render", body, "x-gw-api-key: "+gatewaytest.OwnerKey)
		for _, call := range [][3]string{
			{"/v1/prompts/" + text + "/completions", body, "x-gw-trace-id: t"},
			{"/v1/completions", body, "x-gw-config: " + config},
			{"/v1/completions", rendered.Get("data").Raw, "x-gw-provider: @file"},
		} {
			if a := g.Do("POST", call[0], call[1], "x-gw-api-key: "+gatewaytest.OwnerKey, call[2]); a.Status != 200 {
				t.Errorf("%s %s: %d %s", call[0], call[1], a.Status, a.Body)
				continue
			}
			sent := up.Last(t).Body
			if got := fmt.Sprint(gjson.Get(sent, "best_of").Exists(), ",", gjson.Get(sent, "stream_options").Exists()); got != want {
				t.Errorf("%s %s sends %s", call[0], call[1], sent)
			}
		}
		if a := g.Do("POST", "/v1/prompts/"+text+"/completions", `{"variables":{},"stream_options":{}}`, "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 400 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
}

// What render returns is a chat call as it stands: a provider gets the same as from
// completions.
func TestWhatIsRenderedIsACall(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file"))
	key := gatewaytest.OwnerKey
	contents := []string{
		`"{{a}}"`, `"{{a}} and {{b.c}}"`, `[{"type":"text","text":"{{a}}"},{"type":"image_url","image_url":{"url":"https://host.example/{{b.c}}.png"}}]`,
		`"{{#list}}- {{.}}\n{{/list}}"`, `"{{^none}}nothing{{/none}} {{! a comment }}"`,
	}
	parameters := []map[string]any{
		{},
		{"temperature": 0.5, "stop": []string{"{{a}}"}},
		{"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "n", "schema": map[string]any{"description": "{{a}}"}}}},
		{"max_tokens": 3, "user": "{{b.c}}"},
		{"stream": true, "n": 2, "stream_options": map[string]any{"include_usage": true}},
	}
	const variables = `{"a":"say \"hi\"\n\\ {{b}}","b":{"c":"d"},"list":["x",1]}`
	for i := range 50 {
		template := `[{"role":"system","content":"Be kind to {{a}}"},{"role":"user","content":` + contents[i%5] + `}]`
		fields := map[string]any{"string": template, "parameters": parameters[i/5%5]}
		if i >= 25 {
			fields["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": "f", "description": "{{a}}", "parameters": map[string]any{"type": "object"}}}}
		}
		slug := promptOf(g, fields)
		body := fmt.Sprintf(`{"variables":%s,"seed":%d}`, variables, i)
		rendered := g.Do("POST", []string{"/v1", "/v2"}[i%2]+"/prompts/"+slug+"/render", body, "x-gw-api-key: "+key)
		if rendered.Status != 200 || !rendered.Get("success").Bool() || rendered.Get("data.variables").Exists() || rendered.Get("data.stream").Exists() {
			t.Fatalf("%d: %d %s", i, rendered.Status, rendered.Body)
		}
		for _, call := range [][3]string{{"/v1/chat/completions", rendered.Get("data").Raw, "x-gw-provider: @file"}, {"/v1/prompts/" + slug + "/completions", body, "x-gw-trace-id: t"}} {
			if a := g.Do("POST", call[0], call[1], "x-gw-api-key: "+key, call[2]); a.Status != 200 {
				t.Fatalf("%d: %s: %d %s", i, call[0], a.Status, a.Body)
			}
		}
		calls := up.Calls()
		if direct, prompted := calls[len(calls)-2].Body, calls[len(calls)-1].Body; direct != prompted || gjson.Get(direct, "messages.0.content").Str != "Be kind to say \"hi\"\n\\ {{b}}" {
			t.Errorf("%d: %s\nand by completions %s", i, direct, prompted)
		}
	}
}

func TestRenderingNeedsItsOwnScope(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file"))
	slug := promptOf(g, map[string]any{"string": "x"})
	keys := make(map[string]string)
	for _, scope := range []string{"prompts.render", "completions.write"} {
		keys[scope] = g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": scope, "scopes": []string{scope}}).Get("key").Str
	}
	for action, scope := range map[string]string{"render": "prompts.render", "completions": "completions.write"} {
		for held, key := range keys {
			want := http.StatusForbidden
			if held == scope {
				want = http.StatusOK
			}
			if a := g.Do("POST", "/v1/prompts/"+slug+"/"+action, `{"variables":{}}`, "x-gw-api-key: "+key); a.Status != want {
				t.Errorf("%s with %s: %d %s", action, held, a.Status, a.Body)
			}
		}
	}
}

// A prompt that another workspace shares is rendered with the partials that are shared with it,
// but its provider stays the other workspace's.
func TestASharedPromptIsRenderedInOtherWorkspaces(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file"))
	const workspace = "owner"
	var keys [2]string
	for i, name := range []string{workspace, "other"} {
		g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": name, "slug": name})
		keys[i] = g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": name, "workspace_id": name, "scopes": []string{"completions.write", "prompts.render"}}).Get("key").Str
	}
	partial := g.Admin("POST", "/v1/prompts/partials", map[string]any{"name": "part", "string": "to {{whom}}", "workspace_id": workspace}).Get("slug").Str
	slug := promptOf(g, map[string]any{"string": `[{"role":"user","content":"Hello {{>` + partial + `}}"}]`, "workspace_id": workspace})
	call := func(who int, what string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/prompts/"+slug+"/"+what, `{"variables":{"whom":"you"}}`, "x-gw-api-key: "+keys[who])
	}
	if a := call(1, "render"); a.Status != 404 {
		t.Errorf("before it is shared: %d %s", a.Status, a.Body)
	}
	if a := g.Admin("POST", "/v2/prompts/"+slug+"/share", map[string]any{"include_partials": true}); a.Status != 200 {
		t.Fatal(a.Status, a.Body)
	}
	for who := range keys {
		if a := call(who, "render"); a.Status != 200 || a.Get("data.messages.0.content").Str != "Hello to you" {
			t.Errorf("key %d: %d %s", who, a.Status, a.Body)
		}
	}
	if a := call(0, "completions"); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	before := len(up.Calls())
	if a := call(1, "completions"); a.Status != 403 || a.Get("error.code").Str != "prompt_of_another_workspace" || len(up.Calls()) != before {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := g.Admin("DELETE", "/v2/prompts/"+slug+"/share", nil); a.Status != 200 {
		t.Fatal(a.Status, a.Body)
	}
	if a := call(1, "render"); a.Status != 404 {
		t.Errorf("when it is no longer shared: %d %s", a.Status, a.Body)
	}
}
