package handlers_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A world is every host there is: some on loopback, which callers may name, and behind a
// proxy whatever name is asked for, by TLS. It keeps all that any of them is sent.
type world struct {
	t      *testing.T
	hosts  []string // on loopback, host:port
	proxy  string   // host:port
	caFile string
	token  func(login receipt) string // a new token, for a login

	mu    sync.Mutex
	seen  []receipt
	ca    *x509.Certificate
	key   *ecdsa.PrivateKey
	leafs map[string]*tls.Certificate
}

// A receipt is what a host was sent: at is its name, or host:port on loopback.
type receipt struct{ at, text string }

func newWorld(t *testing.T, hosts int) *world {
	w := &world{t: t, leafs: make(map[string]*tls.Certificate)}
	for range hosts {
		s := httptest.NewServer(w)
		t.Cleanup(s.Close)
		w.hosts = append(w.hosts, strings.TrimPrefix(s.URL, "http://"))
	}
	var err error
	if w.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	w.ca = w.certificate("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	w.caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(w.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.ca.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	w.listen()
	return w
}

func (w *world) certificate(name string, c, parent *x509.Certificate) *x509.Certificate {
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &w.key.PublicKey, w.key)
	if err == nil {
		c, err = x509.ParseCertificate(der)
	}
	if err != nil {
		w.t.Error(err)
	}
	return c
}

func (w *world) leaf(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := hello.ServerName
	if w.leafs[name] == nil {
		c := w.certificate(name, &x509.Certificate{DNSNames: []string{name}}, w.ca)
		w.leafs[name] = &tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: w.key}
	}
	return w.leafs[name], nil
}

// A conns is a listener for connections that are there already.
type conns struct {
	net.Listener
	next chan net.Conn
	done chan struct{}
}

func (c *conns) Accept() (net.Conn, error) {
	select {
	case conn := <-c.next:
		return conn, nil
	case <-c.done:
		return nil, net.ErrClosed
	}
}

// listen starts the proxy, which is at the end of every connection itself.
func (w *world) listen() {
	inner := &conns{next: make(chan net.Conn), done: make(chan struct{})}
	config := &tls.Config{GetCertificate: w.leaf, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	outer := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			w.ServeHTTP(rw, r)
			return
		}
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		}
		if err != nil {
			w.t.Error(err)
			return
		}
		select {
		case inner.next <- tls.Server(conn, config):
		case <-inner.done:
			conn.Close()
		}
	}))
	inner.Listener = outer.Listener
	server := &http.Server{Handler: w}
	go func() {
		if err := server.Serve(inner); !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			w.t.Error(err)
		}
	}()
	w.t.Cleanup(func() { close(inner.done); _ = server.Close(); outer.Close() })
	w.proxy = strings.TrimPrefix(outer.URL, "http://")
}

// ServeHTTP answers as the client's cue says: it may repeat all that came.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	seen := receipt{at: r.Host}
	if r.TLS != nil {
		seen.at = r.TLS.ServerName
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %s %s\n", seen.at, r.Method, r.RequestURI)
	_ = r.Header.Write(&text)
	text.WriteString("\n")
	text.Write(body)
	if _, basic, ok := strings.Cut(r.Header.Get("Authorization"), "Basic "); ok {
		plain, _ := base64.StdEncoding.DecodeString(basic)
		text.Write(plain)
	}
	if _, assertion, ok := strings.Cut(string(body), "assertion="); ok {
		for part := range strings.SplitSeq(assertion, ".") {
			plain, _ := base64.RawURLEncoding.DecodeString(part)
			text.Write(plain)
		}
	}
	seen.text = text.String()
	w.mu.Lock()
	w.seen = append(w.seen, seen)
	w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/token"):
		fmt.Fprintf(rw, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, w.token(seen))
	case r.Header.Get("X-Client-Request-Id") == "fail":
		rw.Header().Set("X-Echo", r.Header.Get("Authorization"))
		rw.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(rw, `{"error":{"message":%q,"type":"echo"}}`, seen.text)
	case r.Header.Get("X-Client-Request-Id") == "echo":
		fmt.Fprintf(rw, `{"id":"x","object":"echo","data":[],"text":%q}`, seen.text)
	default:
		_, _ = io.WriteString(rw, gatewaytest.Completion)
	}
}

// take returns what came since it was called last.
func (w *world) take() []receipt {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}
