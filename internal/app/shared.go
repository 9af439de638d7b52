package app

import (
	"crypto/rand"
	mathrand "math/rand/v2"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inference"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/upstream"
)

// Transport returns the connection pools that the handlers share.
func (a *App) Transport() *inference.Transport { return a.transport }

// GuardAdmin prevents hosts chosen by callers from leading to Caddy's admin endpoint, which
// listens on the given address; "" means none.
func (a *App) GuardAdmin(listen string) error {
	listen = caddy.NewReplacer().ReplaceAll(listen, "")
	if listen == "" {
		return nil
	}
	at, err := caddy.ParseNetworkAddress(listen)
	if err != nil {
		return err
	}
	if at.IsUnixNetwork() || at.IsFdNetwork() {
		return nil // no host leads to a Unix socket
	}
	for port := at.StartPort; port <= at.EndPort; port++ {
		a.guard.AdminPorts(uint16(port))
	}
	return nil
}

// IsOperatorKey reports whether a string is a service key without the form of API keys: one of the
// operator's own, or a JWT.
func (a *App) IsOperatorKey(text string) bool {
	if a.started() && a.runtime.Gateway.Authenticator.IsOperatorKey(text) {
		return true
	}
	for _, key := range []credentials.Secret{a.adminKey, a.dataToken} {
		if n := len(key.Reveal()); n > 0 && n == len(text) && key.Equal(credentials.NewSecret(text)) {
			return true
		}
	}
	return false
}

// Guard returns the guard of custom hosts.
func (a *App) Guard() *credentials.HostGuard { return a.guard }

// Headers returns the gateway's headers.
func (a *App) Headers() *exchange.Headers { return a.headers }

// RaiseLimits raises the limits of bodies to those of a handler. Handlers call it while
// they are provisioned.
func (a *App) RaiseLimits(l exchange.Limits) {
	a.limits.Body = max(a.limits.Body, l.Body)
	a.limits.Upload = max(a.limits.Upload, l.Upload)
	a.limits.Replay = max(a.limits.Replay, l.Replay)
	a.limits.StallTimeout = max(a.limits.StallTimeout, l.StallTimeout)
}

// Limits returns the largest limits of any handler in the configuration.
func (a *App) Limits() exchange.Limits { return a.limits }

// Forwarding returns the settings that all forwarders share.
func (a *App) Forwarding() inference.Settings {
	return inference.Settings{
		Breakers: func(workspaceID, configID string) routing.ConfigBreakers {
			return a.services.Breakers.Of(workspaceID, configID)
		},
		Answers:     func() inference.Answers { return a.services.Answers },
		SharedCache: a.CacheScope == scopeOrganisation, Semantic: a.SemanticCache.model(), Checks: a.checks(), Own: a.own(), Random: random{}, Timeout: a.timeout,
	}
}

// own returns the options of the gateway's own calls.
func (a *App) own() upstream.Options {
	return upstream.Options{Metrics: a.metrics, Prices: a.prices, InFlight: func() *inflight.Budget { return a.services.InFlight }, NewID: rand.Text, Machine: a.machine}
}

// random uses the source that the standard library seeds.
type random struct{}

func (random) Float64() float64 { return mathrand.Float64() }

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
