package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

var validSlug = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)

// resolve checks a provider of the configuration and replaces its placeholders.
func (p *Provider) resolve(slug string, identities routing.Identities) (*credentials.Provider, error) {
	if !validSlug.MatchString(slug) {
		return nil, errors.New("a slug is letters, digits, _ and - only")
	}
	if p == nil || p.Type == "" {
		return nil, errors.New("type: required, such as openai")
	}
	base, settled, ok := providers.BaseURL(p.Type)
	if !ok {
		return nil, fmt.Errorf("type: there is no provider %q", p.Type)
	}
	out := &credentials.Provider{Slug: slug, Dialect: p.Type, BaseURL: base, Workspaces: p.Workspaces}
	var err error
	if out.Passthrough, err = credentials.ParsePaths(p.PassthroughPaths); err != nil {
		return nil, fmt.Errorf("passthrough_paths: %w", err)
	}
	if p.BaseURL != "" {
		resolved, err := resolve(p.BaseURL)
		if err != nil {
			return nil, fmt.Errorf("base_url: %w", err)
		}
		u, err := url.Parse(resolved)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, errors.New("base_url: expected a URL such as http://127.0.0.1:11434/v1")
		}
		if _, err := credentials.NewHostGuard([]string{u.Hostname()}); err != nil {
			return nil, errors.New("base_url: a cloud metadata service is not a model provider")
		}
		out.BaseURL = u
	}
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	out.Settings = settings
	if out.Machine, err = machine(out, identities); err != nil {
		return nil, err
	}
	if out.BaseURL == nil && !settled {
		return nil, fmt.Errorf("base_url: required, %s has no address of its own", p.Type)
	}
	if out.Key, err = secret("api_key", p.APIKey, 1); err != nil {
		return nil, err
	}
	if err := p.complete(out); err != nil {
		return nil, err
	}
	out.Header = make(http.Header, len(p.Headers))
	for name, values := range p.Headers {
		for _, v := range values {
			if v, err = resolve(v); err != nil {
				return nil, fmt.Errorf("header %s: %w", name, err)
			}
			if !credentials.Configurable(name) {
				return nil, fmt.Errorf("header %s: it cannot be set", name)
			}
			key := textproto.CanonicalMIMEHeaderKey(name)
			out.Header[key] = append(out.Header[key], v)
		}
	}
	return out, nil
}

// complete refuses a provider at its usual address that lacks what every call to it needs: what
// its address is made of, and a credential, be it a key, a secret among the settings, or a header.
func (p *Provider) complete(out *credentials.Provider) error {
	if p.BaseURL != "" {
		return nil
	}
	builtIn, _ := providers.Lookup(p.Type)
	for _, name := range builtIn.Settings() {
		if s, ok := out.Settings[name]; !ok || s.Empty() {
			return fmt.Errorf("%s: required, the address of %s is made of it", name, p.Type)
		}
	}
	if !out.Key.Empty() || len(p.Headers) > 0 || out.Machine {
		return nil
	}
	for name := range out.Settings {
		if routing.IsSecret(name) {
			return nil
		}
	}
	return fmt.Errorf("api_key: required, %s answers nobody without a credential", p.Type)
}

// machine reports whether a provider is what the gateway's machine is.
func machine(p *credentials.Provider, identities routing.Identities) (bool, error) {
	plain := make(map[string]string, len(p.Settings))
	for name, v := range p.Settings {
		plain[name] = v.Reveal()
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return false, err
	}
	builtIn, _ := providers.Lookup(p.Dialect)
	ownHost := p.BaseURL == nil || builtIn.Owns(p.BaseURL)
	cloud, err := identities.Check(&credentials.Credential{Provider: p.Dialect}, string(text), ownHost, func(field, format string, args ...any) error {
		return fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...))
	})
	return cloud != "", err
}

// settings are the provider's own, by the rules of a config's.
func (p *Provider) settings() (map[string]credentials.Secret, error) {
	if len(p.Settings) == 0 {
		return nil, nil
	}
	resolved := make(map[string]string, len(p.Settings))
	for name, v := range p.Settings {
		v, err := resolve(v)
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
		resolved[name] = v
	}
	text, err := json.Marshal(resolved)
	if err != nil {
		return nil, err
	}
	list, faults := routing.Settings(text, routing.Options{})
	switch {
	case len(faults) > 0:
		return nil, fmt.Errorf("setting %s", strings.Join(faults.Strings(), "; "))
	case routing.Host(list) != "":
		return nil, errors.New("setting: write the provider's address as base_url")
	}
	out := make(map[string]credentials.Secret, len(list))
	for _, s := range list {
		out[s.Name] = s.Value
	}
	return out, nil
}
