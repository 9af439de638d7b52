package mistral

import (
	"regexp"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// unadjustable matches the models whose reasoning cannot be adjusted: those that always reason or
// never do, and the general ones from before 2026.
var unadjustable = regexp.MustCompile(`^((magi|mini|code|dev|math)stral|open-|pixtral|voxtral|mistral-(tiny|nemo|saba|ocr|embed|moderation)|mistral-.*-2[0-5](0[1-9]|1[0-2])$)`)

// writeEffort writes the reasoning effort in the model's terms. The smaller models can only reason
// or not (https://docs.mistral.ai/capabilities/reasoning/adjustable).
func writeEffort(b *jsonscan.Builder, r *chat.Request) {
	if r.Effort == nil {
		return
	}
	model, effort := r.Model.Text(), r.Effort.Text()
	if unadjustable.MatchString(model) {
		return
	}
	switch onlyHigh := !strings.HasPrefix(model, "mistral-large"); effort {
	case "xhigh", "max":
		effort = "high"
	case "minimal":
		if effort = "low"; onlyHigh {
			effort = "none"
		}
	case "low", "medium":
		if onlyHigh {
			effort = "high"
		}
	}
	b.Key("reasoning_effort").Text(effort)
}
