package inference

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	_ "github.com/caddy-gw/gateway/providers/anthropic"
)

// A pieced body comes in pieces.
type pieced struct{ pieces []string }

func (p *pieced) Read(b []byte) (int, error) {
	if len(p.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.pieces[0])
	if p.pieces[0] = p.pieces[0][n:]; p.pieces[0] == "" {
		p.pieces = p.pieces[1:]
	}
	return n, nil
}

func (p *pieced) Close() error { return nil }

// cut cuts a text into pieces, between characters.
func cutUp(t *rapid.T, text string) (pieces []string) {
	for text != "" {
		n := rapid.IntRange(1, len(text)).Draw(t, "n")
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// streams make the stream of a text that comes in pieces, and read the text of one.
var streams = map[string]struct {
	of   func(pieces []string) string
	text func(data gjson.Result) string
}{
	"chatComplete": {func(pieces []string) string {
		s := `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
		for _, p := range pieces {
			s += `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":` + quoted(p) + `},"logprobs":{"content":[{"token":` + quoted(p) + `}]},"finish_reason":null}]}` + "\n\n"
		}
		return s + `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
			`data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}` + "\n\ndata: [DONE]\n\n"
	}, func(data gjson.Result) string { return data.Get("choices.0.delta.content").Str }},
	"complete": {func(pieces []string) (s string) {
		for _, p := range pieces {
			s += `data: {"id":"c","object":"text_completion","model":"m","choices":[{"index":0,"text":` + quoted(p) + `,"logprobs":{"tokens":[` + quoted(p) + `]},"finish_reason":null}]}` + "\n\n"
		}
		return s + `data: {"id":"c","object":"text_completion","model":"m","choices":[{"index":0,"text":"","finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	}, func(data gjson.Result) string { return data.Get("choices.0.text").Str }},
	"createModelResponse": {func(pieces []string) string {
		text := quoted(strings.Join(pieces, ""))
		s := "event: response.created\ndata: " + `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","output":[]}}` + "\n\n"
		for _, p := range pieces {
			s += "event: response.output_text.delta\ndata: " + `{"type":"response.output_text.delta","sequence_number":1,"item_id":"i","output_index":0,"content_index":0,"delta":` + quoted(p) + "}\n\n"
		}
		s += "event: response.output_text.done\ndata: " + `{"type":"response.output_text.done","sequence_number":2,"item_id":"i","output_index":0,"content_index":0,"text":` + text + "}\n\n"
		return s + "event: response.completed\ndata: " + `{"type":"response.completed","sequence_number":3,"response":{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","id":"i","role":"assistant","content":[{"type":"output_text","text":` + text + `}]}],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}}` + "\n\n"
	}, func(data gjson.Result) string {
		if data.Get("type").Str == "response.output_text.delta" {
			return data.Get("delta").Str
		}
		return ""
	}},
	"messages": {func(pieces []string) string {
		s := "event: message_start\ndata: " + `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}` + "\n\n" +
			"event: content_block_start\ndata: " + `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n"
		for _, p := range pieces {
			s += "event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + quoted(p) + "}}\n\n"
		}
		return s + "event: content_block_stop\ndata: " + `{"type":"content_block_stop","index":0}` + "\n\n" +
			"event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}` + "\n\nevent: message_stop\ndata: " + `{"type":"message_stop"}` + "\n\n"
	}, func(data gjson.Result) string { return data.Get("delta.text").Str }},
}

func quoted(s string) string {
	b := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
	return `"` + b + `"`
}

// received is what a client gets of a stream: its text, and the types of errors.
func received(body string, text func(gjson.Result) string) (got, failed string, whole bool) {
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			whole = true
			continue
		}
		v := gjson.Parse(data)
		got += text(v)
		if v.Get("error").Exists() {
			failed += v.Get("error.type").Str
		}
		if kind := v.Get("type").Str; kind == "error" {
			failed += "error" + v.Get("code").Str
		} else if kind == "response.completed" || kind == "message_stop" {
			whole = true
		}
	}
	return got, failed, whole
}

// However a stream comes, the status, the verdict, what is replaced and the text that the client
// gets are the same; of one that is held back and refused, it gets nothing.
func TestJudgmentsOfStreamsDoNotDependOnHowTheyCome(t *testing.T) {
	t.Parallel()
	for _, e := range judgedEndpoints {
		if e.text == "" { // its answers have no text
			continue
		}
		for _, hook := range []string{
			`{"regexReplace":{"rule":"a1|1a","redactText":"<#>"},"window_bytes":16,"overlap_bytes":16}`,
			`{"contains":{"words":["1b1b","éééé"],"operator":"none"},"deny":true,"window_bytes":16,"overlap_bytes":16}`,
			`{"regexReplace":{"rule":"a1|1a","redactText":"<#>"},"stream_mode":"buffer"}`,
			`{"contains":{"words":["1b1b","éééé"],"operator":"none"},"deny":true,"stream_mode":"buffer"}`,
		} {
			buffers := strings.Contains(hook, "buffer")
			t.Run(e.name+map[bool]string{true: " refused", false: " replaced"}[strings.Contains(hook, "deny")]+map[bool]string{true: " as a whole"}[buffers], func(t *testing.T) {
				b := newGuardBench(t)
				b.at("one", e)
				s := streams[e.name]
				ask := func(pieces, chunks []string) (status int, got, failed, body string) {
					b.answers["one"] = func() *http.Response {
						res := answering(200, "text/event-stream", "")
						res.Body, res.ContentLength = &pieced{append([]string(nil), chunks...)}, -1
						return res
					}
					call := strings.Replace(e.call, "{", `{"stream":true,`, 1)
					w, _ := b.request(t, http.MethodPost, e.path, call, nil, "X-Gw-Config", `{"provider":"@one","output_guardrails":[`+hook+`]}`)
					var whole bool
					got, failed, whole = received(w.Body.String(), s.text)
					if w.Code == 200 && (failed == "") != whole {
						t.Errorf("failed with %q, and came to its end: %v: %s", failed, whole, w.Body)
					}
					return w.Code, got, failed, w.Body.String()
				}
				rapid.Check(t, func(t *rapid.T) {
					text := rapid.StringMatching(`[ab1é ]{1,120}`).Draw(t, "text")
					all := s.of([]string{text})
					status, got, failed, _ := ask(nil, []string{all})
					pieces := cutUp(t, text)
					otherStatus, other, otherFailed, body := ask(pieces, cutUp(t, s.of(pieces)))
					if status != otherStatus || got != other || failed != otherFailed {
						t.Fatalf("%q: %d %q %q, and in pieces %d %q %q: %s", text, status, got, failed, otherStatus, other, otherFailed, body)
					}
					for _, bad := range []string{"1b1b", "éééé"} {
						if strings.Contains(hook, "deny") && strings.Contains(body, bad) {
							t.Fatalf("%q was sent: %s", bad, body)
						}
					}
					if bad := strings.Contains(text, "1b1b") || strings.Contains(text, "éééé"); buffers && strings.Contains(hook, "deny") && (bad != (status == 446) || bad && got != "" || !bad && got != text) {
						t.Fatalf("%q: %d %q: %s", text, status, got, body)
					}
					if !strings.Contains(hook, "deny") {
						want := strings.NewReplacer("a1", "<#>", "1a", "<#>").Replace(text)
						if got != want || strings.Contains(body, "a1") || strings.Contains(body, "1a") {
							t.Fatalf("%q becomes %q, want %q: %s", text, got, want, body)
						}
					}
				})
			})
		}
	}
}

// A stream is refused with a status as long as nothing of its text was sent, and with an error event
// after that; usage is booked.
func TestStreamsAreRefusedInTheMiddle(t *testing.T) {
	t.Parallel()
	const hook = `{"id":"mine","contains":{"words":["bad"],"operator":"none"},"deny":true}`
	for _, c := range []struct {
		name, text string
		status     int
		got        string
	}{
		{"at once", "bad", 446, ""},
		{"within the first window", strings.Repeat("x", 200) + "bad", 446, ""},
		{"after it", strings.Repeat("x", 1000) + "bad" + strings.Repeat("y", 1000), 200, strings.Repeat("x", 64)},
	} {
		b := newGuardBench(t)
		b.answers["one"] = func() *http.Response {
			return answering(200, "text/event-stream", streams["chatComplete"].of([]string{c.text}))
		}
		w, x := b.call(t, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, nil, "X-Gw-Config", `{"provider":"@one","cache":"simple","output_guardrails":[`+hook+`]}`)
		got, failed, whole := received(w.Body.String(), streams["chatComplete"].text)
		if w.Code != c.status || !strings.HasPrefix(got, c.got) || strings.Contains(w.Body.String(), "bad") || whole {
			t.Errorf("%s: status %d: %s", c.name, w.Code, w.Body)
		}
		if c.status == 200 && (failed != "hooks_failed" || x.Cut != kindHooksFailed || !strings.Contains(w.Body.String(), "mine")) {
			t.Errorf("%s: failed with %q, %q", c.name, failed, x.Failure)
		}
		if results := gjson.ParseBytes(judged(x).JSON()); results.Get("after_request_hooks.0.state").Str != "failed" || !results.Get("after_request_hooks.0.deny").Bool() {
			t.Errorf("%s: results %s", c.name, results)
		}
		if a := x.Latest(); !a.Usage.Known && a.TextBytes == 0 {
			t.Errorf("%s: nothing was booked", c.name)
		}
	}
}

// A stream of very many texts, each of which would take memory, is cut.
func TestAWindowedStreamHasOnlySoManyTexts(t *testing.T) {
	t.Parallel()
	const hook = `{"id":"mine","contains":{"words":["bad"],"operator":"none"},"deny":true,"choices":true}`
	for _, n := range []int{hooks.MaxTexts, hooks.MaxTexts + 1} {
		b := newGuardBench(t)
		b.answers["one"] = func() *http.Response {
			var s strings.Builder
			for i := range n {
				fmt.Fprintf(&s, "data: {\"choices\":[{\"index\":%d,\"delta\":{\"content\":\"x\"}}]}\n\n", i)
			}
			return answering(200, "text/event-stream", s.String()+"data: [DONE]\n\n")
		}
		w, _ := b.call(t, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, nil, "X-Gw-Config", `{"provider":"@one","output_guardrails":[`+hook+`]}`)
		got, failed, whole := received(w.Body.String(), func(v gjson.Result) string { return v.Get("choices.0.delta.content").Str })
		if fits := n == hooks.MaxTexts; whole != fits || fits && got != strings.Repeat("x", n) || (w.Code == 200 && failed == "") != fits {
			t.Errorf("%d texts: %d, failed %q, %d bytes", n, w.Code, failed, len(got))
		}
	}
}

// What the gateway stores of a response, and what the cache keeps of a stream, is what passed.
func TestWhatIsKeptOfAWindowIsWhatPassed(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	b.answers["one"] = func() *http.Response {
		return answering(200, "text/event-stream", streams["chatComplete"].of([]string{strings.Repeat("x", 500), "card 1234 ", strings.Repeat("y", 500)}))
	}
	const config = `{"provider":"@one","cache":"simple","output_mutators":[{"regexReplace":{"rule":"1234","redactText":"#"}}]}`
	for _, status := range []string{exchange.CacheMiss, exchange.CacheHit} {
		_, body, x := b.ask(t, judgedEndpoints[0], true, "hi", config)
		if text := gjson.Get(body, judgedEndpoints[0].text).Str; x.CacheStatus != status || !strings.Contains(text, "card # y") || strings.Contains(body, "1234") {
			t.Errorf("%s: %s", x.CacheStatus, body)
		}
	}
}

// The text of a stream without usage counts once, as without hooks, also of one that breaks off or is refused; what follows
// [DONE] does not.
func TestTextsOfWindowsCountOnce(t *testing.T) {
	const chunk = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"TEXT"},"finish_reason":null}]}` + "\n\n"
	long := strings.ReplaceAll(chunk, "TEXT", strings.Repeat("x", 1000))
	for _, c := range []struct {
		name, stream string
		seen         int
	}{
		{"whole", long + "data: [DONE]\n\n", 1000},
		{"more after [DONE]", long + "data: [DONE]\n\n" + long, 1000},
		{"breaks off", long, 1000},
		{"refused", long + strings.ReplaceAll(chunk, "TEXT", "bad") + "data: [DONE]\n\n", 1003},
	} {
		b := newGuardBench(t)
		b.answers["one"] = func() *http.Response { return answering(200, "text/event-stream", c.stream) }
		w, x := b.call(t, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, nil,
			"X-Gw-Config", `{"provider":"@one","output_guardrails":[{"contains":{"words":["bad"],"operator":"none"},"deny":true,"stream_mode":"window"}]}`)
		got, _, _ := received(w.Body.String(), streams["chatComplete"].text)
		if a := x.Latest(); a.TextBytes != int64(c.seen) || len(got) > 1000 || strings.Contains(got, "bad") {
			t.Errorf("%s: %d bytes of text were seen, want %d; the client got %d", c.name, a.TextBytes, c.seen, len(got))
		}
	}
}
