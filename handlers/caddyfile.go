package handlers

import (
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"

	"github.com/caddy-gw/gateway/internal/echo"
	"github.com/caddy-gw/gateway/internal/inference"
)

// The order of all directives is set here, in one init, because the order of
// registration decides: several directives before the same standard one run in the
// order in which they were registered. All come after Caddy's own authentication
// and header manipulation, and before what answers requests.
func init() {
	for _, directive := range []struct {
		name  string
		parse httpcaddyfile.UnmarshalHandlerFunc
	}{
		{"gw_admin", unmarshal(func() handler { return new(Admin) })},
		{"gw_ratelimit", unmarshal(func() handler { return new(RateLimit) })},
		{"gw_inference", unmarshal(func() handler { return new(Inference) })},
		{"gw_echo", unmarshal(func() handler { return new(echo.Echo) })},
	} {
		httpcaddyfile.RegisterHandlerDirective(directive.name, directive.parse)
		httpcaddyfile.RegisterDirectiveOrder(directive.name, httpcaddyfile.Before, "reverse_proxy")
	}
}

type handler interface {
	caddyhttp.MiddlewareHandler
	caddyfile.Unmarshaler
}

func unmarshal(newHandler func() handler) httpcaddyfile.UnmarshalHandlerFunc {
	return func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		m := newHandler()
		if of, ok := m.(interface{ adminAt(address string) }); ok {
			// Caddy tells no module where its admin endpoint is, but a Caddyfile does.
			if admin, _ := h.Option("admin").(*caddy.AdminConfig); admin != nil {
				of.adminAt(admin.Listen)
			}
		}
		return m, m.UnmarshalCaddyfile(h.Dispenser)
	}
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	gw_admin
func (h *Admin) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return bare(d) }

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	gw_ratelimit {
//		on_store_failure refuse|allow
//	}
func (h *RateLimit) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		name := d.Val()
		switch {
		case name != "on_store_failure":
			return d.Errf("unrecognized subdirective %q", name)
		case h.OnStoreFailure != "":
			return d.Errf("%s is given twice", name)
		case !d.AllArgs(&h.OnStoreFailure):
			return d.ArgErr()
		case h.OnStoreFailure != refuse && h.OnStoreFailure != allow:
			return d.Errf("%s: expected refuse or allow, got %q", name, h.OnStoreFailure)
		}
	}
	return nil
}

func bare(d *caddyfile.Dispenser) error {
	d.Next() // consume the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		return d.Errf("unrecognized subdirective %q", d.Val())
	}
	return nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	gw_inference {
//		max_body            <size>
//		max_upload          <size>
//		max_replay          <size>
//		stream_close_delay  <duration>
//		stream_idle_timeout <duration>
//		body_timeout        <duration>
//		provider_header_timeout <duration>
//		transport {
//			# the options of Caddy's HTTP transport
//		}
//	}
func (h *Inference) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		name := d.Val()
		switch name {
		case "max_body", "max_upload", "max_replay":
			to := map[string]*int64{"max_body": &h.MaxBody, "max_upload": &h.MaxUpload, "max_replay": &h.MaxReplay}[name]
			if *to != 0 {
				return d.Errf("%s is given twice", name)
			}
			var value string
			if !d.AllArgs(&value) {
				return d.ArgErr()
			}
			n, err := humanize.ParseBytes(value)
			if err != nil || n == 0 || n > 1<<40 {
				return d.Errf("%s: expected a size such as 32MiB, got %q", name, value)
			}
			*to = int64(n)
		case "stream_close_delay", "stream_idle_timeout", "body_timeout", "provider_header_timeout":
			to := map[string]*caddy.Duration{
				"stream_close_delay": &h.StreamCloseDelay, "stream_idle_timeout": &h.StreamIdleTimeout,
				"body_timeout": &h.BodyTimeout, "provider_header_timeout": &h.ProviderHeaderTimeout,
			}[name]
			if *to != 0 {
				return d.Errf("%s is given twice", name)
			}
			var value string
			if !d.AllArgs(&value) {
				return d.ArgErr()
			}
			delay, err := caddy.ParseDuration(value)
			if err != nil || delay <= 0 || delay > 24*time.Hour {
				return d.Errf("%s: expected a duration such as 5m, got %q", name, value)
			}
			*to = caddy.Duration(delay)
		case "transport":
			if h.Transport != nil {
				return d.Errf("%s is given twice", name)
			}
			h.Transport = new(inference.Transport)
			segment := d.NewFromNextSegment()
			if err := h.Transport.UnmarshalCaddyfile(segment); err != nil {
				return err
			}
		default:
			return d.Errf("unrecognized subdirective %q", name)
		}
	}
	return nil
}

func (h *Inference) adminAt(address string) { h.AdminListen = address }

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*Admin)(nil)
	_ caddyfile.Unmarshaler = (*RateLimit)(nil)
	_ caddyfile.Unmarshaler = (*Inference)(nil)
)
