package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-gw/gateway/internal/app"
	"github.com/caddy-gw/gateway/internal/exchange"
)

// calls begin the exchanges of requests, see [exchange.Gateway].
type calls interface {
	Begin(http.ResponseWriter, *http.Request, *exchange.Endpoint) *exchange.Exchange
	Authenticate(*http.Request, *exchange.Endpoint) (*exchange.Call, *exchange.Error)
}

// gateway returns the gw app, which it tells the site of the handler called name, and the access
// log of that site.
func gateway(ctx caddy.Context, name string) (*app.App, *accessLog, error) {
	module, err := ctx.App("gw")
	if err != nil {
		return nil, nil, fmt.Errorf("getting the gw app: %w", err)
	}
	a := module.(*app.App)
	site := app.Site{Handler: name}
	if server := serverOf(ctx); server != nil {
		if len(server.Listen) > 0 {
			site.Listen = server.Listen[0]
		}
		site.TLS = len(server.TLSConnPolicies) > 0
		site.Host = firstHost(server.Routes)
	}
	a.Register(site)
	return a, newAccessLog(ctx, a.Headers(), a), nil
}

// serverOf returns the HTTP server whose handlers are being provisioned.
func serverOf(ctx caddy.Context) *caddyhttp.Server {
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return server
}

// firstHost finds a host that a server's routes match, provisioned or not.
func firstHost(routes caddyhttp.RouteList) string {
	for _, route := range routes {
		for _, set := range route.MatcherSetsRaw {
			var hosts []string
			if raw, ok := set["host"]; ok && json.Unmarshal(raw, &hosts) == nil && len(hosts) > 0 {
				return hosts[0]
			}
		}
		for _, set := range route.MatcherSets {
			for _, m := range set {
				if hosts, ok := m.(*caddyhttp.MatchHost); ok && len(*hosts) > 0 {
					return (*hosts)[0]
				}
			}
		}
	}
	return ""
}

// holds reports whether the server whose handlers are being provisioned has a
// handler called name. Some of its routes are provisioned already, and what they
// were made from is gone; of others it is all there is.
func holds(ctx caddy.Context, name string) bool {
	server := serverOf(ctx)
	if server == nil {
		return true // not below a server, as in a test of the handler alone
	}
	if inRoutes(server.Routes, name) {
		return true
	}
	for _, route := range server.NamedRoutes {
		if route != nil && inRoutes(caddyhttp.RouteList{*route}, name) {
			return true
		}
	}
	return false
}

func inRoutes(routes caddyhttp.RouteList, name string) bool {
	for _, route := range routes {
		for _, raw := range route.HandlersRaw {
			var config any
			if json.Unmarshal(raw, &config) == nil && inJSON(config, name) {
				return true
			}
		}
		for _, h := range route.Handlers {
			switch h := h.(type) {
			case *caddyhttp.Subroute:
				if inRoutes(h.Routes, name) {
					return true
				}
			case caddy.Module:
				if h.CaddyModule().ID.Name() == name {
					return true
				}
			}
		}
	}
	return false
}

// inJSON looks for a handler in a configuration that is not provisioned yet.
func inJSON(config any, name string) bool {
	switch c := config.(type) {
	case map[string]any:
		if c["handler"] == name {
			return true
		}
		for _, v := range c {
			if inJSON(v, name) {
				return true
			}
		}
	case []any:
		for _, v := range c {
			if inJSON(v, name) {
				return true
			}
		}
	}
	return false
}
