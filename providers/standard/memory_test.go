package standard_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

// arrays are the arrays of requests and of answers: what is before and after the elements.
var arrays = map[string][]string{
	providers.ChatComplete: {
		`"messages":[%s]`, `"messages":[{"role":"user","content":[%s]}]`, `"messages":[{"role":"assistant","content":"x","tool_calls":[%s]}]`,
		`"messages":[{"role":"user","content":"x"}],"tools":[%s]`, `"messages":[{"role":"user","content":"x"}],"functions":[%s]`,
		`"messages":[{"role":"user","content":"x"}],"stop":[%s]`, `"messages":[{"role":"assistant","content":"x","content_blocks":[%s]}]`,
		`"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[%s]}}`,
		`"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":[%s]}]}]`,
	},
	providers.Messages: {
		`"messages":[%s]`, `"messages":[{"role":"user","content":[%s]}]`, `"system":[%s],"messages":[{"role":"user","content":"x"}]`,
		`"messages":[{"role":"user","content":"x"}],"tools":[%s]`, `"messages":[{"role":"user","content":"x"}],"stop_sequences":[%s]`,
		`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[%s]}]}]`,
		`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[%s]}}]}]`,
	},
	providers.CreateResponse: {
		`"input":[%s]`, `"input":[{"role":"user","content":[%s]}]`, `"input":"x","tools":[%s]`, `"input":"x","include":[%s]`,
		`"input":[{"type":"function_call_output","call_id":"a","output":[%s]}]`, `"input":[{"type":"reasoning","summary":[%s]}]`,
		`"input":[{"type":"additional_tools","tools":[%s]}]`, `"input":"x","tools":[{"type":"namespace","name":"n","tools":[%s]}]`,
	},
	providers.Embed: {`"input":[%s]`},
}

// elements are what an array may hold, from the shortest to those that real calls have.
var elements = []string{
	`1`, `""`, `{}`, `[]`, `null`, `{"type":"text"}`, `{"role":"user"}`, `{"role":"tool"}`, `{"role":"assistant","tool_calls":[{}]}`, `{"role":"user","content":[""]}`,
	`{"type":"text","text":"x"}`, `{"type":"function","name":"f"}`, `{"type":"function","function":{"name":"f"}}`, `{"role":"user","content":"x"}`,
	`{"type":"tool_use","id":"a","name":"f","input":{}}`, `{"type":"tool_result","tool_use_id":"a","content":"x"}`, `{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`,
	`{"type":"thinking","thinking":"x"}`, `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}`,
	`{"type":"reasoning","summary":[{"text":"x"}]}`, `{"type":"text","text":"twenty characters...."}`,
}

const (
	memoryBody  = 128 << 10 // bytes of a body
	mostPerByte = 96        // bytes that are allocated for each, most of them garbage at once
	mostAtLeast = 4 << 20   // for any body
)

func filled(around, element string) []byte {
	n := memoryBody / (len(element) + 1)
	return fmt.Appendf(nil, around, strings.Repeat(element+",", n-1)+element)
}

// checkMemory checks what a function allocates for a body.
func checkMemory(t *testing.T, name string, body []byte, do func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(mostPerByte*len(body)+mostAtLeast) {
		t.Errorf("%s: %d bytes for a body of %d, %d for each", name, got, len(body), got/uint64(len(body)))
	}
}

var memorySettings = map[string]string{"aws_access_key_id": "AKIA", "aws_secret_access_key": "secret", "aws_region": "us-east-1"}

var translating = map[string]string{
	"openai": "gpt-5", "anthropic": "claude-opus-4-6", "google": "gemini-2.5-flash", "bedrock": "us.amazon.nova-pro-v1:0", "cohere": "command-a", "mistral-ai": "mistral-small-latest",
	"groq": "llama", "azure-openai": "gpt-5", "deepseek": "deepseek-chat",
}

// Whatever the elements of an array are, a body takes little more memory than it has bytes.
func TestTranslatingABodyTakesMemoryInProportion(t *testing.T) {
	for endpoint, all := range arrays {
		for provider, model := range translating {
			for _, around := range all {
				for _, element := range elements {
					body := filled(`{"model":"`+model+`","max_tokens":9,`+around+`}`, element)
					c := (&dialecttest.Case{Endpoint: endpoint, Body: fmt.Appendf(nil, `{"model":%q}`, model), Settings: memorySettings}).Call(provider)
					c.Body = body
					checkMemory(t, strings.Join([]string{endpoint, provider, around, element}, " "), body, func() { _, _ = c.Provider.Prepare(c) })
				}
			}
		}
	}
}

// The same goes for answers, whole and in streams.
func TestTranslatingAnAnswerTakesMemoryInProportion(t *testing.T) {
	answers := map[string][]string{
		"openai": {
			`{"choices":[%s]}`, `{"choices":[{"message":{"role":"assistant","content":[%s]},"finish_reason":"stop"}]}`, `{"choices":[{"message":{"content":"x","tool_calls":[%s]},"finish_reason":"stop"}]}`,
			`{"choices":[{"delta":{"content":[%s]}}]}`, `{"choices":[{"delta":{"tool_calls":[%s]}}]}`, `{"choices":[{"message":{"content":"x","annotations":[%s]},"finish_reason":"stop"}]}`,
		},
		"anthropic": {`{"type":"message","content":[%s],"stop_reason":"end_turn"}`, `{"type":"message","content":[{"type":"text","text":"x","citations":[%s]}],"stop_reason":"end_turn"}`},
		"google": {
			`{"candidates":[%s]}`, `{"candidates":[{"content":{"parts":[%s]},"finishReason":"STOP"}]}`, `[%s]`,
			`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP","logprobsResult":{"chosenCandidates":[%s]}}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP","groundingMetadata":{"groundingChunks":[%s],"groundingSupports":[%[1]s]}}]}`,
		},
		"bedrock": {`{"output":{"message":{"content":[%s]}},"stopReason":"end_turn"}`},
		"cohere":  {`{"message":{"content":[%s]},"finish_reason":"COMPLETE"}`, `{"message":{"tool_calls":[%s]},"finish_reason":"COMPLETE"}`},
	}
	elements := append([]string{
		`{"message":{"content":""}}`, `{"text":"x"}`, `{"functionCall":{"name":"f"}}`, `{"content":{"parts":[{"text":"x"}]}}`, `{"message":{"content":[""]}}`, `{"toolUse":{}}`, `{"citationsContent":{"content":[{"text":""}]}}`,
		`{"index":0}`, `{"function":{}}`, `{"type":"tool_use"}`, `{"type":"server_tool_use","name":"web_search"}`, `{"web":{"uri":"x"}}`, `{"token":"x"}`,
	}, elements...)
	for provider, all := range answers {
		d := dialecttest.Dialect{Provider: provider, Model: translating[provider], Settings: memorySettings}
		for _, endpoint := range []string{providers.ChatComplete, providers.Messages, providers.CreateResponse} {
			for _, around := range all {
				for _, element := range elements {
					body := filled(around, element)
					name := strings.Join([]string{endpoint, provider, around, element}, " ")
					if a := d.Answer(t, endpoint); a != nil && a.Body != nil {
						checkMemory(t, name, body, func() { _, _ = a.Body(nil, body, http.Header{}) })
					}
					if a := d.Answer(t, endpoint); a != nil && a.Stream != nil && provider != "bedrock" {
						checkMemory(t, name+" in a stream", body, func() {
							_, _ = a.Stream.Translate(nil, []byte("data: "+string(body)+"\n\n"))
						})
					}
				}
			}
		}
	}
}

// An answer has a few images, and a request a few members that are not OpenAI's.
func TestImagesTakeMemoryInProportion(t *testing.T) {
	for provider, c := range map[string]struct{ model, answer string }{
		"segmind": {"sdxl", `{"image":[%s]}`}, "stability-ai": {"stable-diffusion-xl-1024-v1-0", `{"artifacts":[%s]}`},
	} {
		call := func(body []byte) *providers.Call {
			return (&dialecttest.Case{Endpoint: "imageGenerate", Body: body}).Call(provider)
		}
		r, err := call(fmt.Appendf(nil, `{"model":%q,"prompt":"a"}`, c.model)).Provider.Prepare(call(fmt.Appendf(nil, `{"model":%q,"prompt":"a"}`, c.model)))
		if err != nil {
			t.Fatal(err)
		}
		body := filled(c.answer, "1")
		checkMemory(t, provider, body, func() { _, err = r.Answer.Body(nil, body, http.Header{}) })
		if err == nil {
			t.Errorf("%s: an answer of %d images is one", provider, len(body)/2)
		}
		asked := call(filled(`{"model":"`+c.model+`","prompt":"a",%s}`, `"a":1`))
		checkMemory(t, provider+" request", asked.Body, func() { _, err = asked.Provider.Prepare(asked) })
		if err == nil {
			t.Errorf("%s: a request with thousands of members is sent", provider)
		}
	}
}
