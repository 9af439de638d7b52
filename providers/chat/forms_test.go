package chat

import (
	"encoding/json"
	"testing"
)

// What goes to a provider as the input of a custom tool comes back as it was.
func FuzzFreeInput(f *testing.F) {
	for _, seed := range []string{"", "*** Begin Patch\n", `{"input":"x"}`, `"`, `\`, "ä😀\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		input := Quote(text)
		if got := FreeInput(inside(FreeArguments(input))); `"`+string(got)+`"` != string(input) {
			t.Errorf("%q came back as %q", input, got)
		}
		arguments := Quote(text)
		if got := `"` + string(FreeInput(inside(arguments))) + `"`; !json.Valid([]byte(got)) {
			t.Errorf("%q became %q", arguments, got)
		}
	})
}

func inside(l Literal) []byte { return l[1 : len(l)-1] }

func TestAToolInANamespaceHasBothNames(t *testing.T) {
	for _, c := range [][3]string{
		{`"mcp__docs__"`, `"find"`, `"mcp__docs__find"`},
		{`"crm"`, `"find"`, `"crm__find"`},
		{``, `"find"`, `"find"`},
		{`"crm"`, `""`, `""`},
	} {
		if got := Qualified(Literal(c[0]), Literal(c[1])); string(got) != c[2] {
			t.Errorf("%s in %s: got %s", c[1], c[0], got)
		}
	}
}
