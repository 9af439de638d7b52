package comparison

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/guardrails"
)

func TestValuesAreCompared(t *testing.T) {
	for _, c := range []struct {
		way, wanted, values string
		want                bool
	}{
		{Exact, "a", "a", true},
		{Exact, "a,b", "b", true},
		{Exact, "a", "a,b", false},
		{Exact, "a", "ab", false},
		{Contains, "a,z", "bab,c", true},
		{Contains, "z", "bab,c", false},
		{ContainsAll, "a,c", "bab,c", true},
		{ContainsAll, "a,z", "bab,c", false},
		{Regex, "^x,/^B/i", "bab,c", true},
		{Regex, "^ab", "bab", false},
	} {
		f, err := New(c.way, strings.Split(c.wanted, ","))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f(t.Context(), strings.Split(c.values, ",")); err != nil || got != c.want {
			t.Errorf("%s %s of %s: %v, %v", c.way, c.wanted, c.values, got, err)
		}
		if !slices.Contains(Ways, c.way) {
			t.Errorf("%s is not among the ways", c.way)
		}
	}
	if _, err := New(Regex, []string{"("}); err == nil {
		t.Error("( is a regular expression")
	}
}

// A value that takes too long is no match and no mismatch.
func TestASearchThatIsGivenUpCannotJudge(t *testing.T) {
	f, err := New(Regex, []string{`^(?=(a+)+$)`})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f(t.Context(), []string{strings.Repeat("a", 60) + "b"})
	if !errors.Is(err, guardrails.ErrUnreadable) {
		t.Errorf("got %v", err)
	}
}
