package gemini_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
	_ "github.com/caddy-gw/gateway/providers/standard"
)

// What a client sends back of an answer is what the model said: names, arguments and
// signatures of several calls at once, and each result under the name of its call.
func TestCallsComeBackAsTheModelMadeThem(t *testing.T) {
	answer := dialecttest.Open(t, "answer-calls.txtar").Read("answer.json")
	for _, turn := range []dialecttest.Turn{{Strict: true}, {}, {Endpoint: providers.Messages}} {
		turn.Answer = answer
		body := dialect.Again(t, turn)
		sent, message := gjson.GetBytes(body, "contents.1.parts").Array(), gjson.GetBytes(answer, "candidates.0.content.parts").Array()
		results := gjson.GetBytes(body, "contents.2.parts").Array()
		if len(sent) != len(message) || len(results) != len(message) {
			t.Fatalf("got %s", body)
		}
		for i := range message {
			if got, want := sent[i].Get("thoughtSignature").Str, message[i].Get("thoughtSignature").Str; got != want {
				t.Errorf("call %d: signature %q, want %q", i, got, want)
			}
			if got, want := sent[i].Get("functionCall.name").Str, message[i].Get("functionCall.name").Str; got != want || results[i].Get("functionResponse.name").Str != want {
				t.Errorf("call %d: name %q, want %q", i, got, want)
			}
			want := message[i].Get("functionCall.args|@ugly").Raw
			if want == "" {
				want = "{}"
			}
			if got := sent[i].Get("functionCall.args|@ugly").Raw; got != want {
				t.Errorf("call %d: arguments %s, want %s", i, got, want)
			}
			if got := results[i].Get("functionResponse.response.output").Str; got != fmt.Sprint("result ", i) {
				t.Errorf("call %d: result %q", i, got)
			}
		}
	}
}

const signed = `data: {"candidates":[{"content":{"parts":[{"text":"Let me see."},{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"U0lH/A=="},` +
	`{"functionCall":{"name":"g"}},{"functionCall":{"name":"h"},"thoughtSignature":"VFdP"}]},"finishReason":"STOP"}]}` + "\n\n"

// message is the content of the message in a stream of Messages, as clients put it
// together.
func message(t *testing.T, stream []byte) string {
	t.Helper()
	var blocks, input []string
	for line := range strings.Lines(string(stream)) {
		data, _ := strings.CutPrefix(line, "data: ")
		e := gjson.Parse(data)
		switch e.Get("type").Str {
		case "content_block_start":
			blocks, input = append(blocks, e.Get("content_block").Raw), append(input, "")
		case "content_block_delta":
			at := e.Get("index").Int()
			input[at] += e.Get("delta.partial_json").Str
			if text := e.Get("delta.text"); text.Exists() {
				blocks[at] = strings.Replace(blocks[at], `"text":""`, `"text":`+text.Raw, 1)
			}
		}
	}
	for i := range blocks {
		if input[i] != "" {
			blocks[i] = strings.Replace(blocks[i], `"input":{}`, `"input":`+input[i], 1)
		}
	}
	return "[" + strings.Join(blocks, ",") + "]"
}

// The signatures of calls come back from callers of Messages too, who have them in blocks
// that they do not look into; and they go to the provider whose they are, and nobody else.
func TestSignaturesReturnThroughMessagesToWhoseTheyAre(t *testing.T) {
	out, err := dialecttest.Stream(dialect.Answer(t, providers.Messages).Stream, []byte(signed), len(signed))
	if err != nil {
		t.Fatal(err)
	}
	content := message(t, out)
	if got := gjson.Get(content, "#.type").Raw; got != `["text","redacted_thinking","tool_use","tool_use","redacted_thinking","tool_use"]` {
		t.Fatalf("got %s", content)
	}
	for _, to := range []struct{ provider, model, signatures string }{
		{"google", "gemini-3-pro-preview", `["U0lH/A==","VFdP"]`},
		{"google", "gemini-2.5-flash", `["U0lH/A==","VFdP"]`},
		{"vertex-ai", "gemini-2.5-flash", `[]`},
		{"vertex-ai", "claude-sonnet-4-5", `[]`},
		{"anthropic", "claude-sonnet-4-5", `[]`},
		{"bedrock", "anthropic.claude-sonnet-4-5-v1:0", `[]`},
		{"bedrock", "amazon.nova-lite-v1:0", `[]`},
		{"openai", "gpt-5", `[]`},
		{"mistral-ai", "mistral-small-latest", `[]`},
		{"cohere", "command-a-03-2025", `[]`},
	} {
		for _, endpoint := range []string{providers.Messages, providers.CountTokens} {
			call := (&dialecttest.Case{
				Endpoint: endpoint,
				Body: fmt.Appendf(nil, `{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":"Go"},{"role":"assistant","content":%s},`+
					`{"role":"user","content":[{"type":"tool_result","tool_use_id":%s,"content":"1"}]}]}`, to.model, content, gjson.Get(content, "2.id").Raw),
				Settings: map[string]string{
					"vertex_region": "global", "vertex_project_id": "p", "aws_region": "eu-west-1", "aws_access_key_id": "AKID", "aws_secret_access_key": "SECRET",
				},
			}).Call(to.provider)
			r, err := call.Provider.Prepare(call)
			if err != nil {
				continue // it counts no tokens
			}
			if r.Estimate != nil {
				continue // nothing is sent
			}
			body := r.Body
			if body == nil {
				body = call.Body
			}
			if encoded := gjson.GetBytes(body, "input.invokeModel.body"); encoded.Exists() {
				if body, err = base64.StdEncoding.DecodeString(encoded.Str); err != nil {
					t.Fatal(err)
				}
			}
			contents := gjson.GetBytes(body, "contents")
			if !contents.Exists() {
				contents = gjson.GetBytes(body, "generateContentRequest.contents")
			}
			got := "[]"
			if s := contents.Get("1.parts.#.thoughtSignature"); s.Exists() {
				got = s.Raw
			}
			if got != to.signatures || strings.Contains(string(body), "gw:") || to.signatures == "[]" && strings.Contains(string(body), "U0lH") {
				t.Errorf("%s of %s: got %s", endpoint, to.provider, body)
			}
			if !strings.Contains(string(body), "Let me see.") || !strings.Contains(string(body), `"f"`) || !strings.Contains(string(body), `"g"`) {
				t.Errorf("%s of %s: something is lost: %s", endpoint, to.provider, body)
			}
		}
	}
}

// The signature of a text returns where content_blocks carry it, whole and streamed. It
// stands in a part of its own, as the API sends it at the end of a stream.
func TestTheSignatureOfATextReturns(t *testing.T) {
	const parts = `[{"text":"One"},{"text":" two.","thoughtSignature":"VFMw"},{"text":" Three"},{"text":"","thoughtSignature":"VFMx"}]`
	const want = `[{"text":"One two."},{"text":"","thoughtSignature":"VFMw"},{"text":" Three"},{"text":"","thoughtSignature":"VFMx"}]`
	answer := `{"candidates":[{"content":{"parts":` + parts + `},"finishReason":"STOP"}]}`
	body := dialect.Again(t, dialecttest.Turn{Answer: []byte(answer)})
	dialecttest.SameJSON(t, gjson.GetBytes(body, "contents.1.parts").Raw, want)
	body = dialect.Again(t, dialecttest.Turn{Strict: true, Answer: []byte(answer)})
	dialecttest.SameJSON(t, gjson.GetBytes(body, "contents.1.parts").Raw, `[{"text":"One two. Three"}]`)

	out, err := dialecttest.Stream(dialect.Answer(t, providers.ChatComplete).Stream, []byte("data: "+answer+"\n\n"), 1000)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for line := range strings.Lines(string(out)) {
		data, _ := strings.CutPrefix(line, "data: ")
		for _, b := range gjson.Get(data, "choices.0.delta.content_blocks").Array() {
			blocks = append(blocks, b.Raw)
		}
	}
	dialecttest.SameJSON(t, "["+strings.Join(blocks, ",")+"]", `[{"index":0,"delta":{"text":"One"}},{"index":0,"delta":{"text":" two."}},`+
		`{"index":1,"delta":{"text":"","signature":"VFMw"}},{"index":2,"delta":{"text":" Three"}},{"index":3,"delta":{"text":"","signature":"VFMx"}}]`)
}
