package standard

import (
	"context"
	"math"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/textsearch"
)

// A secretRule is how credentials of one kind look.
type secretRule struct {
	kind     string
	literals []string // of which every match has one, within [textsearch.MaxNear] bytes; nil: see [assigned]
	pattern  string
	entropy  float64 // the least, in bits a character, of the last group; 0: any
	compiled func() *textsearch.Regexp
}

// secretRules are wider than gitleaks' rules, or have none of them: keys of services for language models in any length,
// tokens of Telegram without its name, private keys that are cut off, and passwords of any characters.
var secretRules = []secretRule{
	{kind: "API_KEY", literals: []string{"sk-"}, pattern: `sk-(?:proj-|svcacct-|admin-|ant-|or-v1-)?[A-Za-z0-9_\-]{20,255}`, entropy: 3},
	{kind: "TELEGRAM_TOKEN", literals: []string{":A"}, pattern: `[0-9]{8,10}:A[A-Za-z0-9_\-]{34}`},
	{kind: "PRIVATE_KEY", literals: []string{"PRIVATE KEY"}, pattern: `-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=:,.\-\s\\]*`},
	{kind: "CREDENTIAL", pattern: `(?i)(?:api[_\-]?key|access[_\-]?key|secret(?:[_\-]?key)?|client[_\-]?secret|auth[_\-]?token|access[_\-]?token|password|passwd)["']?\s{0,4}(?:=|:|:=|=>)\s{0,4}["']?([^\s"',;<>(){}\[\]]{12,256})`, entropy: 3.3},
}

var secrets = guardrails.Kind{
	ID: "gw.secrets", Doc: "the text has no credentials: keys and tokens of services, by the rules of gitleaks, private keys, and random values that are assigned to names such as password; or always, with redact",
	Phases:     guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{redact, timeout},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		rules, err := leaks()
		if err != nil {
			return nil, err
		}
		c := &detecting{what: "credentials", redact: p.Boolean("redact")} // private keys are longer than windows
		c.detectors = append(c.detectors, detector{find: rules.find})
		for i := range secretRules {
			c.detectors = append(c.detectors, detector{secretRules[i].kind, secretRules[i].find})
		}
		return c, nil
	},
}

func init() {
	for i := range secretRules {
		secretRules[i].compiled = textsearch.Lazy(secretRules[i].pattern)
	}
}

// find finds credentials of the kind; of an assignment, the value.
func (r *secretRule) find(ctx context.Context, text string) (places []guardrails.Place, err error) {
	next := assigned
	if r.literals != nil {
		next = func(text string) int { return firstOf(text, r.literals) }
	}
	all, err := r.compiled().FindAllSubmatchNear(ctx, text, next)
	for _, m := range all {
		start, end := m[len(m)-2], m[len(m)-1]
		if len(m) == 2 && !alone(text, start, end, isWord) || r.entropy > 0 && entropy(text[start:end]) < r.entropy {
			continue
		}
		places = append(places, guardrails.Place{Start: start, End: end})
	}
	return places, err
}

// firstOf is where a text has the first of some words, or -1. It takes as long as that is far away, although others
// of the words may be nowhere.
func firstOf(text string, words []string) int {
	for size := 64; ; size *= 4 {
		within := text[:min(size+textsearch.MaxNear, len(text))]
		all, first := len(within) == len(text), -1
		for _, w := range words {
			if at := strings.Index(within, w); at >= 0 && (all || at < size) && (first < 0 || at < first) {
				first, within = at, within[:min(at+textsearch.MaxNear, len(within))]
			}
		}
		if first >= 0 || all {
			return first
		}
	}
}

// assigned is where a text has the first of what every name has that credentials are assigned to, or -1. Go's
// expressions take the letters U+017F and U+212A for an s and a k.
func assigned(text string) int {
	for at := range len(text) {
		word := ""
		switch text[at] {
		case 'k', 'K':
			word = "key"
		case 's', 'S':
			word = "secret"
		case 't', 'T':
			word = "token"
		case 'p', 'P':
			word = "passw"
		case 0xc5, 0xe2:
			if rest := text[at:]; strings.HasPrefix(rest, "\u017f") || strings.HasPrefix(rest, "\u212a") {
				return at
			}
		}
		if word != "" && len(text)-at >= len(word) && text[at+1]|0x20 == word[1] && strings.EqualFold(text[at:at+len(word)], word) {
			return at
		}
	}
	return -1
}

// entropy is how random a text is, in bits a byte.
func entropy(text string) (bits float64) {
	var counts [256]int
	for i := range len(text) {
		counts[text[i]]++
	}
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(text))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
