package inference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/prices"
)

// watching is a watcher of the answer to a call of an endpoint.
func watching(path string) *watcher {
	w := &watcher{x: &exchange.Exchange{Call: &exchange.Call{
		Gateway:  &exchange.Gateway{Now: func() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }},
		Endpoint: endpointOf(path),
	}}}
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

// mustBreakOff checks that got is the whole lines of text and one error event, of
// valid SSE, and no [DONE].
func mustBreakOff(t testing.TB, text, got string) {
	t.Helper()
	lines := wholeLines(text)
	last := strings.TrimSuffix(lines, "\n")
	if last = last[strings.LastIndexByte(last, '\n')+1:]; strings.TrimRight(last, "\r") != "" {
		lines += "\n" // ends the event that the last line belongs to
	}
	event, ok := strings.CutPrefix(got, lines)
	if !ok {
		t.Fatalf("the client got other lines than came:\n%q\n%q", text, got)
	}
	data, ok := strings.CutPrefix(event, "data: ")
	data, ended := strings.CutSuffix(data, "\n\n")
	if !ok || !ended || strings.Contains(data, "\n") {
		t.Fatalf("not one event: %q", event)
	}
	var e struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil || e.Error.Message == "" || e.Error.Type == "" || e.Error.Code == "" {
		t.Fatalf("not an error: %q, %v", data, err)
	}
	for _, member := range []string{`"message"`, `"type"`, `"param"`, `"code"`} {
		if !strings.Contains(data, member) {
			t.Fatalf("no %s in %q", member, data)
		}
	}
	if strings.Contains(event, "[DONE]") {
		t.Fatalf("[DONE] after an error: %q", event)
	}
}

func TestNoDoneFollowsAnErrorOfTheProvider(t *testing.T) {
	failed := firstChunk + `data: {"error":{"message":"overloaded"}}` + "\n\n"
	for _, text := range []string{failed + doneEvent, crlf(failed + doneEvent), failed} {
		w := watchingChat()
		got, err := pass(w, text, io.EOF)
		if err != nil || strings.Contains(got, "[DONE]") || !strings.HasPrefix(got, strings.TrimSuffix(text, doneEvent)[:len(firstChunk)]) || w.out.Failure == "" || w.out.Malformed != 0 {
			t.Errorf("%q, %v, %q", got, err, w.out.Failure)
		}
	}
}

func TestACompleteStreamPassesByteForByte(t *testing.T) {
	for name, text := range map[string]string{
		"a chat":                       whole,
		"CRLF":                         crlf(whole),
		"no space after data":          strings.ReplaceAll(whole, "data: ", "data:"),
		"comments and other fields":    ": hi\n\nevent: m\nid: 1\nretry: 5\n" + whole,
		"comments after the end":       whole + ": bye\n\n",
		"many newlines":                "\n\n\n" + whole + "\n\n",
		"lines of other fields":        "nonsense\n\nid: {half\n\n" + whole,
		"data that is no object":       "data: 1\n\ndata: \"x\"\n\ndata: null\n\ndata:\n\n" + whole,
		"data over several lines":      "data: {\ndata: \"a\":1\ndata: }\n\n" + whole,
		"an empty stream":              doneEvent,
		"trailing spaces after [DONE]": firstChunk + "data: [DONE]  \n\n",
		"bytes that are no UTF-8":      "data: \"\xff\xfe\"\n\n" + whole,
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

func TestABrokenStreamEndsWithOneErrorEventAfterTheLastWholeLine(t *testing.T) {
	reset := errors.New("connection reset by peer")
	for name, c := range map[string]struct {
		text string
		err  error
	}{
		"before the first byte":                  {"", io.ErrUnexpectedEOF},
		"an end without a byte":                  {"", io.EOF},
		"after a whole event":                    {firstChunk, io.ErrUnexpectedEOF},
		"after a whole event, CRLF":              {crlf(firstChunk), io.ErrUnexpectedEOF},
		"an end after a whole event":             {firstChunk, io.EOF},
		"an end after only comments":             {": ping\n\n", io.EOF},
		"between an event's line and its end":    {strings.TrimSuffix(firstChunk, "\n"), io.ErrUnexpectedEOF},
		"the same, CRLF":                         {strings.TrimSuffix(crlf(firstChunk), "\r\n"), io.ErrUnexpectedEOF},
		"between the bytes of a CRLF":            {strings.TrimSuffix(crlf(firstChunk), "\n"), io.ErrUnexpectedEOF},
		"inside a line":                          {firstChunk + textChunk[:20], io.ErrUnexpectedEOF},
		"an end inside a line":                   {firstChunk + textChunk[:20], io.EOF},
		"inside a character":                     {firstChunk + textChunk[:strings.Index(textChunk, "é")+1], io.ErrUnexpectedEOF},
		"inside the first line":                  {firstChunk[:3], io.ErrUnexpectedEOF},
		"inside [DONE]":                          {firstChunk + "data: [DO", io.EOF},
		"inside [DONE] with an error":            {firstChunk + lastChunk + "data: [DO", io.ErrUnexpectedEOF},
		"after the finish with an error":         {firstChunk + lastChunk, io.ErrUnexpectedEOF},
		"inside the usage after the finish":      {firstChunk + lastChunk + usageChunk[:30], io.EOF},
		"by a reset":                             {firstChunk, reset},
		"by a timeout":                           {firstChunk, context.DeadlineExceeded},
		"by a closed body":                       {firstChunk, io.ErrClosedPipe},
		"after an event with an id and no data":  {"id: 1\n", io.ErrUnexpectedEOF},
		"after newlines only":                    {"\n\n", io.ErrUnexpectedEOF},
		"a text that only speaks of its finish":  {textChunk, io.EOF},
		"a [DONE] that is a part of another one": {"data: \"[DONE] not\"\n\n", io.EOF},
		"a [DONE] of another field":              {"event: [DONE]\n\n", io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			w := watchingChat()
			got, err := pass(w, c.text, c.err)
			if err != nil {
				t.Errorf("the client's read fails: %v", err)
			}
			mustBreakOff(t, c.text, got)
			if !strings.Contains(w.out.Failure, "broke off") {
				t.Errorf("noted failure: %q", w.out.Failure)
			}
			if strings.Contains(got, reset.Error()) {
				t.Error("the client sees the cause")
			}
		})
	}
}

func TestAStreamBrokenAtAnyByteEndsWithOneErrorEvent(t *testing.T) {
	for _, text := range []string{firstChunk + textChunk + lastChunk + usageChunk, crlf(firstChunk + lastChunk), "event: m\n" + firstChunk} {
		for n := range len(text) + 1 {
			for _, with := range []bool{false, true} {
				u := &provider{portions: nonEmpty([][]byte{[]byte(text[:n])}), err: io.ErrUnexpectedEOF, with: with}
				got, err := io.ReadAll(iotest.OneByteReader(newStream(u, watchingChat(), 0)))
				if err != nil {
					t.Fatal(err)
				}
				mustBreakOff(t, text[:n], string(got))
			}
		}
	}
}

func TestAFinishedStreamThatForgotItsEndGetsIt(t *testing.T) {
	for name, c := range map[string]struct{ text, end string }{
		"a finish":                    {firstChunk + lastChunk, doneEvent},
		"a finish and usage":          {firstChunk + lastChunk + usageChunk, doneEvent},
		"a finish with usage inside":  {firstChunk + strings.Replace(lastChunk, `{"id"`, `{"usage":{"prompt_tokens":1},"id"`, 1), doneEvent},
		"a finish, CRLF":              {crlf(firstChunk + lastChunk), doneEvent},
		"an open event":               {firstChunk + strings.TrimSuffix(lastChunk, "\n"), "\n" + doneEvent},
		"a finish by tools":           {strings.Replace(lastChunk, "stop", "tool_calls", 1), doneEvent},
		"a text completion's finish":  {`data: {"choices":[{"text":"x","index":0,"logprobs":null,"finish_reason":"length"}]}` + "\n\n", doneEvent},
		"the finish of another place": {`data: {"choices":[{"index":0,"finish_reason":null},{"index":1,"finish_reason":"stop"}]}` + "\n\n", doneEvent},
	} {
		w := watchingChat()
		got, err := pass(w, c.text, io.EOF)
		if got != c.text+c.end || err != nil || w.out.Failure != "" {
			t.Errorf("%s: got %q, %v, failure %q", name, got, err, w.out.Failure)
		}
	}
}

// A provider may end its last line with the end of the body, and some do.
func TestAnEndThatLacksItsNewlineIsAnEnd(t *testing.T) {
	for _, end := range []string{"data: [DONE]", "data:[DONE]", "data: [DONE]\r"} {
		w := watchingChat()
		got, err := pass(w, firstChunk+lastChunk+end, io.EOF)
		if err != nil || w.out.Failure != "" || strings.Contains(got, "error") {
			t.Errorf("%q: got %q, %v, failure %q", end, got, err, w.out.Failure)
		}
		if rest, ok := strings.CutPrefix(got, firstChunk+lastChunk); !ok || strings.Count(rest, "[DONE]") != 1 {
			t.Errorf("%q: got %q", end, got)
		}
	}
}

// What comes after [DONE] is of no matter to a client, which has all it asked for.
func TestAStreamThatBreaksAfterItsEndIsComplete(t *testing.T) {
	for _, err := range []error{io.ErrUnexpectedEOF, errors.New("connection reset by peer")} {
		w := watchingChat()
		got, readErr := pass(w, whole, err)
		if got != whole || readErr != nil || w.out.Failure != "" {
			t.Errorf("%v: got %q more, %v, failure %q", err, strings.TrimPrefix(got, whole), readErr, w.out.Failure)
		}
	}
}

func TestAnEndpointWithoutDoneEndsWithItsBody(t *testing.T) {
	w := watching("/v1/embeddings")
	if got, err := pass(w, firstChunk, io.EOF); got != firstChunk || err != nil || w.out.Failure != "" {
		t.Errorf("got %q, %v, failure %q", got, err, w.out.Failure)
	}
	got, err := pass(watching("/v1/embeddings"), firstChunk+"data: ", io.EOF)
	if err != nil {
		t.Fatal(err)
	}
	mustBreakOff(t, firstChunk+"data: ", got)
}

func TestACancelledStreamPassesTheCancellationOn(t *testing.T) {
	for _, cause := range []error{context.Canceled, fmt.Errorf("reading: %w", context.Canceled)} {
		for _, text := range []string{"", firstChunk, firstChunk + "data: {", whole} {
			w := watchingChat()
			got, err := pass(w, text, cause)
			if got != sound(text) || !errors.Is(err, context.Canceled) {
				t.Errorf("%q: got %q, %v", text, got, err)
			}
			if whole := text == whole; w.out.Complete != whole || (w.out.Failure == clientLeft) == whole { // who has [DONE] may leave
				t.Errorf("%q: noted failure: %q", text, w.out.Failure)
			}
		}
	}
}

func TestUsageIsReadAsItPasses(t *testing.T) {
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

func TestALongLineUpToTheLimitPasses(t *testing.T) {
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
		if rest != doneEvent && rest != string(errorEvent("chatComplete", "The stream of provider file broke off before its end", 0)) {
			t.Fatalf("%q: after its lines came %q", text, rest)
		}
	})
}

func endpointOf(path string) *exchange.Endpoint {
	e, _ := exchange.EndpointOf("POST", path)
	return e
}

// A provider that falls silent must not hold a client for ever.
func TestASilentStreamIsEndedWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, provider := io.Pipe()
		w := watchingChat()
		s := newStream(src, w, time.Minute)
		defer s.Close()
		go func() {
			_, _ = io.WriteString(provider, firstChunk)
			time.Sleep(59 * time.Second) // of the test's own time
			_, _ = io.WriteString(provider, firstChunk)
		}()
		began := time.Now()
		got, err := io.ReadAll(s)
		if err != nil || !strings.HasPrefix(string(got), firstChunk+firstChunk) || !strings.Contains(string(got), `"error":{`) || strings.Contains(string(got), "[DONE]") {
			t.Errorf("got %q, %v", got, err)
		}
		if took := time.Since(began); took != 119*time.Second || !strings.Contains(w.out.Failure, "silent for 1m0s") {
			t.Errorf("after %v, failure %q", took, w.out.Failure)
		}
	})
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

// ended reports whether [DONE] is among a stream's whole lines.
func ended(text string) bool {
	for line := range strings.Lines(wholeLines(text)) {
		if data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data:"); ok && isDone([]byte(data)) {
			return true
		}
	}
	return false
}

func TestAMalformedEventIsTakenOutAndCounted(t *testing.T) {
	for _, malformed := range []string{"event: m\nid: 7\ndata: {half\n\n", "data: {half\n\n", "data: {\"a\":1}}\n\n", "data: nonsense\r\n\r\n", "data: {\"choices\":[{\"delta\":\n\n"} {
		for portion := 1; portion <= 40; portion++ {
			w := watchingChat()
			u := &provider{err: io.EOF}
			text := firstChunk + malformed + lastChunk + doneEvent
			for i := 0; i < len(text); i += portion {
				u.portions = append(u.portions, []byte(text[i:min(i+portion, len(text))]))
			}
			got, err := io.ReadAll(newStream(u, w, 0))
			if want := firstChunk + lastChunk + doneEvent; err != nil || string(got) != want || w.out.Malformed != 1 || w.out.Failure != "" {
				t.Fatalf("%q by %d: got %q, %v, %d malformed, failure %q", malformed, portion, got, err, w.out.Malformed, w.out.Failure)
			}
		}
	}
}

// A response that failed is passed on, and is no success in the call's record.
func TestAStreamThatEndsWithAFailedResponseHasFailed(t *testing.T) {
	const text = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"error\":{\"message\":\"no\"}}}\n\n"
	w := watching("/v1/responses")
	if got, err := pass(w, text, io.EOF); got != text || err != nil || w.out.Failure == "" {
		t.Errorf("got %q, %v, failure %q", got, err, w.out.Failure)
	}
}

// Every spelling of the standard is read, and what is left out leaves no line behind.
func TestEverySpellingOfAnEventIsRead(t *testing.T) {
	cr := func(s string) string { return strings.ReplaceAll(s, "\n", "\r") }
	bare := func(s string) string { return strings.TrimSuffix(s, "\n\n") }
	named := "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\"}\n\n"
	completed := "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n"
	for name, c := range map[string]struct{ path, text, want string }{
		"CR":                                 {"/v1/chat/completions", cr(whole), whole},
		"CR, with names":                     {"/v1/responses", cr(named + completed), named + completed},
		"LF, CRLF and CR":                    {"/v1/chat/completions", firstChunk + crlf(textChunk) + cr(lastChunk) + doneEvent, firstChunk + crlf(textChunk) + lastChunk + doneEvent},
		"a byte order mark":                  {"/v1/chat/completions", "\ufeff" + whole, "\ufeff" + whole},
		"[DONE] without its end":             {"/v1/chat/completions", bare(whole), whole},
		"[DONE] with half of it":             {"/v1/chat/completions", strings.TrimSuffix(whole, "\n"), whole},
		"a finish without its end":           {"/v1/chat/completions", firstChunk + bare(lastChunk), firstChunk + lastChunk + doneEvent},
		"a finish without its end, CR":       {"/v1/chat/completions", cr(firstChunk + bare(lastChunk) + "\n"), firstChunk + lastChunk + doneEvent},
		"a last event without its end":       {"/v1/responses", named + bare(completed), named + completed},
		"a last event with half of it":       {"/v1/responses", named + strings.TrimSuffix(completed, "\n"), named + completed},
		"any event without its end":          {"/v1/embeddings", bare(firstChunk), firstChunk},
		"data after [DONE]":                  {"/v1/chat/completions", whole + "event: x\n" + firstChunk, whole},
		"a malformed event with a name":      {"/v1/responses", "event: x\ndata: {\n\n" + named + completed, named + completed},
		"a malformed event between two":      {"/v1/chat/completions", firstChunk + "data: {\n\n" + lastChunk + doneEvent, firstChunk + lastChunk + doneEvent},
		"a malformed event in CR":            {"/v1/chat/completions", cr(firstChunk + "id: 1\ndata: {\n\n" + lastChunk + doneEvent), firstChunk + lastChunk + doneEvent},
		"a malformed event and a comment":    {"/v1/chat/completions", ": hi\n\ndata: {\n\n" + whole, ": hi\n\n" + whole},
		"an end of another case":             {"/v1/chat/completions", firstChunk + lastChunk + "\n\n", firstChunk + lastChunk + "\n\n" + doneEvent},
		"an event that says its name behind": {"/v1/responses", "data: {\"type\":\"x\"}\nevent: x\n\n" + completed, "data: {\"type\":\"x\"}\nevent: x\n\n" + completed},
	} {
		for portion := 1; portion <= len(c.text); portion += 1 + portion/8 {
			w := watching(c.path)
			u := &provider{err: io.EOF}
			for i := 0; i < len(c.text); i += portion {
				u.portions = append(u.portions, []byte(c.text[i:min(i+portion, len(c.text))]))
			}
			if got, err := io.ReadAll(newStream(u, w, 0)); string(got) != c.want || err != nil || w.out.Failure != "" {
				t.Fatalf("%s by %d:\ngot  %q, %v, failure %q\nwant %q", name, portion, got, err, w.out.Failure, c.want)
			}
		}
	}
}

// Events of Responses are numbered from 0 on, and so is the gateway's own.
func TestAnErrorAmongNumberedEventsHasTheNextNumber(t *testing.T) {
	events := ""
	for n := range 3 {
		got, err := pass(watching("/v1/responses"), events, io.ErrUnexpectedEOF)
		if last, ok := strings.CutPrefix(got, events+"event: error\ndata: "); err != nil || !ok || !strings.Contains(last, fmt.Sprintf(`"sequence_number":%d`, n)) {
			t.Errorf("after %d events: %q, %v", n, got, err)
		}
		events += fmt.Sprintf("event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"sequence_number\":%d}\n\n", n)
	}
}
