package cache

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/alloctest"
)

// A tree is a JSON value that can be written in different ways.
type tree struct {
	leaf    string // JSON of a value that is neither an object nor an array
	members []string
	kids    []*tree
	array   bool
}

func generated(depth int) *rapid.Generator[*tree] {
	return rapid.Custom(func(t *rapid.T) *tree {
		kind := rapid.IntRange(0, 4).Draw(t, "kind")
		if depth == 0 || kind < 3 {
			return &tree{leaf: rapid.SampledFrom([]string{`1`, `1.5`, `-2e3`, `true`, `false`, `null`, `""`, `"a"`, `"ü"`, `"a\nb"`, `"\u20ac"`}).Draw(t, "leaf")}
		}
		n := rapid.IntRange(0, 4).Draw(t, "n")
		out := &tree{array: kind == 3}
		for i := range n {
			out.members = append(out.members, fmt.Sprintf("k%d%s", i, rapid.SampledFrom([]string{"", "é", " "}).Draw(t, "name")))
			out.kids = append(out.kids, generated(depth-1).Draw(t, "kid"))
		}
		return out
	})
}

// write writes the tree with random white space and a random order of members.
func (v *tree) write(t *rapid.T) string {
	space := func() string { return rapid.SampledFrom([]string{"", " ", "\n", "\t "}).Draw(t, "space") }
	if v.leaf != "" {
		return space() + v.leaf + space()
	}
	var parts []string
	for i, kid := range v.kids {
		part := kid.write(t)
		if !v.array {
			name, _ := json.Marshal(v.members[i])
			part = space() + string(name) + space() + ":" + part
		}
		parts = append(parts, part)
	}
	if v.array {
		return "[" + strings.Join(parts, ",") + space() + "]"
	}
	return "{" + strings.Join(rapid.Permutation(parts).Draw(t, "order"), ",") + space() + "}"
}

// leaves returns pointers to all leaves of the tree.
func (v *tree) leaves() (all []*tree) {
	if v.leaf != "" {
		return []*tree{v}
	}
	for _, kid := range v.kids {
		all = append(all, kid.leaves()...)
	}
	return all
}

func body(t *rapid.T) *tree {
	v := generated(3).Draw(t, "body")
	return &tree{members: []string{"model", "messages"}, kids: []*tree{{leaf: `"m"`}, v}}
}

func keyOf(t interface{ Fatal(...any) }, c Call) Key {
	k, err := c.Key()
	if err != nil {
		t.Fatal(err, string(c.Body))
	}
	return k
}

func TestEqualCallsHaveOneKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := body(t)
		a, b := v.write(t), v.write(t)
		if keyOf(t, Call{Body: []byte(a)}) != keyOf(t, Call{Body: []byte(b)}) {
			t.Fatalf("%s and %s", a, b)
		}
	})
}

func TestEveryChangeOfAFieldIsAnotherKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := body(t)
		before := v.write(t)
		was := keyOf(t, Call{Body: []byte(before)})
		leaf := rapid.SampledFrom(v.leaves()).Draw(t, "leaf")
		old := leaf.leaf
		leaf.leaf = rapid.SampledFrom([]string{`2`, `"changed"`, `[]`, `{}`, `[1]`}).Draw(t, "new")
		if after := v.write(t); was == keyOf(t, Call{Body: []byte(after)}) {
			t.Fatalf("%s and %s", before, after)
		}
		leaf.leaf = old
		v.members, v.kids = append(v.members, "more"), append(v.kids, &tree{leaf: "1"})
		if after := v.write(t); was == keyOf(t, Call{Body: []byte(after)}) {
			t.Fatalf("%s and %s", before, after)
		}
	})
}

func TestWhatElseTellsCallsApart(t *testing.T) {
	base := Call{Organisation: "o", Endpoint: "chatComplete", URL: "https://a/x", Body: []byte(`{"a":1,"b":[1,2]}`)}
	same := []Call{base, base, base}
	same[1].Body = []byte(`{"stream":true,"b":[1,2],"stream_options":{"include_usage":true},"a":1}`)
	same[2].Body = []byte(`{"\u0061":1,"b":[1,2]}`)
	for i, c := range same {
		if keyOf(t, c) != keyOf(t, base) {
			t.Errorf("%d: another key", i)
		}
	}
	seen := map[Key]string{keyOf(t, base): "base"}
	for name, change := range map[string]func(*Call){
		"organisation": func(c *Call) { c.Organisation = "p" }, "endpoint": func(c *Call) { c.Endpoint = "complete" }, "url": func(c *Call) { c.URL = "https://b/x" },
		"workspace": func(c *Call) { c.Workspace = "w" }, "credential": func(c *Call) { c.Credential = []string{"sk"} },
		"another credential": func(c *Call) { c.Credential = []string{"ks"} }, "two parts": func(c *Call) { c.Credential = []string{"s", "k"} },
		"no credential": func(c *Call) { c.Credential = []string{""} }, "a header like one": func(c *Call) { c.Headers = []string{"sk"} },
		"strict": func(c *Call) { c.Strict = true }, "namespace": func(c *Call) { c.Namespace = "n" }, "metadata": func(c *Call) { c.Metadata = []byte(`{"a":1}`) },
		"other metadata": func(c *Call) { c.Metadata = []byte(`{"a":2}`) }, "header": func(c *Call) { c.Headers = []string{"Openai-Beta: x"} },
		"order of an array": func(c *Call) { c.Body = []byte(`{"a":1,"b":[2,1]}`) }, "a number as text": func(c *Call) { c.Body = []byte(`{"a":"1","b":[1,2]}`) },
		"a member deeper": func(c *Call) { c.Body = []byte(`{"a":{"a":1},"b":[1,2]}`) }, "nested stream": func(c *Call) { c.Body = []byte(`{"a":{"stream":1},"b":[1,2]}`) },
		"lone surrogate": func(c *Call) { c.Body = []byte(`{"a":"\ud800","b":[1,2]}`) }, "another one": func(c *Call) { c.Body = []byte(`{"a":"\ud801","b":[1,2]}`) },
		"a lone surrogate as a name": func(c *Call) { c.Body = []byte(`{"a":1,"b":[1,2],"\ud800":1}`) }, "another name": func(c *Call) { c.Body = []byte(`{"a":1,"b":[1,2],"\ud801":1}`) },
		"U+FFFD as a name": func(c *Call) { c.Body = []byte(`{"a":1,"b":[1,2],"\ufffd":1}`) },
		"twice":            func(c *Call) { c.Body = []byte(`{"a":1,"a":2,"b":[1,2]}`) }, "twice, in another order": func(c *Call) { c.Body = []byte(`{"a":2,"a":1,"b":[1,2]}`) },
		"nothing": func(c *Call) { c.Body = []byte(`{}`) },
	} {
		c := base
		change(&c)
		k := keyOf(t, c)
		if other, taken := seen[k]; taken {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[k] = name
	}
	named := base
	named.Namespace, named.Metadata = "n", []byte(`{"a":1}`)
	bare := base
	bare.Namespace = "n"
	if keyOf(t, named) != keyOf(t, bare) {
		t.Error("metadata counts with a namespace")
	}
	if _, err := (&Call{Body: []byte(`{"a":`)}).Key(); err == nil {
		t.Error("half a body has a key")
	}
	if !slices.Contains(asStream, "stream") {
		t.Error("streams do not share")
	}
}

// call2KB is a call with a prompt of two kilobytes, whose text has an escape in each line.
func call2KB() Call {
	text := strings.Repeat(`Large prompts cost what reading \"them\" costs.\n`, 40)
	return Call{
		Organisation: "o", Workspace: "w", Endpoint: "chatComplete", URL: "https://api.openai.com/v1/chat/completions", Strict: true, Metadata: []byte(`{"user":"u"}`),
		Body: []byte(`{"model":"gpt-4o","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"` + text + `"}],"temperature":0.5,"stream":false}`),
	}
}

func TestAKeyAllocatesLittle(t *testing.T) {
	c := call2KB()
	alloctest.AtMost(t, 4, 100, func() { keyOf(t, c) }) // the readers and what they call
}

func TestANewKeyerHashesAnyValue(t *testing.T) {
	for _, body := range []string{`1`, `{}`, `[[[{"a":[]}]]]`} {
		fresh, err := new(keyer).digest([]byte(body), nil)
		if pooled, _ := digest([]byte(body), nil); err == nil && fresh != pooled {
			t.Errorf("%s: another hash, %v", body, err)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	c := call2KB()
	b.ReportAllocs()
	for b.Loop() {
		keyOf(b, c)
	}
}

func FuzzKey(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"\u0061"}],"a":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		k, err := (&Call{Body: body}).Key()
		if (err == nil) && !json.Valid(body) {
			t.Fatalf("a key for %q", body)
		}
		if again, _ := (&Call{Body: body}).Key(); err == nil && again != k {
			t.Fatal("two keys for one body")
		}
	})
}
