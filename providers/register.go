package providers

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-gw/gateway/credentials"
)

// Register registers providers as Caddy modules gw.providers.<name>. It is called by init
// functions, and panics if a name is taken or a row is invalid.
func Register(rows ...Provider) {
	for i := range rows {
		p := &rows[i]
		if err := p.check(); err != nil {
			panic("registering provider " + p.Name + ": " + err.Error())
		}
		if p.Dialect == nil && p.Encoder == nil {
			p.Forward = slices.Concat(p.Forward, forwardedToOpenAI)
		}
		byName[p.Name] = p
		names = append(names, p.Name)
		caddy.RegisterModule(module{p})
	}
}

var (
	byName = make(map[string]*Provider)
	names  []string
)

// A module is a provider as a Caddy module.
type module struct{ *Provider }

// CaddyModule returns the Caddy module information.
func (m module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddy.ModuleID("gw.providers." + m.Name), New: func() caddy.Module { return m }}
}

var (
	validName   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	placeholder = regexp.MustCompile(`\{([a-z0-9_]+)\}`)
	validLabel  = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?$`)
)

// check returns an error if the provider is invalid.
func (p *Provider) check() error {
	if !validName.MatchString(p.Name) {
		return errors.New("its name is not made of lower-case letters, digits and hyphens")
	}
	if byName[p.Name] != nil {
		return errors.New("the name is taken")
	}
	if p.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(placeholder.ReplaceAllString(p.BaseURL, "x"))
	switch {
	case err != nil:
		return err
	case u.Scheme != "https" || u.Host == "" || u.Port() != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.RawPath != "":
		return fmt.Errorf("base URL %s is more or less than https, host and path", p.BaseURL)
	case strings.HasSuffix(u.Path, "/") || strings.Contains(u.Path, "//"):
		return fmt.Errorf("base URL %s has a slash too many", p.BaseURL)
	}
	for _, m := range placeholder.FindAllStringSubmatch(p.BaseURL, -1) {
		p.settings = append(p.settings, m[1])
	}
	if p.settings == nil {
		p.base = u
	}
	return nil
}

// Lookup returns the provider with the given name.
func Lookup(name string) (*Provider, bool) {
	p, ok := byName[name]
	return p, ok
}

// spellings are names that other gateways have for providers.
var spellings = map[string]string{"hugging-face": "huggingface", "open-ai": "openai"}

// retired are providers whose API was switched off, with what to use instead.
var retired = map[string]string{"palm": "Google has switched off the PaLM API; use google, which has Gemini"}

// Find is [Lookup] for a name that somebody writes, who may spell it as other gateways do. The error says what it
// may have been.
func Find(name string) (*Provider, error) {
	if p, ok := Lookup(cmp.Or(spellings[name], name)); ok {
		return p, nil
	}
	if why := retired[name]; why != "" {
		return nil, fmt.Errorf("there is no provider %q: %s", name, why)
	}
	if nearest := credentials.Nearest(name, names); nearest != "" {
		return nil, fmt.Errorf("there is no provider %q; the nearest is %s", credentials.Clip(name), nearest)
	}
	return nil, fmt.Errorf("there is no provider %q; the documentation lists those that there are, and one with OpenAI's API is openai with custom_host", credentials.Clip(name))
}

// Names returns the names of all providers, sorted.
func Names() []string { return slices.Sorted(slices.Values(names)) }

// BaseURL returns the base URL of the provider called name, or nil if it has none or it
// depends on settings (then settled is set), and whether the provider exists.
func BaseURL(name string) (base *url.URL, settled, ok bool) {
	p, ok := byName[name]
	if !ok {
		return nil, false, false
	}
	return p.base, p.BaseURL != "" && p.base == nil, true
}

// HostSetting returns the setting that is the address of the provider called name, or "".
func HostSetting(name string) string {
	if p, ok := byName[name]; ok {
		return p.Host
	}
	return ""
}

// CheckAddress refuses a credential for the provider called name, with a host of its own or "", that lacks
// what the provider's address requires: a host, which refuse gets as the field custom_host, or a setting,
// for which it gets "".
func CheckAddress(name, customHost string, has func(setting string) bool, refuse func(field, format string, args ...any) error) error {
	base, settled, _ := BaseURL(name)
	switch {
	case customHost != "":
		return nil
	case base == nil && !settled:
		return refuse("custom_host", "provider %s has no address of its own, name one", name)
	case !settled:
		return nil
	}
	for _, setting := range byName[name].settings {
		if !has(setting) {
			return refuse("", "%s is required for provider %s", setting, name)
		}
	}
	return nil
}

// Settings returns the names of the settings in the base URL.
func (p *Provider) Settings() []string { return p.settings }

// Base returns the provider's base URL with its settings filled in. A setting is one label
// of a host or one segment of a path, so that no value leads to another host.
func (p *Provider) Base(setting func(string) string) (*url.URL, error) {
	if p.base != nil {
		return p.base, nil
	}
	address := p.BaseURL
	for _, name := range p.Settings() {
		v := setting(name)
		if v == "" {
			return nil, p.Missing(name)
		}
		if !validLabel.MatchString(v) {
			return nil, &RequestError{header(name), "invalid_setting", "Invalid " + name + ": expected letters, digits, hyphens and underscores"}
		}
		address = strings.ReplaceAll(address, "{"+name+"}", v)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, &RequestError{"", "invalid_setting", "The address of provider " + p.Name + " cannot be made of its settings"}
	}
	return u, nil
}

// Owns reports whether an address is the provider's own: that of its base URL, or one of its other hosts.
func (p *Provider) Owns(u *url.URL) bool {
	if u.Scheme != "https" || u.Port() != "" || u.User != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return p.base != nil && host == p.base.Hostname() || slices.ContainsFunc(p.OwnHosts, func(domain string) bool {
		name, ok := strings.CutSuffix(host, domain)
		return ok && validLabel.MatchString(name)
	})
}

// OwnHost reports whether the custom host of a credential, or "", is one of the hosts of the provider called name.
func OwnHost(name, customHost string) bool {
	if customHost == "" {
		return true
	}
	u, err := url.Parse(customHost)
	return err == nil && byName[name] != nil && byName[name].Owns(u)
}

// Missing returns the error for a missing setting.
func (p *Provider) Missing(name string) *RequestError {
	return &RequestError{header(name), "missing_setting", fmt.Sprintf(
		"Provider %s needs %s: save it with the virtual key (model_config) or the config (%s), or send it as %s with your own credential",
		p.Name, name, name, header(name))}
}

func header(setting string) string { return "x-gw-" + strings.ReplaceAll(setting, "_", "-") }
