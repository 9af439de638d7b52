package inference

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/prices"
)

// cutReader reads in pieces of such lengths.
type cutReader struct {
	src     io.Reader
	lengths []int
}

func (p *cutReader) Read(b []byte) (int, error) {
	if len(p.lengths) == 0 {
		return p.src.Read(b)
	}
	n := p.lengths[0]
	p.lengths = p.lengths[1:]
	return p.src.Read(b[:min(n, len(b))])
}

// However a file comes, its lines are those of a split, and it is done once, at its end.
func TestLinesOfAnOutputAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		file := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"", "a", "{}", "long line ", "\r", "\n"})).Draw(t, "file"), rapid.SampledFrom([]string{"\n", "\r\n", ""}).Draw(t, "end"))
		var want, got []string
		for line := range strings.SplitSeq(file, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				want = append(want, line)
			}
		}
		done := 0
		lines := &outputLines{
			src:  io.NopCloser(&cutReader{strings.NewReader(file), rapid.SliceOf(rapid.IntRange(0, 5)).Draw(t, "pieces")}),
			call: new(exchange.Call), each: func(line []byte) { got = append(got, string(line)) }, done: func(bool) { done++ },
		}
		passed, err := io.ReadAll(lines)
		_, again := lines.Read(make([]byte, 1))
		if err != nil || string(passed) != file || again != io.EOF || done != 1 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q of %q passed, with the lines %q, want %q, done %d times, %v", passed, file, got, want, done, err)
		}
	})
}

// What broke off is not done, and a line that is too long is not read.
func TestAnOutputThatBreaksOffIsNotDone(t *testing.T) {
	t.Parallel()
	done := false
	lines := &outputLines{
		src:  io.NopCloser(io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(io.ErrUnexpectedEOF))),
		call: new(exchange.Call), each: func([]byte) {}, done: func(bool) { done = true },
	}
	if _, err := io.ReadAll(lines); err == nil || done {
		t.Errorf("%v, done: %v", err, done)
	}
	read, unread := 0, false
	lines = &outputLines{
		src:  io.NopCloser(io.MultiReader(strings.NewReader("a\n"), bytes.NewReader(make([]byte, maxFileLine+1)), strings.NewReader("\nb\n"))),
		call: new(exchange.Call), each: func([]byte) { read++ }, done: func(not bool) { unread = not },
	}
	if _, err := io.Copy(io.Discard, lines); err != nil || read != 2 || !unread {
		t.Errorf("%v: %d lines were read, some not: %v", err, read, unread)
	}
}

func TestWhatProvidersSayOfTheEndOfABatch(t *testing.T) {
	t.Parallel()
	for batch, want := range map[string]struct {
		output  string
		nothing bool
	}{
		`{"status":"in_progress"}`:                                                       {},
		`{"status":"in_progress","request_counts":{"completed":0}}`:                      {},
		`{"status":"in_progress","output_file_id":"f","request_counts":{"completed":1}}`: {},
		`{"output_file_id":"f"}`:                                                         {},
		`{"status":"SUCCESS","output_file_id":"f"}`:                                      {"f", false},
		`{"status":"completed","output_file_id":"f","request_counts":{"completed":1}}`:   {"f", false},
		`{"status":"completed","output_file_id":"f","request_counts":{"completed":0}}`:   {"f", false},
		`{"status":"completed","error_file_id":"e","request_counts":{"completed":0}}`:    {"", true},
		`{"status":"completed","error_file_id":"e","request_counts":{"completed":1}}`:    {},
		`{"status":"cancelled"}`:                                                         {}, // of a list, perhaps, which does not say it
		`{"status":"cancelled","output_file_id":null,"request_counts":{"completed":0}}`:  {"", true},
		`{"status":"cancelling","request_counts":{"completed":0}}`:                       {},
		`{"status":"expired","request_counts":{"completed":0}}`:                          {"", true},
		`{"status":"failed"}`: {"", true},
		`{"status":"failed","request_counts":{"completed":2}}`: {},
		`{"status":"failed","output_file_id":"f"}`:             {"f", false},
		`{}`: {},
	} {
		if output, nothing := outcomeOf(gjson.Parse(batch)); output != want.output || nothing != want.nothing {
			t.Errorf("%s: %q, %v", batch, output, nothing)
		}
	}
}

func unpriced(*prices.Usage, ...string) (prices.Amount, bool) { return 0, false }

// A line of an output, whatever it is, adds no usage that is negative, and what is unknown is said.
func FuzzOutputLine(f *testing.F) {
	f.Add([]byte(`{"response":{"status_code":200,"body":{"model":"m","usage":{"prompt_tokens":1,"completion_tokens":2}}}}`))
	f.Add([]byte(`{"response":{"status_code":200,"body":{"object":"response","usage":{"input_tokens":1,"output_tokens":2},"output":[{"type":"web_search_call"}]}}}`))
	f.Add([]byte(`{"response":{"status_code":500,"body":{}}}`))
	f.Add([]byte(`{"response":{"status_code":200,"body":[]}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		s := &batchSum{costOf: unpriced}
		s.add(line)
		if s.usage.Prompt < 0 || s.usage.Completion < 0 || s.cost < 0 {
			t.Fatalf("%q used %+v", line, s.usage)
		}
		if gjson.GetBytes(line, "response.status_code").Int() == 200 && !s.unknown && !s.unpriced {
			t.Fatalf("%q: %+v", line, s)
		}
	})
}
