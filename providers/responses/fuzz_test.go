package responses_test

import (
	"bytes"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/messages"
	"github.com/caddy-gw/gateway/providers/responses"
)

// Whatever a body is: what is made of it is JSON.
func FuzzParse(f *testing.F) {
	for _, a := range requests(f) {
		f.Add([]byte(a.Case(f).Body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if jsonscan.Members(body, nil) != nil {
			return // it is refused before
		}
		echo := append([]byte("{"), responses.Echo(body)...)
		if echo = append(echo, '}'); !gjson.ValidBytes(echo) || bytes.ContainsAny(echo, "\r\n") {
			t.Fatalf("echo %s", echo)
		}
		head := responses.ReadHead(body)
		if !bytes.HasPrefix(body[head.At:], head.Input) {
			t.Fatalf("the input is not at %d", head.At)
		}
		if out, err := responses.Expand(head.Input, func(string) ([]byte, error) { return []byte("1"), nil }); err != nil || out != nil && !gjson.ValidBytes(out) {
			t.Fatalf("expanded %s", out)
		}
		for _, m := range responses.Items(head.Input, "resp_1") {
			if !gjson.ValidBytes(m.Value) || gjson.GetBytes(m.Value, "id").Str != m.Name {
				t.Fatalf("item %s: %s", m.Name, m.Value)
			}
		}
		asked, err := responses.Parse(body, responses.Options{Provider: "p", Shorten: len(body) % 3})
		if err != nil {
			return
		}
		if out := new(chat.Encoder).Append(nil, asked); !gjson.ValidBytes(out) {
			t.Fatalf("chat %s", out)
		}
		if out, err := messages.Append(nil, asked, messages.Options{}); err == nil && !gjson.ValidBytes(out) {
			t.Fatalf("messages %s", out)
		}
	})
}

// Whatever a model says, in whatever order: every event is JSON on one line, and the
// pieces, the ends and the whole response say the same.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("\x01a\x01b\x03c\x04d\x06e\x07f\x0a"))
	f.Add([]byte("\x06\x00\x06\x01\x07\x00\x07\x01\x01\x22\x02\\\x0a\x00"))
	f.Add([]byte("\x08\n\x09\n\x01x\x05y\x03z\x0c"))
	f.Fuzz(func(t *testing.T, script []byte) {
		w := &responses.Events{Response: responses.Response{Style: style}}
		var text string
		ended := false
		w.Begin(nil)
		for ; len(script) >= 2; script = script[2:] {
			kind, arg := chat.EventKind(script[0]%13), script[1]
			piece := chat.Quote(string(rune(arg)) + "\n")
			e := &chat.Event{Kind: kind, Tool: int(arg % 3), Text: piece, Name: piece, Signature: piece, Finish: chat.FinishReason(arg % 4), Model: piece}
			switch kind {
			case chat.Annotation:
				e.Raw = chat.Raw("{\"type\":\"url_citation\",\n\"url_citation\":{\"url\":" + string(piece) + "}}")
			case chat.LogProbs:
				e.Raw = chat.Raw("{\"content\":[{\"token\":\n" + string(piece) + "}]}")
			case chat.TextPiece:
				if !ended {
					text += piece.Text()
				}
			case chat.Finish, chat.Failure:
				ended = true
			}
			w.Event(e)
		}
		w.End()
		var deltas, done string
		parts := make(map[string]string)
		open := make(map[int64]bool)
		list := events(t, w.Take())
		for _, e := range list {
			at := e.Get("item_id").Str + e.Get("content_index").Raw
			switch e.Get("type").Str {
			case "response.output_text.delta":
				deltas += e.Get("delta").Str
				parts[at] += e.Get("delta").Str
			case "response.function_call_arguments.delta", "response.reasoning_summary_text.delta", "response.refusal.delta":
				parts[at] += e.Get("delta").Str
			case "response.output_text.done":
				done += e.Get("text").Str
				same(t, parts[at], e.Get("text").Str)
			case "response.reasoning_summary_text.done":
				same(t, parts[at], e.Get("text").Str)
			case "response.function_call_arguments.done":
				same(t, parts[at], e.Get("arguments").Str)
			case "response.refusal.done":
				same(t, parts[at], e.Get("refusal").Str)
			case "response.output_item.added":
				open[e.Get("output_index").Int()] = true
			case "response.output_item.done":
				at := e.Get("output_index").Int()
				if !open[at] {
					t.Fatalf("item %d ends twice, or before it began", at)
				}
				open[at] = false
				same(t, list[len(list)-1].Get("response.output").Array()[at].Raw, e.Get("item").Raw)
			}
		}
		last := list[len(list)-1].Get("response")
		same(t, textOf(last), deltas)
		same(t, deltas, text)
		if last.Get("status").Str == "failed" {
			return
		}
		same(t, done, text)
		for at, still := range open {
			if still {
				t.Fatalf("item %d does not end", at)
			}
		}
	})
}

func same(t *testing.T, a, b string) {
	t.Helper()
	if a != b {
		t.Fatalf("%q and %q", a, b)
	}
}

// textOf is the text of a response, as clients put it together.
func textOf(response gjson.Result) (text string) {
	for _, item := range response.Get("output").Array() {
		for _, part := range item.Get("content").Array() {
			if part.Get("type").Str == "output_text" {
				text += part.Get("text").Str
			}
		}
	}
	return text
}
