package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

const stallTimeout = 200 * time.Millisecond

// stallGateway is a gateway whose provider does what serve says.
func stallGateway(t *testing.T, serve http.HandlerFunc) (*gatewaytest.Gateway, *gatewaytest.Upstream, string) {
	up := gatewaytest.NewUpstream(t, serve)
	g := gatewaytest.New(t, up.Provider("file"))
	g.Site = fmt.Sprintf("gw_admin\ngw_ratelimit\ngw_inference {\nbody_timeout %v\n}", stallTimeout)
	g.Load()
	key, _ := g.Key("k")
	return g, up, key
}

// A client that reads nothing of a long answer holds neither its call nor the provider's connection for longer than a
// body may stand still.
func TestAClientThatReadsNothingEndsTheAnswer(t *testing.T) {
	const size = 32 << 20 // more than the buffers of connections have room for
	long := strings.Repeat("x", 1<<10)
	g, up, key := stallGateway(t, func(w http.ResponseWriter, r *http.Request) {
		media, begin, portion, end := "application/json", `{"choices":[{"index":0,"message":{"role":"assistant","content":"`, long, `"},"finish_reason":"stop"}],`+usage30+`}`
		if r.Header.Get("X-Client-Request-Id") == "stream" {
			media, begin, portion, end = "text/event-stream", "", `data: {"choices":[{"index":0,"delta":{"content":"`+long+`"}}]}`+"\n\n", stopped+done
		}
		w.Header().Set("Content-Type", media)
		// The gateway waits a second for each KiB that it reads at once, so that it gets one at a time.
		pace := time.NewTicker(100 * time.Microsecond)
		defer pace.Stop()
		_, err := io.WriteString(w, begin)
		for sent := 0; sent < size && err == nil; sent += len(portion) {
			_, err = io.WriteString(w, portion)
			w.(http.Flusher).Flush()
			<-pace.C
		}
		_, _ = io.WriteString(w, end)
	})
	calls := map[string]string{"stream": `{"stream":true,` + boundedChat[1:], "whole": boundedChat}
	for what, body := range calls {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		request := func() *http.Request {
			return g.Request("POST", "/v1/chat/completions", body, "x-gw-api-key: "+key, "x-gw-provider: file", cue+what)
		}
		if err := request().Write(conn); err != nil { // and nothing is read
			t.Fatal(err)
		}
		res, err := http2Client(t).Do(request())
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 200 || res.ProtoMajor != 2 {
			t.Errorf("%s: %s %s", what, res.Proto, res.Status)
		}
	}
	eventually(t, "the records", func() bool { return len(records(t)) == 2*len(calls) })
	for _, r := range records(t) {
		if !strings.Contains(r.Failure, "the client did not take it in time (body_timeout)") {
			t.Errorf("recorded %d %q", r.Status, r.Failure)
		}
	}
	eventually(t, "that the provider is let go", func() bool { return up.Open() == 0 })
}

// Who reads slowly, but at an honest rate, gets all; and it is no fault of the client that the provider is slow.
func TestASlowClientAndASlowProviderAreWaitedFor(t *testing.T) {
	const events = 3 << 10
	event := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 4<<10) + `"}}]}` + "\n\n"
	g, _, key := stallGateway(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range events {
			if _, err := io.WriteString(w, event); err != nil {
				return
			}
			if n == 1 {
				w.(http.Flusher).Flush()
				<-time.After(3 * stallTimeout)
			}
		}
		_, _ = io.WriteString(w, stopped+done)
	})
	for protocol, client := range map[string]*http.Client{"HTTP/1.1": http.DefaultClient, "HTTP/2": http2Client(t)} {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		res, err := client.Do(g.Request("POST", "/v1/chat/completions", `{"stream":true,`+boundedChat[1:], "x-gw-api-key: "+key, "x-gw-provider: file").WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		read, pauses := int64(0), time.NewTicker(stallTimeout/4)
		for err == nil {
			var n int64
			n, err = io.CopyN(io.Discard, res.Body, 256<<10)
			read += n
			<-pauses.C
		}
		pauses.Stop()
		res.Body.Close()
		if want := int64(events*len(event) + len(stopped+done)); !errors.Is(err, io.EOF) || read != want {
			t.Errorf("%s: read %d of %d bytes: %v", protocol, read, want, err)
		}
	}
}
