package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A model that a job made is its workspace's alone: others can neither use it, wherever a call
// names it, nor see it, nor delete it.
func TestFineTunedModelsAreTheirWorkspacesAlone(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.Method + " " + r.URL.Path {
		case "POST /v1/files":
			respond(200, `{"id":"file-1"}`)(w, r)
		case "POST /v1/fine_tuning/jobs":
			respond(200, `{"id":"job-1"}`)(w, r)
		case "GET /v1/fine_tuning/jobs/job-1":
			respond(200, `{"id":"job-1","fine_tuned_model":"ft:m:org::1"}`)(w, r)
		case "GET /v1/fine_tuning/jobs":
			respond(200, `{"object":"list","data":[{"id":"job-1","fine_tuned_model":"own-name"}],"has_more":false}`)(w, r)
		case "GET /v1/models":
			respond(200, `{"object":"list","data":[{"id":"m","object":"model"},{"id":"ft:m:org::1","object":"model"},{"id":"own-name","object":"model"},{"id":"ft:of:nobody","object":"model"}]}`)(w, r)
		default:
			respond(200, `{"id":"x","object":"x","data":[],"choices":[{}],"deleted":true}`)(w, r)
		}
	})
	g := gatewaytest.Start(t, "block_inline_config off\n"+strings.Replace(up.Provider("file"), "{", "{\npassthrough_paths \"DELETE /v1/models/*\"\n", 1))
	keys := twoWorkspaces(g)
	do := func(who int, method, path, body string, headers ...string) *gatewaytest.Answer {
		return g.Do(method, path, body, append([]string{"x-gw-api-key: " + keys[who], "x-gw-provider: file"}, headers...)...)
	}
	do(0, "POST", "/v1/files", uploaded, "content-type:", "content-type: multipart/form-data; boundary=b")
	if a := do(0, "POST", "/v1/fine_tuning/jobs", `{"model":"m","training_file":"file-1"}`); a.Status != 200 {
		t.Fatal(a.Status, a.Body)
	}
	if a := do(0, "POST", "/v1/chat/completions", `{"model":"ft:m:org::1","messages":[{"role":"user","content":"hi"}]}`); a.Status != 404 {
		t.Errorf("a model that was not seen yet: %d %s", a.Status, a.Body)
	}
	do(0, "GET", "/v1/fine_tuning/jobs/job-1", "")
	do(0, "GET", "/v1/fine_tuning/jobs", "")

	form := []string{"content-type:", "content-type: multipart/form-data; boundary=b"}
	for _, model := range []string{"ft:m:org::1", "ft:m:org::1:ckpt-step-7", "own-name"} {
		for _, c := range []struct {
			method, path, body string
			headers            []string
		}{
			{"POST", "/v1/chat/completions", `{"model":"$","messages":[{"role":"user","content":"hi"}]}`, nil},
			{"POST", "/v1/chat/completions", `{"model":"@file/$","messages":[{"role":"user","content":"hi"}]}`, nil},
			{"POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, []string{`x-gw-config: {"provider":"@file","override_params":{"model":"$"}}`}},
			{"POST", "/v1/embeddings", `{"model":"$","input":"hi"}`, nil},
			{"POST", "/v1/fine_tuning/jobs", `{"model":"$","training_file":"file-1"}`, nil},
			{"POST", "/v1/assistants", `{"model":"$"}`, nil},
			{"POST", "/v1/videos", `{"prompt":"p","x":{"model":"$"}}`, nil},
			{"POST", "/v1/images/edits", strings.Replace(uploaded, "--b--", "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n$\r\n--b--", 1), form},
			{"POST", "/v1/audio/transcriptions", strings.Replace(uploaded, "--b--", "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n$\r\n--b--", 1), form},
			{"GET", "/v1/models/$", "", nil},
			{"GET", "/v1/models/@file/$", "", nil},
			{"GET", "/v1/fine_tuning/checkpoints/$/permissions", "", nil},
			{"DELETE", "/v1/models/$", "", nil},
		} {
			fill := strings.NewReplacer("$", model)
			headers := make([]string, len(c.headers))
			for i, h := range c.headers {
				headers[i] = fill.Replace(h)
			}
			if c.method == "POST" && strings.Contains(c.path, "jobs") {
				do(1, "POST", "/v1/files", uploaded, form...)
			}
			before := len(up.Calls())
			if a := do(1, c.method, fill.Replace(c.path), fill.Replace(c.body), headers...); a.Status != 404 || len(up.Calls()) != before {
				t.Errorf("another's %s %s %s: %d %s", c.method, fill.Replace(c.path), fill.Replace(c.body), a.Status, a.Body)
			}
			if c.method == "DELETE" && model != "own-name" {
				continue
			}
			if a := do(0, c.method, fill.Replace(c.path), fill.Replace(c.body), headers...); a.Status != 200 && !strings.Contains(c.path, "checkpoints") {
				t.Errorf("its own %s %s %s: %d %s", c.method, fill.Replace(c.path), fill.Replace(c.body), a.Status, a.Body)
			}
		}
	}
	if a := do(0, "POST", "/v1/chat/completions", `{"model":"own-name","messages":[{"role":"user","content":"hi"}]}`); a.Status != 200 {
		t.Errorf("a name that nobody has any more: %d %s", a.Status, a.Body)
	}
	do(0, "GET", "/v1/fine_tuning/jobs", "")
	for _, list := range []struct{ path, at string }{{"/v1/models", "id"}, {"/v1/models", "catalogue"}} {
		for who, want := range []string{"m ft:m:org::1 own-name", "m"} {
			headers := []string{"x-gw-provider: file"}
			if list.at == "catalogue" {
				headers = nil
			}
			var got []string
			for _, m := range g.Do("GET", list.path, "", append(headers, "x-gw-api-key: "+keys[who])...).Get("data").Array() {
				got = append(got, strings.TrimPrefix(m.Get("id").Str, "@file/"))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("models of workspace %d (%s): %v", who, list.at, got)
			}
		}
	}
}
