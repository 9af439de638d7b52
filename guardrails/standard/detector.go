package standard

import (
	"cmp"
	"context"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/guardrails"
)

// A detecting check objects to what its detectors find, or replaces it.
type detecting struct {
	what      string // what is found, such as "personal data"
	detectors []detector
	redact    bool
	parts     bool // every place is short enough for a stream's window
}

// A detector finds places of one kind, in order and without overlaps.
type detector struct {
	kind string // "": each place says its own, in With
	find finder
}

// A finder finds places in a text of any length. It looks at the context each few KiB; the error is
// that of the context.
type finder func(ctx context.Context, text string) ([]guardrails.Place, error)

// redact is the parameter of detecting checks.
var redact = guardrails.Parameter{Name: "redact", Type: guardrails.Boolean, Doc: "what is found is replaced by its kind in brackets, and the verdict is true"}

// timeout is a parameter that configs of other gateways give.
var timeout = guardrails.Parameter{Name: "timeout", Type: guardrails.Number, Doc: "accepted; nothing is waited for"}

func (c *detecting) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	if s.Text() == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	counts := make(map[string]int)
	found := 0
	var texts []string
	for i, text := range s.Texts {
		places, kinds, err := c.all(ctx, text)
		if err != nil {
			return guardrails.Result{}, err
		}
		for _, kind := range kinds {
			counts[kind]++
		}
		if found += len(places); len(places) > 0 && c.redact {
			if texts == nil {
				texts = slices.Clone(s.Texts)
			}
			texts[i] = guardrails.Replace(text, places)
		}
	}
	explanation := "The text has no " + c.what + "."
	switch {
	case found > 0 && c.redact:
		explanation = "The " + c.what + " in the text were replaced."
	case found > 0:
		explanation = "The text has " + c.what + "."
	}
	return guardrails.Result{Verdict: found == 0 || c.redact, Texts: texts, Data: data{"found": counts, "redact": c.redact, "explanation": explanation}}, nil
}

// Finds says that places decide, if windows have room for them.
func (c *detecting) Finds() (decides, redacts bool) { return c.parts || !c.redact, c.redact }

// Find returns what all detectors find.
func (c *detecting) Find(ctx context.Context, text string) ([]guardrails.Place, error) {
	places, _, err := c.all(ctx, text)
	return places, err
}

// all returns what the detectors find, with the kinds. Where two overlap, the one that begins first
// counts, or the longer one.
func (c *detecting) all(ctx context.Context, text string) (places []guardrails.Place, kinds []string, err error) {
	type kindOf struct {
		guardrails.Place
		kind string
	}
	var all []kindOf
	for _, d := range c.detectors {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		found, err := d.find(ctx, text)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range found {
			kind := cmp.Or(d.kind, p.With)
			p.With = "[" + kind + "]"
			all = append(all, kindOf{p, kind})
		}
	}
	slices.SortStableFunc(all, func(a, b kindOf) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	end := 0
	for _, p := range all {
		if p.Start >= end {
			places, kinds, end = append(places, p.Place), append(kinds, p.kind), p.End
		}
	}
	return places, kinds, nil
}

// alone reports whether text[start:end] has none of some characters next to it.
func alone(text string, start, end int, next func(rune) bool) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	return (start == 0 || !next(before)) && (end == len(text) || !next(after))
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// Interface guards
var _ guardrails.Finder = (*detecting)(nil)
