package providers

import (
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// encoder returns how to write requests to the provider, which is compatible with OpenAI,
// for clients that use another dialect.
func (p *Provider) encoder(c *Call, r *chat.Request) *chat.Encoder {
	if p.Encoder != nil {
		return p.Encoder
	}
	w := &chat.Encoder{ReturnReasoning: p.ReturnReasoning, OpenAIOnly: p.PlainMessages, StringContent: p.StringContent, NoSchemas: p.NoSchemas, NoFileURLs: p.Closed}
	model := r.Model.Text()
	if p.Closed {
		w.OpenAIOnly, w.Omit = true, []string{"top_k", "thinking"}
	}
	// This is the path of Azure's newer API, whose deployments have arbitrary names.
	if !p.NewerNames && !isReasoningModel(model) && !strings.HasSuffix(c.Base.Path, "/openai/v1") {
		w.Names = olderNames
	}
	if p.NoStreamUsage || p.OldStreams != nil && p.OldStreams(c) {
		w.Omit = append(w.Omit, "stream_options")
	}
	r.Thinking = switched(r.Thinking)
	switch {
	case r.Effort == nil:
	case refusesEffort(model):
		w.Omit = append(w.Omit, "reasoning_effort")
	case r.Effort.Is("none") && p.SwitchesThinking:
		r.Effort, r.Thinking = nil, chat.Raw(`{"type":"disabled"}`)
	case r.Effort.Is("max"): // set by Anthropic's clients
		r.Effort = p.highest(model)
	}
	return w
}

// switched returns thinking as providers with OpenAI's API know it, which is on or off.
func switched(thinking chat.Raw) chat.Raw {
	r := jsonscan.NewReader(thinking)
	adaptive := false
	r.Object(func(key jsonscan.Key) {
		if key.Is("type") {
			adaptive = chat.Literal(r.String()).Is("adaptive")
		}
	})
	if adaptive {
		return chat.Raw(`{"type":"enabled"}`)
	}
	return thinking
}

// highest returns the highest effort that a model is known to accept.
func (p *Provider) highest(model string) chat.Literal {
	if p.MaxEffort {
		return chat.Literal(`"max"`)
	}
	minor, ok := strings.CutPrefix(withoutVendor(model), "gpt-5.")
	switch {
	case !ok || minor == "" || minor[0] < '2' || '9' < minor[0]:
		return chat.Literal(`"high"`)
	case minor[0] < '6':
		return chat.Literal(`"xhigh"`)
	}
	return chat.Literal(`"max"`)
}

// olderNames maps members to names that only OpenAI's newer models no longer accept.
var olderNames = map[string]string{"max_completion_tokens": "max_tokens"}

// withoutVendor returns a model's name without the vendor prefix that some providers use.
func withoutVendor(model string) string {
	if _, name, ok := strings.Cut(model, "openai/"); ok {
		return name
	}
	return model
}

// isReasoningModel reports whether a model is one of OpenAI's reasoning models. They
// require max_completion_tokens and refuse max_tokens, at any provider.
func isReasoningModel(model string) bool {
	model = withoutVendor(model)
	return strings.HasPrefix(model, "gpt-5") || len(model) > 1 && model[0] == 'o' && '1' <= model[1] && model[1] <= '9'
}

// refusesEffort reports whether a model is one of OpenAI's that do not reason and refuse
// reasoning_effort.
func refusesEffort(model string) bool {
	model = withoutVendor(model)
	for _, family := range []string{"gpt-3.5", "gpt-4", "chatgpt-", "gpt-5-chat"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}
