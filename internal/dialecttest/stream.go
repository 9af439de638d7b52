package dialecttest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
)

// Stream translates a stream that arrives in pieces of the given size.
func Stream(s providers.Stream, in []byte, size int) (out []byte, err error) {
	for piece := range slices.Chunk(in, max(size, 1)) {
		if out, err = s.Translate(out, piece); err != nil {
			return out, err
		}
	}
	return s.End(out)
}

// Streams returns the streams of the cases in testdata, with each of the line endings.
func Streams(t testing.TB) [][]byte {
	t.Helper()
	var all [][]byte
	for _, a := range Archives(t) {
		b := a.Read("answer.sse")
		if b == nil {
			continue
		}
		b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
		all = append(all, b, bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")), bytes.ReplaceAll(b, []byte("\n"), []byte("\r")))
	}
	if len(all) == 0 {
		t.Fatal("no streams in testdata")
	}
	return all
}

// CheckCuts checks that a stream is translated the same, wherever and however often it is
// cut. begin starts a new translation.
func CheckCuts(t *testing.T, begin func() providers.Stream, in []byte) {
	t.Helper()
	want, wrong := Stream(begin(), in, len(in))
	same := func(got []byte, err error) bool { return bytes.Equal(got, want) && (err == nil) == (wrong == nil) }
	for cut := 1; cut < len(in); cut++ {
		s := begin()
		got, err := s.Translate(nil, in[:cut])
		if err == nil {
			got, err = s.Translate(got, in[cut:])
		}
		if err == nil {
			got, err = s.End(got)
		}
		if !same(got, err) {
			t.Fatalf("cut at %d: got %s, %v; want %s, %v", cut, got, err, want, wrong)
		}
	}
	for _, size := range []int{1, 2, 3, 5, 7, 11, 13, 64, 127, 1000} {
		if got, err := Stream(begin(), in, size); !same(got, err) {
			t.Fatalf("in pieces of %d: got %s, %v; want %s, %v", size, got, err, want, wrong)
		}
	}
}

// StreamResult is what a client has received after a stream.
type StreamResult struct {
	Text string
	Done bool // the stream was complete
}

// ReadStream reads a stream like a client. An invalid line fails the test.
func ReadStream(t testing.TB, out []byte) (h StreamResult) {
	t.Helper()
	for line := range strings.SplitSeq(string(out), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case line == "" || strings.HasPrefix(line, "event: "):
		case data == "[DONE]":
			h.Done = true
		case !ok || !json.Valid([]byte(data)):
			t.Fatalf("no line of a stream: %q", line)
		default:
			h.Text += gjson.Get(data, "choices.0.delta.content").String() + gjson.Get(data, "delta.text").String()
			switch gjson.Get(data, "type").Str {
			case "response.output_text.delta":
				h.Text += gjson.Get(data, "delta").Str
			case "message_stop", "response.completed", "response.incomplete":
				h.Done = true
			}
		}
	}
	return h
}
