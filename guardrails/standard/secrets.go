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

var secretRules = []secretRule{
	{kind: "AWS_ACCESS_KEY", literals: []string{"AKIA", "ASIA", "ABIA", "ACCA"}, pattern: `(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}`},
	{kind: "GITHUB_TOKEN", literals: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, pattern: `gh[pousr]_[A-Za-z0-9]{36,255}`},
	{kind: "GITHUB_TOKEN", literals: []string{"github_pat_"}, pattern: `github_pat_[A-Za-z0-9_]{40,255}`},
	{kind: "GITLAB_TOKEN", literals: []string{"glpat-"}, pattern: `glpat-[A-Za-z0-9_\-]{20,64}`},
	{kind: "API_KEY", literals: []string{"sk-"}, pattern: `sk-(?:proj-|svcacct-|admin-|ant-|or-v1-)?[A-Za-z0-9_\-]{20,255}`, entropy: 3},
	{kind: "GOOGLE_API_KEY", literals: []string{"AIza"}, pattern: `AIza[A-Za-z0-9_\-]{35}`},
	{kind: "SLACK_TOKEN", literals: []string{"xox"}, pattern: `xox[abeoprs]-[A-Za-z0-9\-]{10,250}`},
	{kind: "SLACK_WEBHOOK", literals: []string{"hooks.slack.com"}, pattern: `https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{20,100}`},
	{kind: "STRIPE_KEY", literals: []string{"k_live_", "k_test_", "k_prod_"}, pattern: `[rs]k_(?:live|test|prod)_[A-Za-z0-9]{16,250}`},
	{kind: "SENDGRID_KEY", literals: []string{"SG."}, pattern: `SG\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43}`},
	{kind: "NPM_TOKEN", literals: []string{"npm_"}, pattern: `npm_[A-Za-z0-9]{36}`},
	{kind: "PYPI_TOKEN", literals: []string{"pypi-AgEIcHlwaS5vcmc"}, pattern: `pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_\-]{50,1000}`},
	{kind: "HUGGING_FACE_TOKEN", literals: []string{"hf_"}, pattern: `hf_[A-Za-z]{34}`},
	{kind: "TWILIO_KEY", literals: []string{"SK"}, pattern: `SK[0-9a-fA-F]{32}`},
	{kind: "DIGITALOCEAN_TOKEN", literals: []string{"_v1_"}, pattern: `do[opr]_v1_[a-f0-9]{64}`},
	{kind: "SHOPIFY_TOKEN", literals: []string{"shpat_", "shpca_", "shppa_", "shpss_"}, pattern: `shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}`},
	{kind: "TELEGRAM_TOKEN", literals: []string{":A"}, pattern: `[0-9]{8,10}:A[A-Za-z0-9_\-]{34}`},
	{kind: "JWT", literals: []string{"eyJ"}, pattern: `eyJ[A-Za-z0-9_\-]{10,1000}\.eyJ[A-Za-z0-9_\-]{10,1000}\.[A-Za-z0-9_\-]{10,1000}`},
	{kind: "PRIVATE_KEY", literals: []string{"PRIVATE KEY"}, pattern: `-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=:,.\-\s\\]*`},
	{kind: "CREDENTIAL", pattern: `(?i)(?:api[_\-]?key|access[_\-]?key|secret(?:[_\-]?key)?|client[_\-]?secret|auth[_\-]?token|access[_\-]?token|password|passwd)["']?\s{0,4}(?:=|:|:=|=>)\s{0,4}["']?([^\s"',;<>(){}\[\]]{12,256})`, entropy: 3.3},
}

var secrets = guardrails.Kind{
	ID: "gw.secrets", Doc: "the text has no credentials: keys and tokens of well-known services, private keys, and random values that are assigned to names such as password; or always, with redact",
	Parameters: []guardrails.Parameter{redact, timeout},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		c := &detecting{what: "credentials", redact: p.Boolean("redact")} // private keys are longer than windows
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
