package jsregexp

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestPatternsMeanWhatJavaScriptMeans(t *testing.T) {
	for _, c := range []struct {
		rule, text, want string // "-": no match
		linear           bool
	}{
		{`a+b`, "xaab", "aab", true},
		{`/A+B/i`, "xaab", "aab", true},
		{`^b$`, "a\nb", "-", true},
		{`/^b$/m`, "a\nb", "b", true},
		{`a.b`, "a\rb", "-", true},
		{`/a.b/s`, "a\rb", "a\rb", true},
		{`a\sb`, "a\u00a0b", "a\u00a0b", true},
		{`a[\s,]b`, "a\ufeffb", "a\ufeffb", true},
		{`a\Sb`, "a\u2003b", "-", true},
		{`\u00e9\x41`, "éA", "éA", true},
		{`(?<year>\d{4})`, "in 2026", "2026", true},
		{`[[]`, "a[b", "[", true},
		{`a\/b`, "a/b", "a/b", true},
		{`foo(?!bar)`, "foobar foobaz", "foo", false},
		{`(?<=\$)\d+`, "7 $42", "42", false},
		{`(a)\1`, "baa", "aa", false},
		{`[^]`, "\n", "\n", false},
		{`/a/`, "xay", "a", true},
		{`/`, "a/b", "/", true},
	} {
		re, _, _, err := Parse(c.rule)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if re.Linear() != c.linear {
			t.Errorf("%s: linear %v, want %v", c.rule, re.Linear(), c.linear)
		}
		got := "-"
		if f, err := re.Find(t.Context(), c.text); err != nil {
			t.Errorf("%s: %v", c.rule, err)
		} else if f != nil {
			got = c.text[f.Start:f.End]
		}
		if got != c.want {
			t.Errorf("%s finds %q in %q, want %q", c.rule, got, c.text, c.want)
		}
		if found, err := re.Match(t.Context(), c.text); err != nil || found != (c.want != "-") {
			t.Errorf("%s: Match says %v, %v", c.rule, found, err)
		}
	}
}

func TestInvalidPatternsAreRefused(t *testing.T) {
	for _, c := range [][2]string{{"(", ""}, {"a", "q"}, {"a", "gg"}, {"*", ""}, {strings.Repeat("a", MaxPattern+1), ""}} {
		if _, err := Compile(c[0], c[1]); err == nil {
			t.Errorf("%.20q with the flags %q is accepted", c[0], c[1])
		}
	}
}

func TestGroupsAreNamed(t *testing.T) {
	for _, pattern := range []string{`(?<user>\w+)@(\w+)`, `(?<user>\w+)@(\w+)(?!x)`} {
		re, err := Compile(pattern, "")
		if err != nil {
			t.Fatal(err)
		}
		f, err := re.Find(t.Context(), "mail ann@home")
		if err != nil || f == nil || f.Named["user"] != "ann" || len(f.Groups) != 2 || len(f.Named) != 1 {
			t.Errorf("%s finds %+v, %v", pattern, f, err)
		}
	}
}

func TestASearchEndsInTime(t *testing.T) {
	re, err := Compile(`(?=a)(a+)+$`, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = re.Match(t.Context(), strings.Repeat("a", 40)+"b"); !errors.Is(err, ErrTimeout) {
		t.Errorf("a search that backtracks for ages returned %v", err)
	}
}

// The limit is that of all searches of a call together.
func TestAllSearchesTogetherEndInTime(t *testing.T) {
	for name, c := range map[string][2]string{
		"backtracking":             {`(?=a)(a+)+b|a`, strings.Repeat(strings.Repeat("a", 22)+"c", 2000)},
		"reading the rest of it":   {`(?:a[^z]*z)|a`, strings.Repeat("a", 300_000)},
		"looking ahead everywhere": {`(?=[^z]*)a`, strings.Repeat("a", 300_000)},
	} {
		re, err := Compile(c[0], "")
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if all, err := re.FindAll(t.Context(), c[1], -1); !errors.Is(err, ErrTimeout) {
			t.Errorf("%s: %d matches, %v, after %v", name, len(all), err, time.Since(begun))
		}
	}
}

func TestAllMatchesOfALongTextAreFound(t *testing.T) {
	for _, pattern := range []string{`\d+`, `\d+(?!x)`} {
		re, err := Compile(pattern, "")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("é 12, ", 1000)
		all, err := re.FindAll(t.Context(), text, -1)
		if err != nil || len(all) != 1000 || text[all[999][0]:all[999][1]] != "12" {
			t.Errorf("%s: %d matches, %v", pattern, len(all), err)
		}
		if all, err = re.FindAll(t.Context(), text, 20); err != nil || len(all) != 20 {
			t.Errorf("%s: %d of 20 matches, %v", pattern, len(all), err)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range [][2]string{{`/a(?!b)/gi`, "ac"}, {`[\s\S]+`, "x"}, {`\u{1F600}`, "😀"}, {`(?<n>a)\k<n>`, "aa"}, {`a{2,}?`, "aaa"}, {`[^]]`, "]"}, {`\`, ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, rule, text string) {
		re, _, _, err := Parse(rule)
		if err != nil || !utf8.ValidString(text) || len(text) > 1<<10 {
			return
		}
		all, err := re.FindAll(t.Context(), text, 10)
		if err != nil {
			return
		}
		last := 0
		for _, m := range all {
			if m[0] < last || m[1] < m[0] || m[1] > len(text) {
				t.Fatalf("%q finds %v in %q", rule, all, text)
			}
			last = m[1]
		}
	})
}
