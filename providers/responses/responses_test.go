package responses_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
	"github.com/caddy-gw/gateway/providers/responses"
)

// requests and streams are the cases with a call, and with the stream of an answer.
func requests(t testing.TB) []*dialecttest.Archive { return having(t, "call.json") }

func streams(t testing.TB) []*dialecttest.Archive { return having(t, "answer.sse") }

func having(t testing.TB, member string) []*dialecttest.Archive {
	t.Helper()
	list := slices.DeleteFunc(dialecttest.Archives(t), func(a *dialecttest.Archive) bool { return a.Read(member) == nil })
	if len(list) == 0 {
		t.Fatal("no case has ", member)
	}
	return list
}

func pretty(t *testing.T, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return append(out.Bytes(), '\n')
}

// A request becomes a conversation, as Chat Completions and as Messages have it, and what
// its response repeats of it; a stream becomes events, and then a part of the next call: of
// the same provider as it came, and of another without what only the first one reads.
func TestGolden(t *testing.T) {
	dialecttest.Each(t, func(t *testing.T, a *dialecttest.Archive) {
		if in := a.Read("answer.sse"); in != nil {
			checkStream(t, a, in)
			return
		}
		body := a.Case(t).Body
		asked, err := responses.Parse(body, responses.Options{Provider: "anthropic"})
		if err != nil {
			t.Fatal(err)
		}
		out := append([]byte(`{"chat":`), new(chat.Encoder).Append(nil, asked)...)
		out = append(out, `,"messages":`...)
		sent, err := messages.Append(nil, asked, messages.Options{})
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, sent...), `,"echo":{`...)
		out = append(append(out, responses.Echo(body)...), "}}"...)
		a.Check(t, "out.json", pretty(t, out))
	})
}

func checkStream(t *testing.T, a *dialecttest.Archive, in []byte) {
	t.Helper()
	out := translate(t, in)
	list := events(t, out)
	a.Check(t, "out.sse", out)
	output := []byte(list[len(list)-1].Get("response.output").Raw)
	for _, provider := range []string{"anthropic", "another"} {
		parsed, _, err := responses.Messages(output, provider)
		if err != nil {
			t.Fatal(err)
		}
		body, err := messages.Append(nil, &chat.Request{Messages: parsed}, messages.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a.Check(t, "again."+provider+".json", pretty(t, body))
	}
}

var style = chat.Style{ID: "resp_0123456789abcdef", Created: 1782907200, Model: "asked", Dialect: "anthropic", Echo: responses.Echo([]byte(`{}`))}

// translate gives the stream of Messages in portions and returns that of Responses.
func translate(t testing.TB, portions ...[]byte) []byte {
	t.Helper()
	s := chat.Stream{Framer: new(chat.SSE), Decoder: new(messages.Decoder), Writer: &responses.Events{Response: responses.Response{Style: style}}}
	var out []byte
	var err error
	for _, p := range portions {
		if out, err = s.Translate(out, p); err != nil {
			t.Fatal(err)
		}
	}
	if out, err = s.End(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// events are those of a stream, each of which must be well-formed and numbered.
func events(t testing.TB, stream []byte) (list []gjson.Result) {
	t.Helper()
	for event := range strings.SplitSeq(strings.TrimSuffix(string(stream), "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(event, "\ndata: ")
		v := gjson.Parse(data)
		if !ok || strings.Contains(data, "\n") || !gjson.Valid(data) || name != "event: "+v.Get("type").Str || v.Get("sequence_number").Int() != int64(len(list)) {
			t.Fatalf("event %d: %q", len(list), event)
		}
		list = append(list, v)
	}
	return list
}

func TestAStreamIsTheSameWhereverItIsCut(t *testing.T) {
	for _, a := range streams(t) {
		in := a.Read("answer.sse")
		want := translate(t, in)
		for i := range in {
			if got := translate(t, in[:i], in[i:]); !bytes.Equal(got, want) {
				t.Fatalf("%s cut at %d:\n%s", a.Name, i, got)
			}
		}
		var bytewise [][]byte
		for i := range in {
			bytewise = append(bytewise, in[i:i+1])
		}
		if got := translate(t, bytewise...); !bytes.Equal(got, want) {
			t.Errorf("%s byte by byte:\n%s", a.Name, got)
		}
	}
}

// recorder repeats the events of a stream to a writer of whole responses.
type recorder struct {
	*responses.Response
}

func (recorder) Begin([]byte) {}

func (recorder) Take() []byte { return nil }

func (recorder) End() {}

// What a stream ends with is what the same answer is in one piece.
func TestAStreamEndsWithTheWholeResponse(t *testing.T) {
	for _, a := range streams(t) {
		in := a.Read("answer.sse")
		list := events(t, translate(t, in))
		whole := &responses.Response{Style: style}
		s := chat.Stream{Framer: new(chat.SSE), Decoder: new(messages.Decoder), Writer: recorder{whole}}
		if _, err := s.Translate(nil, in); err != nil {
			t.Fatal(err)
		}
		if _, err := s.End(nil); err != nil {
			t.Fatal(err)
		}
		if got, want := list[len(list)-1].Get("response").Raw, string(whole.Append(nil)); got != want {
			t.Errorf("%s:\n stream %s\n whole %s", a.Name, got, want)
		}
	}
}

func TestTheEndIsNotSaidOfWhatCouldNotBeKept(t *testing.T) {
	broken := style
	broken.Keep = func(response []byte) error {
		if !gjson.ValidBytes(response) || gjson.GetBytes(response, "status").Str != "completed" {
			t.Errorf("to keep: %s", response)
		}
		return errString("the disk is full")
	}
	w := &responses.Events{Response: responses.Response{Style: broken}}
	w.Begin(nil)
	w.Event(&chat.Event{Kind: chat.TextPiece, Text: chat.Literal(`"hi"`)})
	w.Event(&chat.Event{Kind: chat.Finish})
	w.End()
	list := events(t, w.Take())
	last := list[len(list)-1]
	if last.Get("type").Str != "response.failed" || last.Get("response.error.message").Str != "the disk is full" || last.Get("response.status").Str != "failed" {
		t.Errorf("%s", last)
	}
}

type errString string

func (e errString) Error() string { return string(e) }
