package providers

import (
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
)

// spoken are the words in which the provider, which speaks like OpenAI, is told what a
// caller said in another dialect.
func (p *Provider) spoken(c *Call, r *chat.Request) *chat.Words {
	if p.Words != nil {
		return p.Words
	}
	w := &chat.Words{ThoughtsBack: p.ThoughtsBack}
	model := r.Model.Text()
	if p.Closed {
		w.Bare, w.Without = true, []string{"top_k", "thinking"}
	}
	// The path is that of Azure's newer API, whose deployments have names of their own.
	if !p.NewerNames && !thinkers(model) && !strings.HasSuffix(c.Base.Path, "/openai/v1") {
		w.Names = olderNames
	}
	if p.NoStreamUsage || p.OldStreams != nil && p.OldStreams(c) {
		w.Without = append(w.Without, "stream_options")
	}
	switch {
	case r.Effort == nil:
	case effortless(model):
		w.Without = append(w.Without, "reasoning_effort")
	case r.Effort.Is("max"): // of Anthropic's callers
		r.Effort = chat.Literal(`"high"`)
	}
	return w
}

// olderNames are what all but OpenAI's own newer models know, and some that alone.
var olderNames = map[string]string{"max_completion_tokens": "max_tokens"}

// bare is a model's name without its vendor, which some put before it.
func bare(model string) string {
	if _, name, ok := strings.Cut(model, "openai/"); ok {
		return name
	}
	return model
}

// thinkers reports whether a model is one of OpenAI's that think: they take
// max_completion_tokens and refuse max_tokens, whoever serves them.
func thinkers(model string) bool {
	model = bare(model)
	return strings.HasPrefix(model, "gpt-5") || len(model) > 1 && model[0] == 'o' && '1' <= model[1] && model[1] <= '9'
}

// effortless reports whether a model is one of OpenAI's that do not think, and refuse to
// be told how much.
func effortless(model string) bool {
	model = bare(model)
	for _, family := range []string{"gpt-3.5", "gpt-4", "chatgpt-", "gpt-5-chat"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}
