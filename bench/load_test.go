package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// against returns a process whose address is that of a test server.
func against(t *testing.T, handler http.HandlerFunc) *process {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &process{name: "test", addresses: map[string]string{echo: server.Listener.Addr().String()}, headers: func(*benchCase) string { return "X-Test: yes\r\n" }}
}

func TestLoadEndsAfterItsRequests(t *testing.T) {
	p := against(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Test") != "yes" || r.URL.Path != "/v1/chat/completions" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte(`{"content":"` + cases[0].answer() + `"}`))
	})
	done, err := p.load(t.Context(), Options{Duration: time.Minute, Connections: 3, Requests: 20}, cases[0])
	if err != nil || len(done.latencies) != 20 {
		t.Fatalf("%d requests, %v", len(done.latencies), err)
	}
	s := done.sample(spent{20 * time.Millisecond, 6000})
	if s.Requests != 20 || s.CPUMicros != 1000 || s.Written != 300 || s.PerSecond <= 0 || s.P50Millis < 0 {
		t.Errorf("%+v", s)
	}
}

func TestOneBadAnswerFailsTheLoad(t *testing.T) {
	p := against(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no room", http.StatusServiceUnavailable)
	})
	_, err := p.load(t.Context(), Options{Duration: time.Minute, Connections: 2, Requests: 1000}, cases[0])
	if err == nil || !strings.Contains(err.Error(), "test: answered 503 Service Unavailable: no room") {
		t.Error(err)
	}
}
