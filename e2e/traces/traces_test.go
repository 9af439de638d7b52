// Package traces_test checks the gateway's spans with the OTLP receiver of the
// OpenTelemetry collector. It is a module of its own, so that nobody who builds the gateway
// builds the collector.
package traces_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// collect starts a collector's receiver of both protocols.
func collect(t *testing.T) (sink *consumertest.TracesSink, grpc, overHTTP string) {
	t.Helper()
	sink = new(consumertest.TracesSink)
	var err error
	for range 10 { // until nobody else has taken one of the addresses meanwhile
		grpc, overHTTP = unusedAddress(t), unusedAddress(t)
		if err = receive(t, sink, grpc, overHTTP); err == nil {
			return sink, grpc, overHTTP
		}
	}
	t.Fatal(err)
	return nil, "", ""
}

// unusedAddress returns a loopback address that nobody listens on for now.
func unusedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// receive starts the receiver at these addresses.
func receive(t *testing.T, sink *consumertest.TracesSink, grpc, overHTTP string) error {
	t.Helper()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"grpc": map[string]any{"endpoint": grpc}, "http": map[string]any{"endpoint": overHTTP},
	}}).Unmarshal(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()), config, sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		return errors.Join(err, r.Shutdown(t.Context()))
	}
	t.Cleanup(func() {
		if err := r.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return nil
}

const trace = "4bf92f3577b34da6a3ce929d0e0e4736"

// spans waits for the spans of the trace, by their names.
func spans(t *testing.T, sink *consumertest.TracesSink, n int) map[string]ptrace.Span {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		found := make(map[string]ptrace.Span)
		for _, batch := range sink.AllTraces() {
			for _, resource := range batch.ResourceSpans().All() {
				for _, scope := range resource.ScopeSpans().All() {
					for _, s := range scope.Spans().All() {
						if s.TraceID().String() == trace {
							found[s.Name()] = s
						}
					}
				}
			}
		}
		switch {
		case len(found) >= n:
			return found
		case time.Now().After(deadline):
			t.Fatalf("%d spans, want %d: %v", len(found), n, found)
		}
	}
}

func TestTheCollectorTakesTheSpansIn(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			sink, grpc, overHTTP := collect(t)
			endpoint := "http://" + overHTTP
			if protocol == "grpc" {
				endpoint = "http://" + grpc
			}
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
			bad := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, `{"error":{"message":"down"}}`)
			})
			good := gatewaytest.NewUpstream(t, nil)
			g := gatewaytest.Start(t, "block_inline_config off\n"+bad.Provider("bad")+good.Provider("good"))
			g.Site = "tracing {\nspan site\n}\ngw_admin\ngw_ratelimit\ngw_inference"
			g.Load()
			key, id := g.Key("k")
			a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "traceparent: 00-"+trace+"-00f067aa0ba902b7-01",
				`x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad","override_params":{"model":"first"}},{"provider":"@good","override_params":{"model":"second"}}]}`)
			if a.Status != http.StatusOK {
				t.Fatal(a.Status, a.Body)
			}
			found := spans(t, sink, 4)
			site, call, first, second := found["site"], found["gateway chat m"], found["chat first"], found["chat second"]
			for name, s := range map[string]ptrace.Span{"gateway chat m": site, "chat first": call, "chat second": call} {
				if child, ok := found[name]; !ok || child.ParentSpanID() != s.SpanID() {
					t.Fatalf("%s is not below its parent: %v", name, found)
				}
			}
			if site.ParentSpanID().String() != "00f067aa0ba902b7" {
				t.Errorf("the site's span is below %s", site.ParentSpanID())
			}
			if call.Kind() != ptrace.SpanKindInternal || second.Kind() != ptrace.SpanKindClient || first.Status().Code() != ptrace.StatusCodeError || second.Status().Code() == ptrace.StatusCodeError {
				t.Errorf("kinds and statuses: %v %v %v %v", call.Kind(), second.Kind(), first.Status(), second.Status())
			}
			for attribute, want := range map[string]any{
				"gen_ai.operation.name": "chat", "gen_ai.request.model": "second", "gen_ai.provider.name": "openai", "gw.provider": "good",
				"gen_ai.usage.input_tokens": int64(3), "gen_ai.usage.output_tokens": int64(2), "gw.target": "config.targets[1]", "http.response.status_code": int64(200),
			} {
				if got, ok := second.Attributes().Get(attribute); !ok || got.AsRaw() != want {
					t.Errorf("%s is %v, want %v", attribute, got.AsRaw(), want)
				}
			}
			for _, s := range found {
				for name, v := range s.Attributes().All() {
					if text := v.AsString(); text == key || text == id {
						t.Errorf("%s of %s is the key's", name, s.Name())
					}
				}
			}
		})
	}
}
