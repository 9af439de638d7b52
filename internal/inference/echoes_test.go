package inference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/stored"
	_ "github.com/caddy-gw/gateway/providers/anthropic"
	_ "github.com/caddy-gw/gateway/providers/bedrock"
	_ "github.com/caddy-gw/gateway/providers/cohere"
	_ "github.com/caddy-gw/gateway/providers/gemini"
	"github.com/caddy-gw/gateway/storage"
)

// echoing are providers of every kind: what they answer, with %s where they repeat something.
var echoing = map[string]struct{ whole, stream string }{
	"openai": {
		`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"say %s!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7},"x":"%s"}`,
		`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"say %s!"},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x":"%s"}

data: [DONE]

`,
	},
	"anthropic": {
		`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"say %s!"},{"type":"tool_use","id":"t","name":"f","input":{"a":"%s"}}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`,
		`event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"say %s!"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`,
	},
	"google": {
		`{"candidates":[{"content":{"role":"model","parts":[{"text":"say %s!"},{"functionCall":{"name":"f","args":{"a":"%s"}}}]},"index":0,"finishReason":"STOP"}],"modelVersion":"m","responseId":"r1","usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":5,"totalTokenCount":6}}`,
		`data: {"candidates":[{"content":{"role":"model","parts":[{"text":"say %s!"}]},"index":0}],"modelVersion":"m","responseId":"r1"}

data: {"candidates":[{"content":{"role":"model","parts":[]},"index":0,"finishReason":"STOP"}],"modelVersion":"m","responseId":"r1","usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":5,"totalTokenCount":6}}

`,
	},
	"cohere": {
		`{"id":"m1","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"say %s!"}]},"usage":{"tokens":{"input_tokens":3,"output_tokens":2}}}`,
		`data: {"type":"message-start","id":"m1","delta":{"message":{"role":"assistant","content":[],"tool_calls":[]}}}

data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}

data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"say %s!"}}}}

data: {"type":"content-end","index":0}

data: {"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":3,"output_tokens":2}}}}

`,
	},
	"bedrock": {
		`{"output":{"message":{"role":"assistant","content":[{"text":"say %s!"}]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3},"metrics":{"latencyMs":1}}`,
		`messageStart {"role":"assistant"}
contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"say %s!"}}
contentBlockStop {"contentBlockIndex":0}
messageStop {"stopReason":"end_turn"}
metadata {"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3},"metrics":{"latencyMs":1}}
`,
	},
}

// spellings are how a text may be in a JSON string.
var spellings = map[string]func(string) string{
	"as it is":    func(s string) string { return s },
	"of PHP":      func(s string) string { return strings.ReplaceAll(s, "/", `\/`) },
	"in hex":      strings.NewReplacer("/", `\u002f`, "+", `\u002B`, "=", `\u003d`).Replace,
	"in JSON too": func(s string) string { return strings.ReplaceAll(s, "/", `\\/`) },
}

// shows reports whether a text has a credential in it, in whatever spelling.
func shows(text, secret string) bool {
	text = strings.NewReplacer(`\u002f`, "/", `\u002F`, "/", `\u002b`, "+", `\u002B`, "+", `\u003d`, "=", `\u003D`, "=").Replace(text)
	return strings.Contains(strings.ReplaceAll(text, `\`, ""), secret)
}

// binary are the messages of a stream of Bedrock, which are written as lines above.
func binary(lines string) string {
	var out bytes.Buffer
	for line := range strings.Lines(lines) {
		name, payload, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		var m eventstream.Message
		m.Headers.Set(":event-type", eventstream.StringValue(name))
		m.Headers.Set(":message-type", eventstream.StringValue("event"))
		m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
		m.Payload = []byte(payload)
		if err := eventstream.NewEncoder().Encode(&out, m); err != nil {
			panic(err)
		}
	}
	return out.String()
}

// inPieces cuts a text at random places.
func inPieces(t *rapid.T, text string) (out []string) {
	for text != "" {
		n := min(rapid.IntRange(1, 200).Draw(t, "piece"), len(text))
		out, text = append(out, text[:n]), text[n:]
	}
	return out
}

// Whatever a provider repeats of what it got, and wherever: neither the client, nor the cache, nor
// a stored response, nor the record of the call has a credential.
func TestNoAnswerHasACredential(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.kept = 64 << 10
	owners, err := stored.OpenOwners(t.Context(), b.db)
	if err != nil {
		t.Fatal(err)
	}
	b.gateway.Owners, b.gateway.Responses = owners, stored.NewResponses(b.db, time.Now)
	provider := b.gateway.Router.Providers["one"]
	kept := 0
	rapid.Check(t, func(rt *rapid.T) {
		dialect := rapid.SampledFrom([]string{"openai", "anthropic", "google", "cohere", "bedrock"}).Draw(rt, "dialect")
		secret := rapid.StringMatching(`[a-zA-Z0-9]{3}[a-zA-Z0-9/+]{5,40}=?`)
		key, other := secret.Draw(rt, "key"), secret.Draw(rt, "another credential")
		*provider = credentials.Provider{Slug: "one", Dialect: dialect, BaseURL: &url.URL{Scheme: "fake", Host: "one", Path: "/v1"}, Key: credentials.NewSecret(key)}
		if dialect == "bedrock" {
			provider.Settings = map[string]credentials.Secret{
				"aws_access_key_id": credentials.NewSecret("AKIDEXAMPLE"), "aws_region": credentials.NewSecret("us-east-1"), "aws_session_token": credentials.NewSecret(other),
			}
		} else {
			provider.Header = http.Header{"X-Token": {"Bearer " + other}}
		}
		status := rapid.SampledFrom([]int{200, 200, 200, 401, 500}).Draw(rt, "status")
		spelling := spellings[rapid.SampledFrom([]string{"as it is", "of PHP", "in hex", "in JSON too"}).Draw(rt, "spelling")]
		echo := rapid.SampledFrom([]string{key, other, key + " " + other}).Draw(rt, "echo")
		joined := dialect == "openai" && rapid.IntRange(0, 3).Draw(rt, "in two events") == 0
		fill := func(text string) string { return strings.ReplaceAll(text, "%s", spelling(echo)) }
		b.answers["one"] = func() *http.Response {
			media, body := "application/json", fill(echoing[dialect].whole)
			asked := b.bodies[len(b.bodies)-1]
			path := b.events[len(b.events)-1]
			switch {
			case status != 200:
				body = fill(`{"error":{"message":"bad key %s","type":"t","code":"%s"}}`)
			case !gjson.Get(asked, "stream").Bool() && !strings.Contains(path, "tream"):
			case dialect == "bedrock":
				media, body = "application/vnd.amazon.eventstream", binary(fill(echoing[dialect].stream))
			case joined: // of which the client gets the halves
				media = "text/event-stream"
				body = strings.Replace(echoing[dialect].stream, "%s", key[:4], 1)
				body = strings.Replace(body, "data: {", "data: {\"n\":1,", 1)
				second := strings.ReplaceAll(hello2, "%s", key[4:])
				at := strings.Index(body, "\n\n") + 2
				body = fill(strings.ReplaceAll(body[:at], "!", "") + second + body[at:])
			default:
				media, body = "text/event-stream", fill(echoing[dialect].stream)
			}
			res := answering(status, media, "")
			res.Body, res.ContentLength = &source{pieces: pieces{inPieces(rt, body)}}, -1
			res.Header.Set("X-Echo", "you sent Bearer "+echo)
			res.Status = "200 " + echo
			return res
		}
		// Bedrock and Gemini say in the path that an answer streams.
		b.noteURL = true
		defer func() { b.noteURL = false }()

		endpoint := rapid.SampledFrom([]string{"/chat/completions", "/messages", "/responses"}).Draw(rt, "endpoint")
		prompt := rapid.StringMatching(`[a-z]{12}`).Draw(rt, "prompt")
		streams := rapid.Bool().Draw(rt, "streams")
		caches := rapid.Bool().Draw(rt, "caches")
		for n := range 2 {
			if n == 1 && !caches {
				break
			}
			body := map[string]any{"model": "@one/m", "stream": streams != (n == 1 && rapid.Bool().Draw(rt, "streams differently"))}
			if endpoint == "/responses" {
				body["input"] = prompt
			} else {
				body["max_tokens"], body["messages"] = 9, []any{map[string]any{"role": "user", "content": prompt}}
			}
			text, _ := json.Marshal(body)
			var header []string
			if caches {
				header = []string{"X-Gw-Cache", "simple"}
			}
			w, x := b.request(t, "POST", endpoint, string(text), nil, header...)
			answer := w.Body.String()
			record, _ := json.Marshal(Record(x))
			if x.Hit() {
				kept++
			}
			for _, secret := range []string{key, other} {
				switch {
				case shows(answer, secret):
					rt.Fatalf("%d: the client gets %s", w.Code, answer)
				case shows(fmt.Sprint(w.Header()), secret):
					rt.Fatalf("the client gets %v", w.Header())
				case shows(string(Record(x).Response.Bytes), secret), shows(string(record), secret):
					rt.Fatalf("the record is %s", record)
				}
			}
			if status == 200 && w.Code == 200 && !joined && !strings.Contains(answer, "say ") {
				rt.Fatalf("the answer is %s", answer)
			}
			if err := b.db.View(t.Context(), func(tx storage.Tx) error {
				for item, err := range tx.Scan(nil, nil, false) {
					if err != nil {
						return err
					}
					for _, secret := range []string{key, other} {
						if shows(string(item.Value), secret) {
							rt.Fatalf("the store has %s: %s", item.Key, item.Value)
						}
					}
				}
				return nil
			}); err != nil {
				rt.Fatal(err)
			}
		}
	})
	if kept == 0 {
		t.Error("no answer came from the cache")
	}
}

// hello2 is an event that only has text.
const hello2 = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}

`

// A source is a body that comes in pieces.
type source struct{ pieces }

func (*source) Close() error { return nil }
