package exchange

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	members := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"k%d":%d`, i, i))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	a := strings.Repeat("ä", maxMetadataText)
	deep := func(n int) string {
		return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
	}
	var large []string // within all other bounds
	for i := range maxMetadataMembers {
		large = append(large, fmt.Sprintf(`"k%d":["%s","%s"]`, i, strings.Repeat("x", maxMetadataText), strings.Repeat("x", maxMetadataText)))
	}
	for _, c := range []struct{ name, value, why string }{
		{"any values", `{"s":"t","n":1.5,"b":true,"z":null,"o":{"p":[1,{"q":"r"}]}}`, ""},
		{"as many members as may be", members(maxMetadataMembers), ""},
		{"one more", members(maxMetadataMembers + 1), "members"},
		{"the longest text", `{"a":"` + a + `"}`, ""},
		{"the longest text, escaped", `{"a":"` + strings.Repeat(`\u00e4`, maxMetadataText) + `"}`, ""},
		{"a longer one", `{"a":"` + a + `b"}`, "a text of more than 128 characters"},
		{"a longer one within", `{"a":{"b":["` + a + `b"]}}`, "a text of more than 128 characters"},
		{"the longest key", `{"` + a + `":1}`, ""},
		{"a longer key", `{"` + a + `b":1}`, "a key of"},
		{"a longer key within", `{"a":[{"` + a + `b":1}]}`, "a key of"},
		{"as deep as may be", deep(maxMetadataDepth), ""},
		{"deeper", deep(maxMetadataDepth + 1), "within each other"},
		{"too large", "{" + strings.Join(large, ",") + "}", "bytes"},
		{"no UTF-8", "{\"a\":\"\xff\"}", "UTF-8"},
	} {
		err := w.begin(t, w.good(chat, "x-gw-metadata", c.value)).Prepare(limits)
		switch {
		case c.why == "" && err != nil, c.why != "" && (err == nil || err.Status != 400 || err.Code != "invalid_metadata" || !strings.Contains(err.Message, c.why)):
			t.Errorf("%s: got %+v", c.name, err)
		}
	}
}

func TestMetadataComesFromFivePlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.WorkspaceMetadata = func(id string) json.RawMessage {
		if id != "ws-1" {
			t.Errorf("asked for the workspace %s", id)
		}
		return json.RawMessage(`{"fixed":"of the workspace","own":"of the workspace"}`)
	}
	x := w.begin(t, w.good(chat, "x-gw-metadata", `{"fixed":"r","own":"r","team":"r","env":"r","none":"r","_user":"forged","zero":null}`,
		"baggage", "env=b,team=b,route=b%20b;prop=1 , none = n,=x,no-value,bad=%zz", "baggage", "second=line, zero=z"))
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	// The key says {"team":"blue","fixed":1,"none":null}.
	want := map[string]string{
		"fixed": "of the workspace", "own": "of the workspace", "team": "blue", "env": "r", "none": "r", "route": "b b", "second": "line", "zero": "z", "_user": "forged",
	}
	mustBe := func() {
		t.Helper()
		all := make(map[string]string)
		if err := json.Unmarshal(x.Metadata.All(), &all); err != nil {
			t.Fatal(err)
		}
		for key, v := range want {
			if got, _ := x.Metadata.Get(key); got != v || all[key] != v {
				t.Errorf("%s: got %q and %q, want %q", key, got, all[key], v)
			}
		}
		if len(all) != len(want) {
			t.Errorf("%v", all)
		}
	}
	mustBe()
	x.Metadata.user = `u"1`
	want["_user"] = `u"1`
	mustBe()
}

func TestBaggageIsReadAsFarAsItGoes(t *testing.T) {
	t.Parallel()
	const maxEntries = 64 // W3C Baggage, 3.3.2
	var many []string
	for i := range 2 * maxEntries {
		many = append(many, fmt.Sprintf("k%d=v", i))
	}
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"nothing", []string{""}, ""},
		{"malformed", []string{"=,;,a,%,ä=1"}, ""},
		{"percent", []string{"a=%C3%A4%22,b=1%2C2"}, `{"a":"ä\"","b":"1,2"}`},
		{"no UTF-8", []string{"a=%ff,b=1"}, `{"b":"1"}`},
		{"an empty value", []string{"a="}, `{"a":""}`},
		{"too long", []string{"a=" + strings.Repeat("x", maxMetadataText+1) + "," + strings.Repeat("k", maxMetadataText+1) + "=1,b=1"}, `{"b":"1"}`},
		{"too much", []string{"a=1", "b=" + strings.Repeat(" ", maxBaggage)}, `{"a":"1"}`},
	} {
		if got := baggageJSON(c.lines); got != c.want {
			t.Errorf("%s: got %s", c.name, got)
		}
	}
	n := 0
	if err := jsonscan.Members([]byte(baggageJSON([]string{strings.Join(many, ",")})), func(jsonscan.Member) error { n++; return nil }); err != nil || n != maxEntries {
		t.Errorf("%d entries, %v", n, err)
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add(`{"a":{"b":[1,"c"]}}`, "a=b,c=d;e")
	f.Fuzz(func(t *testing.T, metadata, line string) {
		if checkMetadata(metadata) == nil && !json.Valid([]byte(metadata)) {
			t.Errorf("%q was taken for metadata", metadata)
		}
		if b := baggageJSON([]string{line}); b != "" && !json.Valid([]byte(b)) {
			t.Errorf("%q became %q", line, b)
		}
	})
}

func TestMetadataOfTheKeyGoesBeforeTheRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.begin(t, w.good(chat, "x-gw-metadata", `{"team":"red","env":"prod","n":7,"deep":{"a":1},"b\u0061se":"x","twice":"1","twice":"2","a.b":"dots","*":"star"}`))
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"team": "blue", "fixed": "1", "env": "prod", "n": "7", "deep": `{"a":1}`, "base": "x", "twice": "2", "a.b": "dots", "*": "star",
	} {
		if got, ok := x.Metadata.Get(key); !ok || got != want {
			t.Errorf("%s: got %q, %v", key, got, ok)
		}
		if got, _, ok := x.Attribute("metadata." + key); !ok || got != want {
			t.Errorf("fact metadata.%s: got %q, %v", key, got, ok)
		}
	}
	for _, key := range []string{"absent", "", "deep.a", "TEAM", "a", "@this", "#", "e*"} {
		if got, ok := x.Metadata.Get(key); ok {
			t.Errorf("%q: got %q", key, got)
		}
	}
}

func TestMetadataMustBeOneObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name   string
		values []string
		want   bool
	}{
		{"an object", []string{`{"a":"b"}`}, true},
		{"an empty one", []string{`{}`}, true},
		{"nothing", []string{``}, true},
		{"the same twice", []string{`{"a":"b"}`, `{"a":"b"}`}, true},
		{"two", []string{`{"a":"b"}`, `{"a":"c"}`}, false},
		{"a list", []string{`["a"]`}, false},
		{"a string", []string{`"a"`}, false},
		{"null", []string{`null`}, false},
		{"no JSON", []string{`a=b`}, false},
		{"half an object", []string{`{"a":`}, false},
	} {
		var header []string
		for _, v := range c.values {
			header = append(header, "x-gw-metadata", v)
		}
		err := w.begin(t, w.good(chat, header...)).Prepare(limits)
		if (err == nil) != c.want || err != nil && (err.Status != 400 || err.Param != "x-gw-metadata") {
			t.Errorf("%s: got %+v", c.name, err)
		}
	}
}
