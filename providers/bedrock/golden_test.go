package bedrock

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
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

var dialect = dialecttest.Dialect{Provider: "bedrock", Settings: keys, Header: answerHeader, Frames: frames}

func TestGolden(t *testing.T) { dialect.Run(t) }

func TestAStreamIsTheSameWhereverItIsCut(t *testing.T) {
	for _, a := range dialecttest.Archives(t) {
		lines := a.Read("answer.jsonl")
		if lines == nil {
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			dialecttest.CheckCuts(t, func() providers.Stream { return dialect.Begin(t, a.Case(t)).Stream }, frames(t, lines))
		})
	}
}
