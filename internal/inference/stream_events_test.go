package inference

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestNoDoneFollowsAnErrorOfTheProvider(t *testing.T) {
	t.Parallel()
	failed := firstChunk + `data: {"error":{"message":"overloaded"}}` + "\n\n"
	for _, text := range []string{failed + doneEvent, crlf(failed + doneEvent), failed} {
		w := watchingChat()
		got, err := pass(w, text, io.EOF)
		if err != nil || strings.Contains(got, "[DONE]") || !strings.HasPrefix(got, strings.TrimSuffix(text, doneEvent)[:len(firstChunk)]) || w.out.Failure == "" || w.out.Malformed != 0 {
			t.Errorf("%q, %v, %q", got, err, w.out.Failure)
		}
	}
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
	t.Parallel()
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
	t.Parallel()
	const text = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"error\":{\"message\":\"no\"}}}\n\n"
	w := watching("/v1/responses")
	if got, err := pass(w, text, io.EOF); got != text || err != nil || w.out.Failure == "" {
		t.Errorf("got %q, %v, failure %q", got, err, w.out.Failure)
	}
}

// Every spelling of the standard is read, and what is left out leaves no line behind.
func TestEverySpellingOfAnEventIsRead(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	events := ""
	for n := range 3 {
		got, err := pass(watching("/v1/responses"), events, io.ErrUnexpectedEOF)
		if last, ok := strings.CutPrefix(got, events+"event: error\ndata: "); err != nil || !ok || !strings.Contains(last, fmt.Sprintf(`"sequence_number":%d`, n)) {
			t.Errorf("after %d events: %q, %v", n, got, err)
		}
		events += fmt.Sprintf("event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"sequence_number\":%d}\n\n", n)
	}
}
