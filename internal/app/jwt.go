package app

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/identity"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/upstream"
)

// JWT is an issuer whose JSON Web Tokens are accepted instead of API keys.
type JWT struct {
	// The claim iss of its tokens. Required.
	Issuer string `json:"issuer"`

	// The claim aud of its tokens that are for this gateway: one of these. Required.
	Audience []string `json:"audience"`

	// Where its public keys are: JSON Web Key Sets, which are fetched every 15 minutes, and when a
	// token names a key that is not known, at most every 10 seconds.
	JWKSURLs []string `json:"jwks_url,omitempty"`

	// A file with public keys, a JSON Web Key Set. One of this and jwks_url is required.
	JWKSFile string `json:"jwks_file,omitempty"`

	keys *identity.KeySet
}

func (j *JWT) provision() error {
	repl := caddy.NewReplacer()
	replace := func(name string, to *string) error {
		value, err := repl.ReplaceOrErr(*to, true, true)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if value == "" {
			return fmt.Errorf("%s: the value is empty", name)
		}
		*to = value
		return nil
	}
	if err := replace("issuer", &j.Issuer); err != nil {
		return err
	}
	for i := range j.Audience {
		if err := replace("audience", &j.Audience[i]); err != nil {
			return err
		}
	}
	if len(j.Audience) == 0 {
		return errors.New("audience is required: tokens that the issuer made for others are no keys of this gateway")
	}
	for i := range j.JWKSURLs {
		if err := replace("jwks_url", &j.JWKSURLs[i]); err != nil {
			return err
		}
		u, err := url.Parse(j.JWKSURLs[i])
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "" {
			return fmt.Errorf("jwks_url %s: expected the URL of a JSON Web Key Set", credentials.Clip(j.JWKSURLs[i]))
		}
	}
	if j.JWKSFile == "" {
		if len(j.JWKSURLs) == 0 {
			return errors.New("expected jwks_url or jwks_file")
		}
		return nil
	}
	if err := replace("jwks_file", &j.JWKSFile); err != nil {
		return err
	}
	raw, err := os.ReadFile(j.JWKSFile)
	if err != nil {
		return fmt.Errorf("jwks_file: %w", err)
	}
	if j.keys, err = identity.ParseKeySet(raw, true); err != nil {
		return fmt.Errorf("jwks_file %s: %w", j.JWKSFile, err)
	}
	return nil
}

// provisionJWT checks the issuers of JWTs.
func (a *App) provisionJWT() error {
	named := make(map[string]bool)
	for _, j := range a.JWT {
		if err := j.provision(); err != nil {
			return fmt.Errorf("jwt: %w", err)
		}
		if named[j.Issuer] {
			return fmt.Errorf("jwt: the issuer %s is given twice", credentials.Clip(j.Issuer))
		}
		named[j.Issuer] = true
	}
	return nil
}

// tokens returns what verifies JWTs, or nil if no calls are served.
func (a *App) tokens(c *core) credentials.Tokens {
	if a.offline {
		return nil
	}
	upstreams := upstream.NewClient(a.transport.Pools(), a.own())
	client := upstreams.KeySetClient(false)
	o := identity.Options{
		Client: upstreams.KeySetClient(true), Directory: c.Directory, Now: time.Now, Logger: a.logger,
		Config: func(workspaceID, idOrSlug string) (string, bool) {
			s, ok := c.Configs.Get(idOrSlug)
			if !ok || s.Archived || s.WorkspaceID != workspaceID {
				return "", false
			}
			return s.ID, true
		},
		Limits: func(t identity.LimitedToken) (any, error) {
			limits, err := c.Limits.OfToken((*policies.Token)(&t))
			if limits == nil {
				return nil, err // and not a nil pointer
			}
			return limits, err
		},
	}
	for _, j := range a.JWT {
		o.Issuers = append(o.Issuers, identity.Issuer{Name: j.Issuer, Audience: j.Audience, URLs: j.JWKSURLs, Client: client, Keys: j.keys})
	}
	return identity.NewVerifier(o)
}

func (a *App) unmarshalJWT(d *caddyfile.Dispenser) error {
	j := new(JWT)
	a.JWT = append(a.JWT, j)
	return eachOnce(d, func(name string) error {
		switch name {
		case "issuer":
			return one(d, &j.Issuer)
		case "audience":
			return several(d, &j.Audience)
		case "jwks_url":
			return several(d, &j.JWKSURLs)
		case "jwks_file":
			return one(d, &j.JWKSFile)
		}
		return d.Errf("unrecognized subdirective %q", name)
	})
}
