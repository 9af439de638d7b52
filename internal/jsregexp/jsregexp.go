// Package jsregexp has regular expressions as JavaScript reads them. Go's own engine, which takes
// linear time, runs those that mean the same there; the rest, with look-around or
// back-references, run on a backtracking engine within limits of time and memory.
package jsregexp

import (
	"context"
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"sync"
	"time"

	"github.com/dlclark/regexp2/v2"

	"github.com/caddy-gw/gateway/internal/textsearch"
)

const (
	// MaxPattern bounds a pattern, in bytes.
	MaxPattern = 16 << 10
	// MaxSize bounds what a pattern is compiled to, in instructions of Go's engine. It is found before
	// the pattern is compiled: a{1,999} has a thousand of them.
	MaxSize = 10_000
	// Timeout bounds a call that searches with the backtracking engine, or for all matches. Each
	// byte of the text adds perByte, several times what engines take that backtrack little, so that
	// what else the machine does decides nothing about long texts.
	Timeout = 250 * time.Millisecond

	perByte   = 200 * time.Nanosecond
	shortText = 2 << 10 // bytes in which Go's engine finds all matches in time, whatever the pattern

	maxBacktracking = 1 << 20 // entries of the backtracking engine's stack
)

// Errors of searches that were given up because of the text.
var (
	ErrTimeout = errors.New("the regular expression takes too long in this text")
	ErrMemory  = errors.New("the regular expression needs too much memory in this text")
)

// A Regexp is a compiled regular expression. It may be used by several goroutines.
type Regexp struct {
	linear    *textsearch.Regexp // nil: backtracks is used
	backtrack *regexp2.Regexp    // nil: linear is used
	anchored  bool
	size      int
}

// compiling has one pattern compiled at a time, which takes many times the memory that it has then.
var compiling sync.Mutex

// Compile compiles a pattern. The flags are those of JavaScript: i, m and s change what matches;
// d, g, u, v and y are accepted and change nothing.
func Compile(pattern, flags string) (*Regexp, error) {
	if len(pattern) > MaxPattern {
		return nil, fmt.Errorf("expected a regular expression of at most %d bytes", MaxPattern)
	}
	var own string
	options := regexp2.ECMAScript
	for i, f := range flags {
		switch {
		case strings.ContainsRune(flags[:i], f):
			return nil, fmt.Errorf("the flag %q is given twice", f)
		case strings.ContainsRune("dguvy", f):
		case f == 'i':
			own, options = own+"i", options|regexp2.IgnoreCase
		case f == 'm':
			own, options = own+"m", options|regexp2.Multiline
		case f == 's':
			own, options = own+"s", options|regexp2.Singleline
		default:
			return nil, fmt.Errorf("unknown flag %q, expected d, g, i, m, s, u, v or y", f)
		}
	}
	re := &Regexp{size: len(pattern)}
	if linear, anchored, ok := translate(pattern, strings.Contains(own, "s")); ok {
		if own != "" {
			linear = "(?" + own + ")" + linear
		}
		if tree, err := syntax.Parse(linear, syntax.Perl); err == nil {
			if re.size = textsearch.Size(tree, MaxSize); re.size > MaxSize {
				return nil, fmt.Errorf("expected a regular expression of at most %d characters once its repetitions are written out", MaxSize)
			}
		}
		compiling.Lock()
		defer compiling.Unlock()
		if compiled, err := textsearch.Compile(linear); err == nil {
			re.linear, re.anchored = compiled, anchored
			return re, nil
		}
	}
	backtrack, err := regexp2.Compile(pattern, options, regexp2.OptionMaxBacktrackingStackSize(maxBacktracking))
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression: %w", err)
	}
	re.backtrack, re.anchored = backtrack, true
	return re, nil
}

// Parse compiles a pattern that may be written as a literal, /pattern/flags. global reports the
// flag g of a literal.
func Parse(rule string) (re *Regexp, literal, global bool, err error) {
	pattern, flags := rule, ""
	if end := strings.LastIndexByte(rule, '/'); end > 0 && rule[0] == '/' && isFlags(rule[end+1:]) {
		pattern, flags, literal = rule[1:end], rule[end+1:], true
	}
	re, err = Compile(pattern, flags)
	return re, literal, strings.ContainsRune(flags, 'g'), err
}

func isFlags(s string) bool {
	return strings.Trim(s, "dgimsuvy") == ""
}

// Size is how many instructions the expression has, about.
func (re *Regexp) Size() int { return re.size }

// Linear reports whether a search takes linear time.
func (re *Regexp) Linear() bool { return re.linear != nil }

// Local reports whether a match depends only on itself and the characters next to it, so that it
// is found in a part of a text as in the whole.
func (re *Regexp) Local() bool { return !re.anchored }

// Allowed is how long a call may take that searches a text.
func Allowed(text string) time.Duration { return Timeout + time.Duration(len(text))*perByte }

// deadline is when a call has to end that searches a text, or the context.
func deadline(ctx context.Context, text string) time.Time {
	end := time.Now().Add(Allowed(text))
	if d, ok := ctx.Deadline(); ok && d.Before(end) {
		return d
	}
	return end
}

// until is the backtracking engine for searches that end at a time.
func (re *Regexp) until(end time.Time) *regexp2.Regexp {
	limited := *re.backtrack // the rest of it is shared, and not changed
	limited.MatchTimeout = max(time.Until(end), 0)
	return &limited
}

// Match reports whether the text has a match. The error is ErrTimeout, ErrMemory or that of the
// context.
func (re *Regexp) Match(ctx context.Context, text string) (bool, error) {
	if re.linear != nil {
		return re.linear.Match(ctx, text)
	}
	found, err := re.until(deadline(ctx, text)).MatchString(text)
	return found, givenUp(err)
}

// FindAll returns where the matches are in the text, in order, as offsets in bytes; at most n of
// them, or all if n is negative. The error is ErrTimeout, ErrMemory or that of the context: even
// Go's engine, whose searches take linear time, may read the rest of the text for each match.
func (re *Regexp) FindAll(ctx context.Context, text string, n int) ([][]int, error) {
	switch {
	case re.linear == nil:
		if n == 0 {
			return nil, nil
		}
		return re.backtrackAll(text, n, deadline(ctx, text))
	case len(text) <= shortText:
		return re.linear.FindAll(ctx, text, n)
	}
	within, cancel := context.WithTimeout(ctx, Allowed(text))
	defer cancel()
	all, err := re.linear.FindAll(within, text, n)
	if err != nil && ctx.Err() == nil {
		return nil, ErrTimeout
	}
	return all, err
}

// backtrackAll is FindAll with the backtracking engine.
func (re *Regexp) backtrackAll(text string, n int, end time.Time) (all [][]int, err error) {
	m, err := re.until(end).FindStringMatch(text)
	for m != nil && err == nil {
		start, length := m.ByteRange()
		all = append(all, []int{start, start + length})
		if len(all) == n {
			return all, nil
		}
		if time.Now().After(end) {
			return nil, ErrTimeout
		}
		m, err = re.until(end).FindNextMatch(m)
	}
	if err != nil {
		return nil, givenUp(err)
	}
	return all, nil
}

// A Match is a match with its groups.
type Match struct {
	Start, End int // in bytes
	Groups     []string
	Named      map[string]string
}

// Find returns the first match, or nil. The error is ErrTimeout, ErrMemory or that of the context.
func (re *Regexp) Find(ctx context.Context, text string) (*Match, error) {
	if re.linear != nil {
		at, err := re.linear.Find(ctx, text)
		if at == nil {
			return nil, err
		}
		f := &Match{Start: at[0], End: at[1]}
		for i, name := range re.linear.SubexpNames() {
			if i == 0 {
				continue
			}
			var group string
			if at[2*i] >= 0 {
				group = text[at[2*i]:at[2*i+1]]
			}
			f.add(name, group)
		}
		return f, nil
	}
	m, err := re.until(deadline(ctx, text)).FindStringMatch(text)
	if m == nil || err != nil {
		return nil, givenUp(err)
	}
	start, length := m.ByteRange()
	f := &Match{Start: start, End: start + length}
	for _, number := range re.backtrack.GetGroupNumbers() {
		if number == 0 {
			continue
		}
		name := re.backtrack.GroupNameFromNumber(number)
		if strings.Trim(name, "0123456789") == "" {
			name = ""
		}
		var group string
		if g := m.GroupByNumber(number); g != nil {
			group = g.String()
		}
		f.add(name, group)
	}
	return f, nil
}

func (f *Match) add(name, group string) {
	f.Groups = append(f.Groups, group)
	if name != "" {
		if f.Named == nil {
			f.Named = make(map[string]string)
		}
		f.Named[name] = group
	}
}

// givenUp turns an error of a search into one that says what happened, and nothing of the text.
func givenUp(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, regexp2.ErrBacktrackingStackLimit):
		return ErrMemory
	default:
		return ErrTimeout
	}
}
