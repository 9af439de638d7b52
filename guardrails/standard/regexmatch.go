package standard

import (
	"context"
	"maps"
	"slices"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/comparison"
	"github.com/caddy-gw/gateway/internal/jsregexp"
)

var regexMatch = guardrails.Kind{
	ID: "default.regexMatch", Doc: "a regular expression of JavaScript matches somewhere",
	Phases: guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{
		{Name: "rule", Required: true, Doc: "the expression, with or without slashes and flags"},
		not,
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		re, _, _, err := jsregexp.Parse(p.Text("rule"))
		if err != nil {
			return nil, &guardrails.ParameterError{Name: "rule", Message: err.Error()}
		}
		return &matching{rule: p.Text("rule"), re: re, not: p.Boolean("not")}, nil
	},
}

type matching struct {
	rule string
	re   *jsregexp.Regexp
	not  bool
}

// Size is that of the expression.
func (c *matching) Size() int { return c.re.Size() }

func (c *matching) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	found, err := c.re.Find(ctx, text)
	if err != nil {
		return guardrails.Result{}, comparison.SearchError(ctx, err)
	}
	d := data{"regexPattern": c.rule, "textExcerpt": guardrails.Excerpt(text), "matchDetails": nil}
	if found != nil {
		d["matchDetails"] = detailsOf(found, text[found.Start:found.End])
	}
	return judged(found != nil, c.not, "The text has a match of the regular expression.", "The text has no match of the regular expression.", d), nil
}

// maxGroups is how many groups of a match are reported.
const maxGroups = 20

// detailsOf returns the beginnings of the texts of a match, of maxGroups groups at most.
func detailsOf(found *jsregexp.Match, matched string) data {
	captures := make([]string, min(len(found.Groups), maxGroups))
	for i := range captures {
		captures[i] = guardrails.Excerpt(found.Groups[i])
	}
	named := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(found.Named)) {
		if len(named) < maxGroups {
			named[name] = guardrails.Excerpt(found.Named[name])
		}
	}
	return data{"matchedText": guardrails.Excerpt(matched), "index": found.Start, "groups": named, "captures": captures}
}

// Finds reports whether matches decide: they must be absent.
func (c *matching) Finds() (decides, redacts bool) { return c.not && c.re.Local(), false }

// Find returns the first match.
func (c *matching) Find(ctx context.Context, text string) ([]guardrails.Place, error) {
	return places(ctx, c.re, text, 1, "")
}

// places are the matches of an expression, at most n, each replaced by a text.
func places(ctx context.Context, re *jsregexp.Regexp, text string, n int, with string) ([]guardrails.Place, error) {
	all, err := re.FindAll(ctx, text, n)
	if err != nil {
		return nil, comparison.SearchError(ctx, err)
	}
	out := make([]guardrails.Place, len(all))
	for i, at := range all {
		out[i] = guardrails.Place{Start: at[0], End: at[1], With: with}
	}
	return out, nil
}
