package handlers_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// held is what a stream that waits holds, in bytes.
type held struct{ heap, stacks int }

// A stream that waits holds hardly more than in a plain reverse proxy: no prompt, and no
// large buffer.
func TestSlowStreamsHoldLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("what a thousand streams hold under the race detector says nothing")
	}
	const (
		streams    = 1000
		mostHeap   = 10 << 10
		mostStacks = 8 << 10 // which of those that have ended are still there varies by as much
	)
	var waiting sync.WaitGroup // for the client to leave
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		waiting.Add(1)
		defer waiting.Done()
		_, _ = io.Copy(io.Discard, r.Body)
		stream(hello)(w, r)
		<-r.Context().Done()
	}))
	t.Cleanup(upstream.Close)
	g := gatewaytest.New(t, "block_inline_config off\nprovider slow {\n\ttype openai\n\tbase_url "+upstream.URL+"/v1\n}\n")
	g.Site = "gw_admin\ngw_ratelimit\ngw_inference\nreverse_proxy " + upstream.URL
	g.Load()
	key, _ := g.Key("k")
	body := `{"stream":true,` + prompt(100_000)[1:]

	inUse := func() held {
		for range 4 { // pools are emptied by two of them
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return held{int(m.HeapAlloc), int(m.StackInuse)}
	}
	each := func(path string) held {
		before := inUse()
		var open sync.WaitGroup
		answers := make([]*http.Response, streams)
		for i := range answers {
			open.Go(func() {
				res, err := http.DefaultClient.Do(g.Request("POST", path, body, "x-gw-api-key: "+key, "x-gw-provider: slow"))
				if err != nil {
					t.Error(err)
					return
				}
				answers[i] = res
				if line, err := bufio.NewReaderSize(res.Body, 16).ReadSlice('{'); err != nil {
					t.Errorf("got %q, %v", line, err)
				}
			})
		}
		open.Wait()
		during := inUse()
		for _, res := range answers {
			if res != nil {
				res.Body.Close()
			}
		}
		http.DefaultClient.CloseIdleConnections()
		waiting.Wait()
		return held{(during.heap - before.heap) / streams, (during.stacks - before.stacks) / streams}
	}
	each("/plain") // whatever is made once
	for range 3 {
		plain, gateway := each("/plain"), each("/v1/chat/completions")
		heap, stacks := gateway.heap-plain.heap, gateway.stacks-plain.stacks
		t.Logf("a stream holds %d bytes more of the heap than in a plain reverse proxy, and %d of stacks", heap, stacks)
		if heap <= mostHeap && stacks <= mostStacks {
			return
		}
	}
	t.Errorf("expected %d and %d at most", mostHeap, mostStacks)
}
