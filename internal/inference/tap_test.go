package inference

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// named are the members by their names.
func (m *members) named() map[string][]byte {
	return map[string][]byte{"id": m.id, "model": m.model, "usage": m.usage, "usage_info": m.usageInfo, "error": m.failure, "object": m.object, "duration": m.duration}
}

// anything is a random value, with what a tap could take for something else.
func anything(random *rand.Rand, depth int) any {
	switch random.IntN(8 - min(depth, 3)) {
	case 0:
		return random.Float64() * 1e6
	case 1:
		return nil
	case 2, 3, 4:
		parts := []string{`"usage":`, `\`, `"`, `{`, `}`, `]`, `,`, "\n", "é", `\"`, "word", `:`, "\u2028"}
		var s strings.Builder
		for range random.IntN(6) {
			s.WriteString(parts[random.IntN(len(parts))])
		}
		return s.String()
	case 5:
		list := make([]any, random.IntN(4))
		for i := range list {
			list[i] = anything(random, depth+1)
		}
		return list
	}
	return object(random, depth+1)
}

func object(random *rand.Rand, depth int) map[string]any {
	names := []string{"content", "text", "arguments", "input", "args", "type", "id", "model", "usage", "usage_info", "error", "choices", "object", "x", `us"age`, `\`, "a longer key than any that matters to anyone", ""}
	o := make(map[string]any)
	for range random.IntN(6) {
		o[names[random.IntN(len(names))]] = anything(random, depth)
	}
	return o
}

func TestATapFindsTheMembersInAnyPortions(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		doc, err := json.Marshal(object(random, 0))
		if err != nil {
			t.Fatal(err)
		}
		if random.IntN(2) == 0 {
			var indented bytes.Buffer
			if err := json.Indent(&indented, doc, "", " "); err != nil {
				t.Fatal(err)
			}
			doc = indented.Bytes()
		}
		var tapped tap
		for rest := doc; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(9))
			tapped.write(rest[:n])
			rest = rest[n:]
		}
		whole := gjson.ParseBytes(doc)
		for _, m := range []*members{&tapped.members, membersOf(doc)} {
			for name, got := range m.named() {
				want := whole.Get(name)
				if (got != nil) != want.Exists() || string(bytes.TrimSpace(got)) != want.Raw {
					t.Fatalf("%s: %s is %q, want %q", doc, name, got, want.Raw)
				}
			}
			if (m.choices != nil) != whole.Get("choices").Exists() {
				t.Fatalf("%s: choices", doc)
			}
		}
	}
}

// textsOf is how long the texts of a value are, by a walk; kind is what it is.
func textsOf(v gjson.Result, kind textKind) (n int) {
	switch {
	case v.Type == gjson.String && kind != noText:
		return len(v.Raw) - len(`""`)
	case v.IsObject() && kind == inputText:
		return len(v.Raw)
	case v.Type != gjson.JSON:
		return 0
	}
	v.ForEach(func(key, value gjson.Result) bool {
		kind := noText
		if v.IsObject() {
			kind = kindOf([]byte(key.Raw[1 : len(key.Raw)-1]))
		}
		n += textsOf(value, kind)
		return true
	})
	return n
}

func TestATapFindsTheTextsInAnyPortions(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 20_000 {
		doc, err := json.Marshal(object(random, 0))
		if err != nil {
			t.Fatal(err)
		}
		if random.IntN(2) == 0 {
			var indented bytes.Buffer
			if err := json.Indent(&indented, doc, "", " "); err != nil {
				t.Fatal(err)
			}
			doc = indented.Bytes()
		}
		var tapped tap
		for rest := doc; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(9))
			tapped.write(rest[:n])
			rest = rest[n:]
		}
		want := textsOf(gjson.ParseBytes(doc), noText)
		if whole := textIn(doc, nil); tapped.texts != want || whole != want {
			t.Fatalf("%s: %d bytes of text in portions, %d in one piece, want %d", doc, tapped.texts, whole, want)
		}
		found += want
	}
	if found == 0 {
		t.Error("no document has a text")
	}
}

// The texts of answers in the shapes of the endpoints, which say no usage.
func TestTheTextsOfAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		want   int
	}{
		"a conversation":       {`{"id":"c","choices":[{"message":{"role":"assistant","content":"12345678","refusal":null},"finish_reason":"stop"}]}`, 8},
		"reasoning and calls":  {`{"choices":[{"message":{"reasoning_content":"1234","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}}]}`, 4 + 9},
		"a text":               {`{"choices":[{"text":"12345678","logprobs":{"tokens":["12345678"]}}]}`, 8},
		"a message":            {`{"content":[{"type":"thinking","thinking":"12","signature":"xx"},{"type":"text","text":"1234"},{"type":"tool_use","input":{"a":"b"}}]}`, 2 + 4 + 9},
		"a response":           {`{"instructions":"xxxx","text":{"format":{"type":"text"}},"output":[{"type":"message","content":[{"type":"output_text","text":"1234"}]},{"arguments":"12"}]}`, 6},
		"of Gemini":            {`{"candidates":[{"content":{"parts":[{"text":"1234"},{"functionCall":{"args":{"a":1}}}]}}]}`, 4 + 7},
		"spoken":               {`{"choices":[{"message":{"audio":{"data":"AAAA","transcript":"1234"}}}]}`, 4},
		"a tool's code":        {`{"error":{"code":"xxxx"},"output":[{"type":"code_interpreter_call","code":"12345678","outputs":[]},{"type":"code_interpreter_call","code":"1234"}]}`, 12},
		"the code of an error": {`{"error":{"code":"xxxx"}}`, 0},
		"nothing":              {`{"choices":[],"x":"yyyy"}`, 0},
		"broken off":           {`{"choices":[{"message":{"content":"1234`, 4},
	} {
		var tapped tap
		tapped.write([]byte(c.answer))
		if whole := textIn([]byte(c.answer), nil); tapped.texts != c.want || whole != c.want && name != "broken off" {
			t.Errorf("%s: %d bytes as it passes, %d in one piece, want %d", name, tapped.texts, whole, c.want)
		}
	}
}

func TestATapKeepsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	var tapped tap
	tapped.write([]byte(`{"data":"`))
	portion := bytes.Repeat([]byte(`usage\\`), 1<<12)
	for range 1000 {
		tapped.write(portion)
	}
	tapped.write([]byte(`","usage":{"a":[`))
	for range 1000 {
		tapped.write(bytes.Repeat([]byte(`1,`), 100))
	}
	tapped.write([]byte(`1]},"choices":["` + strings.Repeat("x", 1<<20) + `"],"id":"x"}`))
	if len(tapped.usage) > 0 || len(tapped.choices) > 0 || string(tapped.id) != `"x"` {
		t.Errorf("%d bytes of usage, %d of choices, id %s", len(tapped.usage), len(tapped.choices), tapped.id)
	}
}

func FuzzTap(f *testing.F) {
	f.Add([]byte(`{"id":"a\\\"","usage":{"prompt_tokens":1},"choices":[]}`))
	f.Add([]byte(`}}]{"usage" :"\`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var bytewise tap
		for i := range doc {
			bytewise.write(doc[i : i+1])
		}
		var whole tap
		whole.write(doc)
		if lying := membersOf(doc); bytes.IndexByte(doc, '\\') < 0 && len(doc) < maxMember {
			for name, got := range lying.named() {
				if want := whole.named()[name]; !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) || (got == nil) != (want == nil) {
					t.Fatalf("%s is %q where it lies and %q in the tap", name, got, want)
				}
			}
		}
		if bytewise.texts != whole.texts {
			t.Fatalf("%d bytes of text in one piece and %d byte by byte", whole.texts, bytewise.texts)
		}
		for name, got := range bytewise.named() {
			if want := whole.named()[name]; !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Fatalf("%s is %q in one piece and %q byte by byte", name, want, got)
			}
			if json.Valid(doc) && !gjson.GetBytes(doc, name).Exists() && got != nil && bytes.HasPrefix(bytes.TrimSpace(doc), []byte("{")) {
				t.Fatalf("%s is %q, and there is none", name, got)
			}
		}
	})
}

func BenchmarkTap(b *testing.B) {
	for name, doc := range map[string]string{
		"chat":       `{"id":"c","model":"m","choices":[{"message":{"content":"` + strings.Repeat(`It said: \"well\"\n`, 5000) + `"}}],"usage":{"prompt_tokens":1}}`,
		"embeddings": `{"data":[{"embedding":[` + strings.Repeat("0.0123456,", 10000) + `1]}],"usage":{"prompt_tokens":1}}`,
	} {
		for how, read := range map[string]func([]byte){
			"passing": func(doc []byte) { new(tap).write(doc) },
			"whole":   func(doc []byte) { membersOf(doc) },
		} {
			b.Run(name+" "+how, func(b *testing.B) {
				b.SetBytes(int64(len(doc)))
				b.ReportAllocs()
				for b.Loop() {
					read([]byte(doc))
				}
			})
		}
	}
}
