package handlers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/caddy-gw/gateway/internal/routing"
)

func TestTheCanariesKnowEverySetting(t *testing.T) {
	if !slices.Equal(rowNames, routing.VendorKeys) {
		t.Errorf("the settings are %q, and the test knows %q", routing.VendorKeys, rowNames)
	}
}

// Whatever is saved, edited and called: a secret comes to no other address than the one
// that it was saved for, and shows nowhere.
func TestSecretsGoWhereTheyWereSavedForAndShowNowhere(t *testing.T) {
	s := &scene{world: newWorld(t, 3), account: testAccount(t), records: make(map[string]bool)}
	s.token = s.tokenFor
	s.Gateway = gatewaytest.New(t, trustLoopback+"passthrough_paths POST /v1/elsewhere\n"+
		"provider file {\ntype openai\nbase_url http://"+s.hosts[0]+"/v1\napi_key cnry000000ayy\nheader X-Extra cnry000000byy\n}\n")
	s.Site = "gw_admin\ngw_ratelimit\ngw_inference {\ntransport {\nresolvers " + loopbackResolver(t) +
		"\ntls_trust_pool file " + s.caFile + "\nnetwork_proxy url http://" + s.proxy + "\n}\n}"
	s.Load()
	s.key, _ = s.Key("k")
	s.workspace = s.Do("GET", "/v1/admin/workspaces", "", "x-gw-api-key: "+gatewaytest.OwnerKey).Get("data.0.id").Str
	s.model = &model{homes: make(map[string][]home), free: make(map[string]bool), keys: make(map[string]*home)}
	s.savedKey("file", home{provider: "openai", host: s.hosts[0]}, "cnry000000ayy cnry000000byy")
	rapid.Check(t, s.play)
	t.Logf("%d edits were made, %d refused; %d secrets came to a host, in %d calls", s.edited, s.refused, s.came, s.called)
	if s.edited == 0 || s.refused == 0 || s.came == 0 {
		t.Error("too little happened")
	}
}

// A scene is a gateway in a world, with the resources of one check.
type scene struct {
	*gatewaytest.Gateway
	*world
	*model
	key     string // of the service
	account map[string]string
	made    int             // canaries
	logged  int64           // bytes of the log that were read
	records map[string]bool // that were read

	virtual, configs, integrated []string // slugs
	workspace                    string   // of the service's key

	edited, refused, came, called int
}

func (s *scene) play(t *rapid.T) {
	s.virtual, s.configs, s.integrated = nil, nil, nil
	s.take() // of a check that failed
	for range rapid.IntRange(1, 2).Draw(t, "virtual keys") {
		s.addKey(t)
	}
	for range rapid.IntRange(1, 2).Draw(t, "integrations") {
		s.addIntegration(t)
	}
	for range rapid.IntRange(1, 2).Draw(t, "configs") {
		s.addConfig(t)
	}
	for range rapid.IntRange(3, 12).Draw(t, "steps") {
		switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
		case step < 3 && len(s.virtual) > 0:
			s.editKey(t, rapid.SampledFrom(s.virtual).Draw(t, "slug"))
		case step < 5 && len(s.integrated) > 0:
			s.editIntegration(t, rapid.SampledFrom(s.integrated).Draw(t, "slug"))
		case step < 7 && len(s.configs) > 0:
			s.editConfig(t, rapid.SampledFrom(s.configs).Draw(t, "slug"))
		default:
			s.call(t)
		}
		s.look(t)
	}
	for _, path := range []string{"/v1/virtual-keys", "/v1/integrations", "/v1/providers", "/v1/configs", "/v1/logs"} {
		s.admin(t, "GET", path, nil)
	}
	for _, id := range s.admin(t, "GET", "/v1/logs", nil).Get("data.#.id").Array() {
		if !s.records[id.Str] {
			s.records[id.Str] = true
			s.admin(t, "GET", "/v1/logs/"+id.Str, nil)
		}
	}
	for _, slug := range s.configs {
		s.admin(t, "GET", "/v1/configs/"+slug+"/versions", nil)
		s.admin(t, "DELETE", "/v1/configs/"+slug, nil)
	}
	for _, slug := range s.virtual {
		s.admin(t, "DELETE", "/v1/virtual-keys/"+slug, nil)
	}
	for _, slug := range s.integrated {
		s.admin(t, "DELETE", "/v1/providers/"+slug, nil)
		s.admin(t, "DELETE", "/v1/integrations/"+slug+"?workspace_id="+s.workspace, nil)
	}
	s.readLog(t)
}

// look holds what hosts were sent against the model.
func (s *scene) look(t *rapid.T) {
	for _, r := range s.take() {
		for _, canary := range canaries.FindAllString(r.text, -1) {
			s.came++
			if !s.holds(canary, r) {
				t.Fatalf("%s came to %s, and was saved for %v:\n%s", canary, r.at, s.homes[canary], r.text)
			}
		}
	}
}

// hidden fails where a text shows a canary of a resource, or of callers too.
func (s *scene) hidden(t *rapid.T, what, text string, callers bool) {
	for _, canary := range canaries.FindAllString(text, -1) {
		if callers || !s.free[canary] {
			t.Fatalf("%s is in %s: %s", canary, what, text)
		}
	}
}

func (s *scene) readLog(t *rapid.T) {
	f, err := os.Open(s.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size()-s.logged)
	if _, err := f.ReadAt(b, s.logged); err != nil {
		t.Fatal(err)
	}
	s.logged = info.Size()
	for line := range strings.Lines(string(b)) {
		s.hidden(t, "the log", line, true)
	}
}

// tokenFor is a token that goes where the secret goes that bought it.
func (s *scene) tokenFor(login receipt) string {
	token := s.next('a')
	if canary := canaries.FindString(login.text); canary != "" {
		s.bought(token, canary)
	}
	return token
}

func (s *scene) next(end byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return fmt.Sprintf("cnry%06d%cyy", s.made, end)
}

// admin makes a call to the control plane, whose answer shows no canary.
func (s *scene) admin(t *rapid.T, method, path string, body map[string]any) *gatewaytest.Answer {
	text := ""
	if body != nil {
		text = textOf(body)
	}
	a := s.Do(method, path, text, "x-gw-api-key: "+gatewaytest.OwnerKey)
	s.hidden(t, "the answer to "+method+" "+path+" "+text, a.Body, true)
	if a.Status >= 500 || method == "GET" && a.Status != http.StatusOK {
		t.Fatalf("%s %s %s: %d %s", method, path, text, a.Status, a.Body)
	}
	return a
}

func (s *scene) addKey(t *rapid.T) {
	name := rapid.SampledFrom(worldNames).Draw(t, "provider")
	settings := make(map[string]any)
	s.settings(t, name, settings)
	body := map[string]any{"name": "n", "provider": name, "key": s.canary(t), "model_config": settings}
	if worldProviders[name].alone || chance(t, 50) {
		body["custom_host"] = s.host(t)
	}
	a := s.admin(t, "POST", "/v1/virtual-keys", body)
	if a.Status != http.StatusOK {
		return
	}
	slug := a.Get("data.slug").Str
	s.virtual = append(s.virtual, slug)
	s.noteKey(slug, home{provider: name}, body)
}

// noteKey tells the model what was sent of a virtual key that is now saved.
func (s *scene) noteKey(slug string, h home, body map[string]any) {
	settings, given := body["model_config"].(map[string]any)
	if resource, ok := body["resourceName"]; ok {
		settings, given = maps.Clone(settings), true
		if settings == nil {
			settings = make(map[string]any)
		}
		settings["azure_resource_name"] = resource
	}
	if given {
		of := homeOf(settings, "")
		h.words, h.logins = of.words, of.logins
		if of.host != "" {
			h.host = of.host
		}
	}
	if host, ok := body["custom_host"]; ok {
		h.host = bare(says(body, "custom_host"))
		_ = host
	}
	s.savedKey(slug, h, body)
}

func (s *scene) editKey(t *rapid.T, slug string) {
	shown := s.admin(t, "GET", "/v1/virtual-keys/"+slug, nil)
	var settings map[string]any
	if err := json.Unmarshal([]byte(shown.Get("model_config").Raw), &settings); err != nil {
		t.Fatal(err)
	}
	before := maps.Clone(settings)
	body := make(map[string]any)
	if chance(t, 60) {
		body["custom_host"] = rapid.SampledFrom([]any{s.host(t), s.host(t), "", nil, shown.Get("custom_host").Value()}).Draw(t, "custom host")
	}
	if chance(t, 60) {
		body["key"] = rapid.SampledFrom([]string{shown.Get("masked_api_key").Str, "", s.canary(t), s.canary(t), "cn*****byy"}).Draw(t, "key")
	}
	if chance(t, 70) {
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			s.edit(t, settings)
		}
		body["model_config"] = settings
	}
	if chance(t, 10) {
		body["resourceName"] = s.value(t, "azure_resource_name")
	}
	if a := s.admin(t, "PUT", "/v1/virtual-keys/"+slug, body); a.Status != http.StatusOK {
		s.refused++
		return
	}
	s.edited++
	h := *s.keys[slug]
	whole := merged(&h, before, body)
	s.noteKey(slug, h, whole)
	s.ask(t, "POST", "/v1/chat/completions", chatOf("m"), "x-gw-virtual-key: "+slug)
}

// merged is a change of a virtual key that names all its settings: an update keeps those that it does not name. An address
// among them is no longer the key's if the change takes it away.
func merged(h *home, before, body map[string]any) map[string]any {
	settings, given := body["model_config"].(map[string]any)
	resource, also := body["resourceName"]
	if !given && !also {
		return body
	}
	all := maps.Clone(before)
	maps.Copy(all, settings)
	if also {
		all["azure_resource_name"] = resource
	}
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil || value == "" })
	if was := homeOf(before, "").host; was != "" && was == h.host && homeOf(all, "").host == "" {
		h.host = ""
	}
	whole := maps.Clone(body)
	delete(whole, "resourceName")
	whole["model_config"] = all
	return whole
}

func (s *scene) addConfig(t *rapid.T) {
	config := s.node(t, 0)
	a := s.admin(t, "POST", "/v1/configs", map[string]any{"name": "c", "config": config})
	if a.Status != http.StatusOK {
		return
	}
	s.configs = append(s.configs, a.Get("slug").Str)
	s.savedConfig(config)
}

func (s *scene) editConfig(t *rapid.T, slug string) {
	shown := s.admin(t, "GET", "/v1/configs/"+slug, nil)
	text := shown.Get("config").Raw
	if shown.Get("config").Str != "" {
		text = shown.Get("config").Str
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(1, 2).Draw(t, "changes") {
		var nodes []map[string]any
		var walk func(map[string]any)
		walk = func(n map[string]any) {
			nodes = append(nodes, n)
			targets, _ := n["targets"].([]any)
			for _, child := range targets {
				walk(child.(map[string]any))
			}
		}
		walk(config)
		n := rapid.SampledFrom(nodes).Draw(t, "node")
		targets, _ := n["targets"].([]any)
		switch change := rapid.IntRange(0, 9).Draw(t, "change"); {
		case change < 4:
			n["custom_host"] = rapid.SampledFrom([]any{s.host(t), s.host(t), s.host(t), "", nil}).Draw(t, "custom host")
		case change == 8:
			delete(n, "custom_host")
		case change == 4 && targets == nil:
			n["provider"] = rapid.SampledFrom(worldNames).Draw(t, "provider")
		case change == 5 && targets != nil:
			n["targets"] = append(targets, clone(rapid.SampledFrom(nodes[1:]).Draw(t, "copied")))
		case change == 5:
			outer := map[string]any{"strategy": map[string]any{"mode": "single"}, "targets": []any{config}, "custom_host": s.host(t)}
			config = outer
		case change == 6 && targets != nil:
			n["targets"] = append(targets, s.node(t, 3))
		case change == 6:
			n["api_key"] = rapid.SampledFrom([]any{s.canary(t), "cn*****ayy", "cn*****byy", nil}).Draw(t, "key")
		case change == 7:
			n["override_params"] = map[string]any{"upstream_token": rapid.SampledFrom([]any{s.canary(t), "cn*****ayy"}).Draw(t, "token")}
		default:
			s.edit(t, n)
		}
	}
	if a := s.admin(t, "PUT", "/v1/configs/"+slug, map[string]any{"config": config}); a.Status != http.StatusOK {
		s.refused++
		return
	}
	s.edited++
	s.savedConfig(config)
	s.ask(t, "POST", "/v1/chat/completions", chatOf("m"), "x-gw-config: "+slug, cue+"fail")
}

// call makes a call, with whatever its headers may say.
func (s *scene) call(t *rapid.T) {
	headers := []string{cue + rapid.SampledFrom([]string{"ok", "fail", "echo"}).Draw(t, "cue")}
	add := func(name, value string) { headers = append(headers, name+": "+value) }
	if len(s.configs) > 0 && chance(t, 60) {
		add("x-gw-config", rapid.SampledFrom(s.configs).Draw(t, "config")+rapid.SampledFrom([]string{"", "", "@1", "@2"}).Draw(t, "version"))
	} else if chance(t, 40) {
		add("x-gw-config", textOf(s.inline(t)))
	}
	if chance(t, 25) {
		add("x-gw-virtual-key", s.slug(t))
	}
	if chance(t, 40) {
		if chance(t, 50) {
			add("x-gw-provider", "@"+s.slug(t))
		} else {
			add("x-gw-provider", rapid.SampledFrom(worldNames).Draw(t, "provider"))
		}
	}
	if chance(t, 30) {
		add("x-gw-custom-host", s.host(t))
	}
	for range rapid.IntRange(0, 2).Draw(t, "own settings") {
		if row := rapid.SampledFrom(rowNames).Draw(t, "setting"); worldRows[row] == rowPlace || worldRows[row] == rowHost || chance(t, 20) {
			value := s.value(t, row)
			s.release(value)
			add("x-gw-"+strings.ReplaceAll(row, "_", "-"), value.(string))
		}
	}
	if chance(t, 40) {
		own := s.canary(t)
		s.frees(own)
		add("authorization", "Bearer "+own)
	}
	if chance(t, 20) {
		add("x-gw-forward-headers", "x-gw-custom-host, authorization, x-api-key")
	}
	model := rapid.SampledFrom([]string{"m", "m", "anthropic.claude-3-haiku-20240307-v1:0", "gemini-2.5-flash", "@" + s.slug(t) + "/m"}).Draw(t, "model")
	path := rapid.SampledFrom([]string{
		"POST /v1/chat/completions", "POST /v1/chat/completions", "POST /v1/chat/completions", "POST /v1/embeddings", "POST /v1/responses", "POST /v1/messages",
		"GET /v1/models", "GET /v1/files", "GET /v1/files/f1/content", "GET /v1/batches/b1/output", "DELETE /v1/models/m",
		"GET /v1/assistants", "POST /v1/elsewhere", "POST /v1/nowhere",
	}).Draw(t, "path")
	method, path, _ := strings.Cut(path, " ")
	body := ""
	if method == "POST" {
		body = chatOf(model)
	}
	s.ask(t, method, path, body, headers...)
}

// ask makes a call, whose answer shows no canary of a resource.
func (s *scene) ask(t *rapid.T, method, path, body string, headers ...string) {
	s.called++
	a := s.Do(method, path, body, append(headers, "x-gw-api-key: "+s.key)...)
	s.hidden(t, fmt.Sprintf("the answer %d to %s %s %q", a.Status, method, path, headers), a.Body, false)
	for name, values := range a.Header {
		s.hidden(t, "the header "+name, strings.Join(values, " "), false)
	}
}

// release makes the canaries in a caller's value the caller's own.
func (s *scene) release(value any) {
	for _, canary := range canaries.FindAllString(textOf(value), -1) {
		s.frees(canary)
	}
}
