package inference

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/alloctest"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/tokens"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A meteringLimiter counts the tokens of calls, as policies do.
type meteringLimiter struct {
	learned *estimate.Estimator
	booked  atomic.Int64
	settled atomic.Int64 // calls
}

func (l *meteringLimiter) Admit(_ context.Context, _ *exchange.Call, target *exchange.Attempt) (exchange.Hold, *exchange.Error) {
	d := target.Demand(l.learned)
	target.Metered(&d, l.learned.Most(&d), l.learned)
	return meteringHold{l}, nil
}

type meteringHold struct{ to *meteringLimiter }

func (h meteringHold) Header() []exchange.HeaderField { return nil }

func (h meteringHold) Settle(sent []*exchange.Attempt) {
	for _, a := range sent {
		used, _ := a.Spent()
		h.to.booked.Add(used)
	}
	h.to.settled.Add(1)
}

func (h meteringHold) Release() {}

// A counter makes metered calls whose streams break off, one after the other.
type counter struct {
	*bench
	meteringLimiter

	records chan *reqlog.Record
	closed  chan struct{}
}

func newCounter(t testing.TB) *counter {
	c := &counter{bench: newBench(t), records: make(chan *reqlog.Record, 1), closed: make(chan struct{}, 1)}
	c.learned = estimate.New()
	c.gateway.Texts = new(tokens.Queue)
	c.gateway.Acquire = func() func() { return func() { c.closed <- struct{}{} } }
	c.conclude = func(x *exchange.Exchange) { x.Booked(func() { c.records <- Record(x) }) }
	return c
}

// of makes a call whose stream ends like that, and returns what the client got, the record and what was booked.
func (c *counter) of(t testing.TB, call, stream string, end error) (string, *reqlog.Record, int64) {
	t.Helper()
	c.answers["one"] = func() *http.Response {
		res := answering(200, "text/event-stream", stream)
		res.Body = io.NopCloser(io.MultiReader(strings.NewReader(stream), failing{end}))
		res.ContentLength = -1
		return res
	}
	c.booked.Store(0)
	c.settled.Store(0)
	path := "/chat/completions"
	if strings.Contains(call, `"input"`) {
		path = "/responses"
	}
	w, _ := c.request(t, http.MethodPost, path, call, c, "X-Gw-Provider", "@one")
	r := <-c.records
	<-c.closed
	if n := c.settled.Load(); n != 1 {
		t.Fatalf("settled %d times", n)
	}
	if booked := c.booked.Load(); booked != r.PromptTokens+r.CompletionTokens {
		t.Fatalf("%d tokens booked, %d and %d in the record", booked, r.PromptTokens, r.CompletionTokens)
	}
	return w.Body.String(), r, c.booked.Load()
}

// failing is the end of a stream.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func chatChunk(member, text string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"` + member + `":` + string(jsonscan.AppendQuoted(nil, text)) + "}}]}\n\n"
}

const openAIChat = `{"stream":true,"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]`

// A stream of an OpenAI model that breaks off is booked with the tokens of the text that the client got, wherever it does, and
// its record says the same.
func TestTheTokensOfAStreamThatBreaksOffAreCounted(t *testing.T) {
	c := newCounter(t)
	pieces := []string{"Hello", ",", " world", "!\n\n", "\tif x := \"y\" {", " Größe", " お誕生日", " \U0001f600", "   ", "\\", "123456", " the", "\x00"}
	rapid.Check(t, func(rt *rapid.T) {
		text, whole := "", chatChunk("role", "assistant")
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 40).Draw(rt, "pieces") {
			whole += chatChunk("content", p)
			text += p
		}
		cut := rapid.IntRange(0, len(whole)).Draw(rt, "cut")
		end := rapid.SampledFrom([]error{io.ErrUnexpectedEOF, io.EOF, context.Canceled}).Draw(rt, "end")
		got, r, _ := c.of(t, openAIChat+"}", whole[:cut], end)
		seen := ""
		for line := range strings.Lines(got) {
			seen += gjson.Get(strings.TrimPrefix(line, "data: "), "choices.0.delta.content").Str
		}
		if seen == "" {
			return // nothing came that a token could be of
		}
		if !strings.HasPrefix(text, seen) {
			rt.Fatalf("the client got %q of %q", seen, text)
		}
		want, _ := tokens.Count(tokens.O200k, seen)
		if r.CompletionTokens != want || !r.UsageEstimated {
			rt.Fatalf("%d tokens for %q (estimated: %t), want %d", r.CompletionTokens, seen, r.UsageEstimated, want)
		}
	})
}

func TestWhatIsNotCountedOfAStreamIsEstimated(t *testing.T) {
	c := newCounter(t)
	chunk := chatChunk("content", "Estimated text. ")
	words := strings.Repeat("counted text ", 200)
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}` + "\n\n"
	count := func(text string) int64 {
		n, _ := tokens.Count(tokens.O200k, text)
		return n
	}
	long := strings.Repeat("a long text of which the end is not kept ", 1000)
	events := func(kind, member, text string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + `","` + member + `":` + string(jsonscan.AppendQuoted(nil, text)) + "}\n\n"
	}
	for name, s := range map[string]struct {
		call, stream string
		want         int64
	}{
		"another family":       {strings.Replace(openAIChat, "gpt-4o", "m", 1) + "}", strings.Repeat(chunk, 8), 8 * 4},
		"several choices":      {openAIChat + `,"n":2}`, strings.Repeat(chunk, 8), 8 * 4},
		"a maximum":            {openAIChat + `,"max_tokens":5}`, chatChunk("content", words), 5},
		"usage before its end": {openAIChat + "}", chatChunk("content", words) + usage, count(words)},
		"more than is kept":    {openAIChat + "}", strings.Repeat(chatChunk("content", long[:1000]), 40), -40 * count(long[:1000])},
		"one large chunk":      {openAIChat + "}", chatChunk("content", long), -count(long)},
		"a tool's arguments": {openAIChat + "}", `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":""}}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\": \"Paris\"}"}}]}}]}` + "\n\n", count(`{"city": "Paris"}`)},
		"text that comes twice": {`{"stream":true,"model":"gpt-4o","input":"hi"}`, events("response.output_text.delta", "delta", words) + events("response.output_text.done", "text", words), count(words)},
	} {
		_, r, _ := c.of(t, s.call, s.stream, io.ErrUnexpectedEOF)
		got, exact := r.CompletionTokens, s.want > 0
		if near := max(s.want, -s.want); exact && got != s.want || got < near*99/100 || got > near*101/100 {
			t.Errorf("%s: %d tokens, want %d", name, got, s.want)
		}
	}
	if n := c.gateway.Texts.UncountedTexts(); n != 0 {
		t.Errorf("%d texts could not be counted", n)
	}

	begun, done := make(chan struct{}), make(chan struct{})
	for !c.gateway.Texts.Add("ws", 1<<20, func() { close(begun); <-done }) {
		runtime.Gosched() // the last call's text has just been counted, and is about to make room
	}
	<-begun
	_, r, _ := c.of(t, openAIChat+"}", chatChunk("content", words), io.ErrUnexpectedEOF)
	close(done)
	if want := int64(len(words)) / 4; r.CompletionTokens != want || c.gateway.Texts.UncountedTexts() != 1 {
		t.Errorf("%d tokens while too many texts wait, want %d", r.CompletionTokens, want)
	}
}

// Complete answers teach how many tokens a byte of a model's text has, by which one counts that broke off.
func TestStreamsThatBreakOffCountAsCompleteOnes(t *testing.T) {
	c := newCounter(t)
	call := strings.Replace(openAIChat, "gpt-4o", "m", 1) + "}"
	text := chatChunk("content", strings.Repeat("word", 50))
	for i := range 17 {
		want := int64(50)
		if i == 16 { // as many as teach it
			want = 100
		}
		if _, r, _ := c.of(t, call, text, io.ErrUnexpectedEOF); r.CompletionTokens != want {
			t.Fatalf("%d tokens after %d complete answers, want %d", r.CompletionTokens, i, want)
		}
		usage := `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":` + strconv.Itoa(100) + "}}\n\ndata: [DONE]\n\n"
		if _, r, _ := c.of(t, call, text+usage, io.EOF); r.CompletionTokens != 100 || r.UsageEstimated {
			t.Fatalf("%d tokens of a complete answer", r.CompletionTokens)
		}
	}
}

// passKept passes a stream on, whose text may be kept to be counted.
func passKept(text string, kept bool) {
	w := watchingChat()
	w.of(w.x.NewAttempt("", &credentials.Route{Provider: "file"}, nil))
	w.x.Attempts = []*exchange.Attempt{w.attempt}
	s := newStream(io.NopCloser(strings.NewReader(text)), w, 0)
	if kept {
		s.sampled = w.attempt
	}
	var p [32 << 10]byte
	for err := error(nil); err == nil; {
		_, err = s.Read(p[:])
	}
	s.Close()
	w.x.Close()
}

// Text that is kept to be counted takes no allocation of its own.
func TestKeptTextAllocatesNothing(t *testing.T) {
	var usual float64
	text := strings.Repeat(chatChunk("content", "some more text "), 2000) + "data: [DONE]\n\n"
	usual = testing.AllocsPerRun(20, func() { passKept(text, false) })
	alloctest.AtMost(t, usual+0.5, 20, func() { passKept(text, true) }) // a collection may empty the pools
}

// BenchmarkKeptText is what it costs to keep the text of a stream.
func BenchmarkKeptText(b *testing.B) {
	text := strings.Repeat(`data: {"id":"chatcmpl-123456789012345678901234","object":"chat.completion.chunk","created":1760000000,"model":"gpt-5-mini","service_tier":"default","system_fingerprint":"fp_1234567890","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`+"\n\n", 1000)
	for name, kept := range map[string]bool{"kept": true, "passed": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				passKept(text, kept)
			}
		})
	}
}
