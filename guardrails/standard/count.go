package standard

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/caddy-gw/gateway/guardrails"
)

var (
	sentenceCount = counter("default.sentenceCount", "Sentences", guardrails.Number, "99999", true, func(text string) int {
		return strings.Count(text, ".") + strings.Count(text, "!") + strings.Count(text, "?")
	})
	wordCount = counter("default.wordCount", "Words", guardrails.Integer, "99999", false, func(text string) int {
		n, inside := 0, false
		for _, r := range text {
			space := unicode.IsSpace(r) || r == '\ufeff'
			if !space && !inside {
				n++
			}
			inside = !space
		}
		return n
	})
	// A character is a unit of UTF-16, as in JavaScript.
	characterCount = counter("default.characterCount", "Characters", guardrails.Number, "9999999", false, func(text string) int {
		n := 0
		for _, r := range text {
			if n++; r > 0xffff {
				n++
			}
		}
		return n
	})
)

// counter is a kind of check that counts something in the text. empty: a text may be empty.
func counter(id, what string, t guardrails.Type, most string, empty bool, count func(string) int) guardrails.Kind {
	least, highest := "min"+what, "max"+what
	return guardrails.Kind{
		Phases: guardrails.Calls | guardrails.Answers,
		ID:     id, Doc: "the number of " + strings.ToLower(what) + " is within the limits",
		Parameters: []guardrails.Parameter{
			{Name: least, Type: t, Default: "0", Doc: "the least"},
			{Name: highest, Type: t, Default: most, Doc: "the most"},
			not,
		},
		New: func(p *guardrails.Parameters) (guardrails.Check, error) {
			return &counting{
				what: what, least: p.Number(least), most: p.Number(highest), not: p.Boolean("not"), empty: empty, count: count,
			}, nil
		},
	}
}

type counting struct {
	what        string
	least, most float64
	not, empty  bool
	count       func(string) int
}

func (c *counting) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" && !c.empty {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	n := c.count(text)
	within := float64(n) >= c.least && float64(n) <= c.most
	says := "within"
	if !within {
		says = "outside of"
	}
	what := strings.ToLower(c.what)
	return guardrails.Result{Verdict: within != c.not, Data: data{
		strings.TrimSuffix(what, "s") + "Count": n, "min" + c.what: c.least, "max" + c.what: c.most, "not": c.not, "textExcerpt": guardrails.Excerpt(text),
		"explanation": fmt.Sprintf("The text has %d %s, %s the limits.", n, what, says),
	}}, nil
}
