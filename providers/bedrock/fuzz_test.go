package bedrock

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers"
)

// streams are those of a conversation and of Anthropic's own API, started over.
func streams(t testing.TB) map[string]providers.Stream {
	const ask = `{"model":"anthropic.claude-x-v1:0","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`
	return map[string]providers.Stream{
		"chat":     prepare(t, newCall(t, providers.ChatComplete, ask)).Answer.Stream,
		"messages": prepare(t, newCall(t, providers.Messages, ask)).Answer.Stream,
	}
}

// content is the text of a stream of chunks. Each of its lines must be one of an event
// with JSON.
func content(t *testing.T, stream string) string {
	t.Helper()
	stream, _, _ = strings.Cut(stream, "error: ")
	var text strings.Builder
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: ")
		switch {
		case line == "\n", data == "[DONE]", strings.HasPrefix(line, "event: "):
			continue
		case !ok || !json.Valid([]byte(data)):
			t.Fatalf("a line that is not JSON: %q", line)
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if json.Unmarshal([]byte(data), &chunk) == nil {
			for _, c := range chunk.Choices {
				text.WriteString(c.Delta.Content)
			}
		}
	}
	return text.String()
}

// FuzzStream holds streams of whatever bytes, cut anywhere, to this: nothing panics or
// hangs, every line is JSON, no text is lost, and where it is cut makes no difference.
func FuzzStream(f *testing.F) {
	f.Add("Hello, \u00fc \"world\"\n", []byte(`{"contentBlockIndex":0,"delta":{"text":"x"}}`), uint8(3), uint8(7))
	f.Add("\x00\xff\\", []byte(`{"bytes":"eyJ0eXBlIjoiYVxuYiJ9"}`), uint8(1), uint8(1))
	f.Add("", []byte(`{"start":{"toolUse":{"toolUseId":"a","name":"b"}},"delta":{"toolUse":{"input":"{}"}},"stopReason":7,"usage":[]}`), uint8(200), uint8(9))
	f.Add("a", []byte("\x00\x00\x00\x10\x00\x00\x00\x00\x05\xc2\x48\xeb\x7d\x98\xc8\xff"), uint8(2), uint8(2))
	f.Add("a", []byte(`{"delta":{"reasoningContent":{"text":"t","signature":"s","redactedContent":"cg=="},"text":null}}`), uint8(5), uint8(2))
	names := []string{
		"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "chunk", "other",
		failed + "throttlingException", failed, "",
	}
	f.Fuzz(func(t *testing.T, text string, payload []byte, piece, size uint8) {
		text = strings.ToValidUTF8(text, "\ufffd")
		var framed, converse []byte
		for _, name := range names {
			framed = append(framed, frame(t, name, payload)...)
		}
		converse = append(converse, frame(t, "messageStart", []byte(`{"role":"assistant"}`))...)
		for rest := []rune(text); len(rest) > 0; {
			n := min(int(piece)%8+1, len(rest))
			delta, err := json.Marshal(map[string]any{"contentBlockIndex": 0, "delta": map[string]string{"text": string(rest[:n])}, "p": "abc"})
			if err != nil {
				t.Fatal(err)
			}
			converse, rest = append(converse, frame(t, "contentBlockDelta", delta)...), rest[n:]
		}
		for name, stream := range map[string][]byte{"as it is": payload, "framed": framed, "said": converse, "said, then more": append(bytes.Clone(converse), payload...)} {
			whole, cut := streams(t), streams(t)
			for dialect := range whole {
				one := translate(whole[dialect], stream, len(stream)+1)
				got := content(t, one)
				if strings.HasPrefix(name, "said") && dialect == "chat" && got != text {
					t.Errorf("%s: lost text: got %q, want %q", name, got, text)
				}
				if other := translate(cut[dialect], stream, int(size)%64+1); other != one {
					t.Errorf("%s, %s: in pieces of %d:\n%s\nat once:\n%s", dialect, name, int(size)%64+1, other, one)
				}
			}
		}
	})
}

// FuzzWhole holds answers in one piece to this: what comes of them is JSON, or an error.
func FuzzWhole(f *testing.F) {
	for _, s := range []string{
		`{"output":{"message":{"content":[{"text":"a"},{"toolUse":{"input":{"a":1}}},{"reasoningContent":{"reasoningText":{"text":"t"}}}]}},"stopReason":"end_turn","usage":{"inputTokens":1}}`,
		`{"embedding":[1,2],"embeddings":{"float":[[1]]},"inputTextTokenCount":2}`, `{"inputTokens":3}`, `[]`, `{}`, `{"output":null}`,
	} {
		f.Add([]byte(s))
	}
	calls := map[string]string{
		providers.ChatComplete: `{"model":"anthropic.claude-x","messages":[]}`,
		providers.CountTokens:  `{"model":"anthropic.claude-x","messages":[]}`,
		providers.Embed:        `{"model":"cohere.embed-english-v3","input":"a","encoding_format":"base64"}`,
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for endpoint, ask := range calls {
			out, err := prepare(t, newCall(t, endpoint, ask)).Answer.Body(nil, body, answerHeader)
			if err == nil && !json.Valid(out) {
				t.Errorf("%s: %q becomes %q", endpoint, body, out)
			}
		}
	})
}

// FuzzRequest holds calls of whatever bytes to this: what goes up is JSON, or they are
// refused.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA\"}"}}]}],"stop":["a"],"additionalModelRequestFields":{"a":1}}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"\u0041","function":{"name":"x","arguments":"{"}}]}],"tools":[{"function":{"name":"x"}}],"tool_choice":"none"}`,
		`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","data":"x"},"title":"a.b","cache_control":{"ttl":"1h"}}]}],"thinking":{"budget_tokens":7},"anthropic_beta":["a"]}`,
		`{"input":["a"],"dimensions":1,"encoding_format":"base64"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, endpoint := range []string{providers.ChatComplete, providers.Messages, providers.CountTokens, providers.Embed} {
			for _, model := range []string{"anthropic.claude-x", "amazon.nova-x", "amazon.titan-embed-text-v2:0", "cohere.embed-x"} {
				c := newCall(t, endpoint, "")
				c.Body, c.Model = body, model
				p := provider()
				if r, err := p.Prepare(c); err == nil && !json.Valid(r.Body) {
					t.Errorf("%s, %s: %q becomes %q", endpoint, model, body, r.Body)
				}
			}
		}
	})
}
