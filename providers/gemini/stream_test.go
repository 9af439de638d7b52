package gemini_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

func translator(t testing.TB, endpoint string) *providers.Answer {
	c := &dialecttest.Case{Endpoint: endpoint, Body: json.RawMessage(`{"model":"gemini-2.5-flash","stream":true,"messages":[{"role":"user","content":"Hi"}]}`)}
	call := c.Call("google")
	r, err := call.Provider.Prepare(call)
	if err != nil {
		t.Fatal(err)
	}
	return r.Answer
}

func streams(t testing.TB) [][]byte {
	files, err := filepath.Glob("testdata/*/answer.sse")
	if err != nil || len(files) == 0 {
		t.Fatalf("no streams: %v", err)
	}
	var all [][]byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b, bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), bytes.ReplaceAll(b, []byte("\r\n"), []byte("\r")))
	}
	return all
}

func TestAStreamIsTheSameWhereverItIsCut(t *testing.T) {
	for _, endpoint := range []string{providers.ChatComplete, providers.Messages} {
		for i, in := range streams(t) {
			want, wrong := dialecttest.Stream(translator(t, endpoint).Stream, in, len(in))
			for cut := 1; cut < len(in); cut++ {
				s := translator(t, endpoint).Stream
				got, err := s.Translate(nil, in[:cut])
				if err == nil {
					got, err = s.Translate(got, in[cut:])
				}
				if err == nil {
					got, err = s.End(got)
				}
				if !bytes.Equal(got, want) || (err == nil) != (wrong == nil) {
					t.Fatalf("%s, stream %d cut at %d: got %s, %v; want %s, %v", endpoint, i, cut, got, err, want, wrong)
				}
			}
			for _, size := range []int{1, 2, 3, 7, 64} {
				got, err := dialecttest.Stream(translator(t, endpoint).Stream, in, size)
				if !bytes.Equal(got, want) || (err == nil) != (wrong == nil) {
					t.Fatalf("%s, stream %d in pieces of %d: got %s, %v", endpoint, i, size, got, err)
				}
			}
		}
	}
}

// said is what a client has after a stream.
func said(t *testing.T, out []byte) (text string, done bool) {
	for line := range strings.SplitSeq(string(out), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case line == "":
		case data == "[DONE]":
			done = true
		case !ok || !json.Valid([]byte(data)):
			t.Fatalf("no line of a stream: %q", line)
		default:
			text += gjson.Get(data, "choices.0.delta.content").String()
		}
	}
	return text, done
}

func FuzzStream(f *testing.F) {
	for _, s := range streams(f) {
		f.Add(s, 7)
	}
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		want, wrong := dialecttest.Stream(translator(t, providers.ChatComplete).Stream, in, len(in))
		said(t, want)
		got, err := dialecttest.Stream(translator(t, providers.ChatComplete).Stream, in, 1+(size&0xff))
		if !bytes.Equal(got, want) || (err == nil) != (wrong == nil) {
			t.Fatalf("cut: got %q, %v; whole: %q, %v", got, err, want, wrong)
		}
		whole, err := translator(t, providers.ChatComplete).Whole(nil, in, nil)
		if err == nil && !json.Valid(whole) {
			t.Fatalf("no JSON: %s", whole)
		}

		// Whatever the model says arrives.
		text, _ := json.Marshal(string(in))
		event := fmt.Appendf(nil, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":%s}]},\"finishReason\":\"STOP\"}]}\r\n\r\n", text)
		got, err = dialecttest.Stream(translator(t, providers.ChatComplete).Stream, event, 1+(size&0xff))
		if err != nil {
			t.Fatal(err)
		}
		var wanted string
		if err := json.Unmarshal(text, &wanted); err != nil {
			t.Fatal(err)
		}
		if heard, done := said(t, got); heard != wanted || !done {
			t.Fatalf("got %q, %v; want %q", heard, done, wanted)
		}
	})
}

func FuzzRequest(f *testing.F) {
	files, err := filepath.Glob("testdata/*/call.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(gjson.GetBytes(b, "body").Raw))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, endpoint := range []string{providers.ChatComplete, providers.Messages, providers.CountTokens, providers.Embed} {
			c := (&dialecttest.Case{Endpoint: endpoint, Body: []byte(`{"model":"gemini-3-pro"}`)}).Call("google")
			c.Body = body
			if r, err := c.Provider.Prepare(c); err == nil && !json.Valid(r.Body) {
				t.Fatalf("%s: no JSON: %s", endpoint, r.Body)
			}
		}
	})
}

const piece = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"some words of an answer\"}],\"role\": \"model\"},\"index\": 0}]," +
	"\"usageMetadata\": {\"promptTokenCount\": 5,\"candidatesTokenCount\": 4,\"totalTokenCount\": 9},\"modelVersion\": \"gemini-2.5-flash\",\"responseId\": \"r1\"}\r\n\r\n"

// maxAllocs bounds the allocations of a piece of a stream.
const maxAllocs = 8

func TestAPieceOfAStreamAllocatesLittle(t *testing.T) {
	s := translator(t, providers.ChatComplete).Stream
	dst := make([]byte, 0, 4096)
	in := []byte(piece)
	if n := testing.AllocsPerRun(200, func() {
		if _, err := s.Translate(dst[:0], in); err != nil {
			t.Fatal(err)
		}
	}); n > maxAllocs {
		t.Errorf("got %v allocations, want at most %d", n, maxAllocs)
	}
}

func BenchmarkStreamPiece(b *testing.B) {
	s := translator(b, providers.ChatComplete).Stream
	dst := make([]byte, 0, 4096)
	in := []byte(piece)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Translate(dst[:0], in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	for _, size := range []int{2 << 10, 200 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			var turns []string
			for n := 0; n < size; n += 1024 {
				turns = append(turns, fmt.Sprintf(`{"role":%q,"content":%q}`, []string{"user", "assistant"}[len(turns)%2], strings.Repeat("words ", 160)))
			}
			body := []byte(`{"model":"gemini-2.5-flash","temperature":0.5,"messages":[` + strings.Join(turns, ",") + `],` +
				`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}}}]}`)
			c := (&dialecttest.Case{Endpoint: providers.ChatComplete, Body: body}).Call("google")
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Provider.Prepare(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
