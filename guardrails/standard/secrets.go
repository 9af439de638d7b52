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
	keyword  string // which a text with one has, whatever its case; "": it may have none
	pattern  string
	entropy  float64 // the least, in bits a character, of the last group; 0: any
	compiled func() *textsearch.Regexp
}

var secretRules = []secretRule{
	{kind: "AWS_ACCESS_KEY", pattern: `(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}`},
	{kind: "GITHUB_TOKEN", keyword: "gh", pattern: `gh[pousr]_[A-Za-z0-9]{36,255}`},
	{kind: "GITHUB_TOKEN", keyword: "github_pat_", pattern: `github_pat_[A-Za-z0-9_]{40,255}`},
	{kind: "GITLAB_TOKEN", keyword: "glpat-", pattern: `glpat-[A-Za-z0-9_\-]{20,64}`},
	{kind: "API_KEY", keyword: "sk-", pattern: `sk-(?:proj-|svcacct-|admin-|ant-|or-v1-)?[A-Za-z0-9_\-]{20,255}`, entropy: 3},
	{kind: "GOOGLE_API_KEY", keyword: "aiza", pattern: `AIza[A-Za-z0-9_\-]{35}`},
	{kind: "SLACK_TOKEN", keyword: "xox", pattern: `xox[abeoprs]-[A-Za-z0-9\-]{10,250}`},
	{kind: "SLACK_WEBHOOK", keyword: "hooks.slack.com", pattern: `https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{20,100}`},
	{kind: "STRIPE_KEY", keyword: "k_", pattern: `[rs]k_(?:live|test|prod)_[A-Za-z0-9]{16,250}`},
	{kind: "SENDGRID_KEY", keyword: "sg.", pattern: `SG\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43}`},
	{kind: "NPM_TOKEN", keyword: "npm_", pattern: `npm_[A-Za-z0-9]{36}`},
	{kind: "PYPI_TOKEN", keyword: "pypi-", pattern: `pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_\-]{50,1000}`},
	{kind: "HUGGING_FACE_TOKEN", keyword: "hf_", pattern: `hf_[A-Za-z]{34}`},
	{kind: "TWILIO_KEY", keyword: "sk", pattern: `SK[0-9a-fA-F]{32}`},
	{kind: "DIGITALOCEAN_TOKEN", keyword: "_v1_", pattern: `do[opr]_v1_[a-f0-9]{64}`},
	{kind: "SHOPIFY_TOKEN", keyword: "shp", pattern: `shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}`},
	{kind: "TELEGRAM_TOKEN", keyword: ":a", pattern: `[0-9]{8,10}:A[A-Za-z0-9_\-]{34}`},
	{kind: "JWT", keyword: "eyj", pattern: `eyJ[A-Za-z0-9_\-]{10,1000}\.eyJ[A-Za-z0-9_\-]{10,1000}\.[A-Za-z0-9_\-]{10,1000}`},
	{kind: "PRIVATE_KEY", keyword: "private key", pattern: `-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=:,.\-\s\\]*`},
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
	if r.keyword != "" {
		if found, err := containsFold(ctx, text, r.keyword); err != nil || !found {
			return nil, err
		}
	}
	all, err := r.compiled().FindAllSubmatch(ctx, text, -1)
	for _, m := range all {
		start, end := m[len(m)-2], m[len(m)-1]
		if len(m) == 2 && !alone(text, start, end, isWord) || r.entropy > 0 && entropy(text[start:end]) < r.entropy {
			continue
		}
		places = append(places, guardrails.Place{Start: start, End: end})
	}
	return places, err
}

// containsFold reports whether a text has a word in lower case, whatever the case of its ASCII
// letters.
func containsFold(ctx context.Context, text, word string) (bool, error) {
	paced := pacer{ctx: ctx}
	first := word[0]
	for at := 0; at+len(word) <= len(text); at++ {
		if text[at]|0x20 == first|0x20 && strings.EqualFold(text[at:at+len(word)], word) {
			return true, nil
		}
		if err := paced.pace(1); err != nil {
			return false, err
		}
	}
	return false, nil
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
