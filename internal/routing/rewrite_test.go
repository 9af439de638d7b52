package routing

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// oddNames are what means something else in a path of sjson or gjson, or in JSON.
var oddNames = []string{
	"x.y", ".", "..", "..0", "*", "?", "a*", "x|y", "|", "#", "#.a", "#(a==1)#", "@this", "@pretty", "@", "!", `!"x"`, "!true",
	":", ":a", "::0", "0", "1", "7", "-1", "00", "12345678901234567890", "99999999", "[0]", "[a]", "{a}", `{"a":a}`,
	`\`, `\\`, `\.`, `a\`, `\u0061`, `"`, `q"\`, "é", "ключ", "😀", "<&>", "é<", "\u2028", " ", " a ", "\t", "\x00", "\x7f", "~", "_", "a-b", "null",
}

func TestAnyNameIsJustAName(t *testing.T) {
	set := func(path ...string) *Edit {
		return &Edit{Override: []Param{{Path: pathOfNames(path), Value: []byte(`[7]`)}}}
	}
	fill := func(path ...string) *Edit {
		return &Edit{Default: []Param{{Path: pathOfNames(path), Value: []byte(`[7]`)}}}
	}
	leave := func(path ...string) *Edit { return &Edit{Drop: []Path{pathOfNames(path)}} }
	for _, name := range oddNames {
		for _, c := range []struct {
			what       string
			e          *Edit
			body, want string // N is the name
		}{
			{"replaced", set("m", name), `{"m":{N:1,"b":[0,{"a":1}]}}`, `{"m":{N:[7],"b":[0,{"a":1}]}}`},
			{"added", set("m", name), `{"m":{"b":[0,{"a":1}]}}`, `{"m":{"b":[0,{"a":1}],N:[7]}}`},
			{"made", set("m", name, name), `{}`, `{"m":{N:{N:[7]}}}`},
			{"made instead of another", set("m", name, name), `{"m":{"b":2,N:3}}`, `{"m":{"b":2,N:{N:[7]}}}`},
			{"made instead of a list", set("m", name), `{"m":[1,[2],{"a":3}]}`, `{"m":{N:[7]}}`},
			{"filled", fill("m", name), `{"m":{N: null }}`, `{"m":{N:[7]}}`},
			{"left", fill("m", name), `{"m":{N:0}}`, `{"m":{N:0}}`},
			{"left where a list is", fill("m", name), `{"m":[1]}`, `{"m":[1]}`},
			{"dropped", leave("m", name), `{"m":{"b":2, N:{"a":1},"c":{N:3}}}`, `{"m":{"b":2,"c":{N:3}}}`},
			{"dropped twice", leave("m", name), `{"m":{N:1,"b":2 , N : 3 } }`, `{"m":{"b":2}}`},
			{"dropped alone", leave("m", name), `{"m":{ N:{N:1} }}`, `{"m":{}}`},
			{"not dropped of a list", leave("m", name), `{"m":[1,2,3]}`, `{"m":[1,2,3]}`},
			{"given twice and replaced once", set("m", name), `{"m":{N:1,"b":2,N:3}}`, `{"m":{"b":2,N:[7]}}`},
			{"given twice and seen last", fill("m", name, "a"), `{"m":{N:null,"b":2,N:{"a":1}}}`, `{"m":{"b":2,N:{"a":1}}}`},
			{"at the top", set(name), `{N:1,"b":2}`, `{N:[7],"b":2}`},
		} {
			as := strings.NewReplacer("N", string(quote(name)))
			got, err := Apply([]byte(as.Replace(c.body)), c.e)
			if err != nil || !json.Valid(got) || !reflect.DeepEqual(decode(got), decode([]byte(as.Replace(c.want)))) {
				t.Errorf("%q %s: %s became %s (%v), want %s", name, c.what, as.Replace(c.body), got, err, as.Replace(c.want))
			}
		}
	}
}

func pathOfNames(names []string) (p Path) {
	for _, name := range names {
		p = append(p, Step{Name: name, Index: Name})
	}
	return p
}

// A name is changed the same way wherever it is, at the top by the splicer, and below by
// sjson.
func TestAMemberIsChangedAsAtTheTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := drawObject(t, 4)
		o := op{kind: kind(rapid.IntRange(0, 2).Draw(t, "kind")), path: drawPath(t)}
		if o.kind != drop {
			o.value = []byte(drawJSON(t, 2))
		}
		got, err := o.member([]byte(object))
		if err != nil || !json.Valid(got) {
			t.Fatalf("%s became %s (%v)", object, got, err)
		}
		want, err := spliced([]byte(object), []op{o})
		if err != nil || !reflect.DeepEqual(decode(got), decode(want)) {
			t.Fatalf("%s with %v\n got %s\nwant %s (%v)", object, o, got, want, err)
		}
	})
}
