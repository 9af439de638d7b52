package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/telemetry"
	"github.com/caddy-gw/gateway/providers"
)

// clientOf returns a client, its route to a server, and an operation.
func clientOf(t *testing.T, answer http.HandlerFunc) (*desk, *credentials.Route, *Operation) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	route := &credentials.Route{Provider: "meanings", Dialect: "openai", BaseURL: base, Key: credentials.NewSecret("sk-own"), Header: http.Header{"X-Team": {"a"}}}
	return newDesk(t), route, &Operation{Name: "test", Endpoint: providers.Embed, Method: "POST", Path: "/embeddings", Model: "text-embedding-3-small", Workspace: "w"}
}

func TestACallOfTheGatewaysOwnIsCountedAndGivesItsMemoryBack(t *testing.T) {
	d, route, op := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if got := r.URL.Path + r.Header.Get("Authorization") + r.Header.Get("X-Team") + r.UserAgent() + string(body); got != `/embeddingsBearer sk-owna{"input":"x"}` {
			t.Errorf("the provider got %s", got)
		}
		_, _ = io.WriteString(w, `{"data":[],"usage":{"prompt_tokens":1000000,"total_tokens":1000000}}`)
	})
	var err error
	registry := prometheus.NewRegistry()
	if d.Metrics, err = telemetry.NewMetrics(registry, nil); err != nil {
		t.Fatal(err)
	}
	if d.Prices, err = prices.NewTable(nil, nil); err != nil {
		t.Fatal(err)
	}
	budget := inflight.New(1 << 20)
	d.InFlight = func() *inflight.Budget { return budget }
	answer, used, err := d.Do(t.Context(), route, op, []byte(`{"input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status != 200 || used.Prompt != 1_000_000 || budget.InUse() == 0 {
		t.Errorf("status %d, used %+v, %d bytes held", answer.Status, used, budget.InUse())
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var counted []string
	for _, f := range families {
		counted = append(counted, f.GetName())
	}
	if want := []string{"caddy_gw_attempts_total", "caddy_gw_cost_usd_total", "caddy_gw_tokens_total"}; !slices.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
	answer.Release()
	if n := budget.InUse(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

func TestACallOfTheGatewaysOwnIsBounded(t *testing.T) {
	d, route, op := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(" ", 100))
	})
	budget := inflight.New(1 << 20)
	d.InFlight = func() *inflight.Budget { return budget }
	op.MaxAnswer = 99
	if _, _, err := d.Do(t.Context(), route, op, []byte("{}")); err == nil || !strings.Contains(err.Error(), "more than 99 bytes") {
		t.Errorf("too long an answer: %v", err)
	}
	hangs, route, op := clientOf(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	op.Timeout = time.Nanosecond
	if _, _, err := hangs.Do(t.Context(), route, op, []byte("{}")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer in time: %v", err)
	}
	budget.Resize(10)
	if _, _, err := d.Do(t.Context(), route, op, make([]byte, 20)); !inflight.Refused(err) {
		t.Errorf("no memory: %v", err)
	}
	if n := budget.InUse(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}
