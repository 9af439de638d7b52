package inference

import (
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
)

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

func TestABrokenStreamEndsWithOneErrorEventAfterTheLastWholeLine(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	for _, err := range []error{io.ErrUnexpectedEOF, errors.New("connection reset by peer")} {
		w := watchingChat()
		got, readErr := pass(w, whole, err)
		if got != whole || readErr != nil || w.out.Failure != "" {
			t.Errorf("%v: got %q more, %v, failure %q", err, strings.TrimPrefix(got, whole), readErr, w.out.Failure)
		}
	}
}

func TestAnEndpointWithoutDoneEndsWithItsBody(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
