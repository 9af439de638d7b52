package app

import (
	"errors"
	"math"
	"net"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/inflight"
)

// A Site describes where one of the gateway's handlers is used.
type Site struct {
	Handler string // gw_inference, gw_ratelimit, gw_admin
	Listen  string // first address of its server
	Host    string // may be empty
	TLS     bool
}

// Register records the site of a handler. Handlers call it while they are provisioned.
func (a *App) Register(s Site) { a.sites = append(a.sites, s) }

// check warns of configurations that do not work as they seem to.
func (a *App) check() error {
	var inference, rateLimit bool
	for _, s := range a.sites {
		inference = inference || s.Handler == "gw_inference"
		rateLimit = rateLimit || s.Handler == "gw_ratelimit"
	}
	if rateLimit && !inference {
		return errors.New("gw_ratelimit: there is no gw_inference in this configuration, so it could limit nothing")
	}
	if inference && a.limits.Body > inflight.Most(a.MaxInflightBytes) {
		a.logger.Warn("max_body is not reached: a body may take nine thirteenths of max_inflight_bytes, as all that one key holds",
			zap.Int64("max_body", a.limits.Body), zap.Int64("max_inflight_bytes", a.MaxInflightBytes))
	}
	if inference && !rateLimit {
		a.logger.Warn("no gw_ratelimit in this configuration: rate-limit policies are not enforced")
	}
	a.checkPorts()
	return nil
}

// checkPorts warns of ports that another process listens on, too: each of them then gets
// some of the calls, and a gateway with another store refuses keys of this one.
func (a *App) checkPorts() {
	warned := make(map[string]bool)
	for _, s := range a.sites {
		address, err := caddy.ParseNetworkAddress(s.Listen)
		if err != nil || address.IsUnixNetwork() || address.IsFdNetwork() || address.StartPort == 0 || address.StartPort > math.MaxUint16 || warned[s.Listen] {
			continue
		}
		warned[s.Listen] = true
		if sharedWith(uint16(address.StartPort)) {
			a.logger.Warn("another process listens on this port too, and gets some of the calls; if it is a gateway with another store, it knows other keys: stop one of them",
				zap.String("address", s.Listen))
		}
	}
}

// baseURL returns a URL at which the gateway can be tried out.
func (a *App) baseURL() string {
	for _, want := range []string{"gw_inference", "gw_admin"} {
		for _, s := range a.sites {
			if s.Handler == want {
				return s.url()
			}
		}
	}
	return "http://localhost"
}

func (s Site) url() string {
	scheme, host, port := "http", s.Host, ""
	if addr, err := caddy.ParseNetworkAddress(s.Listen); err == nil {
		if host == "" && addr.Host != "" && !net.ParseIP(addr.Host).IsUnspecified() {
			host = addr.Host
		}
		port = strconv.FormatUint(uint64(addr.StartPort), 10)
	}
	if host == "" {
		host = "localhost"
	}
	if s.TLS || port == "443" {
		scheme = "https"
	}
	if port == "" || scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		return scheme + "://" + host
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
