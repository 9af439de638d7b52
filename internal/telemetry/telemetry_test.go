package telemetry

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/alloctest"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// sink keeps the compiler from leaving out what is measured.
var sink *Attempt

// Where Caddy's tracing is off, a call pays a look into its context.
func TestSpansCostNothingWithoutTracing(t *testing.T) {
	ctx := t.Context()
	for i := range 12 { // as deep as a request's context is
		ctx = context.WithValue(ctx, key(i), i)
	}
	alloctest.AtMost(t, 0, 100, func() {
		if Traced(ctx) {
			t.Error("traced")
		}
		var s *Span
		sink = s.Attempt(nil)
		s.Answered(Answer{})
		sink.End(nil)
		s.End(nil)
	})
}

type key int

func TestASpanThatNobodySamplesIsNone(t *testing.T) {
	ctx, _ := noop.NewTracerProvider().Tracer("").Start(t.Context(), "site")
	remote := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled}))
	if Traced(ctx) || Traced(remote) {
		t.Error("a span that is not recorded is taken for tracing")
	}
}

func TestMetricsAreRegisteredWithManyRegistries(t *testing.T) {
	for range 3 {
		r := prometheus.NewPedanticRegistry()
		for range 2 { // the second time they are there already
			if _, err := NewMetrics(r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Gather(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestModelsOfCallersAreOneLabel(t *testing.T) {
	m, err := NewMetrics(prometheus.NewRegistry(), []string{"listed"})
	if err != nil {
		t.Fatal(err)
	}
	label := func(model string, saved bool) string { return m.model(&Target{Model: model, SavedModel: saved}) }
	for _, c := range []struct {
		model string
		saved bool
		want  string
	}{{"", true, ""}, {"listed", false, "listed"}, {"anything", false, otherModel}, {"of-a-config", true, "of-a-config"}, {"of-a-config", false, otherModel}} {
		if got := label(c.model, c.saved); got != c.want {
			t.Errorf("%q, saved %v: got %q", c.model, c.saved, got)
		}
	}
	own := 0
	for i := range 2 * maxModels {
		if name := fmt.Sprint("saved-", i); label(name, true) == name {
			own++
		}
	}
	if own > maxModels/2 || own < maxModels/2-1 {
		t.Errorf("%d models of saved configs have a label of their own", own)
	}
	for workspace, want := range []string{"other's-0", "other's-1"} {
		if got := m.model(&Target{Model: want, SavedModel: true, Workspace: fmt.Sprint("other-", workspace)}); got != want {
			t.Errorf("the first model of another workspace is %q", got)
		}
	}
	for i := range 10 * maxModels {
		m.model(&Target{Model: fmt.Sprint("many-", i), SavedModel: true, Workspace: fmt.Sprint(i % 100)})
	}
	if n := len(savedModels.seen); n > maxModels {
		t.Errorf("%d models have a label of their own", n)
	}
	if label("listed", true) != "listed" || label("of-a-config", true) != "of-a-config" {
		t.Error("a model lost its label")
	}
}

func TestStatusesAreClasses(t *testing.T) {
	for status, want := range map[int]string{0: "none", 101: "1xx", 200: "2xx", 304: "3xx", 499: "4xx", 529: "5xx", 600: "none", 999: "none", -1: "none"} {
		if got := class(status); got != want {
			t.Errorf("%d: got %s", status, got)
		}
	}
}

func TestAnAttemptWithoutAnAnswerHasAStatusOfItsOwn(t *testing.T) {
	m, err := NewMetrics(prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	target := &Target{Endpoint: "e", Provider: rand.Text()} // counters are the process's
	m.Attempt(target, 503, false, false)
	m.Attempt(target, 0, false, true)
	m.Attempt(target, 0, true, true)
	m.Fallback(target)
	for _, status := range []string{"5xx", "error", "canceled"} {
		if n := value(t, m.vectors.attempts.WithLabelValues("e", target.Provider, "", status)); n != 1 {
			t.Errorf("%s: %v", status, n)
		}
	}
	if n := value(t, m.vectors.retries.WithLabelValues("e", target.Provider, "")); n != 2 {
		t.Errorf("%v retries", n)
	}
}

func value(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func BenchmarkCall(b *testing.B) {
	m, err := NewMetrics(prometheus.NewRegistry(), []string{"listed"})
	if err != nil {
		b.Fatal(err)
	}
	c := Call{
		Target: Target{Endpoint: "chatComplete", Provider: "file", Model: "listed"}, Status: 200,
		Duration: time.Second, FirstToken: time.Millisecond, Usage: prices.Usage{Prompt: 3, Completion: 2}, Cost: 7e6,
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Attempt(&c.Target, 200, false, false)
		m.Call(&c)
	}
}

func BenchmarkTracingIsOff(b *testing.B) {
	ctx := b.Context()
	for i := range 12 {
		ctx = context.WithValue(ctx, key(i), i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if Traced(ctx) {
			b.Fatal("traced")
		}
	}
}
