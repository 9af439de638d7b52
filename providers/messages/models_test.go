package messages_test

import (
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
)

// What each generation of Claude accepts decides what is sent.
func TestThinkingAndEffortOfEachModel(t *testing.T) {
	const (
		enabled   = `{"type":"enabled","budget_tokens":2048}`
		adaptive  = `{"type":"adaptive"}`
		disabled  = `{"type":"disabled"}`
		half      = `{"type":"enabled","budget_tokens":4000}`
		summaries = `{"type":"adaptive","display":"summarized"}`
	)
	for _, c := range []struct {
		model                  string
		enabled, adaptive, off string // what thinking becomes
		high, xhigh, max       string // what efforts become
		samples                bool
	}{
		{"claude-3-5-haiku-20241022", enabled, half, disabled, "", "", "", true},
		{"claude-3-opus-20240229", enabled, half, disabled, "", "", "", true},
		{"claude-3-7-sonnet-20250219", enabled, half, disabled, "", "", "", true},
		{"claude-opus-4-20250514", enabled, half, disabled, "", "", "", true},
		{"claude-sonnet-4-5", enabled, half, disabled, "", "", "", true},
		{"claude-haiku-4-5@20251001", enabled, half, disabled, "", "", "", true},
		{"us.anthropic.claude-opus-4-5-20251101-v1:0", enabled, half, disabled, "high", "high", "high", true},
		{"claude-sonnet-4-6", enabled, adaptive, disabled, "high", "high", "max", true},
		{"claude-opus-4-6", enabled, adaptive, disabled, "high", "high", "max", true},
		{"claude-opus-4-7", summaries, adaptive, disabled, "high", "xhigh", "max", false},
		{"anthropic.claude-opus-4-8", summaries, adaptive, disabled, "high", "xhigh", "max", false},
		{"claude-opus-5", summaries, adaptive, disabled, "high", "xhigh", "max", false},
		{"anthropic/claude-sonnet-5", summaries, adaptive, disabled, "high", "high", "max", false},
		{"claude-haiku-5-5", summaries, adaptive, disabled, "high", "high", "max", false},
		{"claude-fable-5", summaries, adaptive, "", "high", "xhigh", "max", false},
		{"my-deployment", enabled, adaptive, disabled, "", "", "", true},
		{"claude-sonnet-latest", enabled, adaptive, disabled, "", "", "", true},
	} {
		m := messages.ModelOf(c.model)
		for thinking, want := range map[string]string{enabled: c.enabled, adaptive: c.adaptive, disabled: c.off} {
			r := &chat.Request{Thinking: chat.Raw(thinking), MaxTokens: chat.Raw("8000")}
			if got := string(m.Thinking(r)); got != want {
				t.Errorf("%s: %s becomes %s, want %s", c.model, thinking, got, want)
			}
		}
		for effort, want := range map[string]string{"high": c.high, "xhigh": c.xhigh, "max": c.max} {
			if got := m.Effort(&chat.Request{Effort: chat.Quote(effort)}); got != want {
				t.Errorf("%s: effort %s becomes %q, want %q", c.model, effort, got, want)
			}
		}
		if m.Samples() != c.samples {
			t.Errorf("%s: samples: %t", c.model, !c.samples)
		}
	}
	m := messages.ModelOf("claude-sonnet-4-5")
	for limit, want := range map[string]string{"": `{"type":"enabled","budget_tokens":4096}`, "1024": "", "1025": `{"type":"enabled","budget_tokens":1024}`, "64000": `{"type":"enabled","budget_tokens":32000}`} {
		r := &chat.Request{Thinking: chat.Raw(adaptive)}
		if limit != "" {
			r.MaxTokens = chat.Raw(limit)
		}
		if got := string(m.Thinking(r)); got != want {
			t.Errorf("limit %s: %s, want %s", limit, got, want)
		}
	}
}
