package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestScanObjectAgreesWithEncodingJSON(t *testing.T) {
	for _, body := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":-0.5e+10,"b":[1,2,{"c":null}],"d":true,"e":false}`, `{"a":"x\u00e9\n\"\\"}`,
		`{"a":"\ud800"}`, `{"mod\u0065l":"x"}`, "{\"a\":\"ü€😀\"}", "{\t\"a\"\r\n: 1 }",
		``, ` `, `[]`, `null`, `"x"`, `1`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1}}`, `{"a":1} x`, `{a:1}`, `{'a':1}`,
		`{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":tru}`, `{"a":nul`, `{"a":"`, `{"a":"\x"}`, `{"a":"\u12g4"}`,
		"{\"a\":\"\n\"}", "{\"a\":\"12345678\x01\"}", "{\"a\":\"\x00\"}", `{"a":[1,]}`, `{"a":[1 2]}`, `{"a":NaN}`, "\ufeff{}",
	} {
		want := json.Valid([]byte(body)) && strings.HasPrefix(strings.TrimLeft(body, " \t\r\n"), "{")
		err := ScanObject([]byte(body), nil)
		if (err == nil) != want {
			t.Errorf("%q: got %v, want valid=%v", body, err, want)
		}
		var syntax *SyntaxError
		if err != nil && !errors.As(err, &syntax) {
			t.Errorf("%q: error of type %T", body, err)
		}
	}
}

func TestScanObjectVisitsItsOwnMembersInOrderWithDecodedKeys(t *testing.T) {
	body := []byte(`{"mod\u0065l" : "gpt", "nested":{"model":"no"}, "model":"again", "":[1, 2]}`)
	var got []string
	err := ScanObject(body, func(m Member) error {
		got = append(got, m.Key+"="+string(body[m.Start:m.End]))
		return nil
	})
	want := `model="gpt" nested={"model":"no"} model="again" =[1, 2]`
	if err != nil || strings.Join(got, " ") != want {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestScanObjectReturnsTheVisitorsError(t *testing.T) {
	stop := errors.New("stop")
	if err := ScanObject([]byte(`{"a":1,"b":`), func(Member) error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
}

func TestScanObjectBoundsDepth(t *testing.T) {
	nest := func(n int) []byte {
		return []byte(`{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`)
	}
	if err := ScanObject(nest(maxDepth), nil); err != nil {
		t.Error(err)
	}
	if err := ScanObject(nest(maxDepth+1), nil); err == nil {
		t.Error("nesting beyond the bound was accepted")
	}
}

func FuzzScanObject(f *testing.F) {
	for _, seed := range []string{`{"a":"b\u0041","c":[1,{"d":null}]}`, `{"a":1e5}`, "{\"k\":\"\x7f\"}", `{"\ud83d\ude00":true}`, "{\"\\u0\x1500\":true}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		object := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
		var keys []string
		err := ScanObject(body, func(m Member) error {
			keys = append(keys, m.Key)
			if !json.Valid(body[m.Start:m.End]) {
				t.Fatalf("value %q of %q is not JSON", body[m.Start:m.End], body)
			}
			return nil
		})
		if err == nil && !json.Valid(body) {
			t.Fatalf("accepted %q, which is not JSON", body)
		}
		if err != nil && object && json.Valid(body) && !strings.Contains(err.Error(), "deep") {
			t.Fatalf("refused %q: %v", body, err)
		}
		if err != nil || !utf8.Valid(body) { // encoding/json replaces what is not UTF-8
			return
		}
		var decoded map[string]json.RawMessage
		if json.Unmarshal(body, &decoded) != nil {
			return
		}
		for _, k := range keys {
			if _, ok := decoded[k]; !ok {
				t.Fatalf("key %q of %q is not one that encoding/json sees", k, body)
			}
		}
	})
}

func BenchmarkScanObject(b *testing.B) {
	prose := "Large prompts cost what reading them costs. "
	code := "\tif err := run(\"x\"); err != nil {\n\t\treturn err\n\t}\n"
	for _, c := range []struct {
		name, text string
		size       int
	}{{"prose 2KB", prose, 2 << 10}, {"prose 200KB", prose, 200 << 10}, {"code 200KB", code, 200 << 10}} {
		text, _ := json.Marshal(strings.Repeat(c.text, c.size/len(c.text)))
		body := []byte(`{"model":"gpt-4o","messages":[{"role":"user","content":` + string(text) + `}],"stream":true}`)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := ScanObject(body, func(Member) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
