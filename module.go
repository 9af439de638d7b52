// Package gateway is an AI gateway as a Caddy plugin: one import wires in the
// gw app (global option gw) and the handlers gw_admin, gw_ratelimit,
// gw_inference and gw_echo.
//
// docs/architecture.md describes the packages and their layers, and says which of
// them others may import.
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
