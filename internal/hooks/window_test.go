package hooks

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/guardrails"
)

// split cuts a text into pieces, between characters.
func split(t *rapid.T, text string) (pieces []string) {
	for text != "" {
		n := rapid.IntRange(1, len(text)).Draw(t, "n")
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// pass passes the pieces of a text through hooks.
func pass(list []*Hook, pieces []string) (text string, w *Windows) {
	w = NewWindows("chatComplete", list, time.Now)
	content := Track{Kind: "content"}
	for _, piece := range pieces {
		text += w.Push(content, piece)
	}
	text += w.Flush(content)
	w.End()
	return text, w
}

// However a text is cut, the verdict, what is replaced and what is let go are the same; and the
// same as of the whole text, as long as places are not longer than what is held back.
func TestWindowsDoNotDependOnHowATextComes(t *testing.T) {
	const small = `,"window_bytes":16,"overlap_bytes":16`
	lists := map[string]string{
		"replace":          `[{"regexReplace":{"rule":"a1|1a","redactText":"#"}` + small + `}]`,
		"replace runs":     `[{"regexReplace":{"rule":"aa","redactText":"<long replacement>"}` + small + `}]`,
		"replace bounded":  `[{"regexReplace":{"rule":"\\d{1,9}","redactText":""}` + small + `}]`,
		"words":            `[{"regexReplace":{"rule":"\\bab?\\b","redactText":"W"}` + small + `}]`,
		"refuse":           `[{"contains":{"words":["é1é1","bbbb"],"operator":"none"},"deny":true` + small + `}]`,
		"refuse a pattern": `[{"regexMatch":{"rule":"1é?b{2,5}1","not":true},"deny":true` + small + `}]`,
		"warn":             `[{"regexMatch":{"rule":"a1a","not":true},"stream_mode":"window"` + small + `}]`,
		"one after another": `[{"regexReplace":{"rule":"a1","redactText":"bbb"}` + small + `},{"contains":{"words":["bbbb"],"operator":"none"},"deny":true` + small + `},
			{"regexReplace":{"rule":"b ","redactText":"_"}` + small + `}]`,
		"together": `[{"regexReplace":{"rule":"a","redactText":"b"},"contains":{"words":["aaaa"],"operator":"none"},"deny":true` + small + `}]`,
	}
	for name, raw := range lists {
		t.Run(name, func(t *testing.T) {
			list := parse(t, OutputGuardrails, raw)
			for _, h := range list {
				if h.ModeOf() != Window {
					t.Fatalf("the mode is %s", h.ModeOf())
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				text := rapid.StringMatching(`[ab1é ]{1,150}`).Draw(t, "text")
				whole, w := pass(list, []string{text})
				for range 3 {
					got, g := pass(list, split(t, text))
					if got != whole || (g.Denied != nil) != (w.Denied != nil) || g.Failed() != w.Failed() || g.Changed != w.Changed {
						t.Fatalf("%q becomes %q and %q, refused %v and %v", text, whole, got, w.Denied != nil, g.Denied != nil)
					}
				}
				body, _ := Replace([]byte(`{"choices":[{"message":{"content":""}}]}`), []Span{{34, 36}}, []string{text})
				out := Run(t.Context(), list, guardrails.Subject{Phase: guardrails.Output, Type: "chatComplete", Response: body}, false, time.Now)
				if out.Body != nil {
					body = out.Body
				}
				want := gjson.GetBytes(body, "choices.0.message.content").Str
				switch refused := out.Denied != nil; {
				case refused != (w.Denied != nil):
					t.Fatalf("%q: refused as a whole: %v", text, refused)
				case refused && !strings.HasPrefix(want, whole), !refused && whole != want:
					t.Fatalf("%q becomes %q, as a whole %q", text, whole, want)
				}
			})
		})
	}
}

// A place that is longer than what is held back is found, if it is at all, whatever the pieces are.
func TestLongPlacesDoNotDependOnHowATextComes(t *testing.T) {
	list := parse(t, OutputGuardrails, `[{"regexReplace":{"rule":"1+","redactText":"#"},"window_bytes":16,"overlap_bytes":16},{"regexMatch":{"rule":"a1*b","not":true},"deny":true,"window_bytes":16,"overlap_bytes":32}]`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([ab]{0,3}1{0,70}){1,5}`).Draw(t, "text")
		whole, w := pass(list, []string{text})
		if got, g := pass(list, split(t, text)); got != whole || (g.Denied != nil) != (w.Denied != nil) {
			t.Fatalf("%q becomes %q and %q", text, whole, got)
		}
	})
}

// Nothing but what is held back waits.
func TestAWindowLetsGoWhatIsJudged(t *testing.T) {
	list := parse(t, OutputGuardrails, `[{"contains":{"words":["bad"],"operator":"none"},"deny":true,"window_bytes":16,"overlap_bytes":32}]`)
	w := NewWindows("chatComplete", list, time.Now)
	content := Track{Kind: "content"}
	if got := w.Push(content, strings.Repeat("x", 47)); got != "" {
		t.Errorf("let go of %q", got)
	}
	if got := w.Push(content, "x"); len(got) != 16 {
		t.Errorf("let go of %q", got)
	}
	if got := w.Push(content, strings.Repeat("x", 100)); len(got) != 96 {
		t.Errorf("let go of %d bytes", len(got))
	}
	if other := (Track{Kind: "content", Index: 1}); w.Push(other, "bad") != "bad" || w.Denied != nil {
		t.Error("a choice that is not judged waits")
	}
	if got := w.Push(content, "bad"+strings.Repeat("x", 50)); w.Denied == nil || strings.Contains(got, "bad") {
		t.Errorf("let go of %q", got)
	}
}

func TestChecksOfWindowsThatCannotJudge(t *testing.T) {
	for raw, c := range map[string]struct {
		denied bool
		state  State
	}{
		`[{"contains":{"words":["x"],"operator":"none"},"deny":true}]`:                      {false, ErroredPassed}, // no text
		`[{"contains":{"words":["x"],"operator":"none"},"deny":true,"fail_on_error":true}]`: {true, Failed},
	} {
		_, w := pass(parse(t, OutputGuardrails, raw), nil)
		if state := w.Results()[0].State; (w.Denied != nil) != c.denied || state != c.state {
			t.Errorf("%s: refused %v, %s", raw, w.Denied != nil, state)
		}
	}
}

// A piece of eight times the size takes some eight times as long, and not sixty-four times.
func TestALargePieceTakesLinearTime(t *testing.T) {
	list := parse(t, OutputGuardrails, `[{"contains":{"words":["bad"],"operator":"none"},"deny":true,"window_bytes":16,"overlap_bytes":16}]`)
	clock := time.Now()
	took := func(size int) time.Duration {
		w := NewWindows("chatComplete", list, func() time.Time { return clock })
		begun := time.Now()
		w.Push(Track{Kind: "content"}, strings.Repeat("x", size))
		return time.Since(begun)
	}
	var small, large time.Duration
	for range 10 { // on a busy machine, one of them may be held up
		if small, large = took(256<<10), took(2<<20); large <= 24*small {
			return
		}
	}
	t.Errorf("256 KiB took %v, and 2 MiB %v", small, large)
}

func FuzzPieces(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"index":0,"delta":{"content":"a","reasoning_details":[{"text":"b"}],"tool_calls":[{"index":1,"function":{"arguments":"x"}}]},"finish_reason":"stop"}]}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}`,
		`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"text":"a"}]},{"type":"reasoning","summary":[{"text":"s"}]}]}}`,
		`{"type":"response.output_text.delta","output_index":1,"content_index":2,"delta":"d"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for endpoint := range dialects {
			e := Pieces(endpoint, data, Scope{true, true, true, true, true, true})
			spans := make([]Span, len(e.Pieces))
			for i, p := range e.Pieces {
				spans[i] = p.Span
			}
			if same, err := Replace(data, spans, values(data, spans)); err != nil || len(spans) > 0 && string(same) != string(data) {
				t.Fatalf("%s: %v: %q becomes %q", endpoint, err, data, same)
			}
		}
	})
}

func TestPiecesOfEvents(t *testing.T) {
	for _, c := range []struct{ endpoint, data, want string }{
		{"chatComplete", `{"choices":[{"index":1,"delta":{"content":"a"}}]}`, ""},
		{"chatComplete", `{"choices":[{"index":0,"delta":{"reasoning_content":"r","content":"a","refusal":"n"},"finish_reason":"stop"}]}`, "reasoning_content/0/0=r content/0/0=a refusal/0/0=n ends 0"},
		{"chatComplete", `{"choices":[{"index":-1,"delta":{"content":"a"},"finish_reason":"stop"}]}`, "content/0/0=a ends 0"},
		{"complete", `{"choices":[{"text":"a"}]}`, "text/0/0=a"},
		{"messages", `{"type":"content_block_delta","index":2,"delta":{"type":"thinking_delta","thinking":"t"}}`, "thinking/2/0=t"},
		{"messages", `{"type":"content_block_stop","index":2}`, "ends 2"},
		{"createModelResponse", `{"type":"response.output_text.delta","output_index":1,"content_index":2,"delta":"d"}`, "text/1/2=d"},
		{"createModelResponse", `{"type":"response.output_text.done","output_index":1,"content_index":2,"text":"d"}`, "text/1/2=d!"},
		{"createModelResponse", `{"type":"response.content_part.done","output_index":1,"content_index":2,"part":{"type":"output_text","text":"d"}}`, "text/1/2=d!"},
		{"createModelResponse", `{"type":"response.output_item.done","output_index":1,"item":{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]}}`, "summary/1/0=s!"},
		{"createModelResponse", `{"type":"response.completed","response":{"output":[{"type":"message","content":[{"text":"a"},{"refusal":"b"}]}]}}`, "text/0/0=a! refusal/0/1=b! ends all"},
		{"createModelResponse", `{"type":"response.function_call_arguments.delta","output_index":1,"delta":"d"}`, ""},
	} {
		e := Pieces(c.endpoint, []byte(c.data), Scope{})
		var got []string
		for _, p := range e.Pieces {
			text := values([]byte(c.data), []Span{p.Span})[0]
			if p.Whole {
				text += "!"
			}
			got = append(got, p.Kind+"/"+string(rune('0'+p.Index))+"/"+string(rune('0'+p.Part))+"="+text)
		}
		for _, n := range e.Ends {
			got = append(got, "ends "+string(rune('0'+n)))
		}
		if e.All {
			got = append(got, "ends all")
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.data, s, c.want)
		}
	}
}

// A ticking check takes a second for each search.
type ticking struct{ clock *time.Time }

func (ticking) Judge(context.Context, *guardrails.Subject) (guardrails.Result, error) {
	return guardrails.Result{Verdict: true}, nil
}
func (ticking) Finds() (decides, redacts bool) { return true, false }
func (c ticking) Find(context.Context, string) ([]guardrails.Place, error) {
	*c.clock = c.clock.Add(time.Second)
	return nil, nil
}

// The checks of a hook have its time together, for all of a stream, and those of all hooks have that
// of a phase.
func TestWindowsHaveATime(t *testing.T) {
	for name, c := range map[string]struct {
		hooks, checks int
		timeout       time.Duration
		pieces        int // that pass
	}{
		"of a hook": {1, 2, 10 * time.Second, 5}, "of each hook": {2, 1, 10 * time.Second, 10}, "of a phase": {10, 1, 20 * time.Second, 6},
	} {
		begun := time.Unix(1_800_000_000, 0)
		clock := begun
		var list []*Hook
		for range c.hooks {
			h := &Hook{Deny: true, Timeout: c.timeout, Stream: Stream{Window: 16, Hold: 16}}
			for range c.checks {
				h.Checks = append(h.Checks, Use{Check: ticking{&clock}})
			}
			list = append(list, h)
		}
		w := NewWindows("chatComplete", list, func() time.Time { return clock })
		for range 100 {
			w.Once(Track{Kind: "content"}, "a text")
		}
		spent := clock
		if w.Denied == nil {
			t.Errorf("%s: nothing is refused", name)
		}
		for _, r := range w.Results() {
			if r.Deny && r.Checks[len(r.Checks)-1].Error == nil && r.Checks[0].Error == nil {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if took, want := int(spent.Sub(begun).Seconds()), c.hooks*c.checks*c.pieces; took < want || took > want+1 {
			t.Errorf("%s: took %d seconds, expected %d", name, took, want)
		}
	}
}
