package standard

import (
	"context"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
)

var endsWith = guardrails.Kind{
	ID: "default.endsWith", Doc: "the text ends with a suffix, or with it and a full stop",
	Phases:     guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{{Name: "suffix", Required: true, Doc: "the end of the text"}, not},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &ending{suffix: p.Text("suffix"), not: p.Boolean("not")}, nil
	},
}

type ending struct {
	suffix string
	not    bool
}

func (c *ending) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	found := strings.HasSuffix(text, c.suffix) || strings.HasSuffix(text, c.suffix+".")
	return judged(found, c.not, "The text ends with the suffix.", "The text does not end with the suffix.", data{"suffix": c.suffix, "textExcerpt": guardrails.Excerpt(text)}), nil
}
