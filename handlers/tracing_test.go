package handlers_test

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A receiver takes traces in over OTLP, as the OpenTelemetry collector does.
type receiver struct {
	mu    sync.Mutex
	spans []*otlp.Span
	raw   []byte // everything that came
}

// receive has Caddy's tracing export to a receiver.
func receive(t *testing.T) *receiver {
	t.Helper()
	rec := new(receiver)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		export := new(collector.ExportTraceServiceRequest)
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, export) != nil {
			t.Errorf("%s is not an export of traces: %q %v", r.URL.Path, body, err)
		}
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.raw = append(rec.raw, body...)
		for _, resource := range export.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				rec.spans = append(rec.spans, scope.Spans...)
			}
		}
		answer, _ := proto.Marshal(new(collector.ExportTraceServiceResponse))
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_PROPAGATORS", "tracecontext,baggage")
	return rec
}

// of waits for a number of spans in a trace, and returns them as they began.
func (rec *receiver) of(t *testing.T, trace string, n int) []*otlp.Span {
	t.Helper()
	var found []*otlp.Span
	eventually(t, fmt.Sprintf("%d spans of trace %s", n, trace), func() bool {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		found = nil
		for _, s := range rec.spans {
			if hex.EncodeToString(s.TraceId) == trace {
				found = append(found, s)
			}
		}
		return len(found) >= n
	})
	if len(found) != n {
		t.Fatalf("%d spans, want %d: %v", len(found), n, found)
	}
	slices.SortFunc(found, func(a, b *otlp.Span) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) })
	return found
}

// attributes are a span's, as text.
func attributes(s *otlp.Span) map[string]string {
	m := make(map[string]string)
	for _, a := range s.Attributes {
		m[a.Key] = text(a.Value)
	}
	return m
}

func text(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_DoubleValue:
		return "a number"
	case *common.AnyValue_ArrayValue:
		var all []string
		for _, e := range v.ArrayValue.Values {
			all = append(all, text(e))
		}
		return strings.Join(all, ",")
	}
	return "?"
}

func mustHave(t *testing.T, s *otlp.Span, want map[string]string) {
	t.Helper()
	got := attributes(s)
	for name, v := range want {
		if v == "-" {
			if _, ok := got[name]; ok {
				t.Errorf("span %q has %s", s.Name, name)
			}
		} else if got[name] != v {
			t.Errorf("span %q: %s is %q, want %q", s.Name, name, got[name], v)
		}
	}
}

// start runs a gateway whose site has other lines.
func start(t *testing.T, options, site string) *gatewaytest.Gateway {
	t.Helper()
	g := gatewaytest.New(t, options)
	g.Site = site
	g.Load()
	return g
}

const traced = "4bf92f3577b34da6a3ce929d0e0e4736"

func parent(trace string) string { return "traceparent: 00-" + trace + "-00f067aa0ba902b7-01" }

func TestSpansReachAReceiver(t *testing.T) {
	rec := receive(t)
	bad := gatewaytest.NewUpstream(t, respond(http.StatusServiceUnavailable, `{"error":{"message":"the words of a prompt"}}`))
	good := gatewaytest.NewUpstream(t, nil)
	g := start(t, bad.Provider("bad")+good.Provider("good")+trustLoopback, "tracing {\nspan site\n}\ngw_admin\ngw_ratelimit\ngw_inference")
	key, id := g.Key("k")

	config := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad","retry":{"attempts":1,"on_status_codes":[503]}},{"provider":"@good","override_params":{"model":"m-2"}}]}`
	a := g.Do("POST", "/v1/chat/completions", `{"model":"m-1","messages":[{"role":"user","content":"prompt-of-the-canary"}]}`, "x-gw-api-key: "+key, "x-gw-config: "+config, parent(traced),
		`x-gw-metadata: {"secret":"metadata-of-the-canary"}`, "baggage: b=baggage-of-the-canary", "x-gw-span-name: checkout")
	if a.Status != 200 || a.Header.Get("X-Gw-Trace-Id") != traced {
		t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	spans := rec.of(t, traced, 5)
	site, call, first, again, answered := spans[0], spans[1], spans[2], spans[3], spans[4]
	if call.Name == "site" { // the call's span begins where Caddy's does, within the clock's resolution
		site, call = call, site
	}
	if site.Name != "site" || hex.EncodeToString(site.ParentSpanId) != "00f067aa0ba902b7" {
		t.Errorf("Caddy's span: %v", site)
	}
	if call.Name != "checkout" || call.Kind != otlp.Span_SPAN_KIND_INTERNAL || string(call.ParentSpanId) != string(site.SpanId) || call.Status.GetCode() != otlp.Status_STATUS_CODE_UNSET {
		t.Errorf("the call's span: %v", call)
	}
	mustHave(t, call, map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1", "gen_ai.response.model": "m", "gw.endpoint": "chatComplete", "gw.trace_id": traced,
		"gw.attempts": "3", "gw.provider": "good", "http.response.status_code": "200", "error.type": "-", "gen_ai.usage.input_tokens": "-",
	})
	for _, s := range []*otlp.Span{first, again} {
		if s.Name != "chat m-1" || s.Kind != otlp.Span_SPAN_KIND_CLIENT || string(s.ParentSpanId) != string(call.SpanId) || s.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || s.Status.Message != "" {
			t.Errorf("a failed attempt's span: %v", s)
		}
		mustHave(t, s, map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gw.provider": "bad", "gw.target": "config.targets[0]", "server.address": "127.0.0.1",
			"server.port": bad.URL[strings.LastIndexByte(bad.URL, ':')+1:], "http.response.status_code": "503", "error.type": "503", "gen_ai.usage.input_tokens": "-",
		})
	}
	mustHave(t, first, map[string]string{"gw.retry": "-"})
	mustHave(t, again, map[string]string{"gw.retry": "1"})
	if answered.Name != "chat m-2" || answered.Status.GetCode() != otlp.Status_STATUS_CODE_UNSET {
		t.Errorf("the attempt that answered: %v", answered)
	}
	mustHave(t, answered, map[string]string{
		"gen_ai.request.model": "m-2", "gen_ai.response.model": "m", "gen_ai.response.id": "c1", "gen_ai.response.finish_reasons": "stop", "gen_ai.usage.input_tokens": "3",
		"gen_ai.usage.output_tokens": "2", "http.response.status_code": "200", "gw.provider": "good", "error.type": "-",
	})
	for _, c := range append(bad.Calls(), good.Calls()...) {
		if c.Header.Get("Traceparent") != "" || c.Header.Get("Baggage") != "" {
			t.Errorf("the provider got %v", c.Header)
		}
	}
	eventually(t, "the record", func() bool { return len(records(t)) == 1 })
	if r := records(t)[0]; r.TraceID != traced || r.SpanID != hex.EncodeToString(call.SpanId) || r.ParentSpanID != hex.EncodeToString(site.SpanId) || r.SpanName != "checkout" ||
		string(r.Metadata) != `{"b":"baggage-of-the-canary","secret":"metadata-of-the-canary"}` {
		t.Errorf("%+v", r)
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, secret := range []string{"canary", key, id, "sk-of-the-file", "words of a prompt"} {
		if strings.Contains(string(rec.raw), secret) {
			t.Errorf("%q is in a span", secret)
		}
	}
}

func TestSpansOfStreamsAndOfFailures(t *testing.T) {
	rec := receive(t)
	live := gatewaytest.NewUpstream(t, stream(
		`data: {"id":"c9","model":"m-live","choices":[{"index":0,"delta":{"content":"a"}}]}`+"\n\n",
		`data: {"id":"c9","model":"m-live","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`+"\n\n",
		`data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":11,"completion_tokens_details":{"reasoning_tokens":4}}}`+"\n\n", "data: [DONE]\n\n"))
	broken := gatewaytest.NewUpstream(t, stream(`data: {"choices":[{"index":0,"delta":{"content":"a"}}]}`+"\n\n"))
	errored := gatewaytest.NewUpstream(t, respond(http.StatusOK, `{"error":{"message":"overloaded"}}`))
	slow := gatewaytest.NewUpstream(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	g := start(t, live.Provider("live")+broken.Provider("broken")+gatewaytest.UnreachableProvider(t, "dead")+errored.Provider("errored")+slow.Provider("slow"), "tracing\ngw_admin\ngw_ratelimit\ngw_inference")
	key, _ := g.Key("k")
	ask := func(n int, provider string, headers ...string) *otlp.Span {
		t.Helper()
		trace := strings.Repeat(fmt.Sprint(n), 32)
		g.Do("POST", "/v1/chat/completions", streamed, append(headers, "x-gw-api-key: "+key, "x-gw-provider: "+provider, parent(trace))...)
		all := rec.of(t, trace, 3)
		i := slices.IndexFunc(all, func(s *otlp.Span) bool { return s.Kind == otlp.Span_SPAN_KIND_CLIENT })
		if i < 1 {
			t.Fatal("no span of an attempt")
		}
		// Where the status does not say why it failed, the call's span does.
		if call, attempt := attributes(all[i-1]), attributes(all[i]); call["http.response.status_code"] == "200" && call["error.type"] != attempt["error.type"] {
			t.Errorf("the call failed with %q, its attempt with %q", call["error.type"], attempt["error.type"])
		}
		return all[i]
	}
	mustHave(t, ask(1, "live"), map[string]string{
		"gen_ai.request.stream": "true", "gen_ai.response.id": "c9", "gen_ai.response.model": "m-live", "gen_ai.response.finish_reasons": "length", "gen_ai.usage.input_tokens": "7",
		"gen_ai.usage.output_tokens": "11", "gen_ai.usage.reasoning.output_tokens": "4", "gen_ai.response.time_to_first_chunk": "a number", "error.type": "-",
	})
	mustHave(t, ask(2, "broken"), map[string]string{"http.response.status_code": "200", "error.type": "stream_interrupted"})
	mustHave(t, ask(3, "dead"), map[string]string{"http.response.status_code": "-", "error.type": "provider_unreachable"})
	mustHave(t, ask(4, "errored"), map[string]string{"http.response.status_code": "200", "error.type": "error_in_answer"})
	mustHave(t, ask(5, "slow", "x-gw-request-timeout: 20"), map[string]string{"http.response.status_code": "-", "error.type": "provider_timeout"})
}

func TestARefusedCallHasASpanOnceItIsKnownWhatItIs(t *testing.T) {
	rec := receive(t)
	up := gatewaytest.NewUpstream(t, nil)
	g := start(t, up.Provider("file"), "tracing\ngw_admin\ngw_ratelimit\ngw_inference")
	key, _ := g.Key("k")
	policy(g, map[string]any{"value": 1})
	call(g, key)
	if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file", parent(traced)); a.Status != 429 {
		t.Fatal(a.Status, a.Body)
	}
	mustHave(t, rec.of(t, traced, 2)[1], map[string]string{"http.response.status_code": "429", "error.type": "429", "gw.attempts": "0"})
	other := strings.Repeat("c", 32)
	g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: wrong", parent(other))
	rec.of(t, other, 1)
}

// A provider gets a traceparent only where somebody forwards the header, and then it is
// that of the attempt's span, or the client's own where nobody traces.
func TestTraceparentGoesToProvidersThatAreToHaveIt(t *testing.T) {
	rec := receive(t)
	up := gatewaytest.NewUpstream(t, nil)
	g := start(t, up.Provider("file")+"block_inline_config off\n", "tracing\ngw_admin\ngw_ratelimit\ngw_inference")
	key, _ := g.Key("k")
	ask := func() string {
		t.Helper()
		a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file", parent(traced), "x-gw-forward-headers: traceparent")
		if a.Status != 200 {
			t.Fatal(a.Status, a.Body)
		}
		return up.Last(t).Header.Get("Traceparent")
	}
	got := ask()
	spans := rec.of(t, traced, 3)
	if want := "00-" + traced + "-" + hex.EncodeToString(spans[2].SpanId) + "-01"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	g.Site = "gw_admin\ngw_ratelimit\ngw_inference"
	g.Load()
	if got, want := ask(), strings.TrimPrefix(parent(traced), "traceparent: "); got != want {
		t.Errorf("without tracing: got %s, want %s", got, want)
	}
}
