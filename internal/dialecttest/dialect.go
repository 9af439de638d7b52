package dialecttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers"
)

// A Dialect is a provider whose dialect is tested.
type Dialect struct {
	Provider, Model string
	Settings        map[string]string
	// TextStream returns a complete stream with the given text, a JSON string.
	TextStream func(text []byte) string
	// Header has the headers of each answer in the cases.
	Header http.Header
	// Frames encodes the binary messages of a stream, which a case has as lines of JSON. If
	// it is nil, cases have streams unchanged.
	Frames func(t testing.TB, lines []byte) []byte
}

// callers are the dialects of clients for conversations.
var callers = []string{providers.ChatComplete, providers.Messages, providers.CreateResponse}

// Answer translates the answer to a call in a client's dialect. It is nil if that is the
// provider's own.
func (d Dialect) Answer(t testing.TB, endpoint string) *providers.Answer {
	t.Helper()
	c := &Case{Endpoint: endpoint, Body: fmt.Appendf(nil, `{"model":%q,"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hi"}],"input":"Hi"}`, d.Model), Settings: d.Settings}
	call := c.Call(d.Provider)
	r, err := call.Provider.Prepare(call)
	if err != nil {
		t.Fatal(err)
	}
	return r.Answer
}

// speaks returns the clients' dialects other than the provider's own.
func (d Dialect) speaks(t testing.TB) []string {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(callers), func(e string) bool { return d.Answer(t, e) == nil })
}

// CheckCuts checks that the streams in testdata are translated the same wherever they are
// cut. Each of them uses one of the line endings, in turn, because trying all three takes
// long.
func (d Dialect) CheckCuts(t *testing.T) {
	for _, endpoint := range d.speaks(t) {
		for i, in := range Streams(t) {
			if i/3%3 != i%3 {
				continue
			}
			CheckCuts(t, func() providers.Stream { return d.Answer(t, endpoint).Stream }, in)
		}
	}
}

// noAnswers are bodies that some providers send with status 200, and that are not answers:
// errors, and answers without content.
var noAnswers = []string{
	`{}`, `[]`, `{"message":"hidden"}`, `{"Message":"hidden"}`, `{"object":"error","message":"hidden","type":"invalid_request_error","code":1}`,
	`{"error":{"message":"hidden"}}`, `{"error":"hidden"}`, `{"type":"error","error":{"type":"api_error","message":"hidden"}}`, `{"detail":"hidden"}`,
	`{"id":"1","model":"m","usage":{"input_tokens":1,"prompt_tokens":1}}`, `{"choices":[]}`, `{"choices":[{}]}`, `{"choices":[{"index":0,"finish_reason":null}]}`,
	`{"candidates":[]}`, `{"candidates":[{"index":0}],"usageMetadata":{"promptTokenCount":1}}`, `{"type":"message","role":"assistant","content":[]}`,
	`{"type":"message","content":"hidden"}`, `{"output":{}}`, `{"output":{"message":null}}`, `{"message":{}}`, `{"message":{"role":"assistant","content":[]}}`,
}

// CheckNoAnswers checks that what is not an answer becomes an error, as a body and as a
// stream, and never an empty answer: the next target is tried then, and nothing is cached.
func (d Dialect) CheckNoAnswers(t *testing.T) {
	t.Helper()
	for _, endpoint := range d.speaks(t) {
		for _, body := range noAnswers {
			if out, err := d.Answer(t, endpoint).Body(nil, []byte(body), http.Header{}); err == nil {
				t.Errorf("%s: %s became %s", endpoint, body, out)
			}
			for _, stream := range []string{body, "data: " + body + "\n\n", "data: " + body + "\n\ndata: [DONE]\n\n"} {
				out, err := Stream(d.Answer(t, endpoint).Stream, []byte(stream), len(stream))
				if decoded := string(out); err == nil && !strings.Contains(decoded, `"error":{`) && !strings.Contains(decoded, "response.failed") {
					t.Errorf("%s: the stream %q became %s", endpoint, stream, out)
				}
			}
		}
	}
}

// FuzzStream checks translations of arbitrary streams, cut anywhere: nothing panics or
// hangs, every line is JSON, no text is lost, and the cuts make no difference; and that
// arbitrary complete answers become JSON, or an error.
func (d Dialect) FuzzStream(f *testing.F) {
	for _, s := range Streams(f) {
		f.Add(s, uint8(7))
	}
	endpoints := d.speaks(f)
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		text, err := json.Marshal(string(in))
		if err != nil {
			t.Fatal(err)
		}
		var decoded string
		if err := json.Unmarshal(text, &decoded); err != nil {
			t.Fatal(err)
		}
		for _, endpoint := range endpoints {
			begin := func() *providers.Answer { return d.Answer(t, endpoint) }
			want, wrong := Stream(begin().Stream, in, len(in))
			ReadStream(t, want)
			got, err := Stream(begin().Stream, in, 1+int(size))
			if !bytes.Equal(got, want) || (err == nil) != (wrong == nil) {
				t.Fatalf("%s, cut: got %q, %v; whole: %q, %v", endpoint, got, err, want, wrong)
			}
			if whole, err := begin().Body(nil, in, nil); err == nil && !json.Valid(whole) {
				t.Fatalf("%s: no JSON: %s", endpoint, whole)
			}
			got, err = Stream(begin().Stream, []byte(d.TextStream(text)), 1+int(size))
			if h := ReadStream(t, got); err != nil || h.Text != decoded || !h.Done {
				t.Fatalf("%s: got %+v, %v; want %q", endpoint, h, err, decoded)
			}
		}
	})
}

// FuzzRequest checks that arbitrary bodies become JSON, or are refused.
func (d Dialect) FuzzRequest(f *testing.F) {
	for _, a := range Archives(f) {
		f.Add([]byte(a.Case(f).Body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, endpoint := range []string{providers.ChatComplete, providers.Messages, providers.CountTokens, providers.Embed} {
			c := (&Case{Endpoint: endpoint, Body: fmt.Appendf(nil, `{"model":%q}`, d.Model)}).Call(d.Provider)
			c.Body = body
			if r, err := c.Provider.Prepare(c); err == nil && r.Body != nil && !json.Valid(r.Body) {
				t.Fatalf("%s: no JSON: %s", endpoint, r.Body)
			}
		}
	})
}
