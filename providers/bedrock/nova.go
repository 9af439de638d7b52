package bedrock

import (
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// The efforts of Nova's reasoning. With the highest one, the model refuses a limit of tokens,
// temperature, topP and topK.
const (
	novaOff    = "disabled"
	novaLow    = "low"
	novaMedium = "medium"
	novaHigh   = "high"
)

// novaEfforts maps efforts to Nova's.
var novaEfforts = map[string]string{
	"none": novaOff, "minimal": novaLow, "low": novaLow, "medium": novaMedium, "high": novaHigh, "xhigh": novaHigh, "max": novaHigh,
}

// Budgets of thinking up to which the effort is low and medium.
const (
	budgetOfLow    = 4096
	budgetOfMedium = 16384
)

// novaEffort returns the effort of a model's reasoning, or "" if none is asked for, or the model
// does not reason: only the second generation of Nova does.
func novaEffort(model string, r *chat.Request) string {
	if !strings.Contains(model, "amazon.nova-2") {
		return ""
	}
	var kind, budget chat.Raw
	t := jsonscan.NewReader(r.Thinking)
	t.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = t.Value()
		case key.Is("budget_tokens"):
			budget = t.Value()
		}
	})
	switch {
	case string(kind) == `"disabled"`:
		return novaOff
	case r.Effort != nil:
		return novaEfforts[r.Effort.Text()]
	case kind == nil:
		return ""
	case budget == nil:
		return novaMedium
	}
	switch n := chat.Int(budget); {
	case n <= budgetOfLow:
		return novaLow
	case n <= budgetOfMedium:
		return novaMedium
	}
	return novaHigh
}

// novaReasoning returns the member that sets the effort, or nil if there is none.
func novaReasoning(effort string) chat.Raw {
	switch effort {
	case "":
		return nil
	case novaOff:
		return chat.Raw(`{"type":"disabled"}`)
	}
	return chat.Raw(`{"type":"enabled","maxReasoningEffort":"` + effort + `"}`)
}
