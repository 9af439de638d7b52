package standard_test

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

// What OpenAI takes and a provider refuses becomes what the provider takes.
func TestTemperaturesAndStopSequencesWithinTheLimits(t *testing.T) {
	for _, c := range []struct{ provider, model, at, stops string }{
		{"anthropic", "claude-sonnet-4-5", "temperature", "stop_sequences"},
		{"vertex-ai", "claude-sonnet-4-5", "temperature", "stop_sequences"},
		{"bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", "inferenceConfig.temperature", "inferenceConfig.stopSequences"},
		{"bedrock", "amazon.nova-pro-v1:0", "inferenceConfig.temperature", ""},
		{"google", "gemini-2.5-flash", "", ""},
	} {
		sent := func(temperature, stop string) gjson.Result {
			body := `{"model":"` + c.model + `","messages":[{"role":"user","content":"Hi"}],"temperature":` + temperature + `,"stop":` + stop + `}`
			set := map[string]string{"aws_region": "us-east-1", "vertex_region": "europe-west1", "vertex_project_id": "p"}
			call := (&dialecttest.Case{Endpoint: providers.ChatComplete, Settings: set, Key: "KEY", Body: json.RawMessage(body)}).Call(c.provider)
			r, err := call.Provider.Prepare(call)
			if err != nil {
				t.Fatal(err)
			}
			return gjson.ParseBytes(r.Body)
		}
		for given, want := range map[string]string{"0": "0", "0.55": "0.55", "1": "1", "1.0": "1.0", "1.01": "1", "2": "1", "null": ""} {
			path := c.at
			if path == "" {
				path, want = "generationConfig.temperature", map[bool]string{true: "", false: given}[given == "null"]
			}
			if got := sent(given, `"x"`).Get(path).Raw; got != want {
				t.Errorf("%s %s: temperature %s becomes %s, want %s", c.provider, c.model, given, got, want)
			}
		}
		if c.stops == "" {
			continue
		}
		if got := sent("0", `["\n"," ","","x"]`).Get(c.stops).Raw; got != `["x"]` {
			t.Errorf("%s %s: stop sequences %s", c.provider, c.model, got)
		}
		if got := sent("0", `["\n"]`); got.Get(c.stops).Exists() {
			t.Errorf("%s %s: stop sequences %s", c.provider, c.model, got)
		}
	}
}
