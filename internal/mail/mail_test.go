package mail

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	stdmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-gw/gateway/credentials"
)

// A server is an SMTP server that keeps what it gets.
type server struct {
	address string
	roots   *x509.CertPool

	mu     sync.Mutex
	fail   int // so many messages are refused first
	logins []string
	got    chan string
}

func (s *server) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{server: s}, nil }

type session struct {
	*server
	authenticated bool
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logins = append(s.logins, username+":"+password)
		if password != "secret" {
			return errors.New("wrong password")
		}
		s.authenticated = true
		return nil
	}), nil
}

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }
func (s *session) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (s *session) Reset()                               {}
func (s *session) Logout() error                        { return nil }

func (s *session) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return errors.New("not now")
	}
	s.got <- string(b)
	return nil
}

// serve starts a server. With immediate, connections are encrypted from the beginning.
func serve(t *testing.T, immediate bool) *server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{roots: x509.NewCertPool(), got: make(chan string, 10)}
	s.roots.AddCert(parsed)
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	if immediate {
		l = tls.NewListener(l, config)
	}
	backend := smtp.NewServer(s)
	backend.Domain, backend.TLSConfig = "mail", config
	go func() { _ = backend.Serve(l) }()
	t.Cleanup(func() { _ = backend.Close() })
	return s
}

func sender(t *testing.T, s Settings) *Sender {
	t.Helper()
	if s.Logger == nil {
		s.Logger = zaptest.NewLogger(t)
	}
	s.From = "Gateway <gw@example.com>"
	m := New(s)
	m.pause = time.Millisecond
	t.Cleanup(m.Close)
	return m
}

func (s *server) next(t *testing.T) string {
	t.Helper()
	select {
	case m := <-s.got:
		return m
	case <-time.After(20 * time.Second):
		t.Fatal("no mail")
		return ""
	}
}

var invitation = &Message{To: "ada@example.com", Subject: "Invitation to Zürich & more", Paragraphs: []string{"Hello <you> & all.", "More."}, Link: "https://gw.example.com/x#token-0123"}

func TestMailHasATextAndAnHTMLPart(t *testing.T) {
	for name, immediate := range map[Security]bool{StartTLS: false, TLS: true} {
		t.Run(string(name), func(t *testing.T) {
			srv := serve(t, immediate)
			m := sender(t, Settings{Address: srv.address, Security: name, Username: "gw", Password: credentials.NewSecret("secret"), TLS: &tls.Config{RootCAs: srv.roots, MinVersion: tls.VersionTLS12}})
			m.Send(invitation)
			got, err := stdmail.ReadMessage(strings.NewReader(srv.next(t)))
			if err != nil {
				t.Fatal(err)
			}
			subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
			if err != nil || subject != invitation.Subject || !strings.Contains(got.Header.Get("To"), "ada@example.com") || got.Header.Get("Date") == "" || got.Header.Get("Message-ID") == "" {
				t.Errorf("%q %v", subject, got.Header)
			}
			_, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
			if err != nil {
				t.Fatal(err)
			}
			parts := multipart.NewReader(got.Body, params["boundary"])
			for _, want := range [][2]string{
				{"text/plain", "Hello <you> & all.\n\nMore.\n\nhttps://gw.example.com/x#token-0123\n"},
				{"text/html", `<p>Hello &lt;you&gt; &amp; all.</p>`},
			} {
				part, err := parts.NextRawPart()
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(quotedprintable.NewReader(part))
				text := strings.ReplaceAll(string(body), "\r\n", "\n")
				if err != nil || !strings.HasPrefix(part.Header.Get("Content-Type"), want[0]) || !strings.Contains(text, want[1]) || !strings.Contains(text, invitation.Link) {
					t.Errorf("%s: %s", part.Header.Get("Content-Type"), text)
				}
			}
			if len(srv.logins) != 1 || srv.logins[0] != "gw:secret" {
				t.Errorf("logins: %v", srv.logins)
			}
		})
	}
}

// A reload of the configuration loses no mail.
func TestMailThatWaitsIsSentBeforeTheEnd(t *testing.T) {
	srv := serve(t, false)
	m := New(Settings{Address: srv.address, Security: None, From: "gw@example.com", Logger: zaptest.NewLogger(t)})
	for range 5 {
		m.Send(invitation)
	}
	m.Close()
	if n := len(srv.got); n != 5 {
		t.Errorf("%d of 5 are sent", n)
	}
}

func TestMailIsTriedAgain(t *testing.T) {
	srv := serve(t, false)
	srv.fail = attempts - 1
	sender(t, Settings{Address: srv.address, Security: None}).Send(invitation)
	if !strings.Contains(srv.next(t), "ada@example.com") {
		t.Error("not the message")
	}
}

// A password, and the mail, only go to a server that proves who it is.
func TestMailIsNotSentToAServerThatIsNotTrusted(t *testing.T) {
	for _, c := range []struct {
		security  Security
		immediate bool
	}{{StartTLS, false}, {TLS, true}} {
		srv := serve(t, c.immediate)
		core, logs := observer.New(zap.ErrorLevel)
		m := sender(t, Settings{Address: srv.address, Security: c.security, Username: "gw", Password: credentials.NewSecret("secret"), Logger: zap.New(core)})
		m.Send(invitation)
		for deadline := time.Now().Add(20 * time.Second); logs.Len() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nothing is logged")
			}
		}
		if text := logs.All()[0].ContextMap(); len(srv.got) != 0 || len(srv.logins) != 0 || strings.Contains(text["error"].(string), "token-0123") {
			t.Errorf("%s: sent %d, logins %v, logged %v", c.security, len(srv.got), srv.logins, text)
		}
	}
}

func TestSettingsOfMailAreChecked(t *testing.T) {
	for _, c := range []struct {
		settings Settings
		why      string
	}{
		{Settings{From: "gw@example.com", Security: StartTLS}, ""},
		{Settings{From: "Gateway <gw@example.com>", Security: None}, ""},
		{Settings{From: "gateway", Security: TLS}, "from"},
		{Settings{From: "gw@example.com", Security: "ssl"}, "tls"},
		{Settings{From: "gw@example.com", Security: None, Username: "u"}, "in clear"},
	} {
		if err := c.settings.Check(); (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%+v: %v", c.settings, err)
		}
	}
	for address, want := range map[string]string{"mail": "mail:587", "mail:25": "mail:25", "::1": "[::1]:587", "[::1]:25": "[::1]:25", "mail:0": "", "mail:x": "", "": "", "a b": "", "a/b": ""} {
		if got, err := ParseAddress(address, StartTLS); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", address, got, err)
		}
	}
	if got, err := ParseAddress("mail", TLS); got != "mail:465" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
