package app

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/alerts"
	"github.com/caddy-gw/gateway/internal/upstream"
)

// Alerts are where alerts of budgets go.
type Alerts struct {
	// A URL that alerts are posted to. Default: none.
	Webhook *Webhook `json:"webhook,omitempty"`
}

// Webhook is a URL that alerts are posted to, with a signature.
type Webhook struct {
	// The URL, of http or https. It may be private. Placeholders are replaced. Required.
	URL string `json:"url"`

	// What the header x-gw-signature is made with, at least 16 characters. Placeholders are
	// replaced. Required.
	Secret string `json:"secret"`

	secret credentials.Secret
}

// minWebhookSecret is the minimum length of a webhook's secret.
const minWebhookSecret = 16

func (a *Alerts) provision() error {
	if a == nil || a.Webhook == nil {
		return nil
	}
	if err := a.Webhook.provision(); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	return nil
}

func (w *Webhook) provision() (err error) {
	if w.URL, err = caddy.NewReplacer().ReplaceOrErr(w.URL, true, true); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	// The path of a URL may be a secret.
	if u, err := url.Parse(w.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("expected an http or https URL without a user and a fragment, such as https://alerts.example.com/gw")
	}
	if w.Secret == "" {
		return errors.New("secret is required, so that the receiver can tell alerts from forgeries; make one with: openssl rand -hex 32")
	}
	w.secret, err = secret("secret", w.Secret, minWebhookSecret)
	return err
}

// alertSettings are where alerts go by this configuration.
func (a *App) alertSettings(c *core) alerts.Settings {
	s := alerts.Settings{Emit: a.emit}
	if a.mail != nil {
		s.Mail = a.mail
		s.Emails = func(keyID string) []string {
			k, ok := c.Keyring.APIKey(keyID)
			if !ok {
				return nil
			}
			return k.AlertEmails
		}
	}
	if a.Alerts != nil && a.Alerts.Webhook != nil {
		client := upstream.NewClient(a.transport.Pools(), a.own())
		s.Webhook = &alerts.Webhook{URL: a.Alerts.Webhook.URL, Secret: a.Alerts.Webhook.secret, Post: client.Notify}
	}
	return s
}

func (a *Alerts) unmarshal(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if name := d.Val(); name != "webhook" {
			return d.Errf("unrecognized subdirective %q", name)
		}
		if a.Webhook != nil {
			return d.Err("webhook is given twice")
		}
		a.Webhook = new(Webhook)
		if err := a.Webhook.unmarshal(d); err != nil {
			return err
		}
	}
	return nil
}

func (w *Webhook) unmarshal(d *caddyfile.Dispenser) error {
	if !d.AllArgs(&w.URL) {
		return d.Err("webhook: expected a URL, and a block with secret")
	}
	return eachOnce(d, func(name string) error {
		if name != "secret" {
			return d.Errf("unrecognized subdirective %q", name)
		}
		return one(d, &w.Secret)
	})
}
