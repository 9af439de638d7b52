package inference

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// repeated is a stream of the Responses API: each of the texts comes in portions, then whole, with its part, with its
// item, and with the response, as far as there are copies.
func repeated(texts []string, copies int) (stream string) {
	event := func(of int, kind, members string) {
		if of < copies {
			stream += fmt.Sprintf("event: response.%[1]s\ndata: {\"type\":\"response.%[1]s\",%s}\n\n", kind, members)
		}
	}
	var items []string
	for _, text := range texts {
		for portion := range strings.SplitSeq(text, "-") {
			event(0, "output_text.delta", `"delta":"`+portion+`"`)
		}
		text = strings.ReplaceAll(text, "-", "")
		item := `{"type":"message","content":[{"type":"output_text","text":"` + text + `"}]}`
		event(1, "output_text.done", `"text":"`+text+`"`)
		event(2, "content_part.done", `"part":{"type":"output_text","text":"`+text+`"}`)
		event(3, "output_item.done", `"item":`+item)
		items = append(items, item)
	}
	event(4, "completed", `"response":{"id":"r","output":[`+strings.Join(items, ",")+`]}`)
	return stream
}

// However often a stream repeats its texts, and wherever it is cut, they count once.
func TestTextsThatAStreamRepeatsCountOnce(t *testing.T) {
	t.Parallel()
	texts := []string{"Hel-lo", "wor-l-d!"}
	const want = len("Hello" + "world!")
	for copies := 1; copies <= 5; copies++ {
		w := watching("/v1/responses")
		if _, err := io.Copy(io.Discard, newStream(&provider{portions: [][]byte{[]byte(repeated(texts, copies))}, err: io.EOF}, w, 0)); err != nil && copies == 5 {
			t.Fatal(err)
		}
		if got := w.attempt.TextBytes; got != int64(want) {
			t.Errorf("%d copies: %d bytes were seen, want %d", copies, got, want)
		}
		if got := textOf([]byte(repeated(texts, copies))); got != want {
			t.Errorf("%d copies: textOf is %d, want %d", copies, got, want)
		}
	}
	for _, from := range []string{"event: response.output_text.done", "event: response.completed"} {
		_, rest, found := strings.Cut(repeated(texts, 5), from)
		if got := textOf([]byte(from + rest)); got != want || !found {
			t.Errorf("from the first %q on: %d bytes, want %d", from, got, want)
		}
	}
}
