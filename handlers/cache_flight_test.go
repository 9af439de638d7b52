package handlers_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Calls that are the same at the same time make one upstream call. One whose leader's
// client leaves is made again.
func TestSameCallsAtTheSameTimeMakeOneUpstream(t *testing.T) {
	l := newLab(t, "", "")
	var n atomic.Int64
	begun, gone, goOn := make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{})
	l.on("slow", func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		select {
		case <-goOn:
		case <-r.Context().Done():
			gone <- struct{}{}
			return
		}
		replies(&n)(w, r)
	})
	ask := func() *gatewaytest.Answer {
		a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+"slow", simple, "x-gw-provider: bad")
		return a
	}
	// The leader leaves.
	ctx, leave := context.WithCancel(t.Context())
	leader := l.Request("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+l.key, cue+"slow", simple, "x-gw-provider: bad").WithContext(ctx)
	go func() {
		if res, err := http.DefaultClient.Do(leader); err == nil {
			res.Body.Close()
		}
	}()
	<-begun
	var wg sync.WaitGroup
	answers := make([]*gatewaytest.Answer, 20)
	for i := range answers {
		wg.Go(func() { answers[i] = ask() })
	}
	leave()
	<-begun // by one of the others
	<-gone  // the leader's, at the provider too
	close(goOn)
	wg.Wait()
	hits := 0
	for _, a := range answers {
		if a.Status != 200 || a.Get("choices.0.message.content").Str != "answer 1" {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if a.Header.Get("x-gw-cache-status") == "HIT" {
			hits++
		}
	}
	if n.Load() != 1 || hits != len(answers)-1 {
		t.Errorf("%d upstream calls, %d hits", n.Load(), hits)
	}
}

// Who waits for another's answer waits as long as for an own one, does not wait for what
// cannot be shared, and does not wait for a client that reads nothing.
func TestWhoWaitsForAnAnswerIsNotHeldUp(t *testing.T) {
	long := func(n int) string {
		return strings.Replace(gatewaytest.Completion, `"ok"`, `"`+strings.Repeat("x", n)+`"`, 1)
	}
	begin := func(t *testing.T, more http.HandlerFunc) (l *lab, begun chan struct{}) {
		l, begun = newLab(t, "", ""), make(chan struct{}, 9)
		l.on("slow", func(w http.ResponseWriter, r *http.Request) {
			begun <- struct{}{}
			w.Header().Set("Content-Type", "application/json")
			more(w, r)
		})
		return l, begun
	}
	headers := []string{cue + "slow", simple, "x-gw-provider: bad"}
	t.Run("a timeout", func(t *testing.T) {
		goOn := make(chan struct{})
		l, begun := begin(t, func(w http.ResponseWriter, _ *http.Request) {
			<-goOn
			_, _ = io.WriteString(w, gatewaytest.Completion)
		})
		first := make(chan *gatewaytest.Answer)
		go func() {
			a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, headers...)
			first <- a
		}()
		<-begun
		if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, "x-gw-request-timeout: 100")...); a.Status != 408 || !strings.Contains(a.Body, "100ms") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		close(goOn)
		if a := <-first; a.Status != 200 || len(begun) > 0 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
	t.Run("a timeout, though leaders change", func(t *testing.T) {
		l, begun := begin(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		lead := func(ctx context.Context) {
			request := l.Request("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, "x-gw-api-key: "+l.key)...)
			if res, err := http.DefaultClient.Do(request.WithContext(ctx)); err == nil {
				res.Body.Close()
			}
		}
		go lead(ctx)
		<-begun
		follower, start := make(chan time.Duration), time.Now()
		go func() {
			if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, "x-gw-request-timeout: 2000")...); a.Status != 408 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			follower <- time.Since(start)
		}()
		eventually(t, "most of its time is over", func() bool { return time.Since(start) > 1500*time.Millisecond })
		leave() // the follower leads now, with what is left of its time
		<-begun
		if took := <-follower; took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("too long to be kept", func(t *testing.T) {
		goOn := make(chan struct{})
		l, begun := begin(t, func(w http.ResponseWriter, _ *http.Request) {
			answer := long(5 << 20)
			_, _ = io.WriteString(w, answer[:len(answer)-10])
			<-goOn
			_, _ = io.WriteString(w, answer[len(answer)-10:])
		})
		var wg sync.WaitGroup
		ask := func() {
			if a, err := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, headers...); err != nil || a.Status != 200 || !gjson.Valid(a.Body) {
				t.Errorf("%d %v", a.Status, err)
			}
		}
		wg.Go(ask)
		<-begun
		wg.Go(ask)
		<-begun // though the first is not over
		close(goOn)
		wg.Wait()
	})
	t.Run("a client that does not read", func(t *testing.T) {
		l, begun := begin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long(4_000_000)) })
		dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		}}
		conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(l.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := l.Request("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, "x-gw-api-key: "+l.key)...).Write(conn); err != nil {
			t.Fatal(err)
		}
		<-begun
		if a, err := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, headers...); err != nil || a.Status != 200 {
			t.Errorf("%d %v", a.Status, err)
		}
	})
}
