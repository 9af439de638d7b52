package inference

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

const operatorKey = "the operator's key of more than 32 characters"

// A bench is a forwarder whose providers, "one" and "two", are a round-tripper. No Caddy
// runs.
type bench struct {
	*Forwarder
	gateway *exchange.Gateway
	db      *storage.DB
	events  []string // by the stages and the providers, in order
	answers map[string]func() *http.Response
}

func newBench(t testing.TB) *bench {
	t.Helper()
	store, err := badger.Open(t.TempDir(), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db := storage.NewDB(store)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	now := func() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }
	keyring, err := credentials.OpenKeyring(t.Context(), db, credentials.NewSecret("master"), now, crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	shelf, err := routing.OpenConfigStore(t.Context(), db, keyring, now, crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cache.Open(t.Context(), db, now)
	if err != nil {
		t.Fatal(err)
	}
	headers, err := exchange.NewHeaders(nil)
	if err != nil {
		t.Fatal(err)
	}
	admin := credentials.DigestOf(operatorKey)
	saved := make(map[string]*credentials.Provider)
	for _, slug := range []string{"one", "two"} {
		saved[slug] = &credentials.Provider{Slug: slug, Dialect: "openai", BaseURL: &url.URL{Scheme: "fake", Host: slug, Path: "/v1"}, Key: credentials.NewSecret("sk-" + slug)}
	}
	b := &bench{db: db, answers: make(map[string]func() *http.Response)}
	b.gateway = &exchange.Gateway{
		Authenticator: &credentials.Authenticator{Keyring: keyring, OrganisationID: "org", DefaultWorkspace: "ws", AdminKey: &admin},
		Router:        &credentials.Router{Keyring: keyring, Providers: saved, BuiltIn: func(string) (*url.URL, bool, bool) { return nil, false, false }, SlugOf: func(id string) string { return id }},
		Configs:       &exchange.Configs{Store: shelf, Options: routing.Options{Saved: true, SavedProvider: func(string) bool { return true }}},
		Headers:       headers, Now: now, Random: crand.Reader, Acquire: func() func() { return func() {} },
	}
	connections := &http.Transport{}
	connections.RegisterProtocol("fake", b)
	transport := &Transport{pools: upstream.Pools{Operator: &upstream.Pool{Transport: connections}}}
	b.Forwarder = &Forwarder{
		Settings:  Settings{Answers: func() Answers { return answers }, Random: rand.New(rand.NewPCG(1, 2))},
		proxy:     passing{transport},
		transport: transport,
		client:    upstream.NewClient(transport.pools, upstream.Options{}),
		logger:    zap.NewNop(),
	}
	b.hooks = []Hook{&cacheHook{b.Forwarder}}
	return b
}

func (b *bench) note(what string) { b.events = append(b.events, what) }

// RoundTrip is the providers: what has no answer of its own answers with its name.
func (b *bench) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	b.note("sent to " + r.URL.Host)
	if answer := b.answers[r.URL.Path]; answer != nil {
		b.note(r.URL.Path)
		return answer(), nil
	}
	if answer := b.answers[r.URL.Host]; answer != nil {
		return answer(), nil
	}
	return answering(200, "application/json", answerOf(r.URL.Host)), nil
}

func answerOf(text string) string {
	return `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
}

func answering(status int, media, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {media}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), ProtoMajor: 1,
	}
}

// passing does what reverse_proxy does with a request: it passes the answer on.
type passing struct{ transport http.RoundTripper }

func (p passing) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	res, err := p.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	maps.Copy(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	_, err = io.Copy(w, res.Body)
	return err
}

const twoTargets = `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@one"},{"provider":"@two"}]}`

// call makes a chat and returns its answer, and what became of it.
func (b *bench) call(t testing.TB, body string, limiter exchange.Limiter, header ...string) (*httptest.ResponseRecorder, *exchange.Exchange) {
	t.Helper()
	return b.request(t, http.MethodPost, "/chat/completions", body, limiter, header...)
}

// request makes a call of any endpoint, at a path below /v1.
func (b *bench) request(t testing.TB, method, path, body string, limiter exchange.Limiter, header ...string) (*httptest.ResponseRecorder, *exchange.Exchange) {
	t.Helper()
	r := httptest.NewRequest(method, "/v1"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("X-Gw-Api-Key", operatorKey)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{}))
	w := httptest.NewRecorder()
	e, err := exchange.EndpointOf(method, "/v1"+path)
	if err != nil {
		t.Fatal(err)
	}
	x := b.gateway.Begin(w, r, e)
	defer x.Close()
	if limiter != nil {
		x.Limit(limiter)
	}
	if err := x.Prepare(exchange.Limits{Body: 1 << 20, Upload: 1 << 20, Replay: 1 << 20}); err != nil {
		t.Fatalf("refused: %v", err)
	}
	b.Serve(w, r, x)
	x.End()
	return w, x
}

const plainChat = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

// A recordingLimiter records which calls it admits, and how its holds end.
type recordingLimiter struct {
	*bench
	refuse string // the target that it refuses
}

type recordedHold struct {
	*bench
	what string
}

func (n *recordingLimiter) Admit(_ context.Context, _ *exchange.Call, target *exchange.Attempt) (exchange.Hold, *exchange.Error) {
	what := "call"
	if target != nil {
		what = target.Route.Provider
	}
	if what == n.refuse {
		n.note("refuse " + what)
		return nil, exchange.RateLimited("too many", 0)
	}
	n.note("admit " + what)
	return &recordedHold{n.bench, what}, nil
}

func (n *recordedHold) Header() []exchange.HeaderField  { return nil }
func (n *recordedHold) Settle(sent []*exchange.Attempt) { n.note("settle " + n.what) }
func (n *recordedHold) Release()                        { n.note("release " + n.what) }

// A scripted hook does what its functions say.
type scripted struct {
	*recordedHold
	before   func(*Candidate) (*Reply, *exchange.Error)
	counted  func() (*Reply, *exchange.Error)
	complete func(*Answer) *exchange.Error
	event    func([]byte) error
}

func (s *scripted) MayAnswer(*exchange.Call) bool { return s.before != nil }

func (s *scripted) Before(_ context.Context, c *Candidate) (Visit, *Reply, *exchange.Error) {
	visit := *s
	visit.recordedHold = &recordedHold{s.bench, "hook"}
	s.note("before " + c.Chosen().Route.Provider)
	if s.before == nil {
		return &visit, nil, nil
	}
	r, refusal := s.before(c)
	return &visit, r, refusal
}

func (s *scripted) Counted(context.Context) (*Reply, *exchange.Error) {
	if s.counted == nil {
		return nil, nil
	}
	return s.counted()
}

func (s *scripted) Complete(_ context.Context, a *Answer) *exchange.Error {
	if s.complete == nil {
		return nil
	}
	return s.complete(a)
}

func (s *scripted) Event(data []byte) error {
	if s.event == nil {
		return nil
	}
	return s.event(data)
}

func TestStagesAreAskedInTheirOrder(t *testing.T) {
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

func TestAHookEndsAStream(t *testing.T) {
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

// Whatever ends a call that leads a flight, its flight ends, and nothing is kept of an answer
// that is not whole.
func TestAFlightEndsWithItsCall(t *testing.T) {
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
	if record.Status != 503 || record.Failure != "" || !x.Complete || len(record.AttemptLog) != 2 || record.AttemptLog[1].Failure == "" || record.LastUsed != "config.targets[1]" {
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

// shared makes the credentials of the bench those of several workspaces.
func (b *bench) shared(t *testing.T) {
	t.Helper()
	owners, err := stored.OpenOwners(t.Context(), b.db)
	if err != nil {
		t.Fatal(err)
	}
	b.gateway.Owners, b.gateway.Responses = owners, stored.NewResponses(b.db)
	b.gateway.Several = func() bool { return true }
	b.hooks = []Hook{&ownership{b.Forwarder}}
}

func TestObjectsOfOthersAreRefusedBeforeACallIsCounted(t *testing.T) {
	b := newBench(t)
	b.shared(t)
	w, _ := b.request(t, http.MethodGet, "/files/file-1", "", &recordingLimiter{b, ""}, "X-Gw-Provider", "one")
	if w.Code != 404 || !strings.Contains(w.Body.String(), "object_not_found") || len(b.events) > 0 {
		t.Errorf("%d, events %q: %s", w.Code, b.events, w.Body)
	}
}

func TestObjectsThatABodyNamesAreRefusedBeforeItIsSent(t *testing.T) {
	b := newBench(t)
	b.shared(t)
	body := `{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h"}`
	w, _ := b.request(t, http.MethodPost, "/batches", body, &recordingLimiter{b, ""}, "X-Gw-Provider", "one")
	if want := []string{"admit one", "release one"}; w.Code != 404 || !slices.Equal(b.events, want) {
		t.Errorf("%d, events %q: %s", w.Code, b.events, w.Body)
	}
}

func TestWhatACallCreatesIsItsWorkspaces(t *testing.T) {
	b := newBench(t)
	b.shared(t)
	b.answers["/v1/vector_stores"] = func() *http.Response {
		return answering(200, "application/json", `{"id":"vs_1","object":"vector_store"}`)
	}
	b.answers["/v1/vector_stores/vs_1"] = b.answers["/v1/vector_stores"]
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/vector_stores", `{"name":"n"}`},
		{http.MethodGet, "/vector_stores/vs_1", ""},
	} {
		if w, _ := b.request(t, c.method, c.path, c.body, nil, "X-Gw-Provider", "one"); w.Code != 200 || !strings.Contains(w.Body.String(), "vs_1") {
			t.Errorf("%s %s: %d: %s", c.method, c.path, w.Code, w.Body)
		}
	}
	owns, err := b.gateway.Owners.Owns(t.Context(), "another", "one", []string{"vs_1"})
	if err != nil || owns[0] {
		t.Errorf("another workspace owns it: %v, %v", owns, err)
	}
}

func TestABatchIsAskedForItsOutputOnceTheCallIsCounted(t *testing.T) {
	batch := func(body string) func() *http.Response {
		return func() *http.Response { return answering(200, "application/json", body) }
	}
	for name, c := range map[string]struct {
		batch, refuse string
		status        int
		body          string
		events        []string
	}{
		"a batch with an output": {
			batch: `{"status":"completed","output_file_id":"file-1"}`, status: 200, body: "the output",
			events: []string{"admit one", "sent to one", "/v1/batches/b1", "sent to one", "/v1/files/file-1/content", "settle one"},
		},
		"a batch that is not done": {
			batch: `{"status":"in_progress"}`, status: 400, body: "batch_not_completed",
			events: []string{"admit one", "sent to one", "/v1/batches/b1", "release one"},
		},
		"a limit": {
			refuse: "one", status: 429, events: []string{"refuse one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.hooks = []Hook{&batchOutput{b.Forwarder}}
			b.answers["/v1/batches/b1"] = batch(c.batch)
			b.answers["/v1/files/file-1/content"] = func() *http.Response { return answering(200, "application/octet-stream", "the output") }
			w, _ := b.request(t, http.MethodGet, "/batches/b1/output", "", &recordingLimiter{b, c.refuse}, "X-Gw-Provider", "one")
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) || !slices.Equal(b.events, c.events) {
				t.Errorf("%d, events %q: %s", w.Code, b.events, w.Body)
			}
		})
	}
}
