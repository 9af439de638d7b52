package secrets

import (
	"net/http"
	"net/url"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-gw/gateway/credentials"
)

// Hosts are the hosts of a manager that the operator lists: they may be private, and only
// they get what is the operator's own. The zero value lists none.
type Hosts struct{ guard *credentials.HostGuard }

// NewHosts returns hosts as [credentials.NewHostGuard] takes them.
func NewHosts(list []string) (Hosts, error) {
	guard, err := credentials.NewHostGuard(list)
	return Hosts{guard}, err
}

// List reports whether the host of u is listed.
func (h Hosts) List(u *url.URL) bool { return h.guard.Trusts(u.Hostname()) }

// Check parses the address of a manager, which field has: a URL of a listed host, or one with
// https that guard accepts.
func (h Hosts) Check(field, address string, guard Guard) (*url.URL, error) {
	if u, err := url.Parse(address); err == nil && h.List(u) {
		guard = h.guard
	}
	u, err := guard.Check(address)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" && !h.List(u) {
		return nil, &FieldError{field, "expected https, without which credentials would be sent in the clear"}
	}
	return u, nil
}

// Client returns the client for the host of u.
func (h Hosts) Client(c *Clients, u *url.URL) *http.Client {
	if h.List(u) {
		return c.Operator
	}
	return c.Public
}

// UnmarshalOptions reads the Caddyfile tokens of a module: hosts, and options with one value each,
// by their names.
func UnmarshalOptions(d *caddyfile.Dispenser, hosts *[]string, values map[string]*string) error {
	d.Next() // consume the module's name
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		value, single := values[d.Val()]
		switch {
		case single && *value != "":
			return d.Errf("%s is given twice", d.Val())
		case single:
			if !d.AllArgs(value) {
				return d.ArgErr()
			}
		case d.Val() == "hosts":
			args := d.RemainingArgs()
			if len(args) == 0 {
				return d.ArgErr()
			}
			*hosts = append(*hosts, args...)
		default:
			return d.Errf("unrecognized subdirective %q", d.Val())
		}
	}
	return nil
}
