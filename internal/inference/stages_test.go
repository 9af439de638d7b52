package inference

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

func TestStagesAreAskedInTheirOrder(t *testing.T) {
	t.Parallel()
	refusal := &exchange.Error{Status: 446, Type: "hooks_failed", Message: "no"}
	first := func(provider string, do func() *exchange.Error) func(*Candidate) (*Reply, *exchange.Error) {
		return func(c *Candidate) (*Reply, *exchange.Error) {
			if c.Chosen().Route.Provider == provider {
				return nil, do()
			}
			return nil, nil
		}
	}
	for name, c := range map[string]struct {
		hook   scripted
		refuse string
		config string
		events []string
		status int
		answer string
	}{
		"a target that answers": {
			config: twoTargets, status: 200, answer: "one",
			events: []string{"before one", "admit call", "admit one", "sent to one", "settle one", "settle hook", "settle call"},
		},
		"no config": {
			status: 200, answer: "one",
			events: []string{"before one", "admit one", "sent to one", "settle hook", "settle one"},
		},
		"a hook that refuses the first target": {
			hook: scripted{before: first("one", func() *exchange.Error { return refusal })}, config: twoTargets, status: 200, answer: "two",
			events: []string{"before one", "release hook", "before two", "admit call", "admit two", "sent to two", "settle two", "settle hook", "settle call"},
		},
		"a hook that answers": {
			hook: scripted{before: func(*Candidate) (*Reply, *exchange.Error) {
				return &Reply{Type: "application/json", Body: []byte(answerOf("hook"))}, nil
			}}, config: twoTargets, status: 200, answer: "hook",
			events: []string{"before one", "release hook"},
		},
		"a hook that refuses once the call is counted": {
			hook: scripted{counted: func() (*Reply, *exchange.Error) { return nil, refusal }}, config: twoTargets, status: 446,
			events: []string{"before one", "admit call", "release hook", "before two", "release hook", "release call"},
		},
		"a limit of the first target": {
			refuse: "one", config: twoTargets, status: 200, answer: "two",
			events: []string{"before one", "admit call", "refuse one", "release hook", "before two", "admit two", "sent to two", "settle two", "settle hook", "settle call"},
		},
		"a limit of the call": {
			refuse: "call", config: twoTargets, status: 429,
			events: []string{"before one", "refuse call", "release hook"},
		},
		"a hook that refuses the first answer": {
			hook: scripted{complete: func(a *Answer) *exchange.Error {
				if a.Attempt.Route.Provider == "one" {
					return refusal
				}
				return nil
			}}, config: twoTargets, status: 200, answer: "two",
			events: []string{"before one", "admit call", "admit one", "sent to one", "settle one", "settle hook", "before two", "admit two", "sent to two", "settle two", "settle hook", "settle call"},
		},
		"a hook that refuses the only answer": {
			hook: scripted{complete: func(*Answer) *exchange.Error { return refusal }}, status: 446,
			events: []string{"before one", "admit one", "sent to one", "settle hook", "settle one"},
		},
		"a hook that changes the answer": {
			hook: scripted{complete: func(a *Answer) *exchange.Error {
				a.Body = bytes.ReplaceAll(a.Body, []byte("one"), []byte("changed"))
				return nil
			}}, status: 200, answer: "changed",
			events: []string{"before one", "admit one", "sent to one", "settle hook", "settle one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			hook := c.hook
			hook.recordedHold = &recordedHold{bench: b}
			b.hooks = []Hook{&hook}
			header := []string{"X-Gw-Provider", "one"}
			if c.config != "" {
				header = []string{"X-Gw-Config", c.config}
			}
			w, x := b.call(t, plainChat, &recordingLimiter{b, c.refuse}, header...)
			if !slices.Equal(b.events, c.events) {
				t.Errorf("events %q, want %q", b.events, c.events)
			}
			if w.Code != c.status || x.Status != c.status || c.answer != "" && !strings.Contains(w.Body.String(), `"`+c.answer+`"`) {
				t.Errorf("%d, outcome %d: %s", w.Code, x.Status, w.Body)
			}
		})
	}
}

// An opinion is a stage that the engine knows by its interfaces only: it inspects answers,
// changes their status, adds to them, and has something to say in the record.
type opinion struct {
	*bench
	status  int // of answers of the provider "one"; 0: as they are
	private bool
}

func (o *opinion) Before(_ context.Context, c *Candidate) (Visit, *Reply, *exchange.Error) {
	v := &opinionVisit{recordedHold: &recordedHold{o.bench, "opinion"}, opinion: o}
	c.Notes.Set(o, v)
	return v, nil, nil
}

type opinionVisit struct {
	*recordedHold
	*opinion
}

func (v *opinionVisit) note(what string) { v.opinion.note(what) }

func (v *opinionVisit) Inspect(_ context.Context, res *Response) error {
	v.note("inspect " + res.Attempt.Route.Provider)
	res.Attempt.Private = v.private
	return nil
}

func (v *opinionVisit) Complete(_ context.Context, answer *Answer) *exchange.Error {
	if v.status != 0 && answer.Attempt.Route.Provider == "one" {
		answer.Status = v.status
	}
	return nil
}

func (v *opinionVisit) Annotate(stream bool) Annotation {
	if stream {
		return Annotation{Event: []byte("data: {\"opinion\":1}\n\n")}
	}
	return Annotation{Member: []byte(`"opinion":1`)}
}

func (v *opinionVisit) Answered(a *exchange.Attempt, sent bool) {
	v.note(fmt.Sprintf("answered %s, sent %v", a.Route.Provider, sent))
}

func (v *opinionVisit) Record(r *reqlog.Record) { r.HookResults = []byte(`{"opinion":1}`) }

// A stage can do all that guardrails do: look at answers before the commit point, add to them, have
// another target tried, keep an answer from the cache, and write into the record.
func TestAStageCanDoWhatGuardrailsDo(t *testing.T) {
	t.Parallel()
	const retried = `{"strategy":{"mode":"fallback","on_status_codes":[246]},"targets":[{"provider":"@one"},{"provider":"@two"}]}`
	b := newBench(t)
	b.hooks = []Hook{&opinion{b, 246, false}}
	w, x := b.call(t, plainChat, nil, "X-Gw-Config", retried)
	want := []string{"sent to one", "inspect one", "answered one, sent true", "settle opinion", "sent to two", "inspect two", "settle opinion"}
	if w.Code != 200 || !slices.Equal(b.events, want) || !strings.HasSuffix(w.Body.String(), `,"opinion":1}`) || strings.Count(w.Body.String(), "opinion") != 1 {
		t.Errorf("%d, events %q, want %q: %s", w.Code, b.events, want, w.Body)
	}
	if r := Record(x); string(r.HookResults) != `{"opinion":1}` || r.Provider != "two" {
		t.Errorf("record %+v", r)
	}
	b.answers["two"] = func() *http.Response { return answering(200, "text/event-stream", whole) }
	if w, _ := b.call(t, strings.Replace(plainChat, "{", `{"stream":true,`, 1), nil, "X-Gw-Provider", "two"); !strings.HasPrefix(w.Body.String(), "data: {\"opinion\":1}\n\n"+firstChunk) {
		t.Errorf("got %s", w.Body)
	}
	delete(b.answers, "two")
	for _, private := range []bool{true, false} {
		b.hooks, b.events = []Hook{&opinion{b, 0, private}, &cacheHook{b.Forwarder}}, nil
		for range 2 {
			if w, _ := b.call(t, strings.Replace(plainChat, "hi", fmt.Sprint(private), 1), nil, "X-Gw-Provider", "two", "X-Gw-Cache", "simple"); strings.Count(w.Body.String(), "opinion") != 1 {
				t.Errorf("got %s", w.Body)
			}
		}
		hit := slices.Contains(b.events, "answered two, sent false")
		if sent := strings.Count(strings.Join(b.events, ","), "sent to two"); hit == private || hit != (sent == 1) {
			t.Errorf("private %v: events %q", private, b.events)
		}
	}
}

// The engine, and what moves requests and answers, know stages by their interfaces only.
func TestTheEngineKnowsNoStage(t *testing.T) {
	t.Parallel()
	stages := []string{"ownership", "claims", "guardrailHook", "guard", "judgment", "cacheHook", "lookup", "batchOutput", "outputFile"}
	for _, name := range []string{"engine.go", "visits.go", "stages.go", "inspect.go", "annotate.go", "reply.go", "answer.go", "request.go", "roundtrip.go", "transport.go", "stream.go", "record.go", "background.go", "forward.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "stages" { // the one list of them
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				var of ast.Expr // a type
				switch n := n.(type) {
				case *ast.StarExpr:
					of = n.X
				case *ast.CompositeLit:
					of = n.Type
				}
				if id, ok := of.(*ast.Ident); ok && slices.Contains(stages, id.Name) {
					t.Errorf("%s knows %s", name, id.Name)
				}
				return true
			})
		}
	}
}

func TestAHookEndsAStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answers["one"] = func() *http.Response { return answering(200, "text/event-stream", whole) }
	seen := 0
	hook := &scripted{recordedHold: &recordedHold{bench: b}, event: func([]byte) error {
		if seen++; seen > 1 {
			return errors.New("that is enough")
		}
		return nil
	}}
	b.hooks = []Hook{hook}
	w, x := b.call(t, strings.Replace(plainChat, "{", `{"stream":true,`, 1), nil, "X-Gw-Provider", "one")
	if got := w.Body.String(); !strings.HasPrefix(got, firstChunk) || strings.Contains(got, textChunk) || !strings.Contains(got, "stream_interrupted") || strings.Contains(got, "[DONE]") {
		t.Errorf("got %s", got)
	}
	if x.Cut != "answer_refused" || !strings.Contains(x.Failure, "that is enough") {
		t.Errorf("outcome %q, %q", x.Cut, x.Failure)
	}
}

// A hit is neither sent nor counted, and its answer is that of the call which was.
func TestTheCacheAnswersBeforeACallIsCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var bodies []string
	for range 2 {
		w, _ := b.call(t, plainChat, &recordingLimiter{b, ""}, "X-Gw-Provider", "one", "X-Gw-Cache", "simple")
		bodies = append(bodies, w.Body.String())
		b.note(w.Header().Get("X-Gw-Cache-Status"))
	}
	if want := []string{"admit one", "sent to one", "settle one", "MISS", "HIT"}; !slices.Equal(b.events, want) {
		t.Errorf("events %q, want %q", b.events, want)
	}
	if bodies[0] != bodies[1] || bodies[0] != answerOf("one") {
		t.Errorf("got %s, then %s", bodies[0], bodies[1])
	}
}

// Whether or not a call may be answered from the cache, guardrails judge it before the limits count
// it: a call that is refused is counted by none.
func TestGuardrailsJudgeACallBeforeItIsCounted(t *testing.T) {
	t.Parallel()
	const deny = `{"provider":"@one","input_guardrails":[{"default.contains":{"words":["bad"],"operator":"none"},"deny":true}]}`
	for _, cached := range []string{"false", "simple"} {
		for _, c := range []struct {
			text, refuse string
			status       int
			events       []string
		}{
			{"bad", "", 446, nil},
			{"bad", "call", 446, nil},
			{"good", "call", 429, []string{"refuse call"}},
			{"good", "", 200, []string{"admit call", "admit one", "sent to one", "settle one", "settle call"}},
		} {
			b := newGuardBench(t)
			w, x := b.call(t, strings.Replace(plainChat, "hi", c.text, 1), &recordingLimiter{b, c.refuse}, "X-Gw-Config", deny, "X-Gw-Cache", cached)
			x.Close()
			if w.Code != c.status || !slices.Equal(b.events, c.events) {
				t.Errorf("%s, refused %q, cache %s: %d, events %q, want %d, %q", c.text, c.refuse, cached, w.Code, b.events, c.status, c.events)
			}
		}
	}
}

// Whatever ends a call that leads a flight, its flight ends, and nothing is kept of an answer
// that is not whole.
func TestAFlightEndsWithItsCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func() *http.Response
		refuse string
	}{
		"it is refused by a limit": {refuse: "one"},
		"its provider fails":       {answer: func() *http.Response { return answering(500, "application/json", `{}`) }},
		"its answer is not whole": {answer: func() *http.Response {
			return answering(200, "application/json", strings.Replace(answerOf("one"), `"stop"`, `"length"`, 1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.answers["one"] = c.answer
			b.call(t, plainChat, &recordingLimiter{b, c.refuse}, "X-Gw-Provider", "one", "X-Gw-Cache", "simple")
			delete(b.answers, "one")
			w, _ := b.call(t, plainChat, nil, "X-Gw-Provider", "one", "X-Gw-Cache", "simple")
			if status := w.Header().Get("X-Gw-Cache-Status"); w.Code != 200 || status != "MISS" || w.Body.String() != answerOf("one") {
				t.Errorf("%d, %s: %s", w.Code, status, w.Body)
			}
		})
	}
}

// What was noted of an attempt that failed is not part of the call: the provider, the model and
// what was used are those of the attempt that answered.
func TestTheOutcomeIsThatOfTheAttemptThatAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answers["one"] = func() *http.Response {
		return answering(200, "application/json", `{"error":{"message":"no"},"usage":{"prompt_tokens":900,"completion_tokens":900}}`)
	}
	_, x := b.call(t, plainChat, nil, "X-Gw-Config", twoTargets)
	record := Record(x)
	if record.Provider != "two" || record.PromptTokens != 3 || record.Status != 200 || record.Failure != "" || len(record.AttemptLog) != 2 || record.AttemptLog[0].Provider != "one" || record.AttemptLog[0].Failure == "" {
		t.Errorf("got %+v", record)
	}
	if x.Attempts[0].Usage.Known || !x.Attempts[0].FirstByte.IsZero() {
		t.Errorf("the first attempt has %+v", x.Attempts[0])
	}
}

// If no attempt follows one that failed, the client gets its answer as it came. The attempt is
// over by then; what becomes of the answer is the call's.
func TestAFailedAnswerIsGivenIfNothingFollows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, slug := range []string{"one", "two"} {
		b.answers[slug] = func() *http.Response {
			res := answering(503, "application/json", `{"error":{"message":"`+slug+` is busy"}}`)
			res.Header.Set("X-Of", slug)
			return res
		}
	}
	w, x := b.call(t, plainChat, &recordingLimiter{b, ""}, "X-Gw-Config", twoTargets)
	if w.Code != 503 || w.Header().Get("X-Of") != "two" || !strings.Contains(w.Body.String(), "two is busy") {
		t.Errorf("%d, %v: %s", w.Code, w.Header(), w.Body)
	}
	record := Record(x)
	if record.Status != 503 || !x.Complete || len(record.AttemptLog) != 2 || record.AttemptLog[1].Failure == "" || record.Failure != record.AttemptLog[1].Failure || record.LastUsed != "config.targets[1]" {
		t.Errorf("got %+v", record)
	}
	if want := []string{"admit call", "admit one", "sent to one", "settle one", "admit two", "sent to two", "settle two", "settle call"}; !slices.Equal(b.events, want) {
		t.Errorf("events %q, want %q", b.events, want)
	}
}

// BenchmarkServe is what the gateway itself costs of a call of 2 KB.
func BenchmarkServe(b *testing.B) {
	text := strings.Repeat("word ", 400)
	chunk := strings.Replace(firstChunk, "Hel", "word ", 1)
	for name, c := range map[string]struct {
		media, answer, members string
		header                 []string
	}{
		"plain":  {"application/json", answerOf(text), "", []string{"X-Gw-Provider", "one"}},
		"stream": {"text/event-stream", strings.Repeat(chunk, 100) + lastChunk + usageChunk + doneEvent, `"stream":true,`, []string{"X-Gw-Provider", "one"}},
		"config": {"application/json", answerOf(text), "", []string{"X-Gw-Config", twoTargets}},
		"cached": {"application/json", answerOf(text), "", []string{"X-Gw-Provider", "one", "X-Gw-Cache", "simple"}},
	} {
		b.Run(name, func(b *testing.B) {
			w := newBench(b)
			w.answers["one"] = func() *http.Response { return answering(200, c.media, c.answer) }
			body := `{"model":"m",` + c.members + `"messages":[{"role":"user","content":"` + text + `"}]}`
			b.ReportAllocs()
			for b.Loop() {
				if _, x := w.call(b, body, nil, c.header...); Record(x).Status != 200 {
					b.Fatal("it failed")
				}
				w.events = w.events[:0]
			}
		})
	}
}

// A hook that refuses an answer does what it is for. Everything else that ends an attempt is an error of the log, with
// the status that the attempt has, whatever the proxy makes of it.
func TestOnlyFailuresAreErrorsInTheLog(t *testing.T) {
	t.Parallel()
	refusing := &scripted{complete: func(*Answer) *exchange.Error {
		return &exchange.Error{Status: exchange.StatusHooksDenied, Type: "hooks_failed", Message: "no"}
	}}
	for name, c := range map[string]struct {
		hook    *scripted
		timeout string
		level   zapcore.Level
		status  int64
	}{
		"a refusal": {refusing, "", zapcore.DebugLevel, exchange.StatusHooksDenied},
		"a timeout": {new(scripted), "1", zapcore.ErrorLevel, http.StatusRequestTimeout},
	} {
		core, logs := observer.New(zapcore.DebugLevel)
		b := newBench(t)
		b.logger = zap.New(core)
		c.hook.recordedHold = &recordedHold{bench: b}
		b.hooks = []Hook{c.hook}
		header := []string{"X-Gw-Provider", "one"}
		if c.timeout != "" {
			b.serve = func(r *http.Request) *http.Response {
				<-r.Context().Done() // it never answers
				return nil
			}
			header = append(header, "X-Gw-Request-Timeout", c.timeout)
		}
		b.call(t, plainChat, nil, header...)
		lines := logs.FilterMessage("attempt failed").All()
		if len(lines) != 1 || lines[0].Level != c.level || lines[0].ContextMap()["status"] != c.status {
			t.Errorf("%s: %+v", name, lines)
		}
	}
}
