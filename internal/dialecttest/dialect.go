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

// A Dialect is a provider whose dialect is held to what holds for all of them.
type Dialect struct {
	Provider, Model string
	Settings        map[string]string
	// Says is a stream in which the model says a text, given as a JSON string, and ends.
	TextStream func(text []byte) string
	// Header is that of each answer of the cases.
	Header http.Header
	// Frames are the binary messages of a stream that a case has as lines of JSON. Default:
	// cases have streams as they are.
	Frames func(t testing.TB, lines []byte) []byte
}

// callers are the dialects in which callers hold conversations.
var callers = []string{providers.ChatComplete, providers.Messages, providers.CreateResponse}

// Answer translates the answer to a call of a caller's dialect, or is nil where it is the
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

// speaks are the callers' dialects that are not the provider's own.
func (d Dialect) speaks(t testing.TB) []string {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(callers), func(e string) bool { return d.Answer(t, e) == nil })
}

// CheckCuts holds the streams of testdata to being the same wherever they are cut. Each
// has one of the ends of lines, in turn: with all three it takes long.
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

// noAnswers are bodies that some send with status 200, and that are no answer: errors, and
// the shape of an answer with nothing in it.
var noAnswers = []string{
	`{}`, `[]`, `{"message":"hidden"}`, `{"Message":"hidden"}`, `{"object":"error","message":"hidden","type":"invalid_request_error","code":1}`,
	`{"error":{"message":"hidden"}}`, `{"error":"hidden"}`, `{"type":"error","error":{"type":"api_error","message":"hidden"}}`, `{"detail":"hidden"}`,
	`{"id":"1","model":"m","usage":{"input_tokens":1,"prompt_tokens":1}}`, `{"choices":[]}`, `{"choices":[{}]}`, `{"choices":[{"index":0,"finish_reason":null}]}`,
	`{"candidates":[]}`, `{"candidates":[{"index":0}],"usageMetadata":{"promptTokenCount":1}}`, `{"type":"message","role":"assistant","content":[]}`,
	`{"type":"message","content":"hidden"}`, `{"output":{}}`, `{"output":{"message":null}}`, `{"message":{}}`, `{"message":{"role":"assistant","content":[]}}`,
}

// CheckNoAnswers holds what is no answer to being an error, in one piece and as a stream,
// and never an empty answer: the call goes to the next provider, and nothing is cached.
func (d Dialect) CheckNoAnswers(t *testing.T) {
	t.Helper()
	for _, endpoint := range d.speaks(t) {
		for _, body := range noAnswers {
			if out, err := d.Answer(t, endpoint).Body(nil, []byte(body), http.Header{}); err == nil {
				t.Errorf("%s: %s became %s", endpoint, body, out)
			}
			for _, stream := range []string{body, "data: " + body + "\n\n", "data: " + body + "\n\ndata: [DONE]\n\n"} {
				out, err := Stream(d.Answer(t, endpoint).Stream, []byte(stream), len(stream))
				if said := string(out); err == nil && !strings.Contains(said, `"error":{`) && !strings.Contains(said, "response.failed") {
					t.Errorf("%s: the stream %q became %s", endpoint, stream, out)
				}
			}
		}
	}
}

// FuzzStream holds streams of whatever bytes, cut anywhere, to this: nothing panics or
// hangs, every line is JSON, no text is lost, and where they are cut makes no difference;
// and answers in one piece to becoming JSON, or an error.
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
		var said string
		if err := json.Unmarshal(text, &said); err != nil {
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
			if h := ReadStream(t, got); err != nil || h.Text != said || !h.Done {
				t.Fatalf("%s: got %+v, %v; want %q", endpoint, h, err, said)
			}
		}
	})
}

// FuzzRequest holds bodies of whatever bytes to becoming JSON, or being refused.
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
