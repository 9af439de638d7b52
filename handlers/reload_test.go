package handlers_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-gw/gateway/internal/app"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", testTimeout, what)
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
}

func records(t *testing.T) []*reqlog.Record {
	t.Helper()
	module, err := caddy.ActiveContext().App("gw")
	if err != nil {
		t.Fatal(err)
	}
	rt, err := module.(*app.App).Runtime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := rt.Records.(*reqlog.Log).Records(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAStreamOutlivesReloadsAndStillBooksItsUsage(t *testing.T) {
	next := make(chan string, 1)
	up := gatewaytest.NewUpstream(t, events(next))
	g := gatewaytest.Start(t, up.Provider("file"))
	key, id := g.Key("k")
	next <- "data: 1\n\n" // with which the answer begins
	res, err := http.DefaultClient.Do(g.Request("POST", "/v1/chat/completions", streamed, "x-gw-api-key: "+key, "x-gw-provider: file"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	read := func(want string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream was cut: %v", err)
			}
			if strings.TrimSpace(line) == want {
				return
			}
		}
	}
	read("data: 1")
	for range 3 {
		g.Load()
	}
	next <- `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":11}}` + "\n\n"
	next <- "data: [DONE]\n\n"
	close(next)
	read("data: [DONE]")
	if rest, err := io.ReadAll(lines); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Fatalf("%q %v", rest, err)
	}
	var r *reqlog.Record
	eventually(t, "the record of the stream", func() bool {
		if all := records(t); len(all) == 1 {
			r = all[0]
		}
		return r != nil
	})
	if r.KeyID != id || r.Status != 200 || !r.UsageKnown || r.PromptTokens != 7 || r.CompletionTokens != 11 || !r.Stream || r.Attempts != 1 || r.Failure != "" {
		t.Errorf("%+v", r)
	}
}

// No request that the gateway has begun to read goes unanswered. What else a client sees
// of a reload is Caddy's and the kernel's: a connection that is reset
// before it was accepted, or an idle one that is closed. Clients repeat both; here
// net/http does, because the requests have idempotency keys, by which the provider
// tells that none was forwarded twice.
func TestReloadsUnderLoadDropNoRequest(t *testing.T) {
	var forwarded sync.Map
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if _, again := forwarded.LoadOrStore(r.Header.Get("Idempotency-Key"), true); again {
			t.Errorf("request %s was forwarded, dropped and repeated", r.Header.Get("Idempotency-Key"))
		}
		_, _ = io.WriteString(w, "{}")
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	stop, done := make(chan struct{}), make(chan error, 4)
	var answered atomic.Int64
	for client := range cap(done) {
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				a, err := g.TryRequest("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file", fmt.Sprintf("idempotency-key: %d-%d", client, n))
				if err == nil && a.Status != 200 {
					err = fmt.Errorf("%d %s", a.Status, a.Body)
				}
				if err != nil {
					done <- err
					return
				}
				answered.Add(1)
			}
		}()
	}
	for range 10 {
		before := answered.Load()
		g.Load()
		eventually(t, "answers after a reload", func() bool { return answered.Load() > before+20 || len(done) > 0 })
	}
	close(stop)
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A call that begins an attempt after its configuration was unloaded leaves no connection
// in a pool that nobody will use again.
func TestUnloadedConfigurationsKeepNoConnections(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan int)
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(<-answer)
		_, _ = io.WriteString(w, gatewaytest.Completion)
	})
	g := gatewaytest.Start(t, trustLoopback+up.Provider("file"))
	key, _ := g.Key("k")
	answered := make(chan *gatewaytest.Answer, 1)
	go func() {
		a, err := g.TryRequest("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, `x-gw-config: {"provider":"@file","retry":{"attempts":1,"on_status_codes":[500]}}`)
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	attempt := func() {
		t.Helper()
		select {
		case <-asked:
		case a := <-answered:
			t.Fatal(a.Status, a.Body)
		}
	}
	attempt()
	g.Load()
	answer <- 500
	attempt()
	answer <- 200
	if a := <-answered; a.Status != 200 {
		t.Error(a.Status, a.Body)
	}
	eventually(t, "no connection to the provider is open", func() bool { return up.Open() == 0 })
}

func TestUnloadedConfigurationsKeepNoHTTP2Connections(t *testing.T) {
	next := make(chan string, 1)
	next <- "data: {}\n\n" // with which the answer begins
	up := gatewaytest.NewHTTP2Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the provider was asked over %s", r.Proto)
		}
		events(next)(w, r)
	})
	g := gatewaytest.New(t, up.Provider("file"))
	g.Site = "gw_admin\ngw_ratelimit\ngw_inference {\ntransport {\ntls_insecure_skip_verify\n}\n}"
	g.Load()
	key, _ := g.Key("k")
	res, err := g.Send(func() *http.Request {
		return g.Request("POST", "/v1/chat/completions", streamed, "x-gw-api-key: "+key, "x-gw-provider: file")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	g.Load()
	next <- "data: [DONE]\n\n"
	close(next)
	if b, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(b), "[DONE]") {
		t.Errorf("%q %v", b, err)
	}
	eventually(t, "no connection to the provider is open", func() bool { return up.Open() == 0 })
}

func TestReloadsLeakNothing(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	measure := func() (goroutines, files int, heap uint64) {
		http.DefaultClient.CloseIdleConnections()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return runtime.NumGoroutine(), 0, m.HeapAlloc
		}
		return runtime.NumGoroutine(), len(entries), m.HeapAlloc
	}
	reload := func(n int) {
		for range n {
			if a := call(g, key); a.Status != 200 {
				t.Fatal(a.Status, a.Body)
			}
			g.Load()
		}
	}
	// What is kept for the first time, such as by a pool or by the store, is no leak: what leaks
	// does so in each batch.
	var grown string
	for range 4 {
		reload(5)
		goroutines, files, heap := measure()
		reload(25)
		for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
			g, f, now := measure() // the store may just be writing a table
			if g <= goroutines+5 && f <= files+5 && now <= heap+4<<20 {
				return
			}
			grown = fmt.Sprintf("%d goroutines after %d, %d files after %d, %d bytes of heap after %d", g, goroutines, f, files, now, heap)
		}
	}
	t.Errorf("in each of four batches of 25 reloads, something grew: in the last, there are %s", grown)
}
