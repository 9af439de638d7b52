package messages

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A family says since which version the models of a family accept something. A version is ten
// times its number.
type family struct {
	adaptive int // thinking without a budget
	effort   int
	xhigh    int // an effort; before, it is high
	max      int // an effort; before, it is high
	schemas  int // of answers, and strict tools; before, a tool has the schema of the answer

	// unlisted is the first version for which Amazon Bedrock has no schemas; 0: none has them there.
	unlisted int

	// adaptiveOnly is the first version that refuses a budget of thinking, and temperature,
	// top_p and top_k too.
	adaptiveOnly int
	alwaysThinks bool // and refuses to be told not to
}

const never = math.MaxInt

var families = map[string]family{
	"opus":   {adaptive: 46, effort: 45, xhigh: 47, max: 46, schemas: 41, unlisted: 47, adaptiveOnly: 47},
	"sonnet": {adaptive: 46, effort: 46, xhigh: never, max: 46, schemas: 45, unlisted: 50, adaptiveOnly: 50},
	"haiku":  {adaptive: 50, effort: 50, xhigh: never, max: 50, schemas: 45, unlisted: 50, adaptiveOnly: 50},
	"fable":  {alwaysThinks: true},
	"mythos": {alwaysThinks: true},
}

// unknown is the family of other models, which are taken to accept all but an effort.
var unknown = family{effort: never, unlisted: never, adaptiveOnly: never}

// A Model is a Claude model.
type Model struct {
	family
	version int
}

// ModelOf returns the model with the given name, which may have a prefix and a suffix:
// claude-opus-4-5-20251101, claude-3-7-sonnet-latest, eu.anthropic.claude-opus-4-6-v1:0.
func ModelOf(name string) Model {
	for word, f := range families {
		before, after, found := strings.Cut(name, word)
		if !found {
			continue
		}
		if _, numbers, old := strings.Cut(before, "claude-"); old { // until the third generation, the version comes first
			if v := version(numbers); v > 0 {
				return Model{f, v}
			}
		}
		if v := version(after); v > 0 {
			return Model{f, v}
		}
	}
	return Model{family: unknown}
}

// version reads a version such as 4-5, which may be followed by a date. It returns 0 if there is
// none.
func version(s string) (v int) {
	numbers := strings.FieldsFunc(s, func(c rune) bool { return c == '-' || c == '.' || c == '@' || c == ':' })
	for i, unit := range []int{10, 1} {
		if i >= len(numbers) {
			break
		}
		n, err := strconv.Atoi(numbers[i])
		if err != nil || n < 0 || n > 9 { // larger numbers are dates
			break
		}
		v += n * unit
	}
	return v
}

// OnBedrock returns the model as Amazon Bedrock has it.
func (m Model) OnBedrock() Model {
	if m.version >= m.unlisted {
		m.schemas = never
	}
	return m
}

// Schemas reports whether the model accepts schemas of answers, and strict tools.
func (m Model) Schemas() bool { return m.version >= m.schemas }

// The top_p between which and 1 a model accepts it while it thinks.
const minTopP = 0.95

// Sampling returns those of temperature, top_p and top_k that the model accepts. A model that
// thinks accepts no temperature but 1, which is its default, and no top_k.
func (m Model) Sampling(r *chat.Request, thinking chat.Raw) (temperature, topP, topK chat.Raw) {
	if !m.Samples() {
		return nil, nil, nil
	}
	temperature = chat.AtMost(r.Temperature, MaxTemperature)
	if !thinks(thinking) {
		return temperature, r.TopP, r.TopK
	}
	if f, err := strconv.ParseFloat(string(temperature), 64); err != nil || f != MaxTemperature {
		temperature = nil
	}
	if f, err := strconv.ParseFloat(string(r.TopP), 64); err == nil && f >= minTopP && f <= 1 {
		topP = r.TopP
	}
	return temperature, topP, nil
}

// Samples reports whether the model accepts temperature, top_p and top_k.
func (m Model) Samples() bool { return m.version < m.adaptiveOnly }

// efforts maps OpenAI's efforts to the API's.
var efforts = map[string]string{"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}

// Effort returns the effort in the API's terms, or "" if none is set or the model does not
// accept one.
func (m Model) Effort(r *chat.Request) string {
	if r.Effort == nil || m.version < m.effort {
		return ""
	}
	effort := efforts[r.Effort.Text()]
	if effort == "max" && m.version < m.max || effort == "xhigh" && m.version < m.xhigh {
		return "high"
	}
	return effort
}

// minBudget is the smallest budget of thinking.
const minBudget = 1024

// Thinking returns the thinking that a request asks for in the form that the model accepts, or
// nil: a model that only thinks as it sees fit gets no budget, and an earlier one needs one.
func (m Model) Thinking(r *chat.Request) chat.Raw {
	if r.Thinking == nil {
		return nil
	}
	kind := kindOf(r.Thinking)
	switch {
	case kind.Is("disabled"):
		if m.alwaysThinks {
			return nil
		}
	case kind.Is("enabled") && m.version >= m.adaptiveOnly:
		// The caller asks for the thoughts, which these models leave out otherwise.
		return chat.Raw(`{"type":"adaptive","display":"summarized"}`)
	case kind.Is("adaptive") && m.version < m.adaptive:
		return enabled(r.MaxTokens)
	}
	return r.Thinking
}

// kindOf returns the type of thinking: enabled, adaptive or disabled.
func kindOf(thinking chat.Raw) (kind chat.Literal) {
	in := jsonscan.NewReader(thinking)
	in.Object(func(key jsonscan.Key) {
		if key.Is("type") {
			kind = in.String()
		}
	})
	return kind
}

// thinks reports whether a model with this thinking may think.
func thinks(thinking chat.Raw) bool {
	kind := kindOf(thinking)
	return kind.Is("enabled") || kind.Is("adaptive")
}

// Choice returns the choice of tools that the API accepts with this thinking: nothing has to be
// called.
func Choice(c chat.ToolChoice, thinking chat.Raw) chat.ToolChoice {
	if (c.Mode == chat.Required || c.Mode == chat.Named) && thinks(thinking) {
		return chat.ToolChoice{Mode: chat.Auto}
	}
	return c
}

// Continued returns the thinking with which a conversation can go on. A model with a budget of
// thinking must have begun its last turn with a thought if results of tools follow it, and cannot
// go on with a text that it is given. Thoughts of other models, and those without a signature, are
// no such thoughts.
func Continued(thinking chat.Raw, all []chat.Message) chat.Raw {
	if !kindOf(thinking).Is("enabled") {
		return thinking
	}
	last := len(all) - 1
	results := false
	for ; last >= 0 && all[last].Role != chat.Assistant; last-- {
		results = results || all[last].Role == chat.ToolResult
	}
	if last < 0 || last < len(all)-1 && !results {
		return thinking
	}
	first := last
	for first > 0 && all[first-1].Role == chat.Assistant { // they become one turn
		first--
	}
	for i := first; i <= last; i++ {
		for k := range all[i].Parts {
			if p := &all[i].Parts[k]; Sendable(p) {
				if p.Kind != chat.Thinking && p.Kind != chat.Redacted {
					return nil
				}
				return thinking
			}
		}
		if len(all[i].Calls) > 0 {
			return nil
		}
	}
	return thinking
}

// Prefill returns the messages without the white space at the end of a last turn of the model,
// which the API refuses.
func Prefill(all []chat.Message) []chat.Message {
	last := len(all) - 1
	if last < 0 || all[last].Role != chat.Assistant || len(all[last].Calls) > 0 {
		return all
	}
	parts := all[last].Parts
	for n := len(parts); n > 0 && parts[n-1].Kind == chat.Text; n = len(parts) {
		text := parts[n-1].Text.Text()
		trimmed := strings.TrimRightFunc(text, unicode.IsSpace)
		if trimmed == text && text != "" {
			break
		}
		parts = slices.Clone(parts[:n])
		if trimmed != "" {
			parts[n-1].Text = chat.Quote(trimmed)
			break
		}
		parts = parts[:n-1]
	}
	all = slices.Clone(all)
	all[last].Parts = parts
	return all
}

// enabled returns thinking with a budget of half the tokens of the answer, or nil if there are
// too few.
func enabled(maxTokens chat.Raw) chat.Raw {
	budget := int64(DefaultMaxTokens)
	if maxTokens != nil {
		all := chat.Int(maxTokens)
		if all <= minBudget {
			return nil
		}
		budget = max(minBudget, all/2)
	}
	return chat.Raw(`{"type":"enabled","budget_tokens":` + strconv.FormatInt(budget, 10) + `}`)
}
