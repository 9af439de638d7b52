package routing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/alloctest"
)

func edit(t testing.TB, config string) *Edit {
	t.Helper()
	return parse(t, config).Root.Edit()
}

func TestApply(t *testing.T) {
	for _, c := range []struct{ name, config, body, want string }{
		// Defaults.
		{"a default is added at the end", `{"default_params":{"n":1}}`, `{"a":1}`, `{"a":1,"n":1}`},
		{"a default fills null", `{"default_params":{"n":1}}`, `{"n":null,"a":1}`, `{"n":1,"a":1}`},
		{"a default leaves what is there", `{"default_params":{"n":1}}`, `{"n" : 0}`, `{"n" : 0}`},
		{"a default leaves false and empty", `{"default_params":{"a":1,"b":1}}`, `{"a":false,"b":""}`, `{"a":false,"b":""}`},
		{"a nested default", `{"default_params":{"m.u":"x"}}`, `{"m":{"t":1}}`, `{"m":{"t":1,"u":"x"}}`},
		{"a nested default makes its way", `{"default_params":{"m.u.v":"x"}}`, `{}`, `{"m":{"u":{"v":"x"}}}`},
		{"a nested default through null", `{"default_params":{"m.u":"x"}}`, `{"m":null}`, `{"m":{"u":"x"}}`},
		{"a nested default stops at a scalar", `{"default_params":{"m.u":"x"}}`, `{"m":7}`, `{"m":7}`},

		// Overrides.
		{"an override replaces", `{"override_params":{"n":[1, 2]}}`, `{ "n": {"x":1}, "a":1 }`, `{ "n": [1, 2], "a":1 }`},
		{"an override is added", `{"override_params":{"n":1}}`, ` { } `, ` { "n":1} `},
		{"an override may be null", `{"override_params":{"n":null}}`, `{"n":1}`, `{"n":null}`},
		{"an override keeps precision", `{"override_params":{"n":12345678901234567890.10}}`, `{"m":0.10}`, `{"m":0.10,"n":12345678901234567890.10}`},
		{"an override beats a default", `{"override_params":{"n":1},"default_params":{"n":2}}`, `{}`, `{"n":1}`},
		{"a nested override", `{"override_params":{"m.u":"x"}}`, `{"m":{"u":1,"t": 2}}`, `{"m":{"u":"x","t": 2}}`},
		{"a nested override replaces a scalar on its way", `{"override_params":{"m.u":"x"}}`, `{"m":7}`, `{"m":{"u":"x"}}`},
		{"an element", `{"override_params":{"m[1].r":"x"}}`, `{"m":[{"r":1},{"r":2}]}`, `{"m":[{"r":1},{"r":"x"}]}`},
		{"an element that is not there", `{"override_params":{"m[2].r":"x"}}`, `{"m":[1]}`, `{"m":[1]}`},
		{"an element of nothing", `{"override_params":{"m[0]":"x"}}`, `{}`, `{}`},
		{"every element", `{"override_params":{"m[*].r":"x"}}`, `{"m":[{"r":1},{}]}`, `{"m":[{"r":"x"},{"r":"x"}]}`},
		{"a whole and its part, in order", `{"override_params":{"m":{"a":1},"m.b":2}}`, `{"m":3}`, `{"m":{"a":1,"b":2}}`},

		// Drops.
		{"the first", `{"drop_params":["a"]}`, `{ "a":1, "b":2, "c":3 }`, `{ "b":2, "c":3 }`},
		{"the middle", `{"drop_params":["b"]}`, `{ "a":1, "b":2, "c":3 }`, `{ "a":1, "c":3 }`},
		{"the last", `{"drop_params":["c"]}`, `{ "a":1, "b":2, "c":3 }`, `{ "a":1, "b":2 }`},
		{"the first two", `{"drop_params":["a","b"]}`, `{"a":1,"b":2,"c":3}`, `{"c":3}`},
		{"the last two", `{"drop_params":["c","b"]}`, `{"a":1,"b":2,"c":3}`, `{"a":1}`},
		{"the outer two", `{"drop_params":["a","c"]}`, `{"a":1,"b":2,"c":3}`, `{"b":2}`},
		{"all", `{"drop_params":["a","b","c"]}`, `{ "a":1,"b":2,"c":3 }`, `{  }`},
		{"what is not there", `{"drop_params":["x","a.x","a[0]","a[*].y"]}`, `{"a":1}`, `{"a":1}`},
		{"nested", `{"drop_params":["a.b"]}`, `{"a":{"b":1,"c":2}}`, `{"a":{"c":2}}`},
		{"an element that goes", `{"drop_params":["a[1]"]}`, `{"a":[1, 2, 3]}`, `{"a":[1, 3]}`},
		{"the first element that goes", `{"drop_params":["a[0]"]}`, `{"a":[ 1, 2 ]}`, `{"a":[ 2 ]}`},
		{"every element that goes", `{"drop_params":["a[*]"]}`, `{"a":[1,2]}`, `{"a":[]}`},
		{"in every element", `{"drop_params":["messages[*].name"]}`, `{"messages":[{"name":"x","role":"u"},7,{"role":"a","name":"y"}]}`, `{"messages":[{"role":"u"},7,{"role":"a"}]}`},
		{"a drop beats an override and a default", `{"drop_params":["n","m"],"override_params":{"n":1},"default_params":{"m":1}}`, `{"a":1}`, `{"a":1}`},

		// Keys.
		{"an escaped key is the same key", `{"override_params":{"temperature":1}}`, `{"temp\u0065rature":0}`, `{"temp\u0065rature":1}`},
		{"another letter case is another key", `{"override_params":{"n":1}}`, `{"N":0}`, `{"N":0,"n":1}`},
		{"a key given twice is replaced and given once", `{"override_params":{"n":1}}`, `{"n":2,"a":0,"n":3}`, `{"a":0,"n":1}`},
		{"a key given twice is dropped twice", `{"drop_params":["n"]}`, `{"n":2,"a":0,"n":3}`, `{"a":0}`},
		{"of a key given twice a default sees the last", `{"default_params":{"n":1}}`, `{"n":2,"n":null}`, `{"n":1}`},
		{"a key given twice that a default leaves", `{"default_params":{"n":1}}`, `{"n":2,"n":3}`, `{"n":3}`},
		{"a key to be quoted", `{"override_params":{"a\"<b":1}}`, `{}`, `{"a\"<b":1}`},
		{"everything at once", `{"default_params":{"d":1},"override_params":{"b":{},"e":2},"drop_params":["a","c"]}`, `{"a":1,"b":2,"c":3}`, `{"b":{},"d":1,"e":2}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := edit(t, c.config)
			got, err := Apply([]byte(c.body), e)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
			appended, err := Append([]byte("before"), []byte(c.body), e)
			if err != nil || string(appended) != "before"+c.want {
				t.Errorf("appended: %s (%v)", appended, err)
			}
		})
	}
}

func TestApplyRefusesWhatIsNoObject(t *testing.T) {
	e := edit(t, `{"override_params":{"a.b":1}}`)
	for _, body := range []string{``, `[]`, `7`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":"x`, `{"a":{`, `{"a":{"b"}}`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{,}`} {
		if got, err := Apply([]byte(body), e); err == nil {
			t.Errorf("%s became %s", body, got)
		}
		if got, err := Append([]byte("dst"), []byte(body), e); err == nil || string(got) != "dst" {
			t.Errorf("%s became %s", body, got)
		}
	}
}

func TestApplyCopiesOnce(t *testing.T) {
	body := largeBody(200 << 10)
	e := edit(t, `{"override_params":{"model":"gpt-4o","temperature":0},"default_params":{"user":"u"},"drop_params":["logit_bias"]}`)
	alloctest.AtMost(t, 20, 20, func() {
		if _, err := Apply(body, e); err != nil {
			t.Fatal(err)
		}
	})
	same := edit(t, `{"default_params":{"model":"x"},"drop_params":["nothing"]}`)
	if got, err := Apply(body, same); err != nil || &got[0] != &body[0] {
		t.Errorf("an edit that changes nothing copies the body (%v)", err)
	}
}

func TestWith(t *testing.T) {
	e := edit(t, `{"override_params":{"model":"@a/b"},"drop_params":["model","x"]}`)
	for _, c := range []struct {
		e          *Edit
		body, want string
	}{
		{e.With("model", []byte(`"b"`)), `{"model":"m","x":1}`, `{"model":"b"}`},
		{e, `{"model":"m","x":1}`, `{}`},
		{(*Edit)(nil).With("model", []byte(`"b"`)), `{}`, `{"model":"b"}`},
	} {
		if got, err := Apply([]byte(c.body), c.e); err != nil || string(got) != c.want {
			t.Errorf("got %s (%v), want %s", got, err, c.want)
		}
	}
}

func TestPaths(t *testing.T) {
	for _, s := range []string{"a", "a.b", "a[0]", "a[*].b", "a[1][2].c[*][0]", "ключ.x-y", "a.0"} {
		path, wrong := ParsePath(s)
		if wrong != "" || path.String() != s {
			t.Errorf("%s became %s (%s)", s, path, wrong)
		}
	}
	for _, s := range []string{"", ".", "a.", ".a", "[0]", "a[", "a[]", "a[-1]", "a[1", "a[1]b", "a[+1]", "a]", "a.[0]", strings.Repeat("a", 513), strings.Repeat("a.", 16) + "a"} {
		if path, wrong := ParsePath(s); wrong == "" {
			t.Errorf("%s became %v", s, path)
		}
	}
}

// naive makes an edit on decoded values.
func naive(body any, e *Edit) any {
	for _, p := range e.Default {
		body = naiveSet(body, p.Path, decode(p.Value), false)
	}
	for _, p := range e.Override {
		body = naiveSet(body, p.Path, decode(p.Value), true)
	}
	for _, p := range e.Drop {
		body = naiveDrop(body, p)
	}
	return body
}

func naiveSet(v any, path Path, to any, override bool) any {
	if len(path) == 0 {
		if v != nil && !override {
			return v
		}
		return to
	}
	step, rest := path[0], path[1:]
	if step.Index != Name {
		if list, ok := v.([]any); ok {
			for i := range list {
				if step.Index == Every || step.Index == i {
					list[i] = naiveSet(list[i], rest, to, override)
				}
			}
		}
		return v
	}
	object, ok := v.(map[string]any)
	if !ok {
		if v != nil && !override || slicesIndexed(path) {
			return v
		}
		object = make(map[string]any)
	}
	old, has := object[step.Name]
	if !has && slicesIndexed(rest) {
		return v
	}
	object[step.Name] = naiveSet(old, rest, to, override)
	return object
}

// slicesIndexed reports whether a path needs elements, which nothing makes.
func slicesIndexed(path Path) bool {
	for _, s := range path {
		if s.Index != Name {
			return true
		}
	}
	return false
}

func naiveDrop(v any, path Path) any {
	step, rest := path[0], path[1:]
	switch v := v.(type) {
	case map[string]any:
		old, has := v[step.Name]
		switch {
		case step.Index != Name || !has:
		case len(rest) == 0:
			delete(v, step.Name)
		default:
			v[step.Name] = naiveDrop(old, rest)
		}
	case []any:
		if step.Index == Name {
			return v
		}
		out := []any{}
		for i, element := range v {
			if step.Index != Every && step.Index != i {
				out = append(out, element)
			} else if len(rest) > 0 {
				out = append(out, naiveDrop(element, rest))
			}
		}
		return out
	}
	return v
}

func decode(raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(fmt.Sprintf("%s: %v", raw, err))
	}
	return v
}

var names = rapid.SampledFrom(append([]string{"a", "a", "b", "b", "c", "c", "model"}, oddNames...))

// drawJSON draws a value with spaces, escapes, and keys that are given twice.
func drawJSON(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	pick := rapid.IntRange(0, 7).Draw(t, "value")
	if depth == 0 {
		pick %= 5
	}
	switch pick {
	case 0:
		return "null"
	case 1:
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "bool")
	case 2:
		return rapid.SampledFrom([]string{"0", "-1.50", "1e3", "12345678901234567890"}).Draw(t, "number")
	case 3, 4:
		return rapid.SampledFrom([]string{`""`, `"x"`, `"\\"`, `"\"}],"`, `"caf\u00e9 {["`, `"é\\\\\""`}).Draw(t, "string")
	case 5:
		parts := make([]string, rapid.IntRange(0, 3).Draw(t, "elements"))
		for i := range parts {
			parts[i] = space.Draw(t, "space") + drawJSON(t, depth-1) + space.Draw(t, "space")
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return drawObject(t, depth)
}

func drawObject(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	parts := make([]string, rapid.IntRange(0, 4).Draw(t, "members"))
	for i := range parts {
		key := string(quote(names.Draw(t, "key")))
		if rapid.Bool().Draw(t, "escape") {
			key = strings.Replace(key, "a", `\u0061`, 1)
		}
		parts[i] = space.Draw(t, "space") + key + space.Draw(t, "space") + ":" + space.Draw(t, "space") + drawJSON(t, depth-1) + space.Draw(t, "space")
	}
	return "{" + strings.Join(parts, ",") + space.Draw(t, "space") + "}"
}

func drawPath(t *rapid.T) Path {
	path := Path{{Name: names.Draw(t, "name"), Index: Name}}
	for range rapid.IntRange(0, 3).Draw(t, "steps") {
		step := Step{Index: rapid.SampledFrom([]int{Name, Name, Every, 0, 1}).Draw(t, "step")}
		if step.Index == Name {
			step.Name = names.Draw(t, "name")
		}
		path = append(path, step)
	}
	return path
}

func TestApplyIsTheNaiveEdit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := drawObject(t, 4)
		e := new(Edit)
		for range rapid.IntRange(0, 3).Draw(t, "defaults") {
			e.Default = append(e.Default, Param{Path: drawPath(t), Value: []byte(drawJSON(t, 2))})
		}
		for range rapid.IntRange(0, 3).Draw(t, "overrides") {
			e.Override = append(e.Override, Param{Path: drawPath(t), Value: []byte(drawJSON(t, 2))})
		}
		for range rapid.IntRange(0, 3).Draw(t, "drops") {
			e.Drop = append(e.Drop, drawPath(t))
		}
		before := strings.Clone(body)
		got, err := Apply([]byte(body), e)
		if err != nil || !json.Valid(got) || body != before {
			t.Fatalf("%s became %s (%v)", body, got, err)
		}
		if want := naive(decode([]byte(body)), e); !reflect.DeepEqual(decode(got), want) {
			wanted, _ := json.Marshal(want)
			t.Fatalf("%s with %v\n got %s\nwant %s", body, e, got, wanted)
		}
		appended, err := Append(nil, []byte(body), e)
		if err != nil || !bytes.Equal(appended, got) {
			t.Fatalf("Append made %s, Apply %s", appended, got)
		}
	})
}

func TestLookupIsTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := drawObject(t, 4)
		path := drawPath(t)
		if path.every() {
			return
		}
		want, has := decode([]byte(body)), true
		for _, step := range path {
			switch v := want.(type) {
			case map[string]any:
				want, has = v[step.Name]
				has = has && step.Index == Name
			case []any:
				if has = step.Index >= 0 && step.Index < len(v); has {
					want = v[step.Index]
				}
			default:
				has = false
			}
			if !has {
				break
			}
		}
		got, ok := lookup([]byte(body), path)
		if ok != has || ok && !reflect.DeepEqual(decode(got), want) {
			t.Fatalf("%s at %s: %s %v, want %v %v", body, path, got, ok, want, has)
		}
	})
}
