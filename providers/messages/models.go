package messages

import (
	"math"
	"strconv"
	"strings"

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
	schemas  int // of answers; before, a tool has the schema

	// adaptiveOnly is the first version that refuses a budget of thinking, and temperature,
	// top_p and top_k too.
	adaptiveOnly int
	alwaysThinks bool // and refuses to be told not to
}

const never = math.MaxInt

var families = map[string]family{
	"opus":   {adaptive: 46, effort: 45, xhigh: 47, max: 46, schemas: 41, adaptiveOnly: 47},
	"sonnet": {adaptive: 46, effort: 46, xhigh: never, max: 46, schemas: 45, adaptiveOnly: 50},
	"haiku":  {adaptive: 50, effort: 50, xhigh: never, max: 50, schemas: 45, adaptiveOnly: 50},
	"fable":  {alwaysThinks: true},
	"mythos": {alwaysThinks: true},
}

// unknown is the family of other models, which are taken to accept all but an effort.
var unknown = family{effort: never, adaptiveOnly: never}

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
	var kind chat.Literal
	in := jsonscan.NewReader(r.Thinking)
	in.Object(func(key jsonscan.Key) {
		if key.Is("type") {
			kind = in.String()
		}
	})
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
