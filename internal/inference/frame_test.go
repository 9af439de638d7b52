package inference

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// eventsOf is what a stream knows after some events, with or without frames.
func eventsOf(path string, framed bool, events ...[]byte) string {
	w := watching(path)
	s := newStream(&provider{}, w, 0)
	s.addedUsage = true
	if !framed {
		s.frame.misses = maxMisses
	}
	var b strings.Builder
	for _, event := range events {
		goesOn := s.event(event)
		fmt.Fprintln(&b, goesOn, s.done, s.finished, s.errored, s.closed, s.spare, w.out.Failure, w.attempt.Usage)
	}
	return b.String()
}

// Whether an event is scanned, or only compared to one that was, makes no difference.
func FuzzFrame(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}`, `{"choices":[{"delta":{"content":"b"},"finish_reason":null}]}`},
		{`{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}`, `{"choices":[{"delta":{"content":"b\"},"finish_reason":null}]}`},
		{`{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}`, `{"choices":[{"delta":{"content":"b","finish_reason":"x"},"finish_reason":null}]}`},
		{`{"choices":[{"delta":{"content":"a"}}]}`, "{\"choices\":[{\"delta\":{\"content\":\"\n\"}}]}"},
		{`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"a\u00zz"}}]}`},
		{`{"type":"content_block_delta","delta":{"text":""}}`, `{"type":"message_stop","delta":{"text":""}}`},
		{`{"x\"content":"a"}`, `{"x\"content":"b"}`},
		{`{"text":"a"}`, `{"text":"a"`},
		{`{"text":"a","usage":{"prompt_tokens":1}}`, `{"text":"b","usage":{"prompt_tokens":2}}`},
		{`{"text":"a","choices":[],"usage":null}`, `{"text":"b","choices":[],"usage":null}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses"} {
			if got, want := eventsOf(path, true, first, second, first), eventsOf(path, false, first, second, first); got != want {
				t.Fatalf("%s: %q, then %q:\n%swant\n%s", path, first, second, got, want)
			}
		}
	})
}

func TestStreamsAreTheSameWithAndWithoutFrames(t *testing.T) {
	t.Parallel()
	forms := []string{
		`{"id":"c","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":1,"delta":{"content":%s},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"content":%s},"finish_reason":"stop"}]}`,
		`{"choices":[{"index":0,"text":%s}]}`,
		`{"choices":[],"content":%s,"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
		`{"choices":[{"delta":{"content":%s}}],"error":{"message":"no"}}`,
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":%s}}`,
		`{"type":"message_stop","text":%s}`,
		`{"content":%s`,
	}
	texts := []string{`""`, `"a"`, `"word "`, `"\"finish_reason\":\"stop\""`, `"finish_reason"`, `"\\"`, `"\u00e9é"`, `"\x"`, `"a`, "\"\t\"", `{"a":"b"}`, `null`}
	rapid.Check(t, func(t *rapid.T) {
		var events [][]byte
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			form := rapid.SampledFrom(forms).Draw(t, "form")
			for range rapid.IntRange(1, 4).Draw(t, "times") {
				events = append(events, fmt.Appendf(nil, form, rapid.SampledFrom(texts).Draw(t, "text")))
			}
		}
		for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			if got, want := eventsOf(path, true, events...), eventsOf(path, false, events...); got != want {
				t.Fatalf("%s: %q:\n%swant\n%s", path, events, got, want)
			}
		}
	})
}

func TestAFrameFitsWhatDiffersInItsTextAlone(t *testing.T) {
	t.Parallel()
	const form = `{"id":"c","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`
	var f frame
	f.take(fmt.Appendf(nil, form, `"Hel"`), inPortions)
	for text, want := range map[string]bool{`"lo"`: true, `""`: true, `"\n"`: true, `"a\\"`: true, `"a\"`: false, `"a","b":"c"`: false, `null`: false, "\"\n\"": false} {
		if event := fmt.Appendf(nil, form, text); f.fits(event) != want {
			t.Errorf("%s: %v", event, !want)
		}
	}
	if f.fits(fmt.Appendf(nil, strings.Replace(form, "0", "1", 1), `"lo"`)) {
		t.Error("another choice fits")
	}
	for i := range maxMisses + 1 {
		f.take(fmt.Appendf(nil, `{"seq":%d,"content":"a"}`, i), inPortions)
	}
	if f.fits([]byte(`{"seq":8,"content":"a"}`)) {
		t.Error("a stream whose events differ elsewhere keeps frames")
	}
}

// BenchmarkStream is what the watching of a burst of chunks costs.
func BenchmarkStream(b *testing.B) {
	for _, c := range []struct{ name, more string }{{"same", ""}, {"differs", `,"n":%d`}} {
		var text strings.Builder
		for i := range 1000 {
			more := c.more
			if more != "" {
				more = fmt.Sprintf(more, i)
			}
			word, _ := json.Marshal(strings.Repeat("a", 1+i%9) + " ")
			fmt.Fprintf(&text, `data: {"id":"chatcmpl-123456789012345678901234","object":"chat.completion.chunk","created":1760000000,"model":"gpt-5-mini","service_tier":"default","system_fingerprint":"fp_1234567890","choices":[{"index":0,"delta":{"content":%s},"logprobs":null,"finish_reason":null}]%s}`+"\n\n", word, more)
		}
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			p := make([]byte, 32<<10)
			for b.Loop() {
				s := newStream(io.NopCloser(strings.NewReader(text.String())), watchingChat(), 0)
				for err := error(nil); err == nil; {
					_, err = s.Read(p)
				}
			}
		})
	}
}
