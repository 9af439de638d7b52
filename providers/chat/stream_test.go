package chat_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
)

// The beginning of an answer comes with what follows it, so that an error that follows it can
// still have a status. The usage that came in between is not lost.
func TestTheBeginningOfAnAnswerIsHeldBack(t *testing.T) {
	const begin = "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\",\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\ndata: {\"type\":\"ping\"}\n\n"
	for what, c := range map[string]struct{ next, want string }{
		"an error":  {"data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n", `"message":"busy"`},
		"a thought": {"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n", `"role":"assistant"`},
		"a text":    {"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n", `"content":"hi"`},
	} {
		s := chat.Stream{Framer: new(chat.SSE), Decoder: new(messages.Decoder), Writer: &chat.Chunks{Style: chat.Style{ID: "i", Strict: true}}}
		out, err := s.Translate(nil, []byte(begin))
		if err != nil || len(out) > 0 {
			t.Errorf("%s: the beginning alone: %s, %v", what, out, err)
		}
		if out, err = s.Translate(nil, []byte(c.next)); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: got %s, %v", what, out, err)
		}
		if u, ok := s.Used(); !ok || u.Prompt != 5 {
			t.Errorf("%s: usage %+v", what, u)
		}
	}
}

type message struct{ name, data string }

func frames(t interface{ Fatal(...any) }, pieces ...string) (got []message) {
	f := new(chat.SSE)
	yield := func(name string, data []byte) error {
		got = append(got, message{name, string(data)})
		return nil
	}
	for _, p := range pieces {
		if err := f.Push([]byte(p), yield); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Rest(yield); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSSEFramesWhateverEndsItsLines(t *testing.T) {
	for text, want := range map[string][]message{
		"data: a\n\n":                            {{"", "a"}},
		"data: a\r\n\r\ndata: b\r\n\r\n":         {{"", "a"}, {"", "b"}},
		"data: a\r\rdata: b\r\r":                 {{"", "a"}, {"", "b"}},
		"data:a\n\n":                             {{"", "a"}},
		"event: x\ndata: a\n\n":                  {{"x", "a"}},
		"event: x\n\ndata: a\n\n":                {{"", "a"}},
		": comment\n\ndata: a\n\n":               {{"", "a"}},
		"data: a\ndata: b\n\n":                   {{"", "a\nb"}},
		"id: 1\nretry: 5\ndata: a\n\n":           {{"", "a"}},
		"data: [DONE]\n\n":                       nil,
		"data: a\n\ndata: [DONE]\n\n":            {{"", "a"}},
		"data: a":                                {{"", "a"}},
		"data: a\n":                              {{"", "a"}},
		"data: \n\n":                             nil,
		"data\n\n":                               nil,
		"\n\n\n":                                 nil,
		"":                                       nil,
		"\ufeffdata: a\n\n":                      {{"", "a"}},
		"\ufeff\ndata: a\r\n\n":                  {{"", "a"}},
		"data: a\n\n\ufeffdata: b\n\n":           {{"", "a"}},
		"data: {\"a\":\"\u00fc\u20ac\"}\r\n\r\n": {{"", "{\"a\":\"\u00fc\u20ac\"}"}},
		"event: ping\ndata: {}\n\nevent: y\ndata: 1\n\n": {{"ping", "{}"}, {"y", "1"}},
	} {
		got := frames(t, text)
		if len(got) != len(want) {
			t.Errorf("%q: got %q", text, got)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: got %q, want %q", text, got, want)
			}
		}
	}
}

func TestSSEFramesTheSameWhereverItIsCut(t *testing.T) {
	piece := rapid.SampledFrom([]string{"data: a", "data: {\"x\":\"\u00fc\"}", "event: n", ": c", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "data:", "junk", "data: [DONE]"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "text"), "")
		want := frames(t, text)
		var pieces []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got := frames(t, pieces...)
		if len(got) != len(want) {
			t.Fatalf("%q cut as %q: got %q, want %q", text, pieces, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%q cut as %q: got %q, want %q", text, pieces, got, want)
			}
		}
	})
}

func TestSSEBoundsAMessage(t *testing.T) {
	f := new(chat.SSE)
	line := []byte("data: " + strings.Repeat("x", 1<<20))
	var err error
	for i := 0; i < 20 && err == nil; i++ {
		err = f.Push(line, func(string, []byte) error { return nil })
	}
	if err == nil {
		t.Error("a line without an end was taken")
	}
}
