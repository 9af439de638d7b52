package standard

import (
	"context"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
)

// Only the letters of ASCII count.
var (
	allUpperCase = letterCase("default.alluppercase", "default.isAllUpperCase", "upper", "abcdefghijklmnopqrstuvwxyz")
	allLowerCase = letterCase("default.alllowercase", "default.isAllLowerCase", "lower", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
)

func letterCase(id, alias, which, others string) guardrails.Kind {
	return guardrails.Kind{
		Phases: guardrails.Calls | guardrails.Answers,
		ID:     id, Aliases: []string{alias}, Doc: "all letters of ASCII are in " + which + " case",
		Parameters: []guardrails.Parameter{not},
		New: func(p *guardrails.Parameters) (guardrails.Check, error) {
			return &cased{which: which, others: others, not: p.Boolean("not")}, nil
		},
	}
}

type cased struct {
	which, others string
	not           bool
}

func (c *cased) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	found := !strings.ContainsAny(text, c.others)
	return judged(found, c.not, "All letters of the text are in "+c.which+" case.", "Not all letters of the text are in "+c.which+" case.", data{"textExcerpt": guardrails.Excerpt(text)}), nil
}
