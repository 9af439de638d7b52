//go:build !race

// The race detector allocates, too.

package handlers_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A hotPath is a gateway with everything on (keys, a rate limit, records, metrics, the access
// log), next to a plain reverse proxy, in front of a model server. Neither the server nor the
// client allocates, so that what a call allocates is the proxy's own.
type hotPath struct {
	conn    net.Conn
	answers *bufio.Reader
	request []byte // its headers
	plain   []byte // those of a request to the plain reverse proxy
}

const hotConfig = `{
	admin off
	persist_config off
	metrics
	log {
		output file %[1]s/log {
			roll_disabled
		}
	}
	gw {
		storage badger %[1]s/gw
		admin_key %[2]s
		block_inline_config off
		trusted_custom_hosts 127.0.0.1
	}
}
%[3]s {
	log
	gw_admin
	gw_ratelimit
	gw_inference
	reverse_proxy http://%[4]s {
		transport http {
			keepalive_idle_conns_per_host 256
			compression off
		}
	}
}
`

func newHotPath(t testing.TB) *hotPath {
	t.Helper()
	dir, models := t.TempDir(), modelServer(t)
	g := &gatewaytest.Gateway{T: t, URL: "http://" + gatewaytest.FreeAddress(t), Dir: filepath.Join(dir, "gw"), LogFile: filepath.Join(dir, "log")}
	config, err := gatewaytest.Adapt(fmt.Sprintf(hotConfig, dir, gatewaytest.OwnerKey, g.URL, models))
	if err == nil {
		err = caddy.Load(config, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "sk", "custom_host": "http://" + models + "/v1"})
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "claude", "slug": "claude", "provider": "anthropic", "key": "sk", "custom_host": "http://" + models + "/v1"})
	for _, vk := range []string{"vk", "claude"} {
		g.Admin("POST", "/v1/policies/rate-limits", map[string]any{
			"type": "requests", "unit": "rpd", "value": 1e15, "conditions": []any{map[string]any{"key": "virtual_key", "value": vk}}, "group_by": []any{map[string]any{"key": "api_key"}},
		})
	}
	address := strings.TrimPrefix(g.URL, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	h := &hotPath{conn: conn, answers: bufio.NewReaderSize(conn, 64<<10)}
	h.plain = fmt.Appendf(nil, "Host: %s\r\nUser-Agent: client/1.0\r\nAccept: application/json\r\nContent-Type: application/json\r\n", address)
	h.request = fmt.Appendf(bytes.Clone(h.plain), "X-Gw-Api-Key: %s\r\n", key)
	h.plain = append(h.plain, "Authorization: Bearer sk\r\n"...)
	return h
}

// call makes a request and reads its answer, which must be 200.
func (h *hotPath) call(t testing.TB, request []byte) {
	if _, err := h.conn.Write(request); err != nil {
		t.Fatal(err)
	}
	status, err := h.answers.ReadSlice('\n')
	if err != nil || !bytes.Contains(status, []byte(" 200 ")) {
		t.Fatalf("got %q, %v", status, err)
	}
	if err := skipMessage(h.answers); err != nil {
		t.Fatal(err)
	}
}

// to is a request to a path, with more headers.
func (h *hotPath) to(path, body string, headers ...string) []byte {
	header := h.request
	if strings.HasPrefix(path, "/plain") {
		header = h.plain
	}
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\n%s", path, header)
	for _, line := range headers {
		request = fmt.Appendf(request, "%s\r\n", line)
	}
	return fmt.Appendf(request, "Content-Length: %d\r\n\r\n%s", len(body), body)
}

// skipMessage reads a message from after its first line, to its end. It allocates nothing.
func skipMessage(r *bufio.Reader) error {
	length, chunked := 0, false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			for _, c := range bytes.TrimSpace(value) {
				length = 10*length + int(c-'0')
			}
		}
		chunked = chunked || bytes.HasPrefix(line, []byte("Transfer-Encoding: chunked"))
	}
	if !chunked {
		_, err := r.Discard(length)
		return err
	}
	for size := 1; size > 0; {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		size = 0
		for _, c := range bytes.TrimSpace(line) {
			if c >= 'a' {
				c -= 'a' - '0' - 10
			}
			size = 16*size + int(c-'0')
		}
		if _, err := r.Discard(size + 2); err != nil {
			return err
		}
	}
	return nil
}

// modelServer answers each call with a completion, or with a stream of 100 chunks.
func modelServer(t testing.TB) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	whole, stream := answerOf(gatewaytest.Completion), streamOf(append(slices.Repeat([]string{hello}, 100), counted, done)...)
	message, messages := answerOf(messageOf(helloBlock)), streamOf(messageEvents(`{"type":"message_start","message":{"id":"msg_1","model":"claude-x","usage":{"input_tokens":10,"output_tokens":1}}}
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
`+strings.Repeat(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello "}}`+"\n", 100)+`{"type":"content_block_stop","index":0}
{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":100}}
{"type":"message_stop"}`)...)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReaderSize(conn, 16<<10)
				for {
					line, err := r.ReadSlice('\n')
					if err != nil {
						return
					}
					answer, streamed := whole, stream
					if bytes.Contains(line, []byte("/messages")) {
						answer, streamed = message, messages
					}
					if bytes.Contains(line, []byte("/stream")) || bytes.Contains(peekAll(r), []byte(`"stream":true`)) {
						answer = streamed
					}
					if skipMessage(r) != nil {
						return
					}
					if _, err := conn.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// answerOf is an HTTP response with a body of JSON.
func answerOf(body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// streamOf is an HTTP response with an event stream, an event a chunk.
func streamOf(events ...string) []byte {
	b := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, event := range events {
		b = fmt.Appendf(b, "%x\r\n%s\r\n", len(event), event)
	}
	return append(b, "0\r\n\r\n"...)
}

func peekAll(r *bufio.Reader) []byte {
	b, _ := r.Peek(r.Buffered())
	return b
}

// hotCases are the calls that are measured. most is what one may allocate: allocations, which
// are nearly the same in each run, and bytes.
var hotCases = []struct {
	name, path, members string
	headers             []string
	most, bytes         float64
}{
	{"plain Caddy", "/plain", "", nil, 0, 0},
	{"call", "/v1/chat/completions", "", []string{"X-Gw-Virtual-Key: vk"}, 320, 44000},
	{"plain Caddy stream", "/plain/stream", "", nil, 0, 0},
	{"stream", "/v1/chat/completions", `"stream":true,`, []string{"X-Gw-Virtual-Key: vk"}, 343, 46000},
	{"translated", "/v1/chat/completions", "", []string{"X-Gw-Virtual-Key: claude"}, 385, 49000},
	{"translated stream", "/v1/chat/completions", `"stream":true,`, []string{"X-Gw-Virtual-Key: claude"}, 426, 68000},
	{"fallback configured", "/v1/chat/completions", "", []string{"X-Gw-Virtual-Key: vk", `X-Gw-Config: {"strategy":{"mode":"fallback"},"targets":[{"virtual_key":"vk"},{"virtual_key":"vk"}]}`}, 384, 45000},
	{"cache hit", "/v1/chat/completions", "", []string{"X-Gw-Virtual-Key: vk", "X-Gw-Cache: simple"}, 211, 27000},
}

func hotBody(members string) string {
	return `{"model":"m",` + members + `"messages":[{"role":"user","content":"` + strings.Repeat("word ", 400) + `"}]}`
}

// What a call allocates, in this gateway and in plain Caddy, is bounded: allocations do not
// depend on how busy the machine is, as times do.
func TestACallAllocatesNoMoreThanItsBudget(t *testing.T) {
	h := newHotPath(t)
	for _, c := range hotCases {
		t.Run(c.name, func(t *testing.T) {
			request := h.to(c.path, hotBody(c.members), c.headers...)
			allocs, size := 0.0, 0.0
			for try := range 3 { // what others do meanwhile is in it
				for range 100 {
					h.call(t, request)
				}
				const calls = 400
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range calls {
					h.call(t, request)
				}
				runtime.ReadMemStats(&after)
				n, b := float64(after.Mallocs-before.Mallocs)/calls, float64(after.TotalAlloc-before.TotalAlloc)/calls
				if try == 0 || n < allocs {
					allocs, size = n, b
				}
				if c.most == 0 || allocs <= c.most && size <= c.bytes {
					break
				}
			}
			t.Logf("%.1f allocations, %.1f KB", allocs, size/1000)
			if c.most > 0 && (allocs > c.most || size > c.bytes) {
				t.Errorf("a call takes %.1f allocations and %.0f bytes, more than %.0f and %.0f", allocs, size, c.most, c.bytes)
			}
		})
	}
}

// BenchmarkHotPath is a whole call through Caddy and the gateway over one connection.
func BenchmarkHotPath(b *testing.B) {
	h := newHotPath(b)
	for _, c := range hotCases {
		b.Run(c.name, func(b *testing.B) {
			request := h.to(c.path, hotBody(c.members), c.headers...)
			for range 100 {
				h.call(b, request)
			}
			b.ReportAllocs()
			for b.Loop() {
				h.call(b, request)
			}
		})
	}
}
