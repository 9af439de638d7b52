package inference

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/guardrails"
	_ "github.com/caddy-gw/gateway/guardrails/standard"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

func init() {
	guardrails.Register(
		guardrails.Kind{ID: "test.panics", New: func(*guardrails.Parameters) (guardrails.Check, error) { return panicking{}, nil }},
		guardrails.Kind{ID: "test.unreadable", New: func(*guardrails.Parameters) (guardrails.Check, error) { return judgesNothing{}, nil }},
		guardrails.Kind{ID: "test.errs", New: func(*guardrails.Parameters) (guardrails.Check, error) { return erring{}, nil }},
		guardrails.Kind{ID: "test.hangs", New: func(*guardrails.Parameters) (guardrails.Check, error) { return hanging{}, nil }},
	)
}

type panicking struct{}

func (panicking) Judge(context.Context, *guardrails.Subject) (guardrails.Result, error) {
	panic("secret")
}

// A judgesNothing check cannot judge any text.
type judgesNothing struct{}

func (judgesNothing) Judge(context.Context, *guardrails.Subject) (guardrails.Result, error) {
	return guardrails.Result{Verdict: true}, guardrails.Unreadable("every text is too long")
}

// An erring check has a service that is not there.
type erring struct{}

func (erring) Judge(context.Context, *guardrails.Subject) (guardrails.Result, error) {
	return guardrails.Result{}, errors.New("the service is not there")
}

// A hanging check waits for others, who never answer, and does not mind its context.
type hanging struct{}

func (hanging) Judge(context.Context, *guardrails.Subject) (guardrails.Result, error) { select {} }

func (hanging) Waits() {}

// A judgedEndpoint is an endpoint that hooks judge: a call and an answer with a text in them.
type judgedEndpoint struct {
	name, path, call, answer, text string
	dialect                        string // of the provider; "": OpenAI's
}

var judgedEndpoints = []judgedEndpoint{
	{"chatComplete", "/chat/completions", `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"TEXT"}]}`, answerOf("TEXT"), "choices.0.message.content", ""},
	{"complete", "/completions", `{"model":"m","prompt":"TEXT"}`, `{"id":"c","object":"text_completion","choices":[{"index":0,"text":"TEXT","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`, "choices.0.text", ""},
	{"createModelResponse", "/responses", `{"model":"m","input":"TEXT"}`, `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"TEXT","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`, "output.0.content.0.text", ""},
	{"embed", "/embeddings", `{"model":"m","input":["other","TEXT"]}`, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`, "", ""},
	{
		"messages", "/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"TEXT"}]}`,
		`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"TEXT"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":4}}`, "content.0.text", "anthropic",
	},
}

// at makes a provider one that speaks the dialect of an endpoint.
func (b *bench) at(provider string, e judgedEndpoint) {
	b.gateway.Router.Providers[provider].Dialect = cmp.Or(e.dialect, "openai")
}

// No endpoint whose calls hooks judge is left out of the tables, and no stream of one.
func TestEveryJudgedEndpointIsTested(t *testing.T) {
	t.Parallel()
	tested := map[string]judgedEndpoint{exchange.CreateBatch: {}, exchange.CreateFinetune: {}} // whose lines are judged: TestLinesOfFilesAreJudged
	for _, e := range judgedEndpoints {
		tested[e.name] = e
	}
	for e := range exchange.Endpoints() {
		judged, ok := tested[e.Name]
		if hooks.Judged(e.Name, guardrails.Input) && !ok {
			t.Errorf("calls of %s are judged, and not tested", e.Name)
		}
		if _, streams := streams[e.Name]; hooks.Judged(e.Name, guardrails.Output) && (judged.text == "" || !streams) {
			t.Errorf("answers of %s are judged, and not tested", e.Name)
		}
	}
}

func newGuardBench(t testing.TB) *bench {
	b := newBench(t)
	b.hooks = []Hook{&guardrailHook{b.Forwarder}, &cacheHook{b.Forwarder}}
	return b
}

// say has a provider answer with a text, as a stream or in one piece.
func (b *bench) say(t testing.TB, provider string, e judgedEndpoint, stream bool, text string) {
	t.Helper()
	body := strings.Replace(e.answer, "TEXT", text, 1)
	media := "application/json"
	if stream {
		whole, err := (&cache.Entry{Body: []byte(body)}).As(e.name, true)
		if err != nil {
			t.Fatal(err)
		}
		body, media = string(whole), "text/event-stream"
	}
	b.answers[provider] = func() *http.Response { return answering(200, media, body) }
}

// ask makes a call with a text and a config.
func (b *bench) ask(t testing.TB, e judgedEndpoint, stream bool, text, config string, header ...string) (status int, body string, x *exchange.Exchange) {
	t.Helper()
	call := strings.Replace(e.call, "TEXT", text, 1)
	if stream {
		call, _ = sjson.Set(call, "stream", true)
	}
	w, x := b.request(t, http.MethodPost, e.path, call, nil, append(header, "X-Gw-Config", config)...)
	body = w.Body.String()
	if stream && w.Header().Get("Content-Type") == "text/event-stream" {
		whole, err := (&cache.Entry{Stream: true, Body: []byte(body)}).As(e.name, false)
		if err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		body = string(whole)
	}
	return w.Code, body, x
}

// Each phase of each endpoint, in JSON and as a stream, with each end that hooks can come to.
func TestHooksDecideAboutCallsAndAnswers(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	for _, c := range []struct {
		name, hook string
		status     int
		text       string // that passes; "": none does
		state      string
	}{
		{"passes", `{"default.contains":{"words":["bad"],"operator":"none"},"deny":true}`, 200, "good 1234", "passed"},
		{"deny", `{"default.contains":{"words":["good"],"operator":"none"},"deny":true}`, 446, "", "failed"},
		{"warn", `{"default.contains":{"words":["good"],"operator":"none"}}`, 246, "good 1234", "failed"},
		{"transform", `{"default.regexReplace":{"rule":"\\d+","redactText":"#"}}`, 200, "good #", "passed"},
		{"two transforms", `{"regexReplace":{"rule":"\\d+","redactText":"#"},"second":{"id":"default.regexReplace","rule":"go","redactText":""}}`, 200, "od #", "passed"},
		{"transform and deny", `{"regexReplace":{"rule":"\\d+","failOnDetection":true},"deny":true}`, 446, "", "failed"},
		{"error", `{"test.errs":{},"deny":true}`, 200, "good 1234", "errored_passed"},
		{"error that fails", `{"test.errs":{},"deny":true,"fail_on_error":true}`, 446, "", "failed"},
		{"error of a check that fails", `{"test.errs":{"failOnError":true},"deny":true}`, 446, "", "failed"},
		{"panic", `{"test.panics":{},"deny":true}`, 446, "", "failed"},
		{"unreadable", `{"test.unreadable":{},"deny":true}`, 446, "", "failed"},
		{"panic that fails", `{"test.panics":{},"deny":true,"fail_on_error":true}`, 446, "", "failed"},
		{"timeout", `{"test.hangs":{},"deny":true,"timeout":10}`, 200, "good 1234", "errored_passed"},
		{"timeout that fails", `{"test.hangs":{},"also":{"id":"test.hangs"},"deny":true,"timeout":10,"fail_on_error":true}`, 446, "", "failed"},
		{"async", `{"default.contains":{"words":["good"],"operator":"none"},"deny":true,"async":true}`, 200, "good 1234", "failed"},
		{"disabled", `{"default.contains":{"words":["good"],"operator":"none","is_enabled":false},"deny":true}`, 200, "good 1234", "passed"},
	} {
		for _, phase := range []string{"input", "output"} {
			for _, e := range judgedEndpoints {
				for _, stream := range []bool{false, true} {
					if e.name == "embed" && (stream || phase == "output") {
						continue
					}
					t.Run(strings.Join([]string{c.name, phase, e.name, map[bool]string{true: "stream", false: "JSON"}[stream]}, " "), func(t *testing.T) {
						b.at("one", e)
						b.bodies = nil
						call, answer := "good 1234", "fine"
						if phase == "output" {
							call, answer = answer, call
						}
						b.say(t, "one", e, stream, answer)
						status, body, x := b.ask(t, e, stream, call, `{"provider":"@one","`+phase+`_guardrails":[`+c.hook+`]}`)
						want := c.status
						if stream && phase == "output" && want == 246 {
							want = 200 // a hook that refuses nothing judges a stream when it is over
						}
						if status != want {
							t.Fatalf("status %d, want %d: %s", status, want, body)
						}
						key := map[string]string{"input": "before_request_hooks", "output": "after_request_hooks"}[phase]
						results := gjson.ParseBytes(judged(x).JSON()).Get(key)
						if state := results.Get("0.state").Str; state != c.state {
							t.Errorf("state %q, want %q: %s", state, c.state, results)
						}
						if strings.Contains(string(judged(x).JSON()), "secret") {
							t.Error("what a panic says is in the results")
						}
						got := gjson.Get(body, e.text).Str
						if phase == "input" {
							got = ""
							if len(b.bodies) > 0 {
								got = b.bodies[0]
							}
						}
						switch {
						case c.text == "" && strings.Contains(got, "good"):
							t.Errorf("%q is sent", got)
						case c.text != "" && phase == "input" && !strings.Contains(got, `"`+c.text+`"`), c.text != "" && phase == "output" && got != c.text:
							t.Errorf("%q is sent, want %q", got, c.text)
						}
						async := c.name == "async"
						switch {
						case status == 446:
							kind, code := "hooks_failed", "null"
							if e.name == "messages" { // whose types are Anthropic's
								kind, code = "invalid_request_error", `"hooks_failed"`
							}
							if gjson.Get(body, "error.type").Str != kind || !gjson.Get(body, "hook_results."+key).IsArray() || gjson.Get(body, "error.code").Raw != code {
								t.Errorf("the answer is %s", body)
							}
							if phase == "output" && strings.Contains(body, "1234") {
								t.Errorf("the text that was denied is in %s", body)
							}
							if phase == "output" && x.Usage().Completion != 4 {
								t.Errorf("usage %+v of an answer that was denied", x.Usage())
							}
						case !stream && !async && gjson.Get(body, "hook_results."+key+".#").Int() != 1:
							t.Errorf("no results in %s", body)
						case phase == "output" && strings.Contains(c.name, "transform") && strings.Contains(body, "1234"):
							t.Errorf("a text that was replaced is in %s", body)
						}
					})
				}
			}
		}
	}
}

func TestStreamsHaveResultsOnlyIfTheyMayDeviate(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	b.say(t, "one", judgedEndpoints[0], true, "fine")
	const config = `{"provider":"@one","input_guardrails":[{"contains":{"words":["x"]}}]}`
	for _, strict := range []string{"true", "false"} {
		w, _ := b.call(t, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, nil, "X-Gw-Config", config, "X-Gw-Strict-Open-Ai-Compliance", strict)
		if first, _, _ := strings.Cut(w.Body.String(), "\n"); strings.Contains(first, `"hook_results":{"before_request_hooks":[{`) != (strict == "false") || w.Code != 246 {
			t.Errorf("strict %s: status %d, first line %s", strict, w.Code, first)
		}
	}
}

// Each target judges the call as the client sent it, and its transforms are its own.
func TestTargetsJudgeTheUntransformedCall(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	b.answers["one"] = func() *http.Response { return answering(503, "application/json", `{"error":{"message":"down"}}`) }
	_, _, x := b.ask(t, judgedEndpoints[0], false, "1 2", `{"strategy":{"mode":"fallback"},"input_mutators":[{"regexReplace":{"rule":"1","redactText":"A"}}],"targets":[
		{"provider":"@one"},{"provider":"@two","input_mutators":[{"regexReplace":{"rule":"2","redactText":"B"}}]}]}`)
	if len(b.bodies) != 2 || !strings.Contains(b.bodies[0], `"A 2"`) || !strings.Contains(b.bodies[1], `"1 B"`) {
		t.Errorf("sent %v", b.bodies)
	}
	if len(judged(x).before) != 1 || !judged(x).before[0].Transformed {
		t.Errorf("judged %+v", judged(x))
	}
}

func TestRefusalsAreFollowedByOtherAttempts(t *testing.T) {
	t.Parallel()
	deny := `{"contains":{"words":["one"],"operator":"none"},"deny":true}`
	for name, c := range map[string]struct {
		config string
		status int
		text   string
		sent   int
	}{
		"an input that is denied is not tried again": {`{"provider":"@one","retry":{"attempts":2,"on_status_codes":[446]},"input_guardrails":[{"contains":{"words":["hi"],"operator":"none"},"deny":true}]}`, 446, "", 0},
		"an output is, if the retry names it":        {`{"provider":"@one","retry":{"attempts":2,"on_status_codes":[446]},"output_guardrails":[` + deny + `]}`, 446, "", 3},
		"not otherwise":                              {`{"provider":"@one","retry":{"attempts":2},"output_guardrails":[` + deny + `]}`, 446, "", 1},
		"another target":                             {`{"strategy":{"mode":"fallback","on_status_codes":[446]},"targets":[{"provider":"@one"},{"provider":"@two"}],"output_guardrails":[` + deny + `]}`, 200, "two", 2},
		"another target for the input":               {`{"strategy":{"mode":"fallback","on_status_codes":[446]},"targets":[{"provider":"@one","input_guardrails":[{"contains":{"words":["hi"],"operator":"none"},"deny":true}]},{"provider":"@two"}]}`, 200, "two", 1},
		"another target after a warning":             {`{"strategy":{"mode":"fallback","on_status_codes":[246]},"targets":[{"provider":"@one"},{"provider":"@two"}],"output_guardrails":[{"contains":{"words":["one"],"operator":"none"}}]}`, 200, "two", 2},
		"retries after a warning":                    {`{"provider":"@one","retry":{"attempts":1,"on_status_codes":[246]},"output_guardrails":[{"contains":{"words":["one"],"operator":"none"}}]}`, 246, "one", 2},
		"a warning is an answer otherwise":           {twoTargets[:len(twoTargets)-1] + `,"output_guardrails":[{"contains":{"words":["one"],"operator":"none"}}]}`, 246, "one", 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newGuardBench(t)
			status, body, x := b.ask(t, judgedEndpoints[0], false, "hi", c.config)
			if status != c.status || gjson.Get(body, "choices.0.message.content").Str != c.text || len(b.bodies) != c.sent {
				t.Errorf("status %d, sent %d: %s", status, len(b.bodies), body)
			}
			if status == 246 && gjson.Get(body, "hook_results.after_request_hooks.#").Int() != 1 {
				t.Errorf("no results in %s", body)
			}
			for _, a := range x.Attempts {
				if !a.Usage.Known {
					t.Error("the usage of an attempt is not known")
				}
			}
		})
	}
}

func TestSoftRefusalsAreAnswers(t *testing.T) {
	t.Parallel()
	for _, e := range judgedEndpoints {
		if e.text == "" { // its answers have no text
			continue
		}
		for _, stream := range []bool{false, true} {
			for _, phase := range []string{"input", "output"} {
				b := newGuardBench(t)
				b.at("one", e)
				b.say(t, "one", e, stream, "hi")
				status, body, x := b.ask(t, e, stream, "hi", `{"provider":"@one","`+phase+`_guardrails":[{"id":"mine","contains":{"words":["hi"],"operator":"none"},"deny":true,"soft_deny_200":true}]}`)
				if text := gjson.Get(body, e.text).Str; status != 200 || !strings.Contains(text, "mine") {
					t.Errorf("%s %s: status %d: %s", e.name, phase, status, body)
				}
				if phase == "output" && x.Usage().Completion != 4 {
					t.Errorf("%s: usage %+v", e.name, x.Usage())
				}
			}
		}
	}
}

// Calls share cached answers only if the same hooks have judged them.
func TestCachedAnswersWereJudgedByTheSameHooks(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	const hooked = `{"provider":"@one","cache":"simple","output_guardrails":[{"regexReplace":{"rule":"one","redactText":"#"}}],"input_guardrails":[{"contains":{"words":["hi"]}}]}`
	for i, c := range []struct{ config, text, cache string }{
		{`{"provider":"@one","cache":"simple"}`, "one", exchange.CacheMiss},
		{hooked, "#", exchange.CacheMiss},
		{hooked, "#", exchange.CacheHit},
		{`{"provider":"@one","cache":"simple"}`, "one", exchange.CacheHit},
	} {
		_, body, x := b.ask(t, judgedEndpoints[0], false, "hi", c.config)
		if text := gjson.Get(body, "choices.0.message.content").Str; text != c.text || x.CacheStatus != c.cache {
			t.Errorf("call %d: %s from %s", i, body, x.CacheStatus)
		}
		if got := gjson.Get(body, "hook_results.before_request_hooks.#").Int() == 1; got != (c.config == hooked) {
			t.Errorf("call %d has results: %v: %s", i, got, body)
		}
	}
}

// What hooks have removed from a call is not in its record.
func TestWhatWasRemovedIsNotKept(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	call := func(config string) string {
		b.kept = 1 << 10
		_, _, x := b.ask(t, judgedEndpoints[0], false, "card 1234", config)
		var kept string
		for _, body := range []*reqlog.Body{Record(x).Request, Record(x).Response} {
			if body != nil {
				kept += string(body.Bytes)
			}
		}
		return kept
	}
	if kept := call(`{"provider":"@one","input_mutators":[{"regexReplace":{"rule":"\\d+"}}]}`); strings.Contains(kept, "1234") || !strings.Contains(kept, "[REDACTED]") {
		t.Errorf("kept %s", kept)
	}
	if kept := call(`{"provider":"@one","input_guardrails":[{"regexReplace":{"rule":"\\d+","failOnDetection":true},"deny":true}]}`); strings.Contains(kept, "1234") {
		t.Errorf("kept %s", kept)
	}
}

func TestBodiesThatHooksCannotReadAreRefused(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	b.answers["one"] = func() *http.Response { return answering(200, "text/plain", "bad words") }
	status, body, _ := b.ask(t, judgedEndpoints[0], false, "hi", `{"provider":"@one","output_guardrails":[{"contains":{"words":["bad"],"operator":"none"},"deny":true}]}`)
	if status != 502 || strings.Contains(body, "bad words") {
		t.Errorf("status %d: %s", status, body)
	}
}

func TestAStreamIsHeldBackUpToABound(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	b.say(t, "one", judgedEndpoints[0], true, strings.Repeat("fine ", 500))
	status, body, _ := b.ask(t, judgedEndpoints[0], true, "hi", `{"provider":"@one","output_guardrails":[{"wordCount":{},"deny":true,"stream_mode":"buffer","max_buffer_bytes":1000}]}`)
	if status != 446 || strings.Contains(body, "fine") {
		t.Errorf("status %d: %s", status, body)
	}
}

// A line that is malformed is taken out of a stream that is held back, as it is without hooks; so is what follows [DONE] then.
func TestMalformedLinesOfAHeldBackStreamAreTakenOut(t *testing.T) {
	b := newGuardBench(t)
	good := streams["chatComplete"].of([]string{"fine"})
	b.answers["one"] = func() *http.Response {
		return answering(200, "text/event-stream", strings.Replace(good, "data: [DONE]", "data: {half\n\ndata: [DONE]", 1)+"data: {\"choices\":[]}\n\n")
	}
	w, x := b.call(t, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, nil,
		"X-Gw-Config", `{"provider":"@one","output_guardrails":[{"contains":{"words":["bad"],"operator":"none"},"deny":true,"stream_mode":"buffer"}]}`)
	got, failed, whole := received(w.Body.String(), streams["chatComplete"].text)
	if w.Code != 200 || got != "fine" || failed != "" || !whole || strings.Contains(w.Body.String(), "half") || !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
		t.Errorf("%d %q %q %v: %s", w.Code, got, failed, whole, w.Body)
	}
	if x.Latest().Malformed != 1 {
		t.Errorf("%d lines counted as malformed", x.Latest().Malformed)
	}
}

// A held back response is judged by its last event; its other events do not say anything else.
func TestAHeldBackResponseSaysWhatWasJudged(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	stream := strings.Replace(streams["createModelResponse"].of([]string{"fine"}), `"delta":"fine"`, `"delta":"secret"`, 1)
	b.answers["one"] = func() *http.Response { return answering(200, "text/event-stream", stream) }
	w, _ := b.request(t, http.MethodPost, "/responses", `{"model":"m","input":"hi","stream":true}`, nil,
		"X-Gw-Config", `{"provider":"@one","output_guardrails":[{"contains":{"words":["secret"],"operator":"none"},"deny":true,"stream_mode":"buffer"}]}`)
	if got, _, whole := received(w.Body.String(), streams["createModelResponse"].text); w.Code != 200 || got != "fine" || !strings.Contains(w.Body.String(), "response.completed") {
		t.Errorf("%d %q %v: %s", w.Code, got, whole, w.Body)
	}
}

func TestUnknownGuardrailsRefuseTheCall(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	status, body, _ := b.ask(t, judgedEndpoints[0], false, "hi", `{"provider":"@one","input_guardrails":["nonesuch"]}`)
	if status != 400 || gjson.Get(body, "error.code").Str != "invalid_guardrail" || len(b.bodies) != 0 {
		t.Errorf("status %d: %s", status, body)
	}
}
