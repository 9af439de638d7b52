package standard

import (
	"context"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
)

var notNull = guardrails.Kind{
	ID: "default.notNull", Doc: "there is a text that is not blank, or the answer calls tools",
	Phases:     guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{not},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return notEmpty{not: p.Boolean("not")}, nil
	},
}

type notEmpty struct{ not bool }

func (c notEmpty) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	if s.Calls {
		return guardrails.Result{Verdict: true, Data: data{"not": c.not, "explanation": "The answer calls tools, so that its text was not checked."}}, nil
	}
	text := s.Text()
	return judged(strings.TrimSpace(text) != "", c.not, "The text is not blank.", "The text is blank, or there is none.", data{"textExcerpt": guardrails.Excerpt(text)}), nil
}
