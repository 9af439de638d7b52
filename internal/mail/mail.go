// Package mail sends the gateway's mail through an SMTP server, in the background.
package mail

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"html/template"
	"net"
	stdmail "net/mail"
	"strconv"
	"strings"
	"sync"
	"time"

	gomail "github.com/wneessen/go-mail"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
)

// A Message is a mail of some paragraphs and a link.
type Message struct {
	To         string // an address
	Subject    string
	Paragraphs []string
	Link       string // may be empty
}

// Security says how a connection to the server is encrypted.
type Security string

// The values of Security.
const (
	StartTLS Security = "starttls" // required before anything is sent
	TLS      Security = "tls"      // from the first byte
	None     Security = "off"      // for a server on the same machine
)

// Settings say which server sends the mail.
type Settings struct {
	Address  string // host:port
	Security Security
	From     string // an address, or Name <address>
	Username string // empty: without authentication
	Password credentials.Secret
	TLS      *tls.Config // nil: that of the system

	Logger *zap.Logger
}

const (
	queued   = 1000 // messages that wait
	attempts = 3    // to send a message
	timeout  = 30 * time.Second
	drain    = 5 * time.Second // of Close
)

// A Sender sends messages one after the other. It is safe for concurrent use.
type Sender struct {
	settings Settings
	queue    chan *Message
	pause    time.Duration // between two attempts
	ctx      context.Context
	cancel   context.CancelFunc
	stop     chan struct{} // closed by Close
	done     sync.WaitGroup
}

// ParseAddress returns an address with its port, which is 465 for TLS and 587 otherwise if there
// is none.
func ParseAddress(address string, s Security) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), "587"
		if s == TLS {
			port = "465"
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, " /@") {
		return "", fmt.Errorf("expected a host, or host:port, got %q", address)
	}
	return net.JoinHostPort(host, port), nil
}

// Check returns an error if the settings are not usable.
func (s *Settings) Check() error {
	if _, err := stdmail.ParseAddress(s.From); err != nil {
		return fmt.Errorf("from: expected an address, got %q", s.From)
	}
	switch s.Security {
	case StartTLS, TLS:
	case None:
		if s.Username != "" {
			return fmt.Errorf("tls: it cannot be off with a username, since the password would be sent in clear")
		}
	default:
		return fmt.Errorf("tls: expected starttls, tls or off, got %q", s.Security)
	}
	return nil
}

// New returns a sender, which is closed with Close.
func New(s Settings) *Sender {
	m := &Sender{settings: s, queue: make(chan *Message, queued), pause: 10 * time.Second, stop: make(chan struct{})}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.done.Go(m.run)
	return m
}

// Close sends what waits, for a few seconds at most, and stops.
func (s *Sender) Close() {
	late := time.AfterFunc(drain, s.cancel)
	defer late.Stop()
	close(s.stop)
	s.done.Wait()
	s.cancel()
}

// Send queues a message. What cannot be sent is logged.
func (s *Sender) Send(m *Message) {
	select {
	case s.queue <- m:
	default:
		s.settings.Logger.Error("mail is not sent, because too much of it waits for the SMTP server", zap.String("subject", m.Subject))
	}
}

func (s *Sender) run() {
	for {
		select {
		case m := <-s.queue:
			s.deliver(m)
		case <-s.stop:
			for s.ctx.Err() == nil {
				select {
				case m := <-s.queue:
					s.deliver(m)
				default:
					return
				}
			}
			return
		}
	}
}

// deliver sends a message, and tries again for a while if that fails.
func (s *Sender) deliver(m *Message) {
	var err error
	for n := range attempts {
		if n > 0 {
			again := time.NewTimer(s.pause)
			select {
			case <-again.C:
			case <-s.ctx.Done():
				again.Stop()
				return
			}
		}
		if err = s.send(m); err == nil {
			return
		}
	}
	s.settings.Logger.Error("mail is not sent", zap.String("subject", m.Subject), zap.Error(err))
}

func (s *Sender) send(m *Message) error {
	msg, err := s.message(m)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.settings.Address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	options := []gomail.Option{gomail.WithPort(number), gomail.WithTimeout(timeout)}
	switch s.settings.Security {
	case TLS:
		options = append(options, gomail.WithSSL())
	case StartTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case None:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if s.settings.TLS != nil {
		config := s.settings.TLS.Clone()
		config.ServerName = host
		options = append(options, gomail.WithTLSConfig(config))
	}
	if s.settings.Username != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthPlain), gomail.WithUsername(s.settings.Username), gomail.WithPassword(s.settings.Password.Reveal()))
	}
	client, err := gomail.NewClient(host, options...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	return client.DialAndSendWithContext(ctx, msg)
}

var page = template.Must(template.New("mail").Parse(`<!DOCTYPE html><html><body>
{{range .Paragraphs}}<p>{{.}}</p>
{{end}}{{if .Link}}<p><a href="{{.Link}}">{{.Link}}</a></p>
{{end}}</body></html>
`))

// message writes a message with a plain text and an HTML part.
func (s *Sender) message(m *Message) (*gomail.Msg, error) {
	msg := gomail.NewMsg()
	if err := msg.From(s.settings.From); err != nil {
		return nil, err
	}
	if err := msg.To(m.To); err != nil {
		return nil, err
	}
	msg.Subject(m.Subject)
	msg.SetDate()
	msg.SetMessageID()
	text := strings.Join(m.Paragraphs, "\n\n") + "\n"
	if m.Link != "" {
		text += "\n" + m.Link + "\n"
	}
	msg.SetBodyString(gomail.TypeTextPlain, text)
	var html bytes.Buffer
	if err := page.Execute(&html, m); err != nil {
		return nil, err
	}
	msg.AddAlternativeString(gomail.TypeTextHTML, html.String())
	return msg, nil
}
