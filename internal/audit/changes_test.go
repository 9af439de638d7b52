package audit

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestChangesBetweenObjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by            Comparison
		before, after string
		want          []string
	}{
		"members":          {Comparison{}, `{"a":1,"b":{"c":"x","d":2}}`, `{"a":1,"b":{"c":"y","d":2},"e":true}`, []string{`b.c "x" "y"`, `e  true`}},
		"a new object":     {Comparison{}, `{}`, `{"b":{"c":"<&>"}}`, []string{`b  {"c":"<&>"}`}},
		"an object gone":   {Comparison{}, `{"b":{"c":1}}`, `{}`, []string{`b {"c":1} `}},
		"large numbers":    {Comparison{}, `{"n":9007199254740993}`, `{"n":9007199254740992}`, []string{`n 9007199254740993 9007199254740992`}},
		"the same":         {Comparison{}, `{"a":{"b":[1,{"c":2, "d":3}]}}`, `{"a":{"b":[1,{"d":3,"c":2}]}}`, nil},
		"ignored":          {Comparison{Ignored: []string{"at"}}, `{"at":1,"b":{"at":2,"c":3}}`, `{"at":2,"b":{"at":3,"c":4}}`, []string{`b.c 3 4`}},
		"arrays":           {Comparison{}, `{"a":[1,2]}`, `{"a":[1]}`, []string{`a [1,2] [1]`}},
		"elements":         {Comparison{Elements: true}, `{"a":[1,{"b":2},3]}`, `{"a":[1,{"b":4}]}`, []string{`a[1].b 2 4`, `a[2] 3 `}},
		"empty":            {Comparison{}, `{"a":"","b":[],"c":{},"d":null}`, `{}`, nil},
		"empty is a value": {Comparison{Empty: true}, `{"a":"","b":[],"c":{},"d":null}`, `{}`, []string{`a "" `, `b [] `, `c {} `}},
		"hidden": {
			Comparison{Hide: func(string) string { return `"x"` }},
			`{"a":1}`, `{"a":2}`,
			[]string{`a "x" "(another)"`},
		},
		"at most": {Comparison{Max: 1}, `{"a":1,"b":1}`, `{"a":2,"b":2}`, []string{`a 1 2`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, err := Decode([]byte(c.before))
			if err != nil {
				t.Fatal(err)
			}
			after, err := Decode([]byte(c.after))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, change := range c.by.Changes(before, after) {
				got = append(got, change.Field+" "+change.From+" "+change.To)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLongChangesAreCut(t *testing.T) {
	t.Parallel()
	name, long := strings.Repeat("ä", 300), strings.Repeat("ü", 2000)
	changes := (&Comparison{}).Changes(map[string]any{name: long}, map[string]any{name: long + "!"})
	if len(changes) != 1 {
		t.Fatalf("%d changes", len(changes))
	}
	c := changes[0]
	if len(c.Field) > maxField || len(c.From) > maxValue || !utf8.ValidString(c.Field) || !utf8.ValidString(c.From) || c.To != `"(another)"` {
		t.Errorf("%d and %d bytes, and %q", len(c.Field), len(c.From), c.To)
	}
}
