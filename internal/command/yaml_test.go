package command

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// values draws JSON values.
func values(depth int) *rapid.Generator[any] {
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune(" \n\t#:-'\"ay07~é\u0085\u2028\ufeff\r"))),
		rapid.SampledFrom([]string{"", "yes", "null", "~", "0x1f", "1e5", "2026-11-29", "=", "<<", "a\nb", "a\n", " a\nb", "a\n\nb ", "|", "- a", "0o7", ".inf", "1_000"}))
	scalars := []*rapid.Generator[any]{
		rapid.Map(text, func(s string) any { return s }),
		rapid.Map(rapid.SampledFrom([]string{"0", "-1", "1.50", "1e5", "123456789012345678901234567890", "-0.0", "1E-7"}), func(s string) any { return json.RawMessage(s) }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	return rapid.OneOf(append(scalars,
		rapid.Map(rapid.SliceOfN(values(depth-1), 0, 4), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(text, values(depth-1), 0, 4), func(m map[string]any) any { return m }))...)
}

func TestJSONIsTheSameThroughYAML(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(map[string]any{"v": values(3).Draw(t, "v")})
		if err != nil {
			t.Skip(err)
		}
		want := jsontext.Value(raw)
		if err := want.Format(); err != nil {
			t.Skip(err) // texts that are no UTF-8
		}
		var text bytes.Buffer
		if err := toYAML(&text, want); err != nil {
			t.Fatal(err)
		}
		out, err := fromYAML(text.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, text.Bytes())
		}
		got := jsontext.Value(out)
		if err := got.Format(); err != nil || string(got) != string(want) {
			t.Fatalf("%v\n%s\n%s\n%s", err, want, text.Bytes(), got)
		}
	})
}

func TestTextsOfSeveralLinesAreBlocks(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := toYAML(&text, []byte(`{"a":"one\n  two\n","b":[],"c":{"d":1.50}}`)); err != nil {
		t.Fatal(err)
	}
	if want := "a: |\n  one\n    two\nb: []\nc:\n  d: 1.50\n"; text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

func TestYAMLThatMeansSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	for text, message := range map[string]string{
		"":                                  "empty",
		"{\n  \"a\": 1,\n  \"b\": [1\n}\n":  "line 4: invalid character '}'",
		"{\n\t\"a\": [1,\n":                 "line 3: unexpected EOF",
		"{\"a\": 1}\n{\"b\": 2}\n":          "expected one JSON object",
		"{\"a\": 1, \"a\": 2}":              "the member a is there twice",
		"a: 1\n---\nb: 2\n":                 "one YAML document",
		"a: &x 1\nb: *x\n":                  "aliases",
		"<<: {a: 1}\n":                      "names of members",
		"a: 1\na: 2\n":                      "twice",
		"a: !!binary aGk=\n":                "tag",
		"a: !own 1\n":                       "tag",
		"? [a]\n: 1\n":                      "names of members",
		"a: .inf\n":                         "",
		"a: [\n":                            "",
		strings.Repeat("[", 1100):           "",
		strings.Repeat("- ", 1100) + "a\n":  "",
		"a: \"\\xff\"\nb: " + "\xff" + "\n": "",
	} {
		if out, err := fromYAML([]byte(text)); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%.40q: %s, %v; want %q", text, out, err, message)
		}
	}
}

// FuzzYAML reads anything; what comes out is JSON.
func FuzzYAML(f *testing.F) {
	f.Add([]byte("a: 1\nb: [x, {c: ~}]\n"))
	f.Add([]byte("a: |\n  b\n  c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if out, err := fromYAML(text); err == nil && !json.Valid(out) {
			t.Fatalf("%q became %q", text, out)
		}
	})
}
