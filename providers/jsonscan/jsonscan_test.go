package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestMembersAgreesWithEncodingJSON(t *testing.T) {
	for _, body := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":-0.5e+10,"b":[1,2,{"c":null}],"d":true,"e":false}`, `{"a":"x\u00e9\n\"\\"}`,
		`{"a":"\ud800"}`, `{"mod\u0065l":"x"}`, "{\"a\":\"ü€😀\"}", "{\t\"a\"\r\n: 1 }",
		``, ` `, `[]`, `null`, `"x"`, `1`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1}}`, `{"a":1} x`, `{a:1}`, `{'a':1}`,
		`{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":tru}`, `{"a":nul`, `{"a":fals}`, `{"a":"`, `{"a":"\x"}`, `{"a":"\u12g4"}`,
		"{\"a\":\"\n\"}", "{\"a\":\"12345678\x01\"}", "{\"a\":\"\x00\"}", `{"a":[1,]}`, `{"a":[1 2]}`, `{"a":NaN}`, "\ufeff{}",
	} {
		want := json.Valid([]byte(body)) && strings.HasPrefix(strings.TrimLeft(body, " \t\r\n"), "{")
		err := Members([]byte(body), nil)
		if (err == nil) != want {
			t.Errorf("%q: got %v, want valid=%v", body, err, want)
		}
		var syntax *SyntaxError
		if err != nil && !errors.As(err, &syntax) {
			t.Errorf("%q: error of type %T", body, err)
		}
	}
}

func TestMembersVisitsItsOwnInOrderWithDecodedKeys(t *testing.T) {
	body := []byte(`{"mod\u0065l" : "gpt", "nested":{"model":"no"}, "model":"again", "":[1, 2]}`)
	var got []string
	err := Members(body, func(m Member) error {
		if m.Key.Is("model") != (m.Key.String() == "model") {
			t.Errorf("Is and String disagree on %q", m.Key.String())
		}
		got = append(got, m.Key.String()+"="+string(body[m.Start:m.End]))
		return nil
	})
	want := `model="gpt" nested={"model":"no"} model="again" =[1, 2]`
	if err != nil || strings.Join(got, " ") != want {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestMembersReturnsTheVisitorsError(t *testing.T) {
	stop := errors.New("stop")
	if err := Members([]byte(`{"a":1,"b":`), func(Member) error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
}

// walk reads the value at i by descending into everything.
func walk(s Scanner, i, depth int, seen func(Kind)) (int, error) {
	kind := s.Kind(i)
	seen(kind)
	switch kind {
	case Object:
		return s.Object(i, depth, func(_ Key, at int) (int, error) { return walk(s, at, depth+1, seen) })
	case Array:
		return s.Array(i, depth, func(_, at int) (int, error) { return walk(s, at, depth+1, seen) })
	}
	return s.Value(i, depth)
}

func TestDescendingSeesEveryValueInOnePass(t *testing.T) {
	s := Scanner(`{"a":[1,"x",null,{"b":true}],"c":{}}`)
	var got []string
	end, err := walk(s, 0, 0, func(k Kind) { got = append(got, k.String()) })
	want := "object array number string null object boolean object"
	if err != nil || end != len(s) || strings.Join(got, " ") != want {
		t.Fatalf("got %q up to %d, %v", got, end, err)
	}
}

func TestArrayGivesIndexes(t *testing.T) {
	s := Scanner(` ["a" , "b","c"]`)
	var got []string
	_, err := s.Array(1, 0, func(index, at int) (int, error) {
		end, _, err := s.String(at)
		got = append(got, string(rune('0'+index))+Unquote(s[at:end]))
		return end, err
	})
	if err != nil || strings.Join(got, " ") != "0a 1b 2c" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestDepthIsBoundedAlsoWhenDescending(t *testing.T) {
	nest := func(n int) Scanner {
		return Scanner(`{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`)
	}
	for _, c := range []struct {
		name string
		read func(Scanner) error
	}{
		{"skipping", func(s Scanner) error { return s.Document(nil) }},
		{"descending", func(s Scanner) error { _, err := walk(s, 0, 0, func(Kind) {}); return err }},
	} {
		if err := c.read(nest(MaxDepth)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := c.read(nest(MaxDepth + 1)); err == nil {
			t.Errorf("%s: nesting beyond the bound was accepted", c.name)
		}
	}
}

func TestUnquoteAndLenAgreeWithEncodingJSON(t *testing.T) {
	literal := rapid.StringMatching(`"([ -!#-\[\]-~é€😀]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|\\ud83d\\ude0[0-9]|\\uD8[0-9a-f]{2})*"`)
	rapid.Check(t, func(t *rapid.T) {
		s := literal.Draw(t, "literal")
		var want string
		if err := json.Unmarshal([]byte(s), &want); err != nil {
			t.Fatal(err)
		}
		if got := Unquote([]byte(s)); got != want {
			t.Fatalf("Unquote(%s) = %q, want %q", s, got, want)
		}
		if got := Len([]byte(s)); got != utf8.RuneCountInString(want) {
			t.Fatalf("Len(%s) = %d, want %d", s, got, utf8.RuneCountInString(want))
		}
	})
}

func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{"a":"b\u0041","c":[1,{"d":null}]}`, `{"a":1e5}`, "{\"k\":\"\x7f\"}", `{"\ud83d\ude00":true}`, "{\"\\u0\x1500\":true}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		object := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
		var keys []string
		err := Members(body, func(m Member) error {
			keys = append(keys, m.Key.String())
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
		s := Scanner(body)
		start := s.space(0)
		if end, walkErr := walk(s, start, 0, func(Kind) {}); err == nil && (walkErr != nil || s.space(end) != len(body)) {
			t.Fatalf("descending into %q: up to %d, %v", body, end, walkErr)
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

func BenchmarkMembers(b *testing.B) {
	prose := "Large prompts cost what reading them costs. "
	code := "\tif err := run(\"x\"); err != nil {\n\t\treturn err\n\t}\n"
	for _, c := range []struct {
		name, text string
		size       int
	}{{"prose 2KB", prose, 2 << 10}, {"prose 200KB", prose, 200 << 10}, {"code 200KB", code, 200 << 10}, {"escapes 200KB", "nineteen characters\n", 200 << 10}} {
		text, _ := json.Marshal(strings.Repeat(c.text, c.size/len(c.text)))
		body := []byte(`{"model":"gpt-4o","messages":[{"role":"user","content":` + string(text) + `}],"stream":true}`)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Members(body, func(Member) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The scan looks at many bytes at a time, and stops where one that looks at each would.
func TestWhatIsSpecialInAStringIsFoundWhereverItStands(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	special := []byte{'"', '\\', 0, 0x1f, '\n'}
	plain := []byte{' ', '!', '#', '[', ']', 0x7f, 0x80, 0x9f, 0xa2, 0xdc, 0xff, 'a'} // those next to them, and with their bits
	for range 100_000 {
		body := make([]byte, random.IntN(100))
		for i := range body {
			body[i] = plain[random.IntN(len(plain))]
		}
		for range random.IntN(3) {
			if len(body) > 0 {
				body[random.IntN(len(body))] = special[random.IntN(len(special))]
			}
		}
		from := random.IntN(len(body) + 1)
		want := from
		for want < len(body) && !bytes.ContainsRune(special, rune(body[want])) {
			want++
		}
		if got := Scanner(body).plain(from); got != want {
			t.Fatalf("%q from %d: %d, want %d", body, from, got, want)
		}
	}
}

func TestMentions(t *testing.T) {
	for body, want := range map[string]bool{
		`{"messages":[{"extra_content":{}}]}`:    true,
		`{"data":"gw:call:x"}`:                   true,
		`{"data":"my gw:call"}`:                  false,
		`{"extra_contents":1}`:                   false,
		`{"text":"\"extra_content\" is a name"}`: false,
		`{"text":"extra_content"`:                true,
		`"extra_content`:                         false,
		`""""""gw`:                               false,
		``:                                       false,
		`{"a":"` + strings.Repeat("x", 100) + `"}`: false,
	} {
		if got := Mentions([]byte(body), `extra_content"`, "gw:"); got != want {
			t.Errorf("%s: %t, expected %t", body, got, want)
		}
	}
}

func BenchmarkMentions(b *testing.B) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("Some prose, with a \\\"quote\\\" now and then. ", 5000) + `"}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if Mentions(body, `content_blocks"`, `reasoning_content"`, `extra_content"`) {
			b.Fatal("found")
		}
	}
}

// What was checked once is read the same without a check of its strings.
func TestWhatWasCheckedIsReadAgain(t *testing.T) {
	for _, body := range []string{
		`{"a":"","b":"x\"y","c":"\\","d":["\\\"","é\u00e9"],"e":{"f":"\\\\"},"g":1}`, `"x"`, `["\\"]`, `{"a`, `{"a":"x\"`, `"`, ``,
	} {
		values := func(start func(*Reader, []byte)) (all []string, failed bool) {
			r := new(Reader)
			start(r, []byte(body))
			var value func()
			value = func() {
				switch r.Kind() {
				case Object:
					r.Object(func(Key) { value() })
				case Array:
					r.Array(value)
				default:
					all = append(all, string(r.Raw()))
				}
			}
			value()
			return all, r.Err() != nil
		}
		want, broken := values((*Reader).Reset)
		if got, failed := values((*Reader).Again); !slices.Equal(got, want) || failed != broken {
			t.Errorf("%s: got %q, %v, want %q, %v", body, got, failed, want, broken)
		}
	}
}
