// Package gateway is an AI gateway as a Caddy plugin: one import wires in the
// gw app (global option gw) and the handlers gw_admin, gw_ratelimit,
// gw_inference and gw_echo.
//
// The folders, from the top layer down; a package imports only from the
// layers below its own:
//
//	handlers, app                      Caddy modules and their Caddyfile syntax
//	admin, inference                   the control plane's HTTP API; the data plane
//	exchange, providers, policies,     one call; the dialects; the limits;
//	reqlog                             the records of calls
//	secrets                            secret managers
//	credentials                        keys, callers, routes, secrets
//	directory, audit                   organisations and workspaces; the audit trail
//	storage                            the key-value store and its drivers
//
// docs/architecture.md tells the whole story.
package gateway

import (
	_ "github.com/caddy-gw/gateway/guardrails/external"
	_ "github.com/caddy-gw/gateway/guardrails/standard"
	_ "github.com/caddy-gw/gateway/handlers"
	_ "github.com/caddy-gw/gateway/internal/command"
	_ "github.com/caddy-gw/gateway/providers/standard"
	_ "github.com/caddy-gw/gateway/secrets/awssm"
	_ "github.com/caddy-gw/gateway/secrets/azurekv"
	_ "github.com/caddy-gw/gateway/secrets/local"
	_ "github.com/caddy-gw/gateway/secrets/vault"
	_ "github.com/caddy-gw/gateway/storage/badger"
)
