package inference

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/stored"
)

// Answers with a canary wherever they have a text, and wherever something repeats one.
const (
	canaryChat = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"my a canary b","refusal":"my a canary b","reasoning_content":"my a canary b",
		"annotations":[{"type":"url_citation","url_citation":{"title":"my a canary b"}}],"audio":{"id":"a","data":"a canary","transcript":"my a canary b"},"content_blocks":[{"type":"text","text":"my a canary b"},{"type":"thinking","thinking":"my a canary b"}],
		"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":\"a canary\"}"}}],"unknown":{"x":["my a canary b"]}},
		"logprobs":{"content":[{"token":"a canary","logprob":-1,"top_logprobs":[]}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
	canaryCompletion = `{"id":"c","object":"text_completion","choices":[{"index":0,"text":"my a canary b","logprobs":{"tokens":["a canary"]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
	canaryMessage    = `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"my a canary b","signature":"s"},{"type":"text","text":"my a canary b","citations":[{"type":"char_location","cited_text":"my a canary b"}]},
		{"type":"tool_use","id":"t","name":"f","input":{"a":"a canary"}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}`
	canaryResponse = `{"id":"resp_1","object":"response","status":"completed","model":"m","output_text":"my a canary b","output":[
		{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"my a canary b"}]},
		{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"my a canary b","annotations":[{"type":"url_citation","title":"my a canary b"}],"logprobs":[{"token":"a canary"}]},{"type":"refusal","refusal":"my a canary b"}]},
		{"type":"function_call","id":"f","call_id":"c","name":"f","arguments":"{\"a\":\"a canary\"}","status":"completed"},
		{"type":"code_interpreter_call","id":"i","code":"a canary","outputs":[{"type":"logs","logs":"my a canary b"}],"status":"completed"},
		{"type":"mcp_call","id":"p","name":"f","arguments":"a canary","output":"my a canary b"}],
		"out\u0070ut_text":"my a canary b","usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`
)

// Nothing of a text that a hook replaces is left anywhere in what the client gets of an answer, nor in what the
// gateway stores of it.
func TestNothingIsLeftOfWhatWasReplaced(t *testing.T) {
	t.Parallel()
	calls := map[string]string{
		"/chat/completions": `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "/completions": `{"model":"m","prompt":"hi"}`,
		"/responses": `{"model":"m","input":"hi"}`, "/messages": `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
	}
	names := map[string]string{"openai": "chatComplete", "deepseek": "chatComplete", "anthropic": "messages"}
	for _, c := range []struct{ dialect, path, name, answer string }{
		{"openai", "/chat/completions", "chatComplete", canaryChat},
		{"openai", "/completions", "complete", canaryCompletion},
		{"openai", "/responses", "createModelResponse", canaryResponse},
		{"deepseek", "/chat/completions", "", canaryChat},
		{"deepseek", "/responses", "", canaryChat},
		{"deepseek", "/messages", "", canaryChat},
		{"anthropic", "/messages", "", canaryMessage},
		{"anthropic", "/chat/completions", "", canaryMessage},
		{"anthropic", "/responses", "", canaryMessage},
	} {
		for _, mode := range []string{"whole", "buffer", "window"} {
			t.Run(strings.Join([]string{c.dialect, c.path[1:], mode}, " "), func(t *testing.T) {
				b := newGuardBench(t)
				kept := &storing{Responses: stored.NewResponses(b.db, time.Now)}
				b.gateway.Responses = kept
				b.gateway.Router.Providers["old"] = &credentials.Provider{
					Slug: "old", Dialect: c.dialect, BaseURL: &url.URL{Scheme: "fake", Host: "old", Path: "/v1"}, Key: credentials.NewSecret("sk-old"),
				}
				call, config := calls[c.path], `{"provider":"@old","output_guardrails":[{"regexReplace":{"rule":"a canary","redactText":"#"},"choices":true,"tool_arguments":true,"tool_results":true`
				body, media := c.answer, "application/json"
				if mode != "whole" {
					name := c.name
					if name == "" {
						name = names[c.dialect]
					}
					call, _ = sjson.Set(call, "stream", true)
					config += `,"stream_mode":"` + mode + `"`
					events, err := (&cache.Entry{Body: []byte(body)}).As(name, true)
					if err != nil {
						t.Fatal(err)
					}
					body, media = string(events), "text/event-stream"
				}
				b.answers["old"] = func() *http.Response { return answering(200, media, body) }
				w, _ := b.request(t, http.MethodPost, c.path, call, nil, "X-Gw-Config", config+"}]}")
				if w.Code != 200 || !strings.Contains(w.Body.String(), "my # b") || strings.Contains(w.Body.String(), "canary") {
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
				if stores := c.path == "/responses" && c.dialect != "openai"; stores != (len(kept.put) == 1) {
					t.Errorf("%d responses are stored", len(kept.put))
				}
				for _, r := range kept.put {
					if object := string(r.Object); !strings.Contains(object, "my # b") || strings.Contains(object, "canary") {
						t.Errorf("stored: %s", object)
					}
				}
			})
		}
	}
}

// A provider may say in output_text what is nowhere else in its response: it does not pass where hooks decide, and
// passes where none does.
func TestOutputTextIsNoWayAroundHooks(t *testing.T) {
	t.Parallel()
	const answer = `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[],"output_text":"a canary","usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`
	for hook, passes := range map[string]bool{
		`{"contains":{"words":["canary"],"operator":"none"},"deny":true}`: false,
		`{"regexReplace":{"rule":"canary"}}`:                              false,
		`{"contains":{"words":["x"],"operator":"none"}}`:                  true,
		`{"contains":{"words":["x"],"operator":"none"},"async":true}`:     true,
	} {
		b := newGuardBench(t)
		b.answers["one"] = func() *http.Response { return answering(200, "application/json", answer) }
		w, _ := b.request(t, http.MethodPost, "/responses", `{"model":"m","input":"hi"}`, nil, "X-Gw-Config", `{"provider":"@one","output_guardrails":[`+hook+`]}`)
		if w.Code != 200 || strings.Contains(w.Body.String(), "canary") != passes {
			t.Errorf("%s: status %d: %s", hook, w.Code, w.Body)
		}
	}
}
