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

// A stream that waits holds hardly more than in a plain reverse proxy: no prompt, and no
// large buffer.
func TestSlowStreamsHoldLittle(t *testing.T) {
	const streams, most = 200, 8 << 10
	release := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		stream(hello)(w, r)
		<-release
	}))
	t.Cleanup(upstream.Close)
	g := gatewaytest.New(t, "block_inline_config off\nprovider slow {\n\ttype openai\n\tbase_url "+upstream.URL+"/v1\n}\n")
	g.Site = "gw_admin\ngw_ratelimit\ngw_inference\nreverse_proxy " + upstream.URL
	g.Load()
	key, _ := g.Key("k")
	body := `{"stream":true,` + prompt(100_000)[1:]

	inUse := func() int {
		for range 4 { // pools are emptied by two of them
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc + m.StackInuse)
	}
	each := func(path string) int {
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
		held := inUse() - before
		for _, res := range answers {
			if res != nil {
				res.Body.Close()
			}
		}
		http.DefaultClient.CloseIdleConnections()
		return held / streams
	}
	each("/plain") // whatever is made once
	var plain, gateway int
	for range 3 { // what ended before may be let go of while one is looked at
		plain, gateway = each("/plain"), each("/v1/chat/completions")
		t.Logf("%d bytes a stream, in a plain reverse proxy %d", gateway, plain)
		if gateway <= plain+most {
			break
		}
	}
	close(release)
	if gateway > plain+most {
		t.Errorf("a stream holds %d bytes, in a plain reverse proxy %d", gateway, plain)
	}
}
