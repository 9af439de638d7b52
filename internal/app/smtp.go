package app

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/mail"
)

// SMTP is the server that sends the gateway's mail, such as invites.
type SMTP struct {
	// The server: a host, or host:port. Default of the port: 587, or 465 with tls. Required.
	Address string `json:"address"`

	// What the mail comes from: an address, or Name <address>. Required.
	From string `json:"from"`

	// How the connection is encrypted: "starttls", without which nothing is sent, "tls" from the
	// first byte, or "off", without a username only. Default: starttls.
	TLS string `json:"tls,omitempty"`

	// Who logs in. Placeholders are replaced. Default: nobody.
	Username string `json:"username,omitempty"`

	// The password. Placeholders are replaced.
	Password string `json:"password,omitempty"`

	settings mail.Settings
}

func (s *SMTP) provision(logger *zap.Logger) error {
	if s == nil {
		return nil
	}
	security := mail.Security(s.TLS)
	if security == "" {
		security = mail.StartTLS
	}
	address, err := mail.ParseAddress(s.Address, security)
	if err != nil {
		return fmt.Errorf("smtp: address: %w", err)
	}
	username, err := caddy.NewReplacer().ReplaceOrErr(s.Username, true, true)
	if err != nil {
		return fmt.Errorf("smtp: username: %w", err)
	}
	password, err := secret("smtp: password", s.Password, 1)
	if err != nil {
		return err
	}
	if password.Empty() != (username == "") {
		return fmt.Errorf("smtp: expected a username and a password, or neither")
	}
	s.settings = mail.Settings{Address: address, Security: security, From: s.From, Username: username, Password: password, Logger: logger.Named("mail")}
	if err := s.settings.Check(); err != nil {
		return fmt.Errorf("smtp: %w", err)
	}
	return nil
}

func (s *SMTP) unmarshal(d *caddyfile.Dispenser) error {
	return eachOnce(d, func(name string) error {
		to, ok := map[string]*string{"address": &s.Address, "from": &s.From, "tls": &s.TLS, "username": &s.Username, "password": &s.Password}[name]
		if !ok {
			return d.Errf("unrecognized subdirective %q", name)
		}
		return one(d, to)
	})
}
