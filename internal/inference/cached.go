package inference

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// A keeping is what becomes of an answer for the cache: the key of the call, and the
// flight that it leads, where others may wait for the answer.
type keeping struct {
	x        *exchange.Exchange
	key      cache.Key
	maxAge   time.Duration
	flight   *cache.Flight // nil: nobody waits
	recorder *recorder
	// store keeps the response that the answer is, where the gateway holds it; nil: nobody does.
	store func(response []byte) error
	// question is compared by its meaning where the letters differ; nil: it is not.
	question *question
}

// keep is how the answer of a call to a target is to be kept, nil where it is not; and the
// call's first attempt, of which the key is made.
func (e *engine) keep(t *routing.Target) (*keeping, *attempt, *exchange.Error) {
	x := e.x
	maxAge, ok := x.Cached(t)
	answers := e.f.Cache()
	if !ok || answers == nil {
		if x.Endpoint.Cacheable {
			x.CacheStatus = exchange.CacheDisabled
		}
		return nil, nil, nil
	}
	a, refusal := e.f.newAttempt(e.r.Context(), x, t, x.Path, 0, false)
	if refusal != nil {
		return nil, nil, refusal
	}
	call, err := e.f.call(a, t)
	var key cache.Key
	if err == nil {
		key, err = call.Key()
	}
	if err != nil { // a body that is not JSON is not the cache's to judge
		x.CacheStatus = exchange.CacheDisabled
		return nil, a, nil //nolint:nilerr // such a call is forwarded as it is
	}
	x.CacheStatus = exchange.CacheMiss
	if x.Caching.Refresh {
		x.CacheStatus = exchange.CacheRefresh
	}
	k := &keeping{x: x, key: key, maxAge: maxAge, recorder: new(recorder), store: a.store}
	if e.f.Semantic != nil && x.Semantic(t) {
		if q, ok := call.Question(e.f.Semantic.Provider + "/" + e.f.Semantic.Model); ok {
			k.question = &question{Question: q}
		}
	}
	return k, a, nil
}

// kept answers a call from the cache, and reports whether it did, or whether its client
// left. A call that is the same as one under way waits for that one's answer, as long as it
// would for its own.
func (e *engine) kept(k *keeping, t *routing.Target) (done bool, refusal *exchange.Error) {
	x, answers := e.x, e.f.Cache()
	if x.Caching.Refresh {
		return false, nil
	}
	timeout := e.timeout(t)
	begun := time.Now()
	for {
		entry, err := answers.Get(e.r.Context(), k.key, k.maxAge)
		if entry != nil {
			if err := x.Hold(2 * len(entry.Body)); err != nil { // and in the other form
				return false, exchange.Overloaded(err)
			}
		}
		if err != nil && e.r.Context().Err() == nil {
			e.f.logger.Error("reading the cache", zap.String("trace_id", x.TraceID), zap.Error(err))
			return false, nil
		}
		if entry != nil && e.replay(k, entry, t, exchange.CacheHit) {
			return true, nil
		}
		flight, leads := answers.Join(k.key)
		if leads {
			k.flight = flight
			return false, nil
		}
		inTime := e.await(flight, timeout, begun)
		e.waited = time.Since(begun)
		if !inTime {
			return false, exchange.TimedOut(timeout, errAttemptTimeout)
		}
		if clientGone(e.r, x) {
			return true, nil
		}
		switch entry, failed := flight.Result(); {
		case entry != nil && e.replay(k, entry, t, exchange.CacheHit):
			return true, nil
		case failed, entry != nil: // what cannot be shared is everybody's own
			return false, nil
		}
	}
}

// Of a leader whose client does not read: after maxHeld another leads.
const (
	maxHeld   = time.Second
	heldEvery = 250 * time.Millisecond
)

// await waits for a flight to end, as long as the client is there. It reports false
// where a timeout, if there is one, was over first; it runs since begun.
func (e *engine) await(flight *cache.Flight, timeout time.Duration, begun time.Time) (inTime bool) {
	look := time.NewTicker(heldEvery)
	defer look.Stop()
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout - time.Since(begun))
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-flight.Done():
			return true
		case <-e.r.Context().Done():
			return true
		case <-over:
			return false
		case <-look.C:
			if flight.Held() > maxHeld {
				flight.Leave()
			}
		}
	}
}

// alike answers with the kept answer to a question of the same meaning, and reports
// whether it did. To find it costs a call of the model of embeddings, so that the call is
// admitted before.
func (e *engine) alike(k *keeping, t *routing.Target) bool {
	if k == nil || k.question == nil || k.flight == nil && !e.x.Caching.Refresh {
		return false
	}
	entry := e.similar(k)
	if entry == nil || !e.replay(k, entry, t, exchange.CacheSemanticHit) {
		return false
	}
	k.flight.Land(entry)
	return true
}

// record is a recorder for the next attempt, nil where nothing is kept.
func (k *keeping) record() *recorder {
	if k == nil {
		return nil
	}
	k.x.Drop(cap(k.recorder.b))
	*k.recorder = recorder{flight: k.flight, x: k.x}
	return k.recorder
}

// call is what makes the call of an attempt the same as another. Its body is the cache's
// to keep.
func (f *Forwarder) call(a *attempt, t *routing.Target) (*cache.Call, error) {
	x := a.x
	strict, _ := strict(x.Call, t) // it was checked when the attempt was shaped
	body, _, err := a.target.Body(false)
	if err != nil {
		return nil, err
	}
	defer body.Release()
	call := &cache.Call{
		Organisation: x.Caller.OrganisationID, Endpoint: x.Endpoint.Name, URL: a.plainURL(), Strict: strict,
		Namespace: x.Caching.Namespace, Metadata: x.MetadataHeader(), Body: bytes.Clone(body.Bytes()),
	}
	if !f.SharedCache {
		call.Workspace = x.Caller.WorkspaceID
	}
	if a.target.Route.Inline {
		call.Credential = a.credential(t)
	}
	for _, name := range slices.Concat([]string{"Openai-Beta", "Anthropic-Beta", "Anthropic-Version"}, t.ForwardHeaders, x.ForwardHeaders,
		slices.Sorted(maps.Keys(a.target.Route.Header))) {
		call.Headers = append(call.Headers, name+": "+strings.Join(a.header.Values(name), "\n"))
	}
	return call, nil
}

// credential is what the caller brings along to be known by, of whatever provider: who
// has another gets answers of its own.
func (a *attempt) credential(t *routing.Target) []string {
	parts := []string{a.target.Route.Key.Reveal()}
	for _, name := range routing.VendorNames {
		if v := setting(a.call, a.target.Route, t, name); v != "" {
			parts = append(parts, name, v)
		}
	}
	return parts
}

// plainURL is the attempt's URL as it would be for an answer in one piece: some providers
// have streams at another path.
func (a *attempt) plainURL() string {
	if a.answer == nil {
		return a.url.String()
	}
	u := *a.url
	u.Path, u.RawPath = asWhole.Replace(u.Path), asWhole.Replace(u.RawPath)
	query := u.Query()
	if query.Get("alt") == "sse" {
		query.Del("alt")
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// asWhole are the paths of streams, and those of the same answer in one piece: Gemini's,
// those of Claude on Vertex AI, and Bedrock's.
var asWhole = strings.NewReplacer(
	":streamGenerateContent", ":generateContent", ":streamRawPredict", ":rawPredict",
	"/converse-stream", "/converse", "/invoke-with-response-stream", "/invoke",
)

// replay answers with a kept answer, as a stream or in one piece, as the call asks.
func (e *engine) replay(k *keeping, entry *cache.Entry, t *routing.Target, status string) bool {
	x := e.x
	streams := x.Chosen().Streams()
	entry, err := e.anew(entry, k)
	var body []byte
	if err == nil {
		body, err = entry.As(x.Endpoint.Name, streams)
	}
	if err != nil {
		e.f.logger.Error("a kept answer cannot be given", zap.String("trace_id", x.TraceID), zap.Error(err))
		return false
	}
	to := watcher{x: x}
	to.of(x.Chosen())
	x.CacheStatus, x.Admitted, to.out.Status = status, true, http.StatusOK
	x.AnswerBy(to.try)
	h := e.w.Header()
	x.SetHeader(h)
	if !streams {
		media := entry.Type
		if entry.Stream {
			media = "application/json"
		}
		h["Content-Type"], h["Content-Length"] = []string{media}, []string{strconv.Itoa(len(body))}
		e.w.WriteHeader(http.StatusOK)
		to.noteFirstByte()
		to.book(membersOf(body))
		x.Sent(body)
		_, _ = e.w.Write(body)
		return true
	}
	h["Content-Type"] = []string{"text/event-stream"}
	e.w.WriteHeader(http.StatusOK)
	s := newStream(io.NopCloser(bytes.NewReader(body)), &to, 0)
	s.unasked = to.try.WithoutUsage()
	_, _ = io.Copy(e.w, s)
	return true
}

// anew is a kept answer for another caller. Of a response that the gateway holds it is
// another response, with an id of its own: each caller may go on from it, or delete it.
func (e *engine) anew(entry *cache.Entry, k *keeping) (*cache.Entry, error) {
	if k.store == nil {
		return entry, nil
	}
	whole, err := entry.As(e.x.Endpoint.Name, false)
	if err != nil {
		return nil, err
	}
	id, ours := strings.CutPrefix(gjson.GetBytes(whole, "id").Str, "resp_")
	if !ours || len(id) < minID {
		return nil, errors.New("a response without an id of the gateway's")
	}
	fresh := e.x.NewID()
	if err := k.store(bytes.ReplaceAll(whole, []byte(id), []byte(fresh))); err != nil {
		return nil, err
	}
	other := *entry
	other.Body = bytes.ReplaceAll(entry.Body, []byte(id), []byte(fresh))
	return &other, nil
}

const minID = 16 // characters of what is unique in an id

// land keeps the answer that an attempt gave, and gives it to all who wait.
func (e *engine) land(k *keeping, a *attempt) {
	if k == nil {
		return
	}
	x := e.x
	entry := k.recorder.entry(x.Endpoint.Name, a.out)
	if entry == nil {
		k.fail(e.r.Context())
		return
	}
	entry.At, entry.Provider = x.Gateway.Now(), a.target.Route.Provider
	// The client has its answer: that it leaves now changes nothing.
	if err := e.f.Cache().Put(context.WithoutCancel(e.r.Context()), k.key, entry, k.question.learned(), k.maxAge); err != nil {
		e.f.logger.Error("keeping an answer", zap.String("trace_id", x.TraceID), zap.Error(err))
	}
	if k.flight != nil {
		k.flight.Land(entry)
	}
}

// leave ends the flight of a call that gave no answer, whatever the reason: it failed, its
// client left, or its answer broke off with a panic.
func (k *keeping) leave() {
	if k != nil && k.flight != nil {
		k.flight.Leave()
	}
}

// fail lets who waits call by itself; or lead, where only this call's client left.
func (k *keeping) fail(ctx context.Context) {
	switch {
	case k == nil || k.flight == nil:
	case ctx.Err() != nil:
		k.flight.Leave()
	default:
		k.flight.Fail()
	}
}

// A recorder holds what passes of an answer, for the cache.
type recorder struct {
	src    io.ReadCloser
	media  string
	stream bool
	b      []byte
	over   bool // it is too much
	whole  bool // it came to its end
	flight *cache.Flight
	x      *exchange.Exchange // holds b until the call is over
}

func (t *recorder) Read(p []byte) (int, error) {
	if t.flight != nil {
		t.flight.Flow()
		defer t.flight.Hold()
	}
	n, err := t.src.Read(p)
	if !t.over && !t.keep(p[:n]) {
		t.x.Drop(cap(t.b))
		t.over, t.b = true, nil
		if t.flight != nil {
			t.flight.Fail()
		}
	}
	t.whole = t.whole || errors.Is(err, io.EOF)
	return n, err
}

// keep notes what passes, and reports whether there is room for it.
func (t *recorder) keep(p []byte) bool {
	need := len(t.b) + len(p)
	if need > cap(t.b) {
		size := max(need, min(2*cap(t.b), cache.MaxEntry))
		if need > cache.MaxEntry || t.x.Hold(size-cap(t.b)) != nil {
			return false
		}
		t.b = append(make([]byte, 0, size), t.b...)
	}
	t.b = append(t.b, p...)
	return true
}

func (t *recorder) Close() error { return t.src.Close() }

// entry is what is to be kept: a whole answer with status 200 that is no error and ends
// as it should. Otherwise it is nil.
func (t *recorder) entry(endpoint string, out *exchange.Outcome) *cache.Entry {
	switch {
	case t.src == nil, t.over, !t.whole, out.Status != http.StatusOK, out.Failure != "", out.Malformed > 0:
		return nil
	case t.stream && !cache.Streams(endpoint):
		return nil
	}
	if !t.stream && (!gjson.ValidBytes(t.b) || membersOf(t.b).onlyError()) {
		return nil
	}
	entry := &cache.Entry{Stream: t.stream, Type: t.media, Body: t.b}
	// A stream is looked at in one piece, which it must be able to become.
	if whole, err := entry.As(endpoint, false); err != nil || !finished(endpoint, gjson.ParseBytes(whole)) {
		return nil
	}
	return entry
}

// complete are the words in which providers say that an answer is whole, in small letters.
// Why else an answer ended, nobody knows for sure.
var complete = map[string]bool{
	"stop": true, "tool_calls": true, "function_call": true, "eos": true, "eos_token": true, "complete": true,
	"end_turn": true, "stop_sequence": true, "tool_use": true,
}

// finished reports whether an answer says that it is whole, in the words of the caller's
// dialect. Of those without such words, one that says anything is.
func finished(endpoint string, answer gjson.Result) bool {
	is := func(reason gjson.Result) bool { return complete[strings.ToLower(reason.Str)] }
	if isError(answer) && endpoint != exchange.CreateResponse {
		return false
	}
	switch endpoint {
	case "chatComplete", "complete":
		choices := answer.Get("choices").Array()
		return len(choices) > 0 && !slices.ContainsFunc(choices, func(c gjson.Result) bool { return !is(c.Get("finish_reason")) })
	case providers.Messages:
		return is(answer.Get("stop_reason"))
	case exchange.CreateResponse: // one that goes on in the background is not one yet
		return answer.Get("status").Str == "completed"
	}
	says := false
	answer.ForEach(func(_, _ gjson.Result) bool {
		says = true
		return false
	})
	return says
}
