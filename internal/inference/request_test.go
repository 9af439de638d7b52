package inference

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/providers"
)

// A countingConn counts what is written to it.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func requestOf(t testing.TB, body string) *request {
	t.Helper()
	call := new(exchange.Call)
	buffer, err := call.Memory.NewBuffer([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return &request{call: call, method: http.MethodPost, url: &url.URL{Scheme: "http", Host: "models", Path: "/v1"}, header: http.Header{}, body: buffer}
}

// A request with a small body is one write, so that a provider reads it at once.
func TestASmallRequestIsOneWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		body string
		want int64
	}{{"small", strings.Repeat("x", 2<<10), 1}, {"large", strings.Repeat("x", 100<<10), 2}} {
		t.Run(c.name, func(t *testing.T) {
			client, server := net.Pipe()
			defer server.Close()
			go func() {
				r, err := http.ReadRequest(bufio.NewReader(server))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}()
			var writes atomic.Int64
			transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return countingConn{client, &writes}, nil }}
			defer transport.CloseIdleConnections()
			q := requestOf(t, c.body)
			defer q.close()
			res, err := transport.RoundTrip(q.http(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if n := writes.Load(); n < c.want || c.want == 1 && n != 1 {
				t.Errorf("%d writes, want %d", n, c.want)
			}
		})
	}
}

// A dialect that returns a part of the body that it was given does not have a pooled body sent.
func TestABodyOfADialectIsItsOwn(t *testing.T) {
	t.Parallel()
	q := requestOf(t, "the body of the call")
	given := q.body.Bytes()
	q.target = &exchange.Attempt{Route: new(credentials.Route)}
	if err := q.set(&providers.Request{Body: given[4:8]}); err != nil {
		t.Fatal(err)
	}
	copy(given, "xxxxxxxxxxxxxxxxxxxx")
	if got, err := io.ReadAll(q.reader(false)); string(got) != "body" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if made := []byte("made"); sameArray(made, given) || !sameArray(given[:1], given[3:]) || sameArray(nil, nil) {
		t.Error("arrays are not told apart")
	}
}

// What net/http still reads of a small body when its answer has come is not what another
// call puts into the same memory.
func TestASmallBodyIsReadFromACopy(t *testing.T) {
	t.Parallel()
	memory := bytes.Repeat([]byte("x"), 100)
	call := new(exchange.Call)
	buffer, err := call.Memory.NewBuffer(memory)
	if err != nil {
		t.Fatal(err)
	}
	q := requestOf(t, "")
	q.body = buffer
	r := q.http(t.Context())
	again, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	q.close()
	copy(memory, bytes.Repeat([]byte("y"), 100))
	for _, body := range []io.Reader{r.Body, again} {
		if got, err := io.ReadAll(body); string(got) != strings.Repeat("x", 100) || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if _, err := r.GetBody(); err == nil {
		t.Error("the body of a call that has its answer can be had again")
	}
}

// What a provider has read is not sent again by net/http, whatever the client says of it: that is another attempt. What was
// not written to a connection that turned out to be dead is.
func TestARequestThatWasReadIsSentOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		var got []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if got = append(got, string(body)+" "+r.Header.Get(name)); len(got) > 1 {
				panic(http.ErrAbortHandler) // closes the connection, which was used before
			}
		}))
		to, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		pool := &upstream.Pool{Transport: new(http.Transport)}
		q := requestOf(t, "body")
		q.method, q.url = http.MethodPost, to
		for i := range 2 {
			q.header = http.Header{name: {"k"}}
			res, err := pool.RoundTrip(q.http(t.Context()))
			if (err == nil) != (i == 0) {
				t.Errorf("%s: call %d ended with %v", name, i, err)
			}
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}
		pool.CloseIdleConnections()
		server.Close()
		if want := []string{"body k", "body k"}; !slices.Equal(got, want) {
			t.Errorf("%s: the provider got %q, want %q", name, got, want)
		}
	}
}
