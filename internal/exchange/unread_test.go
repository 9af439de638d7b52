package exchange

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
)

func TestAPathNamesItsModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, model string
		ambiguous           bool
	}{
		{"POST", "/models/gemini-2.0:generateContent", "gemini-2.0", false},
		{"POST", "/models/ft:gpt-4o:org::x:generate", "ft:gpt-4o:org::x", false},
		{"POST", "/publishers/google/models/gemini:streamGenerateContent", "gemini", false},
		{"POST", "/models/meta/llama:generate", "", true},
		{"GET", "/models/meta/llama", "meta/llama", false},
		{"DELETE", "/models/ft:gpt-4o:org::x", "ft:gpt-4o:org::x", false},
		{"POST", "/openai/deployments/dep%201/chat/completions", "dep 1", false},
		{"POST", "/Deployments/dep/x", "dep", false},
		{"POST", "/engines/davinci/completions", "davinci", false},
		{"POST", "/model/anthropic.claude:0/converse", "anthropic.claude", false},
		{"POST", "/endpoints/ep%201/invocations", "ep 1", false},
		{"POST", "/Endpoints/ep/async-invocations", "ep", false},
		{"POST", "/projects/p/locations/l/endpoints/7:predict", "7", false},
		{"POST", "/projects/p/locations/l/endpoints/openapi/chat/completions", "", false},
		{"POST", "/endpoints/openapi/invocations", "openapi", false},
		{"POST", "/deployments/a/x/deployments/b/y", "", true},
		{"POST", "/deployments/a/x/deployments/a/y", "a", false},
		{"GET", "/models", "", false},
		{"POST", "/a/b", "", false},
	} {
		if model, ambiguous := modelInPath(c.path, c.method); model != c.model || ambiguous != c.ambiguous {
			t.Errorf("%s %s: %q, %v", c.method, c.path, model, ambiguous)
		}
	}
}

// Whatever a query is, no value that a server might read as the model stays in it, and
// all else does.
func FuzzTheModelOfAQueryIsChanged(f *testing.F) {
	for _, q := range []string{"model=a", "a=b&model=a&c", "Model=%61;model=b", "model", "mod%65l=x", "&&model=&", "a=1", "model=%zz"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		x := &Exchange{Call: callOf(&passThrough, httptest.NewRequest("GET", "/v1/x", nil))}
		x.Path, x.Query = "/x", query
		if (&preparation{Call: x.Call}).locate() != nil {
			return
		}
		x.chosen = x.NewAttempt("", new(credentials.Route), nil)
		if got := x.chosen.Payload().Query(); got != query {
			t.Fatalf("%q became %q", query, got)
		}
		x.chosen.Route.Model = "other"
		x.chosen = x.NewAttempt("", x.chosen.Route, nil)
		others := func(query string) (kept, models []string) {
			for _, field := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
				name, value, _ := strings.Cut(field, "=")
				if decoded, err := url.QueryUnescape(name); err == nil && strings.EqualFold(decoded, "model") {
					models = append(models, value)
				} else {
					kept = append(kept, field)
				}
			}
			return kept, models
		}
		kept, _ := others(query)
		still, models := others(x.chosen.Payload().Query())
		if strings.Join(kept, "&") != strings.Join(still, "&") {
			t.Fatalf("%q became %q", query, x.chosen.Payload().Query())
		}
		for _, m := range models {
			if m != "other" {
				t.Fatalf("%q became %q", query, x.chosen.Payload().Query())
			}
		}
	})
}

func TestBinaryBodies(t *testing.T) {
	t.Parallel()
	for media, want := range map[string]bool{
		"audio/wav": true, "video/mp4": true, "image/png": true, "application/octet-stream": true,
		"application/json": false, "text/plain": false, "application/x-www-form-urlencoded": false, "": false,
	} {
		if binaryMedia(media) != want {
			t.Errorf("%s: want %v", media, want)
		}
	}
	for head, want := range map[string][2]bool{
		"RIFF": {true, true}, "\xff\xd8": {true, true}, " \r\n\tRIFF": {true, true},
		"{}": {false, true}, " \n[1": {false, true}, "--b": {false, true}, "\x00{": {false, true}, "\xef\xbb\xbf{": {false, true}, "\xff\xfe{": {false, true}, "\xfe\xff\x00": {false, true},
		"": {false, false}, "R": {false, false}, "  R": {false, false},
	} {
		if is, decided := binary([]byte(head)); is != want[0] || decided != want[1] {
			t.Errorf("%q: got %v, %v", head, is, decided)
		}
	}
}

func TestToolsAndMethodsThatNameModels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		member, value string
		want          bool
	}{
		{"tools", `[{"type":"image_generation","model":"m"}]`, true},
		{"tools", `[{"type":"a"},{"type":"b","MODEL":"m"}]`, true},
		{"tools", `[{"type":"b","mod\u0065l":"m"}]`, true},
		{"tools", `[{"type":"function","parameters":{"properties":{"model":{}}}}]`, false},
		{"tools", `[{"type":"function","name":"f"}]`, false},
		{"tools", `[{"supermodel":1}]`, false},
		{"method", `{"grader":{"model":"m"}}`, true},
		{"method", `{"grader":{"Model":"m"}}`, true},
		{"method", `{"type":"supervised"}`, false},
	} {
		if got := hasModel(c.member, gjson.Parse(c.value)); got != c.want {
			t.Errorf("%s %s: got %v", c.member, c.value, got)
		}
	}
	for text, want := range map[string]bool{`model"`: false, `"model"`: true, `"a":{"MODEL":1}`: true, `"models":"l"`: false, `"remodel"`: false, `l"`: false} {
		if mayNameModel(text) != want {
			t.Errorf("%s: want %v", text, want)
		}
	}
}
