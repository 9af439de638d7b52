package standard

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
)

const (
	// maxLeak bounds what is searched of a credential whose expression has no bound, in bytes. One that is so far can have
	// more.
	maxLeak = 8 << 10
	maxRest = 256 // bytes of a token after what the expression of a rule knows of it
	maxName = 50  // bytes of a name before a keyword

	maxAway    = 256     // bytes between a keyword and a match without one, such as the name of a service
	maxCommand = 1 << 10 // bytes between a command and its argument
)

// find finds what the rules find. The kinds of the places are in [guardrails.Place.With].
func (r *leakRules) find(ctx context.Context, text string) (places []guardrails.Place, err error) {
	f := &leakSearching{leakRules: r, ctx: ctx, text: text}
	if err := r.keywords.scan(ctx, text, f.keyword); err != nil {
		return nil, err
	}
	if err := f.aroundKeywords(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(f.found, func(a, b leak) int { return cmp.Compare(boolean(a.rule.generic), boolean(b.rule.generic)) })
	for _, l := range f.found {
		places = append(places, guardrails.Place{Start: l.start, End: l.end, With: l.rule.kind})
	}
	return places, nil
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A leakSearching is a search of a text under way.
type leakSearching struct {
	*leakRules
	ctx     context.Context //nolint:containedctx // it lives as long as the search
	text    string
	found   []leak
	matched map[int]int   // of rules, where the last match ends
	around  map[int][]int // of rules that do not begin with their keywords, where those are
	spent   int           // bytes that were searched since the context was looked at
}

// A leak is a place that a rule has found.
type leak struct {
	rule       *leakRule
	start, end int
}

// keyword has the rules of a keyword look at it.
func (f *leakSearching) keyword(n *node, end int) error {
	at := end - int(n.size)
	inWord := at > 0 && isWordByte(f.text[at-1])
	for _, i := range f.of[n.word] {
		r := f.all[i]
		if at < f.matched[i] || r.command != "" && !f.follows(r.command, at) {
			continue
		}
		s := r.search()
		switch {
		case !s.begins:
			if f.around == nil {
				f.around = make(map[int][]int)
			}
			f.around[i] = append(f.around[i], at)
		case r.word && inWord || r.assigns && !assigns(f.text[end:]) || !strings.HasPrefix(f.text[at:], s.prefix):
		default:
			if err := f.match(i, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// match looks for a match of a rule at a place.
func (f *leakSearching) match(i, at int) error {
	r := f.all[i]
	s := r.search()
	most, bounded := s.Longest()
	if !bounded {
		most = maxLeak
	}
	if f.spent += min(most, len(f.text)-at); f.spent >= 16<<10 {
		f.spent = 0
		if err := f.ctx.Err(); err != nil {
			return err
		}
	}
	m := s.FindAt(f.text, at, most)
	if m == nil {
		return nil
	}
	until, more := m[1], !bounded && m[1] >= at+most
	found := f.add(r, m)
	if found && more {
		f.found = f.found[:len(f.found)-1]
		if m = s.FindAt(f.text, at, len(f.text)); m != nil && f.add(r, m) {
			until = m[1]
		}
	}
	if found || more { // what is as long, and not random, is not looked at again from each keyword in it
		if f.matched == nil {
			f.matched = make(map[int]int)
		}
		f.matched[i] = until
	}
	return nil
}

// aroundKeywords looks for matches of the rules that do not begin with their keywords.
func (f *leakSearching) aroundKeywords() error {
	for i := range f.all {
		if at := f.around[i]; at != nil {
			all, err := f.all[i].search().FindAllSubmatchAround(f.ctx, f.text, at, maxAway)
			if err != nil {
				return err
			}
			for _, m := range all {
				f.add(f.all[i], m)
			}
		}
	}
	return nil
}

// add adds the credential in a match, if there is one.
func (f *leakSearching) add(r *leakRule, m []int) bool {
	start, end := m[0], m[1]
	first := r.group
	for g := 1; first == 0 && g < len(m)/2; g++ {
		if m[2*g] < m[2*g+1] {
			first = g
		}
	}
	if first > 0 {
		start, end = m[2*first], m[2*first+1]
	}
	credential := f.text[start:end]
	if r.entropy > 0 && entropy(credential) <= r.entropy {
		return false
	}
	match := f.text[f.name(m[0]):m[1]]
	for _, list := range [...][]*allowlist{f.allowed, r.allowed} {
		for _, a := range list {
			if a.allows(match, credential) {
				return false
			}
		}
	}
	if r.whole {
		start, end = m[0], m[1]
	}
	for most := min(end+maxRest, len(f.text)); end < most && (isWordByte(f.text[end]) || f.text[end] == '-'); {
		end++ // tokens become longer, and what is left of one would be known
	}
	f.found = append(f.found, leak{r, start, end})
	return true
}

// follows reports whether a command is not far before a place.
func (f *leakSearching) follows(command string, at int) bool {
	return strings.Contains(f.text[max(at-maxCommand, 0):at], command)
}

// name is where the name begins that a keyword is in.
func (f *leakSearching) name(at int) int {
	for least := max(at-maxName, 0); at > least; at-- {
		if c := f.text[at-1]; !isWordByte(c) && c != '.' && c != '-' {
			break
		}
	}
	return at
}

// assigns reports whether a name goes on with something that assigns to it: a cheap way to tell most of
// what does not match an expression with [operators].
func assigns(rest string) bool {
	for i := range min(len(rest), 64) {
		switch c := rest[i]; c {
		case '=', '>', ':', '|', '?', ',':
			return true
		case ' ', '\t', '\n', '\r', '\f', '.', '-', '\'', '"':
		default:
			if !isWordByte(c) {
				return false
			}
		}
	}
	return false
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
