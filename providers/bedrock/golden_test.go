package bedrock

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

// Settings and headers of the calls in tests.
type words map[string]string

func (w words) get(name string) string { return w[name] }

var keys = words{"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "secret", "aws_region": "us-east-1"}

// newCall is a call of an endpoint with a body.
func newCall(t testing.TB, endpoint, body string) *providers.Call {
	t.Helper()
	base, err := url.Parse("https://bedrock-runtime.us-east-1.amazonaws.com")
	if err != nil {
		t.Fatal(err)
	}
	var asked struct {
		Model  string
		Stream bool
	}
	if body != "" {
		if err := json.Unmarshal([]byte(body), &asked); err != nil {
			t.Fatal(err)
		}
	}
	return &providers.Call{
		Endpoint: endpoint, Method: http.MethodPost, Path: "/x", Base: base, Body: []byte(body), Model: asked.Model, Stream: asked.Stream,
		Key: credentials.NewSecret("key"), Setting: keys.get, Header: words{}.get,
		Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), NewID: func() string { return "made-up" },
	}
}

func prepare(t testing.TB, c *providers.Call) *providers.Request {
	t.Helper()
	p := provider()
	r, err := p.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// frame is a message of a stream. An exception is marked by [failed].
func frame(t testing.TB, name string, payload []byte) []byte {
	t.Helper()
	var m eventstream.Message
	if exception, ok := strings.CutPrefix(name, failed); ok {
		m.Headers.Set(":exception-type", eventstream.StringValue(exception))
		m.Headers.Set(":message-type", eventstream.StringValue("exception"))
	} else {
		m.Headers.Set(":event-type", eventstream.StringValue(name))
		m.Headers.Set(":message-type", eventstream.StringValue("event"))
	}
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	m.Payload = payload
	var out bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// frames are the messages of a file with one a line, {"name": payload}. Of a chunk the
// payload is what it holds.
func frames(t testing.TB, lines []byte) (out []byte) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var message map[string]json.RawMessage
		if err := json.Unmarshal(line, &message); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for name, payload := range message {
			if name == "chunk" {
				var err error
				if payload, err = json.Marshal(map[string][]byte{"bytes": payload}); err != nil {
					t.Fatal(err)
				}
			}
			out = append(out, frame(t, name, payload)...)
		}
	}
	return out
}

// translate is what a client gets of a stream that comes in pieces of a size, an error
// that ends it included.
func translate(s providers.Stream, stream []byte, size int) string {
	out, err := dialecttest.Stream(s, stream, size)
	if err != nil {
		out = append(out, "error: "+err.Error()+"\n"...)
	}
	return string(out)
}

// answerHeader is that of every answer in tests.
var answerHeader = http.Header{"X-Amzn-Requestid": {"req-1"}, "X-Amzn-Bedrock-Input-Token-Count": {"7"}}

func begin(a *providers.Answer) {
	if a.Begin != nil {
		a.Begin(answerHeader)
	}
}

// A case is a folder: the caller's request.json; what goes up, upstream.json, or why not,
// refusal.txt; the provider's answer.json or events.jsonl; and what comes back of it,
// whole.json or stream.sse.
type golden struct {
	t   *testing.T
	dir string
}

func (g golden) read(name string) (content []byte, ok bool) {
	content, err := os.ReadFile(filepath.Join(g.dir, name))
	return content, err == nil
}

func (g golden) compare(name string, got []byte) {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	if dialecttest.Updating() {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			g.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		g.t.Errorf("%s:\ngot\n%s\nwant\n%s", name, got, want)
	}
}

func indented(t *testing.T, v []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, v, "", "\t"); err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	return append(out.Bytes(), '\n')
}

// call is the call of the case. The endpoint is the first word of its name.
func (g golden) call() *providers.Call {
	g.t.Helper()
	body, ok := g.read("request.json")
	if !ok {
		g.t.Fatal("no request.json")
	}
	first, _, _ := strings.Cut(filepath.Base(g.dir), "-")
	endpoint := map[string]string{"messages": providers.Messages, "count": providers.CountTokens, "embed": providers.Embed}[first]
	if endpoint == "" {
		endpoint = providers.ChatComplete
	}
	c := newCall(g.t, endpoint, string(body))
	c.Strict = first == "strict"
	return c
}

func cases(t *testing.T, do func(g golden)) {
	t.Helper()
	dirs, err := filepath.Glob("testdata/*/request.json")
	if err != nil || len(dirs) == 0 {
		t.Fatal("no cases", err)
	}
	for _, path := range dirs {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) { do(golden{t, dir}) })
	}
}

func TestCases(t *testing.T) {
	cases(t, func(g golden) {
		c := g.call()
		p := provider()
		r, err := p.Prepare(c)
		if err != nil {
			var refusal *providers.Refusal
			if !errors.As(err, &refusal) {
				g.t.Fatal(err)
			}
			g.compare("refusal.txt", []byte(refusal.Param+": "+refusal.Message+"\n"))
			return
		}
		up, err := json.Marshal(struct {
			Path string          `json:"path"`
			Body json.RawMessage `json:"body"`
		}{r.URL.EscapedPath(), r.Body})
		if err != nil {
			g.t.Fatalf("%s: %v", r.Body, err)
		}
		g.compare("upstream.json", indented(g.t, up))
		begin(r.Answer)
		if answer, ok := g.read("answer.json"); ok {
			out, err := r.Answer.Whole(nil, answer, answerHeader)
			if err != nil {
				g.t.Fatal(err)
			}
			g.compare("whole.json", indented(g.t, out))
		}
		if events, ok := g.read("events.jsonl"); ok {
			g.compare("stream.sse", []byte(translate(r.Answer.Stream, frames(g.t, events), 1<<20)))
		}
	})
}

func TestAStreamIsTheSameWhereverItIsCut(t *testing.T) {
	cases(t, func(g golden) {
		events, ok := g.read("events.jsonl")
		if !ok {
			g.t.Skip("no stream")
		}
		stream := frames(g.t, events)
		fresh := func() providers.Stream {
			a := prepare(g.t, g.call()).Answer
			begin(a)
			return a.Stream
		}
		dialecttest.CheckCuts(g.t, fresh, stream)
	})
}
