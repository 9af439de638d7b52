package anthropic_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

// Clients of OpenAI get the models in its form, and clients of Anthropic in its own.
func TestModelsAreListedInTheClientsForm(t *testing.T) {
	const list = `{"data":[{"type":"model","id":"claude-opus-4-6","display_name":"Claude Opus 4.6","created_at":"2026-02-05T00:00:00Z"},
		{"type":"model","id":"claude-old","created_at":"1970-01-01T00:00:00Z"},{"type":"model","id":"claude-odd","created_at":"soon"},{}],"has_more":false,"first_id":"a","last_id":"b"}`
	request := func(endpoint, path, version string) *providers.Request {
		c := (&dialecttest.Case{Endpoint: endpoint, Path: path, Key: "KEY"}).Call("anthropic")
		c.Body, c.Header = nil, func(name string) string {
			return map[string]string{"Anthropic-Version": version}[name]
		}
		r, err := c.Provider.Prepare(c)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := request(providers.ListModels, "/models", "")
	if r.URL.String() != "https://api.anthropic.com/v1/models?limit=1000" {
		t.Errorf("asked %s", r.URL)
	}
	out, err := r.Answer.Body(nil, []byte(list), nil)
	if err != nil {
		t.Fatal(err)
	}
	model := func(id, created string) string {
		return `{"id":"` + id + `","object":"model","created":` + created + `,"owned_by":"anthropic"}`
	}
	opus := model("claude-opus-4-6", "1770249600")
	dialecttest.SameJSON(t, string(out), `{"object":"list","data":[`+opus+`,`+model("claude-old", "0")+`,`+model("claude-odd", "0")+`]}`)
	if out, err = request(providers.RetrieveModel, "/models/claude-opus-4-6", "").Answer.Body(nil, []byte(list), nil); err != nil || string(out) != opus {
		t.Errorf("one model: %s, %v", out, err)
	}
	for endpoint, path := range map[string]string{providers.ListModels: "/models", providers.RetrieveModel: "/models/claude-opus-4-6"} {
		if r := request(endpoint, path, "2023-06-01"); r.Answer != nil || r.URL.Path != "/v1"+path {
			t.Errorf("%s of Anthropic's clients: %s, %v", endpoint, r.URL, r.Answer)
		}
	}
}
