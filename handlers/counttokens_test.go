package handlers_test

import (
	"testing"

	"github.com/tidwall/gjson"
)

// Tokens are counted for every provider: by the provider where it can, and otherwise by an estimate
// that says so, for which nothing is sent.
func TestTokensAreCountedForEveryProvider(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\nheader_prefix x-acme-\n", "")
	l.on("anthropic", respond(200, `{"input_tokens":12}`))
	l.on("google", respond(200, `{"totalTokens":12}`))
	l.on("bedrock", respond(200, `{"inputTokens":12}`))
	const bedrock = `,"aws_region":"us-east-1","aws_access_key_id":"AKID","aws_secret_access_key":"secret-of-aws"`
	short := `{"model":"m","messages":[{"role":"user","content":"Hello, my friend"}]}`
	long := `{"model":"m","system":"Be kind.","messages":[{"role":"user","content":"Hello, my friend"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`
	for _, c := range []struct {
		provider, more, body string
		tokens               int64
		estimated            bool
	}{
		{"anthropic", "", short, 12, false},
		{"google", "", short, 12, false},
		{"bedrock", bedrock, short, 12, false},
		{"openai", "", short, 11, true},
		{"openai", "", long, 31, true},
		{"azure-openai", "", short, 11, true},
		{"groq", "", short, 11, true},
		{"deepseek", "", short, 11, true},
		{"mistral-ai", "", short, 11, true},
		{"cohere", "", short, 11, true},
	} {
		config := `{"provider":"` + c.provider + `","api_key":"sk-of-a-provider","custom_host":"` + l.bad.URL + `"` + c.more + `}`
		before := len(l.bad.Calls())
		a, err := l.ask("POST", "/v1/messages/count_tokens", c.body, "x-gw-config: "+config, cue+c.provider)
		want := ""
		if c.estimated {
			want = "estimated"
		}
		if err != nil || a.Status != 200 || a.Get("input_tokens").Int() != c.tokens || a.Header.Get("x-gw-token-count") != want || a.Header.Get("x-acme-token-count") != want {
			t.Errorf("%s: %d %s %v, %v", c.provider, a.Status, a.Body, a.Header, err)
		}
		if sent := len(l.bad.Calls()) - before; (sent == 0) != c.estimated {
			t.Errorf("%s: %d calls were sent", c.provider, sent)
		}
		if row := logOf(l.Gateway, a); row.Get("metrics.response_status_code").Int() != 200 || row.Get("metrics.ai_org").Str != c.provider {
			t.Errorf("%s: recorded %s", c.provider, row.Body)
		}
	}
	a, _ := l.ask("POST", "/v1/messages/count_tokens", `{"model":"m","messages":[],"thread":{"id":"t"}}`, "x-gw-provider: bad")
	if a.Status != 400 || a.Get("type").Str == "" && gjson.Get(a.Body, "error.param").Str != "thread" {
		t.Errorf("what no provider could count: %d %s", a.Status, a.Body)
	}
}
