package chat_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
)

func TestTheStartOfACallComesWithItsFirstArguments(t *testing.T) {
	start := func(tool int) *chat.Event {
		return &chat.Event{Kind: chat.CallStart, Tool: tool, ID: chat.Quote("i"), Name: chat.Quote("f")}
	}
	piece := func(tool int, text string) *chat.Event {
		return &chat.Event{Kind: chat.CallPiece, Tool: tool, Text: chat.Quote(text)}
	}
	const begun = `"id":"i","type":"function","function":{"name":"f","arguments":`
	for name, c := range map[string]struct {
		events []*chat.Event
		want   []string // the calls in each chunk
	}{
		"whole":            {[]*chat.Event{start(0), piece(0, "{}")}, []string{`{"index":0,` + begun + `"{}"}}`}},
		"pieces":           {[]*chat.Event{start(0), piece(0, ""), piece(0, "{"), piece(0, "}")}, []string{`{"index":0,` + begun + `"{"}}`, `{"index":0,"function":{"arguments":"}"}}`}},
		"none":             {[]*chat.Event{start(0)}, []string{`{"index":0,` + begun + `"{}"}}`}},
		"none, then text":  {[]*chat.Event{start(0), {Kind: chat.TextPiece, Text: chat.Quote("t")}}, []string{`{"index":0,` + begun + `""}}`, `{"index":0,"function":{"arguments":"{}"}}`}},
		"two whole":        {[]*chat.Event{start(0), piece(0, "{}"), start(1), piece(1, "{}")}, []string{`{"index":0,` + begun + `"{}"}}`, `{"index":1,` + begun + `"{}"}}`}},
		"two at once":      {[]*chat.Event{start(0), start(1), piece(0, "{}"), piece(1, "{}")}, []string{`{"index":0,` + begun + `""}}`, `{"index":1,` + begun + `""}}`, `{"index":0,"function":{"arguments":"{}"}}`, `{"index":1,"function":{"arguments":"{}"}}`}},
		"then an error":    {[]*chat.Event{start(0), {Kind: chat.Failure}}, []string{`{"index":0,` + begun + `""}}`}},
		"none, in a pair":  {[]*chat.Event{start(0), start(1), piece(1, "{}")}, []string{`{"index":0,` + begun + `""}}`, `{"index":1,` + begun + `"{}"}}`, `{"index":0,"function":{"arguments":"{}"}}`}},
		"another's pieces": {[]*chat.Event{start(0), piece(0, "{"), start(1), piece(0, "}")}, []string{`{"index":0,` + begun + `"{"}}`, `{"index":1,` + begun + `""}}`, `{"index":0,"function":{"arguments":"}"}}`, `{"index":1,"function":{"arguments":"{}"}}`}},
	} {
		var w chat.Chunks
		w.Begin(nil)
		for _, e := range c.events {
			w.Event(e)
		}
		if c.events[len(c.events)-1].Kind != chat.Failure {
			w.Event(&chat.Event{Kind: chat.Finish})
		}
		w.End()
		var got []string
		for chunk := range strings.SplitSeq(string(w.Take()), "\n\n") {
			if _, calls, ok := strings.Cut(chunk, `"tool_calls":[`); ok {
				calls, _, _ = strings.Cut(calls, "]")
				got = append(got, calls)
			}
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
