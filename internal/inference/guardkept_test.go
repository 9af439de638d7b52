package inference

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/stored"
)

func init() {
	guardrails.Register(guardrails.Kind{ID: "test.waits", New: func(*guardrails.Parameters) (guardrails.Check, error) { return waiting{}, nil }})
}

// open lets the checks test.waits go on.
var open = make(chan struct{}, 10)

type waiting struct{}

func (waiting) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	<-open
	return guardrails.Result{Verdict: true, Data: map[string]string{"textExcerpt": s.Text()}}, nil
}

// storing records which responses are stored.
type storing struct {
	exchange.Responses
	put []*stored.Response
}

func (s *storing) Put(ctx context.Context, workspace, id string, r *stored.Response) error {
	s.put = append(s.put, r)
	return s.Responses.Put(ctx, workspace, id, r)
}

// What the gateway stores of a response is what hooks have made of it, and of its input.
func TestStoredResponsesAreThoseThatWereJudged(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for name, c := range map[string]struct {
			hooks  string
			status int
			stored []string // the text of each response that is stored
		}{
			"replaced":       {`"output_mutators":[{"regexReplace":{"rule":"1234","redactText":"#"}}]`, 200, []string{"card #"}},
			"refused":        {`"output_guardrails":[{"contains":{"words":["card"],"operator":"none"},"deny":true}]`, 446, nil},
			"softly refused": {`"output_guardrails":[{"id":"g","contains":{"words":["card"],"operator":"none"},"deny":true,"soft_deny_200":true}]`, 200, []string{"The guardrail checks after the request failed: g"}},
			"tried again":    {`"retry":{"attempts":2,"on_status_codes":[246]},"output_guardrails":[{"contains":{"words":["card"],"operator":"none"},"stream_mode":"buffer"},{"regexReplace":{"rule":"1234","redactText":"#"}}]`, 246, []string{"card #"}},
			"judged later":   {`"output_guardrails":[{"contains":{"words":["card"],"operator":"none"},"async":true}]`, 200, []string{"card 1234"}},
		} {
			t.Run(fmt.Sprintf("%s, stream %v", name, stream), func(t *testing.T) {
				b := newGuardBench(t)
				s := &storing{Responses: stored.NewResponses(b.db, time.Now)}
				b.gateway.Responses = s
				b.gateway.Router.Providers["old"] = &credentials.Provider{
					Slug: "old", Dialect: "deepseek", BaseURL: &url.URL{Scheme: "fake", Host: "old", Path: "/v1"}, Key: credentials.NewSecret("sk-old"),
				}
				b.say(t, "old", judgedEndpoints[0], stream, "card 1234")
				status, body, _ := b.ask(t, judgedEndpoints[2], stream, "mine 5678", `{"provider":"@old","input_mutators":[{"regexReplace":{"rule":"5678","redactText":"*"}}],`+c.hooks+`}`)
				if status != c.status {
					t.Errorf("status %d: %s", status, body)
				}
				if len(s.put) != len(c.stored) {
					t.Fatalf("%d responses are stored", len(s.put))
				}
				for i, r := range s.put {
					if text := gjson.GetBytes(r.Object, judgedEndpoints[2].text).Str; text != c.stored[i] || strings.Contains(string(r.Input), "5678") {
						t.Errorf("stored %s of %s", r.Object, r.Input)
					}
					if id := gjson.GetBytes(r.Object, "id").Str; id == "" || id != gjson.Get(body, "id").Str {
						t.Errorf("stored %q, and the client got %s", id, body)
					}
				}
			})
		}
	}
}

func TestBackgroundResponsesCannotBeHeldBack(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	for hook, status := range map[string]int{
		`{"contains":{"words":["x"],"operator":"none"},"deny":true}`:  400,
		`{"contains":{"words":["x"],"operator":"none"}}`:              200,
		`{"contains":{"words":["x"],"operator":"none"},"async":true}`: 200,
	} {
		b.say(t, "one", judgedEndpoints[2], false, "fine")
		w, _ := b.request(t, http.MethodPost, "/responses", `{"model":"m","input":"hi","background":true}`, nil, "X-Gw-Config", `{"provider":"@one","output_guardrails":[`+hook+`]}`)
		if w.Code != status || status == 400 && gjson.Get(w.Body.String(), "error.param").Str != "background" {
			t.Errorf("%s: status %d: %s", hook, w.Code, w.Body)
		}
	}
}

// An answer with another status than 200 is not read, so that it does not pass where it has to be
// judged.
func TestAnswersThatAreNotReadDoNotPass(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	for _, status := range []int{201, 202, 203} {
		b.answers["one"] = func() *http.Response { return answering(status, "application/json", answerOf("bad")) }
		for hook, want := range map[string]int{`{"contains":{"words":["bad"],"operator":"none"},"deny":true}`: 502, `{"contains":{"words":["bad"],"operator":"none"}}`: status} {
			got, body, _ := b.ask(t, judgedEndpoints[0], false, "hi", `{"provider":"@one","output_guardrails":[`+hook+`]}`)
			if got != want || want == 502 && strings.Contains(body, `"bad"`) {
				t.Errorf("%d: status %d: %s", status, got, body)
			}
		}
	}
}

func TestNumbersOfTokensAreNotReadable(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	for _, c := range []struct{ path, body string }{
		{"/embeddings", `{"model":"m","input":[1,2]}`}, {"/embeddings", `{"model":"m","input":[[1,2]]}`}, {"/completions", `{"model":"m","prompt":[[1,2]]}`},
	} {
		for hooks, want := range map[string]int{`"input_guardrails":[{"notNull":{}}]`: 400, `"input_guardrails":[{"notNull":{},"async":true}]`: 200} {
			w, _ := b.request(t, http.MethodPost, c.path, c.body, nil, "X-Gw-Config", `{"provider":"@one",`+hooks+`}`)
			if w.Code != want || want == 400 && gjson.Get(w.Body.String(), "error.code").Str != "guardrail_unreadable" {
				t.Errorf("%s with %s: status %d: %s", c.body, hooks, w.Code, w.Body)
			}
		}
	}
}

// A text that is too long for hooks passes in neither direction, whatever they would do.
func TestTextsThatAreTooLongDoNotPass(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	b.answers["one"] = func() *http.Response {
		return answering(200, "application/json", answerOf(strings.Repeat("a", 17<<20)))
	}
	status, body, _ := b.ask(t, judgedEndpoints[0], false, "hi", `{"provider":"@one","output_guardrails":[{"notNull":{}}]}`)
	if status != 502 || !strings.Contains(body, "more than 16 MiB") {
		t.Errorf("status %d: %.200s", status, body)
	}
}

const slowly = `{"regexReplace":{"rule":"(?=a)(a+)+$"}}` // it gives up

// The log has no text that a hook was to remove, and did not, or not in time.
func TestTheLogDoesNotHaveWhatAHookWasToRemove(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("a", 60) + "b"
	for name, c := range map[string]struct {
		config          string
		stream          bool
		request, answer bool // are in the log
	}{
		"nothing is to be removed":       {`{"provider":"@one","input_guardrails":[{"notNull":{}}],"output_guardrails":[{"notNull":{}}]}`, false, true, true},
		"the request":                    {`{"provider":"@one","input_guardrails":[` + slowly + `]}`, false, false, true},
		"the answer":                     {`{"provider":"@one","output_guardrails":[` + slowly + `]}`, false, true, false},
		"the answer, a stream":           {`{"provider":"@one","output_guardrails":[` + slowly + `]}`, true, true, false},
		"the answer, when it is over":    {`{"provider":"@one","output_guardrails":[{"regexReplace":{"rule":"a+"},"stream_mode":"after"}]}`, true, true, false},
		"another hook, before that ends": {`{"provider":"@one","input_guardrails":[` + slowly + `,{"contains":{"words":["a"],"operator":"none"},"deny":true}]}`, false, false, true},
	} {
		b := newGuardBench(t)
		b.kept = 1 << 12
		b.say(t, "one", judgedEndpoints[0], c.stream, secret)
		var r *reqlog.Record
		b.conclude = func(x *exchange.Exchange) {
			done := make(chan struct{})
			b.Conclude(x, func(record *reqlog.Record) bool { r = record; close(done); return true })
			<-done
		}
		b.ask(t, judgedEndpoints[0], c.stream, secret, c.config)
		if (r.Request != nil) != c.request || (r.Response != nil) != c.answer {
			t.Errorf("%s: the log has the request: %v, the answer: %v", name, r.Request != nil, r.Response != nil)
		}
		if (!c.request || !c.answer) && strings.Contains(string(r.HookResults), "aaaa") {
			t.Errorf("%s: the text is in %s", name, r.HookResults)
		}
	}
}

func TestWithoutBodiesTheLogHasNoPartsOfTexts(t *testing.T) {
	t.Parallel()
	for _, kept := range []int{0, 1 << 10} {
		b := newGuardBench(t)
		b.kept = kept
		_, body, x := b.ask(t, judgedEndpoints[0], false, "confidential", `{"provider":"@one","input_guardrails":[{"regexMatch":{"rule":"fid"}}]}`)
		logged := string(Record(x).HookResults)
		if !strings.Contains(body, "confidential") || strings.Contains(logged, "confidential") != (kept > 0) || !strings.Contains(logged, "explanation") {
			t.Errorf("%d bytes kept: answered %s, logged %s", kept, body, logged)
		}
	}
}

// Hooks that run after the answer delay nothing, and their results are in the record.
func TestNobodyWaitsForHooksThatDecideNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		stream bool
		key    string
		hits   bool // the answer comes from the cache
	}{
		"of the call":              {`{"provider":"@one","input_guardrails":[{"test.waits":{},"async":true}]}`, false, "before_request_hooks", false},
		"of the answer":            {`{"provider":"@one","output_guardrails":[{"test.waits":{},"async":true}]}`, false, "after_request_hooks", false},
		"of a stream":              {`{"provider":"@one","output_guardrails":[{"test.waits":{},"async":true}]}`, true, "after_request_hooks", false},
		"of a stream that is over": {`{"provider":"@one","output_guardrails":[{"test.waits":{}}]}`, true, "after_request_hooks", false},
		"of a call that hits":      {`{"provider":"@one","cache":"simple","input_guardrails":[{"test.waits":{},"async":true}]}`, false, "before_request_hooks", true},
	} {
		b := newGuardBench(t)
		b.say(t, "one", judgedEndpoints[0], c.stream, "fine")
		records := make(chan *reqlog.Record, 1)
		b.conclude = func(x *exchange.Exchange) {
			b.Conclude(x, func(r *reqlog.Record) bool { records <- r; return true })
		}
		for range 1 + map[bool]int{true: 1}[c.hits] {
			b.ask(t, judgedEndpoints[0], c.stream, "hi", c.config) // it does not wait
			select {
			case <-records:
				t.Errorf("%s: the record does not wait", name)
			default:
			}
			open <- struct{}{}
			r := <-records
			result := gjson.GetBytes(r.HookResults, c.key+".0")
			if result.Get("state").Str != "passed" || result.Get("checks.#").Int() != 1 {
				t.Errorf("%s: the results are %s", name, r.HookResults)
			}
		}
	}
}

// Without room, they do not run, which the record says.
func TestHooksThatDoNotRunAreTold(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	b.background.running, b.background.waiting = maxBackground, make([]func(), maxQueued)
	for _, stream := range []bool{false, true} {
		b.say(t, "one", judgedEndpoints[0], stream, "fine")
		var r *reqlog.Record
		b.conclude = func(x *exchange.Exchange) {
			b.Conclude(x, func(record *reqlog.Record) bool { r = record; return true })
		}
		b.ask(t, judgedEndpoints[0], stream, "hi", `{"provider":"@one","input_guardrails":[{"test.waits":{},"async":true}],"output_guardrails":[{"test.waits":{},"async":true}]}`)
		for _, key := range []string{"before_request_hooks", "after_request_hooks"} {
			if v := gjson.GetBytes(r.HookResults, key); v.Get("#").Int() != 1 || v.Get("0.state").Str != "dropped" || !v.Get("0.skipped").Bool() {
				t.Errorf("the results are %s", r.HookResults)
			}
		}
	}
}

func TestWhatRunsLaterRunsInOrder(t *testing.T) {
	t.Parallel()
	var q backgroundQueue
	q.running = maxBackground - 1
	var order []int
	done := make(chan struct{})
	for i := range 10 {
		if !q.start(func() {
			if order = append(order, i); i == 9 {
				close(done)
			}
		}) {
			t.Fatal("there is no room")
		}
	}
	<-done
	if fmt.Sprint(order) != "[0 1 2 3 4 5 6 7 8 9]" {
		t.Errorf("they ran in the order %v", order)
	}
}

// What hooks say of a call at one target is nothing about the next.
func TestTheJudgmentIsThatOfTheLatestTarget(t *testing.T) {
	t.Parallel()
	b := newGuardBench(t)
	b.answers["one"] = func() *http.Response { return answering(503, "application/json", `{"error":{"message":"down"}}`) }
	for _, cache := range []string{exchange.CacheMiss, exchange.CacheHit} {
		status, body, x := b.ask(t, judgedEndpoints[0], false, "hi", `{"strategy":{"mode":"fallback"},"targets":[
			{"provider":"@one","input_guardrails":[{"contains":{"words":["hi"],"operator":"none"}}]},{"provider":"@two","cache":"simple"}]}`)
		if status != 200 || gjson.Get(body, "hook_results").Exists() || judged(x) != nil || x.CacheStatus != cache {
			t.Errorf("status %d, from the cache: %s: %s", status, x.CacheStatus, body)
		}
	}
}

// An answer that only says that there is none, and one that nobody has judged yet, are not kept for
// others.
func TestWhatIsNoAnswerIsNotCached(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, hook := range []string{
			`{"contains":{"words":["one"],"operator":"none"},"deny":true,"soft_deny_200":true}`,
			`{"contains":{"words":["one"],"operator":"none"},"deny":true,"stream_mode":"after"}`,
			slowly,
		} {
			b := newGuardBench(t)
			text := strings.Repeat("a", 60) + "b one"
			b.say(t, "one", judgedEndpoints[0], stream, text)
			for range 2 {
				_, body, x := b.ask(t, judgedEndpoints[0], stream, "hi", `{"provider":"@one","cache":"simple","output_guardrails":[`+hook+`]}`)
				if x.CacheStatus != exchange.CacheMiss && x.CacheStatus != "" {
					t.Errorf("stream %v, %s: %s: %s", stream, hook, x.CacheStatus, body)
				}
			}
		}
	}
}
