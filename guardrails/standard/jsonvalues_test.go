package standard

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/guardrails"
)

// jsonIn collects what eachJSON visits.
func jsonIn(t testing.TB, text string, all bool) (values []string, err error) {
	err = eachJSON(t.Context(), text, all, func(v string) error {
		if !json.Valid([]byte(v)) {
			t.Fatalf("%q is not JSON", v)
		}
		values = append(values, v)
		return nil
	})
	return values, err
}

func TestJSONIsFoundInsideAndOutsideOfFences(t *testing.T) {
	for _, c := range []struct {
		text       string
		those, all []string // that have to be there, or must not be
	}{
		{` {"a":1} `, []string{`{"a":1}`}, []string{`{"a":1}`}},
		{`[{"a":1}]`, []string{`[{"a":1}]`}, []string{`{"a":1}`, `[{"a":1}]`}},
		{`x [[1],{"a":[2]}] {}`, []string{`{"a":[2]}`, `{}`}, []string{`[1]`, `{"a":[2]}`, `[[1],{"a":[2]}]`, `{}`}},
		{"```json\n{\"a\":1}\n```\n{\"b\":1}", []string{`{"a":1}`, `{"b":1}`}, []string{`{"a":1}`, `{"b":1}`}},
		{"```\n[1]\n``` ```5```", []string{`[1]`, `5`}, []string{`[1]`, `5`}},
		{"``` ```json\n7\n```", []string{`7`}, []string{`7`}},
		{"~~~json\n7\n~~~", []string{`7`}, []string{`7`}},
		{`{"a":{"b":1},"c" {"d":1}`, []string{`{"b":1}`, `{"d":1}`}, []string{`{"b":1}`, `{"d":1}`}},
		{`{"a":" {"b":1}`, []string{`{"b":1}`}, []string{`{"b":1}`}},
		{`{"a":"{\"b\":1}"}`, []string{`{"a":"{\"b\":1}"}`}, []string{`{"a":"{\"b\":1}"}`}},
		{`none`, nil, nil},
	} {
		for all, want := range map[bool][]string{false: c.those, true: c.all} {
			got, err := jsonIn(t, c.text, all)
			slices.Sort(got)
			slices.Sort(want)
			if err != nil || !slices.Equal(slices.Compact(got), want) {
				t.Errorf("%s (%v): %q, %v, want %q", c.text, all, got, err, want)
			}
		}
	}
}

// A search that ends before the end of the text says so.
func TestTheSearchForJSONIsCompleteOrAnError(t *testing.T) {
	deep := `{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`
	for _, text := range []string{deep, "x " + deep, "```" + deep + "```", strings.Repeat("[", 300), strings.Repeat(`{"a":`, 1<<17)} {
		if values, err := jsonIn(t, text, true); !errors.Is(err, guardrails.ErrUnreadable) {
			t.Errorf("%.40s: %d values, %v", text, len(values), err)
		}
	}
	for name, text := range map[string]string{
		"objects": strings.Repeat("{}", 1<<17), "broken objects": strings.Repeat(`{"a":[{"b":{`, 1<<16), "fences": strings.Repeat("```x```", 1<<16),
		"braces in strings": strings.Repeat(`{"`, 1<<18), "strings": strings.Repeat(`{"a":"`, 1<<16), "braces": strings.Repeat("{", 1<<20),
	} {
		values, err := jsonIn(t, text+`{"last":1}`, true)
		if err != nil || !slices.Contains(values, `{"last":1}`) {
			t.Errorf("%s: %d values, %v", name, len(values), err)
		}
	}
}

// Whatever is before an object that is no longer part of it, the object is found.
func TestObjectsAreFoundInAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"{", "}", "[", "]", `"`, `\`, ":", ",", "a", " ", "```", "\n", `{"a":`, `"b":1`, "{}", "[1]", "~~~"})
		before := strings.Join(rapid.SliceOfN(piece, 0, 20).Draw(t, "before"), "")
		after := strings.Join(rapid.SliceOfN(piece, 0, 20).Draw(t, "after"), "")
		found, object := false, `{"x":[{"y":"z"}]}`
		err := eachJSON(t.Context(), before+object+after, true, func(v string) error {
			found = found || strings.Contains(v, object)
			return nil
		})
		if err != nil || !found {
			t.Fatalf("%q is not found, %v", object, err)
		}
	})
}

func FuzzJSONValues(f *testing.F) {
	for _, seed := range []string{code, `{"a":{"b":[{}]}} {`, "```json\n[1]\n```", `x {"a":"}"} y`, `{"a":"{"b":[`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, all := range []bool{false, true} {
			_, _ = jsonIn(t, text, all)
		}
	})
}
