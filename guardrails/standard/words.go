package standard

import (
	"context"

	"github.com/caddy-gw/gateway/guardrails"
)

// maxWordBytes bounds the words of a list together.
const maxWordBytes = 256 << 10

var wordList = guardrails.Kind{
	ID: "gw.words", Doc: "the text has none of up to 10,000 words or phrases, which are looked for all at once; or always, with redact",
	Phases: guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{
		{Name: "words", Type: guardrails.Texts, Required: true, Doc: "words or phrases, of 256 KiB together"},
		{Name: "wholeWords", Type: guardrails.Boolean, Default: "true", Doc: "letters, digits or _ next to one make it another word"},
		{Name: "caseSensitive", Type: guardrails.Boolean, Doc: "letter case counts"},
		redact,
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		words := p.Texts("words")
		size := 0
		for _, w := range words {
			size += len(w)
		}
		if size > maxWordBytes {
			return nil, &guardrails.ParameterError{Name: "words", Message: "expected at most 256 KiB"}
		}
		a := newAutomaton(words, !p.Boolean("caseSensitive"))
		whole := p.Boolean("wholeWords")
		return &detecting{what: "words of the list", redact: p.Boolean("redact"), parts: true, detectors: []detector{{"WORD", func(ctx context.Context, text string) ([]guardrails.Place, error) {
			return a.find(ctx, text, whole)
		}}}}, nil
	},
}
