package admin_test

import (
	"encoding/json"
	"strings"
	"testing"
)

const chatPrompt = `{"name":"Order help","string":"[{\"role\":\"user\",\"content\":\"{{#a}}{{b}}{{/a}} {{c}}\"}]","parameters":{"temperature":0.5,"variables":{"c":"d"}},` +
	`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto","model":"m","virtual_key":"@local","version_description":"first","template_metadata":{"k":1}`

func TestPromptsHaveVersions(t *testing.T) {
	a := newAPI(t)
	partial := a.ok("POST", "/v1/prompts/partials", `{"name":"x","string":"s"}`).get("slug").Str
	made := a.ok("POST", "/v1/prompts", strings.Replace(chatPrompt, "{{c}}", "{{c}} {{>"+partial+"}}", 1)+`,"collection_id":""}`)
	id, slug, first := made.get("id").Str, made.get("slug").Str, made.get("version_id").Str
	if !strings.HasPrefix(slug, "pp-order-help-") || made.get("object").Str != "prompt" {
		t.Fatal(made.body)
	}
	shown := a.ok("GET", "/v2/prompts/"+slug, "")
	for path, want := range map[string]string{
		"id": id, "prompt_version": "1", "prompt_version_id": first, "prompt_version_description": "first", "parameters.temperature": "0.5", "tools.0.function.name": "f",
		"tool_choice": "auto", "model": "m", "virtual_key": "@local", "template_metadata.k": "1", "is_raw_template": "0", "status": "active", "object": "prompt",
		"variable_components": `{"partials":["` + partial + `"],"sections":["a"],"variables":["c"],"sectionVariables":["b"],"variablePartials":[]}`, "prompt_version_labels": "[]",
	} {
		if got := shown.get(path).String(); got != want {
			t.Errorf("%s: %s, expected %s", path, got, want)
		}
	}

	// Changing the name creates no version, PATCH keeps omitted fields, and the
	// published version stays the same.
	a.ok("PUT", "/v1/prompts/"+id, `{"name":"renamed"}`)
	second := a.ok("PUT", "/v1/prompts/"+id, `{"patch":true,"model":"n"}`).get("prompt_version_id").Str
	a.ok("PUT", "/v1/prompts/"+id, `{"string":"Say {{what}}","virtual_key":"local"}`)
	for version, want := range map[string]string{"": `1 m [`, "latest": `3  Say {{what}}`, "2": `2 n [`, "1": "1 m ["} {
		got := a.ok("GET", "/v1/prompts/"+slug+"?version="+version, "")
		if s := got.get("prompt_version").Raw + " " + got.get("model").Str + " " + got.get("string").Str; !strings.HasPrefix(s, want) || got.get("name").Str != "renamed" {
			t.Errorf("version %q: %s", version, got.body)
		}
	}
	a.ok("PUT", "/v1/prompts/"+slug+"/makeDefault", `{"version":2}`)
	if got := a.ok("GET", "/v1/prompts/"+slug, ""); got.get("prompt_version_id").Str != second {
		t.Error(got.body)
	}
	production := a.ok("GET", "/v1/labels?search=PROD", "").get("data.0.id").Str
	a.ok("PUT", "/v1/prompts/"+slug+"/versions/"+first, `{"label_id":"`+production+`"}`)
	a.ok("PUT", "/v1/prompts/"+slug+"/versions/3", `{"label_id":"`+production+`"}`)
	got := a.ok("GET", "/v1/prompts/"+slug+"?version=production", "")
	if got.get("prompt_version").Int() != 3 || got.get("prompt_version_label_name").Str != "production" || got.get("prompt_version_label_id").Str != production {
		t.Error(got.body)
	}
	if all := a.ok("GET", "/v1/prompts/"+id+"/versions", ""); all.get("total").Int() != 3 || all.get("data.0.label_id").Type.String() != "Null" || all.get("data.2.label_id").Str != production {
		t.Error(all.body)
	}
	if one := a.ok("GET", "/v1/prompts/"+id+"/versions/"+second, ""); one.get("model").Str != "n" {
		t.Error(one.body)
	}
	a.ok("PUT", "/v1/prompts/partials/"+partial, `{"string":"t"}`)
	for reference, want := range map[string]string{slug + "@1": "1", slug + "%403": "3", id + "@2": "2", slug + "@latest": "3", slug + "@production": "3", "partials/" + partial + "@2": "2", "partials/" + partial + "@latest": "2", "partials/" + partial: "1"} {
		got := a.ok("GET", "/v1/prompts/"+reference, "")
		if got.get("prompt_version").Raw+got.get("version").Raw != want {
			t.Errorf("%s: %s", reference, got.body)
		}
	}
	a.refuses(ownerKey, "GET", "/v1/prompts/"+slug+"@1?version=2", "", 400, "version")
	for _, gone := range []string{"@", "@9", "@staging", "@1@2", "@1/versions", "?version=9", "?version=staging", "/versions/9", "/versions/" + id} {
		if out := a.do("GET", "/v1/prompts/"+slug+gone, ""); out.status != 404 {
			t.Errorf("%s: %d %s", gone, out.status, out.body)
		}
	}
	a.ok("DELETE", "/v1/prompts/"+slug, "")
	if out := a.do("GET", "/v1/prompts/"+slug, ""); out.status != 404 {
		t.Error(out.body)
	}
}

func TestPromptsAreFoundByCollectionAndName(t *testing.T) {
	a := newAPI(t)
	whole := a.ok("GET", "/v1/collections", "").get("data.0")
	if !whole.Get("is_default").Bool() {
		t.Fatal(whole.Raw)
	}
	folder := a.ok("POST", "/v1/collections", `{"name":"Support","workspace_id":"","parent_collection_id":"`+whole.Get("slug").Str+`"}`).get("slug").Str
	inFolder := a.ok("POST", "/v1/prompts", chatPrompt+`,"collection_id":"`+folder+`"}`).get("slug").Str
	a.ok("POST", "/v1/prompts", strings.Replace(chatPrompt, "Order help", "Other", 1)+`}`)
	a.ok("POST", "/v1/prompts/partials", `{"name":"Order part","string":"p"}`)
	for query, want := range map[string]int64{"": 2, "?search=order": 1, "?collection_id=" + folder: 1, "?collection_id=" + whole.Get("id").Str: 1, "?collection_id=nope": 0, "?search=order&collection_id=" + whole.Get("id").Str: 0} {
		if got := a.ok("GET", "/v1/prompts"+query, ""); got.get("total").Int() != want {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	if got := a.ok("GET", "/v1/collections/"+whole.Get("id").Str, ""); got.get("child_collections.0.collection_details.prompts_count").Int() != 1 || got.get("child_collections.0.name").Str != "Support" {
		t.Error(got.body)
	}
	a.ok("PUT", "/v1/collections/"+folder, `{"name":"Help"}`)
	for path, status := range map[string]int{"/v1/collections/" + folder: 409, "/v1/collections/" + whole.Get("id").Str: 403} {
		if out := a.do("DELETE", path, ""); out.status != status {
			t.Errorf("%s: %d %s", path, out.status, out.body)
		}
	}
	a.ok("DELETE", "/v1/prompts/"+inFolder, "")
	a.ok("DELETE", "/v1/collections/"+folder, "")
}

func TestPartialsHaveVersionsToo(t *testing.T) {
	a := newAPI(t)
	made := a.ok("POST", "/v1/prompts/partials", `{"name":"Tone","string":"Be kind.","version_description":"d"}`)
	slug := made.get("slug").Str
	next := a.ok("PUT", "/v1/prompts/partials/"+slug, `{"string":"Be short.","description":"e"}`).get("prompt_partial_version_id").Str
	if got := a.ok("GET", "/v1/prompts/partials/"+slug, ""); got.get("string").Str != "Be kind." || got.get("version").Int() != 1 || got.get("version_description").Str != "d" {
		t.Error(got.body)
	}
	a.ok("PUT", "/v1/prompts/partials/"+slug+"/makeDefault", `{"version":2}`)
	if got := a.ok("GET", "/v1/prompts/partials/"+made.get("id").Str, ""); got.get("string").Str != "Be short." || got.get("prompt_partial_version_id").Str != next {
		t.Error(got.body)
	}
	if got := a.ok("GET", "/v1/prompts/partials/"+slug+"/versions", ""); got.get("total").Int() != 2 || got.get("data.1.description").Str != "e" || got.get("data.1.version").Raw != `"2"` || got.get("data.0.object").Str != "partial" {
		t.Error(got.body)
	}
	user := a.ok("POST", "/v1/prompts", strings.Replace(chatPrompt, "{{c}}", "{{>"+slug+"@2}}", 1)+`}`).get("slug").Str
	if out := a.do("DELETE", "/v1/prompts/partials/"+slug, ""); out.status != 409 || !strings.Contains(out.body, user) {
		t.Errorf("a partial that is in use: %d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/prompts/"+user, "")
	if out := a.do("GET", "/v1/prompts/"+slug, ""); out.status != 404 {
		t.Errorf("a partial is not a prompt: %d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/prompts/partials/"+slug, "")
}

// While a partial is archived, what it inserts may be deleted.
func TestAnArchivedPartialIsActivatedWithWhatItInserts(t *testing.T) {
	a := newAPI(t)
	inner := a.ok("POST", "/v1/prompts/partials", `{"name":"inner","string":"s"}`).get("slug").Str
	outer := "/v1/prompts/partials/" + a.ok("POST", "/v1/prompts/partials", `{"name":"outer","string":"{{> `+inner+`}}"}`).get("slug").Str
	a.ok("PUT", outer, `{"status":"archived"}`)
	a.ok("PUT", outer, `{"status":"active"}`)
	a.ok("PUT", outer, `{"status":"archived"}`)
	a.ok("DELETE", "/v1/prompts/partials/"+inner, "")
	for _, body := range []string{`{"status":"active"}`, `{"status":"active","string":"without it"}`} { // the first version stays published
		if out := a.do("PUT", outer, body); out.status != 400 || !strings.Contains(out.body, "has no partial") {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	if out := a.ok("GET", outer, ""); out.get("status").Str != "archived" {
		t.Errorf("%s", out.body)
	}
	a.ok("PUT", outer, `{"string":"without it"}`)
	a.ok("PUT", outer+"/makeDefault", `{"version":2}`)
	a.ok("PUT", outer, `{"status":"active"}`)
}

func TestLabelsOfAWorkspace(t *testing.T) {
	a := newAPI(t)
	id := a.ok("POST", "/v1/labels", `{"name":"canary","color_code":"#fff"}`).get("id").Str
	if all := a.ok("GET", "/v1/labels", ""); all.get("total").Int() != 4 || !all.get("data.0.is_universal").Bool() || all.get("data.3.name").Str != "canary" {
		t.Error(all.body)
	}
	slug := a.ok("POST", "/v1/prompts", chatPrompt+`}`).get("slug").Str
	a.ok("PUT", "/v1/prompts/"+slug+"/versions/1", `{"label_id":"`+id+`"}`)
	a.ok("PUT", "/v1/labels/"+id, `{"name":"beta"}`)
	a.ok("GET", "/v1/prompts/"+slug+"?version=beta", "")
	a.ok("DELETE", "/v1/labels/"+id, "")
	if got := a.ok("GET", "/v1/prompts/"+slug, ""); got.get("prompt_version_labels").Raw != "[]" {
		t.Error(got.body)
	}
	universal := a.ok("GET", "/v1/labels", "").get("data.0.id").Str
	for _, method := range []string{"PUT", "DELETE"} {
		if out := a.do(method, "/v1/labels/"+universal, `{"name":"x"}`); out.status != 403 {
			t.Errorf("%s: %d %s", method, out.status, out.body)
		}
	}
	for _, name := range []string{"latest", "default", "12", "a b", "a@b", "production", ""} {
		if out := a.do("POST", "/v1/labels", `{"name":"`+name+`"}`); out.status != 400 && out.status != 409 {
			t.Errorf("%q: %d %s", name, out.status, out.body)
		}
	}
}

func TestBadPromptsAreRefused(t *testing.T) {
	a := newAPI(t)
	slug := a.ok("POST", "/v1/prompts", chatPrompt+`}`).get("slug").Str
	other := a.ok("POST", "/v1/admin/workspaces", `{"name":"Other"}`).get("id").Str
	foreign := a.ok("POST", "/v1/prompts/partials", `{"name":"f","string":"s","workspace_id":"`+other+`"}`).get("slug").Str
	partial := a.ok("POST", "/v1/prompts/partials", `{"name":"p","string":"s"}`).get("slug").Str
	outer := a.ok("POST", "/v1/prompts/partials", `{"name":"o","string":"{{>`+partial+`}}"}`).get("slug").Str
	deep, err := json.Marshal(strings.Repeat("{{#a}}", 70) + strings.Repeat("{{/a}}", 70))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		message            string
	}{
		{"POST", "/v1/prompts", `{"name":"n","string":"s","virtual_key":"nope"}`, 404, "virtual_key: "},
		{"POST", "/v1/prompts", `{"name":"n","string":"s"}`, 400, "virtual_key"},
		{"POST", "/v1/prompts", `{"name":"n","string":"s","virtual_key":"@local","collection_id":"nope"}`, 404, "collection_id: "},
		{"POST", "/v1/prompts", `{"name":"n","string":"[{\"role\": {{r}} }]","virtual_key":"@local"}`, 400, "is_raw_template"},
		{"POST", "/v1/prompts", `{"name":"n","string":"Hello {{a}}","is_raw_template":1,"virtual_key":"@local"}`, 400, "string: expected an array of messages"},
		{"POST", "/v1/prompts", `{"name":"n","string":` + string(deep) + `,"virtual_key":"@local"}`, 400, "string: expected at most 64 sections"},
		{"POST", "/v1/prompts", `{"name":"n","string":"s","virtual_key":"@local","parameters":[]}`, 400, "parameters"},
		{"PUT", "/v1/prompts/" + slug, `{"model":"x"}`, 400, "string: required"},
		{"PUT", "/v1/prompts/" + slug, `{"string":"{{>` + foreign + `}}"}`, 400, "string: the workspace has no partial"},
		{"PUT", "/v1/prompts/" + slug, `{"patch":true,"parameters":{"temperature":3}}`, 400, "parameters.temperature: "},
		{"PUT", "/v1/prompts/partials/" + partial, `{"string":"{{>pp-missing}}"}`, 400, `string: the workspace has no partial "pp-missing"`},
		{"PUT", "/v1/prompts/partials/" + partial, `{"string":"{{>` + outer + `}}"}`, 400, "string: the partial inserts itself: " + partial + " → " + outer + " → " + partial},
		{"PUT", "/v1/prompts/" + slug + "/makeDefault", `{"version":7}`, 404, "version: "},
		{"PUT", "/v1/prompts/" + slug + "/versions/1", `{"label_id":"nope"}`, 404, "label_id: "},
		{"POST", "/v1/collections", `{"name":"n","parent_collection_id":"nope"}`, 404, "parent_collection_id: "},
		{"POST", "/v1/prompts/partials", `{"name":"n"}`, 400, "string"},
	} {
		if out := a.do(c.method, c.path, c.body); out.status != c.status || !strings.Contains(out.message(), c.message) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, out.status, out.body)
		}
	}
	// What can never be rendered, or never be sent.
	for _, c := range []struct{ text, more, message string }{
		{`[{"role":5}]`, ``, "string: Invalid type for 'messages[0].role': expected a string, but got a number instead."},
		{`[{"role":"robot"}]`, ``, "string: Invalid 'messages[0].role': 'robot' is not supported."},
		{`[{"role":"user","content":7}]`, ``, "string: Invalid type for 'messages[0].content'"},
		{`[{"content":"hi"}]`, ``, "string: Missing required parameter: 'messages[0].role'."},
		{`["hi"]`, ``, "string: expected messages"},
		{`{"a":1}`, ``, "string: expected messages"},
		{` {"messages":[{"role":"user","content":"hi"}]} `, ``, "string: expected messages"},
		{`"[{\"role\":\"user\",\"content\":\"hi\"}]"`, ``, "string: expected messages"},
		{`[{"role":"user","{{name}}":"hi"}]`, ``, `string: the name "{{name}}" has a tag; only values are rendered`},
		{`[{"role":"user"}]`, `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{},"x{{n}}":{}}}}}]`, `tools: the name "x{{n}}" has a tag`},
		{`[{"role":"user"}]`, `,"parameters":{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"{{#a}}":1}}}}`, "parameters.response_format: the name"},
		{`[]`, ``, "string: expected messages"},
		{`[{"role":"user"},"hi"]`, ``, "string: expected messages"},
		{`hi`, `,"parameters":{"temperature":"hot"}`, "parameters.temperature: Invalid type for 'temperature': expected a number, but got a string instead."},
		{`hi`, `,"parameters":{"temperature":"{{t}}"}`, "parameters.temperature: "}, // a text stays one
		{`hi`, `,"parameters":{"logprobs":true}`, "parameters.logprobs: "},
		{`hi`, `,"parameters":{"stop":["a",7]}`, "parameters.stop[1]: "},
		{`hi`, `,"parameters":{"variables":7}`, "parameters.variables: expected an object"},
		{`{{>pp-missing}}`, ``, `string: the workspace has no partial "pp-missing", or no such version of it`},
		{`{{>` + foreign + `}}`, ``, "string: the workspace has no partial"},
		{`{{>` + partial + `@7}}`, ``, "string: the workspace has no partial"},
		{`hi`, `,"parameters":{"suffix":"{{>pp-missing}}"}`, "parameters.suffix: the workspace has no partial"},
		{`[{"role": "{{r}}"}]`, `,"is_raw_template":1,"parameters":{"top_p":2}`, "parameters.top_p: "},
		{`[{"role":"user"}]`, `,"tool_choice":"never"`, "tool_choice: "},
		{`[{"role":"user"}]`, `,"tools":[{"type":"function"}],"parameters":{"tool_choice":{"type":"function"}}`, "parameters.tool_choice.function: "},
	} {
		text, err := json.Marshal(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if out := a.do("POST", "/v1/prompts", `{"name":"n","virtual_key":"@local","string":`+string(text)+c.more+`}`); out.status != 400 || !strings.HasPrefix(out.message(), c.message) {
			t.Errorf("%s%s: %d %s", c.text, c.more, out.status, out.body)
		}
	}
	// What a call may complete.
	for _, c := range []struct{ text, more string }{
		{`[{"role":"{{r}}","content":"{{>` + outer + `}}"}]`, `,"parameters":{"top_logprobs":2,"stream_options":{}},"tool_choice":"{{choice}}"`},
		{`[INST] [1, {{two}}]`, `,"parameters":{"stream":"ignored","best_of":2}`},
		{`{"a": {{a}}}`, ``},
		{`42`, ``},
		{`"hi"`, ``},
		{`[{"role":"user","content":"hi"}]`, `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"{{unclosed":{}}}}}]`},
		{`{{>>named}}`, ``},
	} {
		text, err := json.Marshal(c.text)
		if err != nil {
			t.Fatal(err)
		}
		a.ok("POST", "/v1/prompts", `{"name":"n","virtual_key":"@local","string":`+string(text)+c.more+`}`)
	}
	if got := a.ok("GET", "/v1/prompts/"+slug+"/versions", ""); got.get("total").Int() != 1 {
		t.Error(got.body)
	}
}

func TestPublishingNeedsItsScope(t *testing.T) {
	a := newAPI(t)
	slug := a.ok("POST", "/v1/prompts", chatPrompt+`}`).get("slug").Str
	writer, _ := a.key("workspace/service", `"prompts.update","prompts.read"`)
	for _, sub := range []string{"/makeDefault", "/versions/1"} {
		if out := a.as(writer, "PUT", "/v1/prompts/"+slug+sub, `{"version":1}`); out.status != 403 || !strings.Contains(out.body, "prompts.publish") {
			t.Errorf("%s: %d %s", sub, out.status, out.body)
		}
	}
}

// Objects that the published, newest or a labelled version refers to cannot be deleted.
func TestWhatPromptsNameIsNotDeleted(t *testing.T) {
	a := newAPI(t)
	key := a.ok("POST", "/v1/virtual-keys", `{"name":"k","slug":"prompted","provider":"openai","key":"sk-0123456789"}`).get("data.slug").Str
	config := a.ok("POST", "/v1/configs", `{"name":"c","config":{"provider":"@local"}}`).get("slug").Str
	slug := a.ok("POST", "/v1/prompts", strings.Replace(chatPrompt, "@local", "@"+key, 1)+`}`).get("slug").Str
	refused := func(path string) {
		t.Helper()
		if out := a.do("DELETE", path, ""); out.status != 409 || !strings.Contains(out.body, "prompt "+slug) {
			t.Errorf("DELETE %s: %d %s", path, out.status, out.body)
		}
	}
	refused("/v1/virtual-keys/" + key)
	a.ok("PUT", "/v1/prompts/"+slug, `{"patch":true,"virtual_key":"`+config+`"}`)
	refused("/v1/virtual-keys/" + key)
	refused("/v1/configs/" + config)
	a.ok("PUT", "/v1/prompts/"+slug+"/makeDefault", `{"version":2}`)
	a.ok("DELETE", "/v1/virtual-keys/"+key, "")
	a.ok("PUT", "/v1/prompts/"+slug, `{"patch":true,"virtual_key":"@local"}`)
	a.ok("PUT", "/v1/prompts/"+slug+"/makeDefault", `{"version":3}`)
	label := a.ok("GET", "/v1/labels", "").get("data.0.id").Str
	a.ok("PUT", "/v1/prompts/"+slug+"/versions/2", `{"label_id":"`+label+`"}`)
	refused("/v1/configs/" + config)
	a.ok("PUT", "/v1/prompts/"+slug+"/versions/2", `{}`)
	a.ok("DELETE", "/v1/configs/"+config, "")
}

// A new version that keeps what is left out keeps its model, too, wherever that was; and no label goes on a version that cannot be rendered.
func TestVersionsThatKeepWhatIsLeftOutKeepTheirModel(t *testing.T) {
	a := newAPI(t)
	partial := a.ok("POST", "/v1/prompts/partials", `{"name":"p","string":"x"}`).get("slug").Str
	slug := a.ok("POST", "/v1/prompts", `{"name":"n","string":"{{>`+partial+`}}","virtual_key":"@local","parameters":{"model":"m"}}`).get("slug").Str
	a.ok("PUT", "/v1/prompts/"+slug, `{"patch":true,"string":"s","parameters":{"temperature":1}}`)
	a.ok("PUT", "/v1/prompts/"+slug, `{"patch":true,"parameters":{"model":"n"}}`)
	for version, want := range map[string]string{"2": "m", "3": "n"} {
		if got := a.ok("GET", "/v1/prompts/"+slug+"?version="+version, "").get("model").Str; got != want {
			t.Errorf("version %s: model %q, want %q", version, got, want)
		}
	}
	a.ok("PUT", "/v1/prompts/"+slug+"/makeDefault", `{"version":3}`)
	a.ok("DELETE", "/v1/prompts/partials/"+partial, "")
	label := a.ok("GET", "/v1/labels", "").get("data.0.id").Str
	for _, path := range []string{"/makeDefault", "/versions/1"} {
		out := a.do("PUT", "/v1/prompts/"+slug+path, map[string]string{"/makeDefault": `{"version":1}`, "/versions/1": `{"label_id":"` + label + `"}`}[path])
		if out.status != 400 || !strings.Contains(out.body, "no partial") {
			t.Errorf("%s: %d %s", path, out.status, out.body)
		}
	}
}

// Lists show the model of the published version, even if only its parameters name it.
func TestListsHaveTheModelOfThePublishedVersion(t *testing.T) {
	a := newAPI(t)
	slug := a.ok("POST", "/v1/prompts", `{"name":"n","string":"s","virtual_key":"@local","parameters":{"model":"first"}}`).get("slug").Str
	a.ok("PUT", "/v1/prompts/"+slug, `{"string":"s","model":"second"}`)
	for _, want := range []string{"first", "second"} {
		if got := a.ok("GET", "/v1/prompts", "").get("data.0.model").Str; got != want {
			t.Errorf("the list has %q, expected %q", got, want)
		}
		a.ok("PUT", "/v1/prompts/"+slug+"/makeDefault", `{"version":2}`)
	}
}
