package standard

import (
	"context"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
)

var contains = guardrails.Kind{
	ID: "default.contains", Doc: "the text has any, all or none of the words; letter case counts",
	Phases: guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{
		{Name: "words", Type: guardrails.Texts, Required: true, Doc: "parts of the text"},
		operator("any"),
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &containing{words: p.Texts("words"), operator: p.Text("operator")}, nil
	},
}

type containing struct {
	words    []string
	operator string
}

func (c *containing) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	found, missing := []string{}, []string{}
	paced := pacer{ctx: ctx}
	for _, w := range c.words {
		if err := paced.pace(len(text)); err != nil {
			return guardrails.Result{}, err
		}
		if strings.Contains(text, w) {
			found = append(found, w)
		} else {
			missing = append(missing, w)
		}
	}
	ok := meets(c.operator, len(found), len(c.words))
	return guardrails.Result{Verdict: ok, Data: data{
		"words": c.words, "operator": c.operator, "foundWords": found, "missingWords": missing, "textExcerpt": guardrails.Excerpt(text),
		"explanation": "The text " + howMany(c.operator, ok) + " of the words.",
	}}, nil
}

// Finds reports whether words decide: they must be absent.
func (c *containing) Finds() (decides, redacts bool) { return c.operator == "none", false }

// Find returns the first place of a word.
func (c *containing) Find(ctx context.Context, text string) ([]guardrails.Place, error) {
	var first []guardrails.Place
	paced := pacer{ctx: ctx}
	for _, w := range c.words {
		if err := paced.pace(len(text)); err != nil {
			return nil, err
		}
		before := text // where it would have to be
		if first != nil {
			before = text[:min(len(text), max(0, first[0].Start-1+len(w)))]
		}
		if at := strings.Index(before, w); at >= 0 {
			first = []guardrails.Place{{Start: at, End: at + len(w)}}
		}
	}
	return first, nil
}
