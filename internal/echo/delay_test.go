package echo

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
)

func TestDelays(t *testing.T) {
	e := &Echo{Delay: caddy.Duration(time.Hour), ChunkDelay: caddy.Duration(time.Minute)}
	for name, test := range map[string]struct {
		body string
		took time.Duration
	}{
		"JSON":   {`{"prompt":"a b"}`, time.Hour},
		"stream": {`{"prompt":"a b","stream":true}`, time.Hour + 2*time.Minute}, // 3 chunks
		"error":  {`{"prompt":7}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				do(t, e, http.MethodPost, "/completions", test.body)
				if took := time.Since(start); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}

func TestClientLeavesDuringADelay(t *testing.T) {
	for name, test := range map[string]struct {
		e      Echo
		status int
		body   string
	}{
		"before the first byte": {Echo{Delay: caddy.Duration(time.Hour)}, statusClientClosed, ""},
		"between chunks":        {Echo{ChunkDelay: caddy.Duration(time.Hour)}, http.StatusOK, "data: {"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/completions",
					strings.NewReader(`{"prompt":"a b","stream":true}`))
				w := doRequest(t, &test.e, r)
				if took := time.Since(start); took != time.Second {
					t.Errorf("took %v", took)
				}
				body := w.Body.String()
				if w.Code != test.status || !strings.HasPrefix(body, test.body) ||
					strings.Count(body, "data:") != strings.Count(test.body, "data:") {
					t.Errorf("status %d: %q", w.Code, body)
				}
			})
		})
	}
}

// leavingWriter is a client that disconnects after the first write.
type leavingWriter struct {
	*httptest.ResponseRecorder
	leave func()
}

func (w leavingWriter) Write(p []byte) (int, error) {
	defer w.leave()
	return w.ResponseRecorder.Write(p)
}

func TestClientLeavesWithoutADelay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := leavingWriter{httptest.NewRecorder(), cancel}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/completions",
		strings.NewReader(`{"prompt":"a b c","stream":true}`))
	if err := new(Echo).ServeHTTP(w, r, nil); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(w.Body.String(), "data:"); n != 1 {
		t.Errorf("%d events", n)
	}
}

// An event reaches the client before the next one is generated.
func TestEveryEventIsFlushed(t *testing.T) {
	e := &Echo{ChunkDelay: caddy.Duration(time.Hour)}
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		if err := e.ServeHTTP(w, r, nil); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()

	response, err := http.Post(server.URL+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"a b","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len("data: {"))
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "data: {" {
		t.Errorf("%q, %v", first, err)
	}
	response.Body.Close()
	<-ended // the client disconnected, so the handler does not wait for the rest of the hour
}
