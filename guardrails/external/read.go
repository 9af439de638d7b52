package external

import (
	"errors"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// unexpected is the error of an answer without what decides.
func (a *answer) unexpected(path string) error {
	return errors.New("the answer to " + a.id + " has no " + path)
}

// flag reads a verdict that is true or false; kinds is the path of an object of categories that are
// true or false, or "".
func flag(path, kinds string) func(*answer) (finding, error) {
	return func(a *answer) (finding, error) {
		v := a.Get(path)
		if v.Type != gjson.True && v.Type != gjson.False {
			return finding{}, a.unexpected(path)
		}
		f := finding{found: v.Type == gjson.True}
		if kinds != "" && f.found {
			f.kinds = trueMembers(a.Get(kinds))
		}
		return f, nil
	}
}

// passes reads a verdict that is true where nothing is found.
func passes(path string) func(*answer) (finding, error) {
	read := flag(path, "")
	return func(a *answer) (finding, error) {
		f, err := read(a)
		f.found = err == nil && !f.found
		return f, err
	}
}

// word reads a verdict that is a word. Of those that an answer may have, good are those of one
// that found nothing.
func word(path string, good, bad []string) func(*answer) (finding, error) {
	return func(a *answer) (finding, error) {
		v := a.Get(path)
		switch {
		case v.Type != gjson.String:
			return finding{}, a.unexpected(path)
		case slices.Contains(good, v.Str):
			return finding{}, nil
		case bad == nil || slices.Contains(bad, v.Str):
			return finding{found: true}, nil
		}
		return finding{}, errors.New("the answer to " + a.id + " has an unknown " + path)
	}
}

// unless reads a verdict that is any word but one.
func unless(path, bad string) func(*answer) (finding, error) {
	return func(a *answer) (finding, error) {
		v := a.Get(path)
		if v.Type != gjson.String {
			return finding{}, a.unexpected(path)
		}
		return finding{found: v.Str == bad}, nil
	}
}

// trueMembers are the names of the members of an object that are true.
func trueMembers(v gjson.Result) (all []string) {
	v.ForEach(func(name, v gjson.Result) bool {
		if v.Type == gjson.True {
			all = append(all, name.Str)
		}
		return true
	})
	return all
}

// truthy reports whether a value is neither absent, null, false, 0 nor empty.
func truthy(v gjson.Result) bool {
	switch v.Type {
	case gjson.True:
		return true
	case gjson.Number:
		return v.Num != 0
	case gjson.String:
		return v.Str != ""
	case gjson.JSON:
		some := false
		v.ForEach(func(_, _ gjson.Result) bool { some = true; return false })
		return some
	case gjson.Null, gjson.False:
	}
	return false
}

// A stretch is a place in a text, in characters.
type stretch struct {
	start, end int
	with       string
}

// replaceStretches replaces places in a text, of which those that overlap are one. A place that is not in the
// text is an error, since nothing may be left of what was found.
func replaceStretches(text string, places []stretch) (string, error) {
	offsets := make([]int, 0, utf8.RuneCountInString(text)+1)
	for i := range text {
		offsets = append(offsets, i)
	}
	offsets = append(offsets, len(text))
	sort.SliceStable(places, func(i, j int) bool { return places[i].start < places[j].start })
	var b strings.Builder
	at := 0
	for i := 0; i < len(places); {
		p := places[i]
		if p.start < 0 || p.end < p.start || p.end >= len(offsets) {
			return "", errors.New("the answer has a place that is not in the text")
		}
		for i++; i < len(places) && places[i].start < p.end; i++ {
			if places[i].end >= len(offsets) {
				return "", errors.New("the answer has a place that is not in the text")
			}
			p.end = max(p.end, places[i].end)
		}
		b.WriteString(text[at:offsets[p.start]])
		b.WriteString(p.with)
		at = offsets[p.end]
	}
	b.WriteString(text[at:])
	return b.String(), nil
}
