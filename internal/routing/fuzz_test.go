package routing

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzParse(f *testing.F) {
	for _, raw := range []string{
		vk, `{"a":1,"a":2}`, nested(4), `{"retry":{"attempts":9}}`, `{"override_params":{"a.b[0]":1},"drop_params":["m[*].x"]}`,
		`{"strategy":{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["params.model"]}},` + two + `}`,
		`{"strategy":{"mode":"fallback","on_status_codes":[500],"cb_config":{"failure_threshold":1}},` + two + `}`,
		`{"strategy":{"mode":"conditional","conditions":[{"query":{"$or":[{"params.a":{"$gt":1,"$regex":"x+"}},{"metadata.b":{"$in":[null,"1"]}}]},"then":"a"}],"default":"b"},` + two + `}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, faults := Parse(raw, saved)
		if (c == nil) != (len(faults) > 0) {
			t.Fatalf("config %v, faults %v", c, faults)
		}
		for _, fault := range faults.Strings() {
			if !utf8.ValidString(fault) || len(fault) > 4096 {
				t.Fatalf("fault %q", fault)
			}
		}
		if c == nil {
			return
		}
		body := []byte(`{"model":"m","a":{"b":[1]},"m":[{"x":1},null]}`)
		n := 0
		_, _ = walk(c, Input{Body: body, Now: noon, Metadata: func(string) json.RawMessage { return body }}, func(string) Outcome {
			if n++; n > len(raw) {
				t.Fatal("a plan without an end")
			}
			return Outcome{Status: 500}
		})
		for _, leaf := range leaves(c.Root) {
			_ = leaf.Selection()
			if edited, err := Apply(body, leaf.Edit()); err != nil || !json.Valid(edited) {
				t.Fatalf("%s: %s %v", leaf.Path, edited, err)
			}
		}
	})
}

func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,{"c":2}]},"model":"m"}`), "a.b[*].c", "model", "a.b[0]", []byte(`"x"`))
	f.Add([]byte(`{ "a" : 1 , "a" : 2 }`), "a", "a.b", "c", []byte(`null`))
	f.Add([]byte(`{"a":"\\\"","b":"`), "a", "b", "c", []byte(`{}`))
	for _, name := range oddNames {
		f.Add([]byte(`{"a":{"x":1,"0":[2]}}`), "a."+name, "b."+name+".0", "a."+name+".0", []byte(`{"y":3}`))
	}
	f.Fuzz(func(t *testing.T, body []byte, override, standard, dropped string, value []byte) {
		e := new(Edit)
		if path, wrong := ParsePath(override); wrong == "" && json.Valid(value) {
			e.Override = []Param{{override, path, bytes.TrimSpace(value)}}
		}
		if path, wrong := ParsePath(standard); wrong == "" && json.Valid(value) {
			e.Default = []Param{{standard, path, bytes.TrimSpace(value)}}
		}
		if path, wrong := ParsePath(dropped); wrong == "" {
			e.Drop = []Path{path}
		}
		got, err := Apply(body, e)
		if !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
			return // it only must not panic
		}
		if err != nil || !json.Valid(got) {
			t.Fatalf("%s became %s (%v)", body, got, err)
		}
		for _, s := range []string{string(body), override, standard, dropped, string(value)} {
			if strings.ContainsRune(s, utf8.RuneError) {
				return // keys that are not UTF-8 are not told apart once decoded
			}
		}
		if want := naive(decode(body), e); !reflect.DeepEqual(decode(got), want) {
			t.Fatalf("%s became %s, want %v", body, got, want)
		}
	})
}
