package inference

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/calltest"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/prices"
)

// watching is a watcher of the answer to a call of an endpoint.
func watching(path string) *watcher {
	headers, err := exchange.NewHeaders(nil)
	if err != nil {
		panic(err)
	}
	g := &exchange.Gateway{
		Headers: headers, Now: calltest.Now, Random: rand.Reader,
		Acquire: func() func() { return func() {} },
	}
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{}))
	w := &watcher{x: g.Begin(httptest.NewRecorder(), r, endpointOf(path))}
	w.of(&exchange.Attempt{Route: &credentials.Route{Provider: "file"}})
	return w
}

func watchingChat() *watcher { return watching("/v1/chat/completions") }

// A provider gives its portions one a Read, and then its error.
type provider struct {
	portions [][]byte
	err      error
	with     bool // the error comes with the last portion
	closed   bool
}

func (u *provider) Read(p []byte) (int, error) {
	if len(u.portions) == 0 {
		return 0, u.err
	}
	n := copy(p, u.portions[0])
	if u.portions[0] = u.portions[0][n:]; len(u.portions[0]) == 0 {
		u.portions = u.portions[1:]
	}
	if u.with && len(u.portions) == 0 {
		return n, u.err
	}
	return n, nil
}

func (u *provider) Close() error {
	u.closed = true
	return nil
}

// pass returns what a client gets of text that ends with err.
func pass(w *watcher, text string, err error) (string, error) {
	got, readErr := io.ReadAll(newStream(&provider{portions: [][]byte{[]byte(text)}, err: err}, w, 0))
	return string(got), readErr
}

const (
	firstChunk = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}` + "\n\n"
	textChunk  = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"lo \"finish_reason\" é"}, "finish_reason" : null}]}` + "\n\n"
	lastChunk  = `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usageChunk = `data: {"id":"c","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}` + "\n\n"
	doneEvent  = "data: [DONE]\n\n"
	whole      = firstChunk + textChunk + lastChunk + usageChunk + doneEvent
)

func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

// wholeLines is text up to its last end of a line.
func wholeLines(text string) string { return text[:strings.LastIndexByte(text, '\n')+1] }

func TestACompleteStreamPassesByteForByte(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a chat":                       whole,
		"CRLF":                         crlf(whole),
		"no space after data":          strings.ReplaceAll(whole, "data: ", "data:"),
		"comments and other fields":    ": hi\n\nevent: m\nid: 1\nretry: 5\n" + whole,
		"comments after the end":       whole + ": bye\n\n",
		"many newlines":                "\n\n\n" + whole + "\n\n",
		"lines of other fields":        "nonsense\n\nid: {half\n\n" + whole,
		"data that is not an object":   "data: 1\n\ndata: \"x\"\n\ndata: null\n\ndata:\n\n" + whole,
		"data over several lines":      "data: {\ndata: \"a\":1\ndata: }\n\n" + whole,
		"an empty stream":              doneEvent,
		"trailing spaces after [DONE]": firstChunk + "data: [DONE]  \n\n",
		"bytes that are not UTF-8":     "data: \"\xff\xfe\"\n\n" + whole,
	} {
		w := watchingChat()
		if got, err := pass(w, text, io.EOF); got != text || err != nil {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", name, got, err, text)
		}
		if w.out.Failure != "" {
			t.Errorf("%s: failed: %s", name, w.out.Failure)
		}
	}
}

func TestACompleteStreamPassesWhateverTheReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{whole, crlf(whole), firstChunk + doneEvent, whole + ": bye\n\n", strings.Repeat(textChunk, 300) + whole}).Draw(t, "stream")
		cuts := rapid.SliceOfN(rapid.IntRange(1, 40), 0, 30).Draw(t, "cuts")
		u := &provider{err: io.EOF, with: rapid.Bool().Draw(t, "EOF with the last bytes")}
		rest := []byte(text)
		for _, n := range cuts {
			n = min(n, len(rest))
			u.portions, rest = append(u.portions, rest[:n]), rest[n:]
		}
		u.portions = append(u.portions, rest)
		u.portions = nonEmpty(u.portions)
		var got bytes.Buffer
		s := newStream(u, watchingChat(), 0)
		p := make([]byte, rapid.IntRange(1, 20_000).Draw(t, "client's buffer"))
		for {
			n, err := s.Read(p)
			got.Write(p[:n])
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got.String() != text {
			t.Fatalf("got %q", got.String())
		}
	})
}

func nonEmpty(portions [][]byte) (out [][]byte) {
	for _, p := range portions {
		if len(p) > 0 {
			out = append(out, p)
		}
	}
	return out
}

func TestALineReachesTheClientWhenItIsWhole(t *testing.T) {
	t.Parallel()
	u := &provider{portions: [][]byte{[]byte("data: 1\n"), []byte("\ndata: "), []byte("2\n\nda"), []byte("ta: [DONE]\n\n")}, err: io.EOF}
	s := newStream(u, watchingChat(), 0)
	p := make([]byte, 100)
	for _, want := range []string{"data: 1\n", "\n", "data: 2\n\n", "data: [DONE]\n\n"} {
		if n, err := s.Read(p); string(p[:n]) != want || err != nil {
			t.Errorf("got %q, %v, want %q", p[:n], err, want)
		}
	}
	if n, err := s.Read(p); n != 0 || err != io.EOF {
		t.Errorf("got %d bytes, %v", n, err)
	}
	if err := s.Close(); err != nil || !u.closed {
		t.Errorf("the provider's body is not closed, %v", err)
	}
}

func TestUsageIsReadAsItPasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want exchange.Usage
	}{
		"none":               {firstChunk + doneEvent, exchange.Usage{}},
		"null":               {`data: {"usage":null}` + "\n\n" + doneEvent, exchange.Usage{}},
		"in a chunk":         {whole, exchange.Usage{Known: true, Usage: prices.Usage{Prompt: 11, Completion: 7}}},
		"CRLF":               {crlf(whole), exchange.Usage{Known: true, Usage: prices.Usage{Prompt: 11, Completion: 7}}},
		"by the newer names": {`data: {"usage":{"input_tokens":3,"output_tokens":4}}` + "\n\n" + doneEvent, exchange.Usage{Known: true, Usage: prices.Usage{Prompt: 3, Completion: 4}}},
		"the last word counts": {
			`data: {"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\n" + usageChunk + `data: {"usage":null}` + "\n\n" + doneEvent,
			exchange.Usage{Known: true, Usage: prices.Usage{Prompt: 11, Completion: 7}},
		},
		"in a text":        {`data: {"choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":5}"}}]}` + "\n\n" + doneEvent, exchange.Usage{}},
		"no object":        {`data: {"usage":"much"}` + "\n\n" + doneEvent, exchange.Usage{}},
		"a line cut short": {firstChunk + strings.TrimSuffix(usageChunk, "}}\n\n"), exchange.Usage{}},
	} {
		w := watchingChat()
		if _, err := pass(w, c.text, io.EOF); err != nil {
			t.Fatal(err)
		}
		if w.attempt.Usage != c.want {
			t.Errorf("%s: got %+v", name, w.attempt.Usage)
		}
	}
}

func TestFirstByteIsNotedOnce(t *testing.T) {
	t.Parallel()
	w := watchingChat()
	var calls int
	w.x.Gateway.Now = func() time.Time { calls++; return time.Unix(int64(calls), 0) }
	u := &provider{portions: [][]byte{[]byte("da"), []byte("ta: x\n\n"), []byte(doneEvent)}, err: io.EOF}
	if _, err := io.ReadAll(newStream(u, w, 0)); err != nil || calls != 1 || w.out.FirstByte != time.Unix(1, 0) {
		t.Errorf("noted %s, asked the clock %d times, %v", w.out.FirstByte, calls, err)
	}
}

// An endlessLine is a line that never ends.
type endlessLine struct{ n int }

func (e *endlessLine) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.n += len(p)
	return len(p), nil
}

func TestALineOverTheLimitEndsTheStreamWithAnError(t *testing.T) {
	t.Parallel()
	w, endless := watchingChat(), &endlessLine{}
	got, err := io.ReadAll(newStream(io.NopCloser(io.MultiReader(strings.NewReader(firstChunk), endless)), w, 0))
	if err != nil {
		t.Fatal(err)
	}
	mustBreakOff(t, firstChunk, string(got))
	if endless.n > 2*maxLine { // the buffer doubles
		t.Errorf("%d bytes of a line were taken", endless.n)
	}
	if !strings.Contains(w.out.Failure, "line") {
		t.Errorf("noted failure: %q", w.out.Failure)
	}
}

// Lines of an event that come one by one before its data are looked at once each.
func TestManyFieldsBeforeDataTakeLinearTime(t *testing.T) {
	t.Parallel()
	const n = 200_000
	u := &provider{err: io.EOF}
	for range n {
		u.portions = append(u.portions, []byte("e:\n"))
	}
	u.portions = append(u.portions, []byte(firstChunk), []byte(lastChunk), []byte(doneEvent))
	got, err := io.ReadAll(newStream(u, watchingChat(), 0))
	if want := strings.Repeat("e:\n", n) + firstChunk + lastChunk + doneEvent; err != nil || string(got) != want {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestALongLineUpToTheLimitPasses(t *testing.T) {
	t.Parallel()
	line := "data: \"" + strings.Repeat("x", maxLine-100) + "\"\n\n"
	got, err := pass(watchingChat(), line+doneEvent, io.EOF)
	if err != nil || got != line+doneEvent {
		t.Errorf("got %d bytes of %d, %v", len(got), len(line+doneEvent), err)
	}
}

func FuzzStream(f *testing.F) {
	for _, seed := range []string{"", whole, crlf(whole), firstChunk, lastChunk, firstChunk + "data: {", "\n", "\r", "\r\n\r", doneEvent + "x", "data: [DONE]", "data:\n\n\n" + lastChunk, "event: x\nid:1\n"} {
		for kind := range uint8(3) {
			f.Add([]byte(seed), uint16(7), uint16(100), kind)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, portion, buffer uint16, kind uint8) {
		var end error
		switch kind % 3 {
		case 0:
			end = io.EOF
		case 1:
			end = io.ErrUnexpectedEOF
		case 2:
			end = context.Canceled
		}
		u := &provider{err: end, with: kind&0x80 != 0}
		size := int(portion) + 1
		for i := 0; i < len(input); i += size {
			u.portions = append(u.portions, bytes.Clone(input[i:min(i+size, len(input))]))
		}
		s, p := newStream(u, watchingChat(), 0), make([]byte, int(buffer)+1)
		var out []byte
		var err error
		for reads := 0; err == nil; reads++ {
			if reads > 2*len(input)+1000 {
				t.Fatalf("%q: no end after %d reads", input, reads)
			}
			var n int
			n, err = s.Read(p)
			out = append(out, p[:n]...)
		}
		text, got := string(input), string(out)
		switch {
		case end == context.Canceled:
			if got != sound(text) || !errors.Is(err, context.Canceled) {
				t.Fatalf("%q: got %q, %v", text, got, err)
			}
			return
		case err != io.EOF:
			t.Fatalf("%q: %v", text, err)
		case got == text && strings.Contains(text, "[DONE]"):
			return
		}
		rest, ok := strings.CutPrefix(got, sound(text))
		if !ok {
			t.Fatalf("%q: got %q", text, got)
		}
		if rest == "" && ended(text) {
			return
		}
		rest = strings.TrimPrefix(rest, "\n")
		if rest != doneEvent && rest != string(errorEvent("chatComplete", "The stream of provider file broke off before its end", 0, errorCode{"stream_error", "stream_interrupted"})) {
			t.Fatalf("%q: after its lines came %q", text, rest)
		}
	})
}

func endpointOf(path string) *exchange.Endpoint {
	e, _ := exchange.EndpointOf("POST", path)
	return e
}

// sound is what of a stream's whole lines can be passed on: malformed events are left out, and so
// is a last one of which only what follows could tell.
func sound(text string) string {
	lines := strings.SplitAfter(wholeLines(lineFeeds(text)), "\n")
	lines = lines[:len(lines)-1]
	var out, waiting strings.Builder
	event, skips := false, false // it has data already; the rest of it is left out
	for i, line := range lines {
		bare := strings.TrimRight(line, "\r\n")
		data, isData := strings.CutPrefix(bare, "data:")
		data = string(bytes.TrimSpace([]byte(data)))
		if skips {
			skips = bare != ""
			continue
		}
		if isData && !event && data != "" && data != "[DONE]" && !json.Valid([]byte(data)) {
			if i+1 == len(lines) {
				return out.String()
			}
			if next := lines[i+1]; next[0] == '\n' || next[0] == '\r' {
				waiting.Reset()
				skips = true
				continue
			}
		}
		waiting.WriteString(line)
		if !isData && !event && bare != "" && bare[0] != ':' {
			continue
		}
		event = isData || event && bare != ""
		out.WriteString(waiting.String())
		waiting.Reset()
	}
	return out.String() + waiting.String()
}

// lineFeeds is a text whose lines end with LF or CRLF. What ends with CR may go on with LF.
func lineFeeds(text string) string {
	b := []byte(text)
	for i := range b {
		if b[i] == '\r' && i+1 < len(b) && b[i+1] != '\n' {
			b[i] = '\n'
		}
	}
	return string(b)
}
