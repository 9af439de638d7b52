package standard

import (
	"context"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/jsregexp"
)

var regexReplace = guardrails.Kind{
	ID: "default.regexReplace", Doc: "always, after every match was replaced; with failOnDetection, if nothing matches",
	Phases: guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{
		{Name: "rule", Required: true, Doc: "a regular expression of JavaScript, with or without slashes and flags"},
		{Name: "redactText", Default: `"[REDACTED]"`, Doc: "what replaces a match"},
		{Name: "failOnDetection", Type: guardrails.Boolean, Doc: "a match makes the verdict false; it is replaced all the same"},
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		re, _, _, err := jsregexp.Parse(p.Text("rule"))
		if err != nil {
			return nil, &guardrails.ParameterError{Name: "rule", Message: err.Error()}
		}
		return &replacing{rule: p.Text("rule"), re: re, with: p.Text("redactText"), fail: p.Boolean("failOnDetection")}, nil
	},
}

type replacing struct {
	rule, with string
	re         *jsregexp.Regexp
	fail       bool
}

// Size is that of the expression.
func (c *replacing) Size() int { return c.re.Size() }

func (c *replacing) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	if s.Text() == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	texts, found, err := guardrails.ReplaceEach(ctx, c, s)
	if err != nil {
		return guardrails.Result{}, err
	}
	explanation := "The regular expression does not match the text."
	if found > 0 {
		explanation = "The matches of the regular expression were replaced."
	}
	return guardrails.Result{
		Verdict: found == 0 || !c.fail, Texts: texts,
		Data: data{"regexPattern": c.rule, "redactText": c.with, "matches": found, "explanation": explanation},
	}, nil
}

// Finds reports whether matches decide.
func (c *replacing) Finds() (decides, redacts bool) { return c.re.Local(), !c.fail }

// Find returns all matches that are not empty.
func (c *replacing) Find(ctx context.Context, text string) ([]guardrails.Place, error) {
	all, err := places(ctx, c.re, text, -1, c.with)
	kept := all[:0]
	for _, p := range all {
		if p.End > p.Start {
			kept = append(kept, p)
		}
	}
	return kept, err
}

// Transforms says that the check changes what it judges, also where a match makes the verdict false.
func (*replacing) Transforms() {}
