package handlers_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A target that refuses the call, so that nothing is sent to it, is in no record, header
// or log: what they name was sent together.
func TestARecordNamesWhatWasSentTogether(t *testing.T) {
	claude := gatewaytest.NewUpstream(t, nil)
	l := newLab(t, strings.Replace(claude.Provider("claude"), "type openai", "type anthropic", 1), "")
	l.on("fails", respond(500, overloaded))
	const (
		bad     = `{"provider":"@bad","override_params":{"model":"sent-to-bad"}}`
		good    = `{"provider":"@good","override_params":{"model":"sent-to-good"}}`
		refuses = `{"provider":"@claude","override_params":{"model":"never-sent","thinking":{"type":"enabled","budget_tokens":2000}}}`
		nowhere = `{"provider":"@nobody","override_params":{"model":"never-sent"}}`
	)
	for name, c := range map[string]struct {
		targets                 []string
		status                  int64
		provider, model, target string
	}{
		"the last refuses":       {[]string{bad, refuses}, 400, "bad", "sent-to-bad", "config.targets[0]"},
		"the last leads nowhere": {[]string{bad, nowhere}, 400, "bad", "sent-to-bad", "config.targets[0]"},
		"the first refuses":      {[]string{refuses, bad}, 500, "bad", "sent-to-bad", "config.targets[1]"},
		"the one between":        {[]string{bad, refuses, good}, 200, "good", "sent-to-good", "config.targets[2]"},
		"nothing was sent":       {[]string{nowhere, refuses}, 400, "claude", "never-sent", "config.targets[1]"},
	} {
		a := l.chat(gatewaytest.Chat, `{"strategy":{"mode":"fallback","on_status_codes":[400,500]},"targets":[`+strings.Join(c.targets, ",")+`]}`, cue+"fails")
		mustHaveUsed(t, a, c.target, "0", c.provider)
		r := logOf(l.Gateway, a)
		if r.Get("metrics.response_status_code").Int() != c.status || r.Get("metrics.ai_org").Str != c.provider || r.Get("metrics.ai_model").Str != c.model {
			t.Errorf("%s: %d, recorded %s", name, a.Status, r.Body)
		}
	}
	if n := len(claude.Calls()); n > 0 {
		t.Errorf("the provider that refuses was called %d times", n)
	}
}

// A call that is refused after its target was counted spends nothing of the target's limit.
func TestWhatIsNotForwardedSpendsNoUnitOfATarget(t *testing.T) {
	l := newLab(t, "", "")
	l.on("ok", respond(200, gatewaytest.Completion))
	l.on("none", respond(404, `{"error":{"message":"No such batch"}}`))
	l.Admin("POST", "/v1/policies/rate-limits", map[string]any{
		"conditions": []any{map[string]any{"key": "provider", "value": "bad"}}, "group_by": []any{map[string]any{"key": "api_key"}},
		"type": "requests", "unit": "rph", "value": 1,
	})
	config := "x-gw-config: " + `{"provider":"@bad"}`
	if a, _ := l.ask("GET", "/v1/batches/b1/output", "", config, cue+"none"); a.Status != 404 {
		t.Errorf("the output of no batch: %d %s", a.Status, a.Body)
	}
	thinking := strings.Replace(gatewaytest.Chat, "{", `{"thinking":{"type":"enabled"},`, 1)
	if a, _ := l.ask("POST", "/v1/chat/completions", thinking, config, cue+"ok"); a.Status != 400 {
		t.Errorf("what the dialect refuses: %d %s", a.Status, a.Body)
	}
	for _, status := range []int{200, 429} {
		if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, config, cue+"ok"); a.Status != status {
			t.Errorf("got %d %s, want %d", a.Status, a.Body, status)
		}
	}
}
