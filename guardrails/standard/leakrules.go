package standard

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
	"github.com/zricethezav/gitleaks/v8/config"

	"github.com/caddy-gw/gateway/internal/textsearch"
)

// leaks are gitleaks' rules and their keywords, read when they are first used.
var leaks = sync.OnceValues(func() (*leakRules, error) { return readLeakRules(config.DefaultConfig) })

// leakRules are rules for credentials of many services, which are looked for where a text has one of their
// keywords.
type leakRules struct {
	all      []*leakRule
	keywords *automaton
	of       [][]int // the rules of each keyword
	allowed  []*allowlist
}

// A leakRule is how the credentials of a service look.
type leakRule struct {
	kind    string
	search  func() *leakSearch
	group   int     // the credential; 0: the first group that is not empty
	entropy float64 // what that of the credential must be above, in bits a character; 0: any
	allowed []*allowlist

	command string // of whose arguments it is; "": of none
	word    bool   // it begins a word
	assigns bool   // of what is assigned to a name with the keyword
	whole   bool   // all of a match is replaced: its groups are parts of the credential
	generic bool   // another rule says more of the same place
}

// A leakSearch is the expression of a rule. It is compiled when a text has a keyword of the rule.
type leakSearch struct {
	*textsearch.Regexp
	begins bool   // with the keyword
	prefix string // of each match; "": it has none that is fixed
}

// An allowlist says which matches are none of credentials.
type allowlist struct {
	match     bool // the expression is of the match, and not of the credential
	matches   func() *regexp.Regexp
	stopwords func() *automaton
}

// The configuration of gitleaks, as far as it says something of texts.
type (
	leakConfig struct {
		Title      string
		MinVersion string
		Allowlist  leakAllowlist
		Rules      []struct {
			ID          string
			Description string
			Regex       string
			Path        string
			SecretGroup int
			Entropy     float64
			Keywords    []string
			Allowlists  []leakAllowlist
		}
	}
	leakAllowlist struct {
		Description string
		Condition   string
		Paths       []string
		RegexTarget string
		Regexes     []string
		StopWords   []string
	}
)

const (
	// nameBefore is how many rules begin: with what may be before the keyword in a name. It finds the same
	// credentials without.
	nameBefore = `[\w.-]{0,50}?`
	// operators are what assigns a value.
	operators = `(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)`
	// endOfToken is what gitleaks has after many credentials, as code is. In prose, a full stop or a bracket may
	// follow.
	endOfToken = `(?:[\x60'"\s;]|\\[nr]|$)`
	endInProse = `(?:[^\w+/(\[-]|$)`
)

// leftOut are rules for which the check has wider ones of its own: see [secretRules].
var leftOut = []string{"private-key"}

// wholeMatches are rules whose first group is not the credential, but part of it.
var wholeMatches = []string{"jwt-base64", "microsoft-teams-webhook"}

// arguments are rules that begin with a command and go through all that may be between it and an argument. Those would take
// quadratic time; what is searched is the argument, and then the command before it.
var arguments = []struct {
	id, command, before string
	keywords            []string
}{
	{"curl-auth-header", "curl", `\bcurl\b(?:.*?|.*?(?:[\r\n]{1,2}.*?){1,5})[ \t\n\r]`, []string{"-h", "--header"}},
	{"curl-auth-user", "curl", `\bcurl\b(?:.*|.*(?:[\r\n]{1,2}.*){1,5})[ \t\n\r]`, []string{"-u", "--user"}},
}

// readLeakRules reads gitleaks' configuration, a TOML document. Rules for files with certain names are left out, and so is what
// allows a credential because of the line that it is in: whoever writes the line could have any pass.
func readLeakRules(document string) (*leakRules, error) {
	var c leakConfig
	if _, err := toml.Decode(document, &c); err != nil {
		return nil, fmt.Errorf("reading gitleaks' rules: %w", err)
	}
	rules := &leakRules{allowed: allowlists([]leakAllowlist{c.Allowlist})}
	var keywords []string
	for i := range c.Rules {
		given := &c.Rules[i]
		if given.Path != "" || slices.Contains(leftOut, given.ID) {
			continue
		}
		expression := strings.ReplaceAll(strings.ReplaceAll(given.Regex, nameBefore, ""), endOfToken, endInProse)
		command, of := "", given.Keywords
		for _, a := range arguments {
			if given.ID == a.id && strings.HasPrefix(expression, a.before) {
				expression, command, of = expression[len(a.before):], a.command, a.keywords
			}
		}
		rules.all = append(rules.all, &leakRule{
			command: command,
			kind:    strings.ToUpper(strings.ReplaceAll(given.ID, "-", "_")),
			group:   given.SecretGroup, entropy: given.Entropy, allowed: allowlists(given.Allowlists),
			word: strings.HasPrefix(expression, `\b`), assigns: strings.Contains(expression, operators),
			whole: slices.Contains(wholeMatches, given.ID), generic: given.ID == "generic-api-key",
			search: sync.OnceValue(func() *leakSearch { return newLeakSearch(expression, of) }),
		})
		for _, word := range of {
			at := slices.Index(keywords, word)
			if at < 0 {
				at = len(keywords)
				keywords, rules.of = append(keywords, word), append(rules.of, nil)
			}
			rules.of[at] = append(rules.of[at], len(rules.all)-1)
		}
	}
	rules.keywords = newAutomaton(keywords, true)
	return rules, nil
}

func newLeakSearch(expression string, keywords []string) *leakSearch {
	s := &leakSearch{Regexp: textsearch.Lazy(expression)()}
	s.begins = s.BeginsWith(keywords)
	s.prefix = s.Prefix()
	return s
}

func allowlists(given []leakAllowlist) (all []*allowlist) {
	for i := range given {
		g := &given[i]
		if g.RegexTarget == "line" || g.Condition == "AND" && len(g.Paths) > 0 || len(g.Regexes)+len(g.StopWords) == 0 {
			continue
		}
		a := &allowlist{match: g.RegexTarget == "match"}
		if len(g.Regexes) > 0 {
			a.matches = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(strings.Join(g.Regexes, "|")) })
		}
		if len(g.StopWords) > 0 {
			a.stopwords = sync.OnceValue(func() *automaton { return newAutomaton(g.StopWords, true) })
		}
		all = append(all, a)
	}
	return all
}

// allows reports whether a match is none of a credential.
func (a *allowlist) allows(match, credential string) bool {
	target := credential
	if a.match {
		target = match
	}
	return a.matches != nil && a.matches().MatchString(target) || a.stopwords != nil && a.stopwords().has(credential)
}
