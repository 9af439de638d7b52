package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// What a provider's dialect does not have is refused before anything is sent, also a login, and
// a fallback goes on with a target that has it.
func TestAnEndpointThatADialectLacksIsRefusedBeforeAnythingIsSent(t *testing.T) {
	lacking := gatewaytest.NewUpstream(t, respond(http.StatusNotFound, `{"error":"confusing"}`))
	var options strings.Builder
	for slug, dialect := range map[string]string{"claude": "anthropic", "gemini": "google", "command": "cohere"} {
		options.WriteString(strings.Replace(lacking.Provider(slug), "type openai", "type "+dialect, 1))
	}
	l := newLab(t, options.String(), "")
	const form = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n"
	asForm := []string{"content-type:", "content-type: multipart/form-data; boundary=b"}
	for _, c := range []struct {
		method, path, body string
		headers            []string
		slugs              string
	}{
		{"POST", "/v1/images/generations", `{"model":"m","prompt":"x"}`, nil, "claude gemini command"},
		{"POST", "/v1/images/edits", form, asForm, "claude gemini command"},
		{"POST", "/v1/audio/speech", `{"model":"m","input":"x","voice":"v"}`, nil, "claude gemini command"},
		{"POST", "/v1/audio/transcriptions", form, asForm, "claude gemini command"},
		{"POST", "/v1/assistants", `{"model":"m"}`, nil, "claude gemini command"},
		{"POST", "/v1/embeddings", `{"model":"m","input":"x"}`, nil, "claude"},
		{"POST", "/v1/rerank", `{"model":"m","query":"x","documents":["y"]}`, nil, "claude gemini"},
		{"GET", "/v1/files", "", nil, "gemini command"},
		{"GET", "/v1/batches", "", nil, "claude gemini command"},
		{"GET", "/v1/fine_tuning/jobs", "", nil, "claude gemini command"},
	} {
		for slug := range strings.FieldsSeq(c.slugs) {
			a, _ := l.ask(c.method, c.path, c.body, append([]string{"x-gw-provider: " + slug}, c.headers...)...)
			message := a.Get("error.message").Str
			if a.Status != http.StatusBadRequest || a.Get("error.code").Str != "endpoint_not_supported" || !strings.Contains(message, slug) || !strings.Contains(message, c.method+" "+c.path) || !strings.Contains(message, "openai") {
				t.Errorf("%s %s with %s: %d %s", c.method, c.path, slug, a.Status, a.Body)
			}
		}
	}
	if n := len(lacking.Calls()); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
	fallback := `x-gw-config: {"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"provider":"@claude"},{"provider":"@good"}]}`
	for _, c := range [][]string{
		{"/v1/images/generations", `{"model":"m","prompt":"x"}`, fallback},
		{"/v1/audio/transcriptions", form, fallback, asForm[0], asForm[1]},
	} {
		if a, _ := l.ask("POST", c[0], c[1], c[2:]...); a.Status != http.StatusOK || len(lacking.Calls()) != 0 || l.good.Last(t).Path != c[0] {
			t.Errorf("fallback of %s: %d %s", c[0], a.Status, a.Body)
		}
	}
	// What is the provider's own at the same path goes on.
	for i, path := range []string{"/v1/files", "/v1/skills"} {
		if _, err := l.ask("GET", path, "", "x-gw-provider: claude"); err != nil || len(lacking.Calls()) != i+1 || lacking.Last(t).Path != path {
			t.Errorf("%s was not passed on: %v", path, err)
		}
	}
}
