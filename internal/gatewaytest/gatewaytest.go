// Package gatewaytest runs the gateway in a test: a real Caddy with a real
// configuration and store, on loopback ports. A process runs only one Caddy
// configuration, so tests that use this package do not run in parallel.
package gatewaytest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/tidwall/gjson"

	_ "github.com/caddy-gw/gateway"
)

// OwnerKey is the API key of the organisation's owner in tests.
const OwnerKey = "owner-key-of-the-tests-0123456789abcdef"

// A Gateway is a running gateway.
type Gateway struct {
	T       testing.TB
	URL     string // of the site, without a trailing slash
	Dir     string // of the store
	LogFile string // everything that Caddy logs, including the level debug
	Options string // lines of the gw block
	Site    string // lines of the site
	AdminAt string // address of Caddy's admin endpoint; default: disabled

	loaded atomic.Int64 // Unix time in nanoseconds
}

// Start runs a gateway with additional options in its gw block.
func Start(t testing.TB, options string) *Gateway {
	t.Helper()
	g := New(t, options)
	g.Load()
	return g
}

// New returns a gateway with additional options in its gw block. Load starts it, so that
// a test that needs another site or admin endpoint sets it before.
func New(t testing.TB, options string) *Gateway {
	t.Helper()
	dir := tempDir(t)
	g := &Gateway{
		T: t, Dir: filepath.Join(dir, "gw"), LogFile: filepath.Join(dir, "log"), Options: options,
		URL: "http://" + FreeAddress(t), Site: "gw_admin\ngw_ratelimit\ngw_inference",
	}
	t.Cleanup(g.Stop)
	return g
}

// Caddyfile returns the configuration.
func (g *Gateway) Caddyfile() string {
	adminEndpoint := "off"
	if g.AdminAt != "" {
		adminEndpoint = g.AdminAt
	}
	return fmt.Sprintf(`{
	admin %s
	persist_config off
	debug
	log {
		output file %s {
			roll_disabled
		}
	}
	servers {
		max_header_size 64KiB
		protocols h1 h2 h2c
	}
	gw {
		storage badger %s
		admin_key %s
		%s
	}
}
%s {
	log
	%s
}
`, adminEndpoint, g.LogFile, g.Dir, OwnerKey, g.Options, g.URL, g.Site)
}

// Adapt turns a Caddyfile into Caddy's JSON.
func Adapt(caddyfile string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	return config, err
}

// Load loads the configuration, or reloads it.
func (g *Gateway) Load() {
	g.T.Helper()
	config, err := Adapt(g.Caddyfile())
	if err == nil {
		err = caddy.Load(config, true)
	}
	if err != nil {
		g.T.Fatalf("loading the configuration: %v", err)
	}
	g.loaded.Store(time.Now().UnixNano())
	http.DefaultClient.CloseIdleConnections()
	// Caddy opens a new listening socket for each configuration and closes the previous
	// one shortly afterwards. Until then, the previous configuration may still answer.
	for deadline := time.Now().Add(settling); g.listeners() > 1 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// listeners returns the number of sockets that listen on the site's port, or 0 if the
// system does not report it.
func (g *Gateway) listeners() int {
	_, port, _ := strings.Cut(strings.TrimPrefix(g.URL, "http://"), ":")
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		g.T.Fatal(err)
	}
	n := 0
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		lines.Scan() // the names of the columns
		for lines.Scan() {
			const listening = "0A"
			fields := strings.Fields(lines.Text())
			if len(fields) <= 3 || fields[3] != listening {
				break // connections come last, and may be many
			}
			if strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", number)) {
				n++
			}
		}
		f.Close()
	}
	return n
}

// Stop stops the gateway. Load starts it again with the same store.
func (g *Gateway) Stop() {
	g.T.Helper()
	if err := caddy.Stop(); err != nil {
		g.T.Errorf("stopping: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Logs returns everything that was logged so far.
func (g *Gateway) Logs() string {
	g.T.Helper()
	b, err := os.ReadFile(g.LogFile)
	if err != nil {
		g.T.Fatal(err)
	}
	return string(b)
}

// An Answer is a response whose body has been read.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Get returns a value of the body by a gjson path.
func (a *Answer) Get(path string) gjson.Result { return gjson.Get(a.Body, path) }

// Request makes a request. headers are "name: value".
func (g *Gateway) Request(method, path, body string, headers ...string) *http.Request {
	g.T.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(g.T.Context(), method, g.URL+path, reader)
	if err != nil {
		g.T.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if value == "" {
			r.Header.Del(strings.TrimSuffix(name, ":"))
			continue
		}
		r.Header.Add(name, value)
	}
	return r
}

const settling = 2 * time.Second // after loading a configuration

// Send sends a request. Caddy opens a second listening socket for a new configuration,
// and resets connections that the kernel had queued on the previous socket when it is
// closed. A request that fails in this way shortly after a reload is repeated.
func (g *Gateway) Send(request func() *http.Request) (*http.Response, error) {
	res, err := http.DefaultClient.Do(request())
	for err != nil && time.Since(time.Unix(0, g.loaded.Load())) < settling && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)) {
		res, err = http.DefaultClient.Do(request())
	}
	return res, err
}

// TryRequest sends a request like Send, and reads the answer.
func (g *Gateway) TryRequest(method, path, body string, headers ...string) (*Answer, error) {
	res, err := g.Send(func() *http.Request { return g.Request(method, path, body, headers...) })
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return &Answer{res.StatusCode, res.Header, string(b)}, err
}

// Do sends a request and reads the answer. The test fails if there is none.
func (g *Gateway) Do(method, path, body string, headers ...string) *Answer {
	g.T.Helper()
	a, err := g.TryRequest(method, path, body, headers...)
	if err != nil {
		g.T.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// Admin sends a request to the control plane with the owner's key and expects status
// 200.
func (g *Gateway) Admin(method, path string, body any) *Answer {
	g.T.Helper()
	var text string
	if body != nil {
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(body); err != nil {
			g.T.Fatal(err)
		}
		text = b.String()
	}
	a := g.Do(method, path, text, "x-gw-api-key: "+OwnerKey)
	if a.Status != http.StatusOK {
		g.T.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	return a
}

// Key creates a workspace API key that may call models. It returns the key and its id.
func (g *Gateway) Key(name string) (key, id string) {
	g.T.Helper()
	a := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": name, "scopes": []string{"completions.write"}})
	return a.Get("key").Str, a.Get("id").Str
}

// Chat is a minimal chat completion request.
const Chat = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
