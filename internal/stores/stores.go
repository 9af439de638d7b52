// Package stores has the services of what the organisation and its workspaces have saved in the
// store. It is below the packages that use all of them: the control plane, the removal of workspaces
// and the app.
package stores

import (
	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/plugins"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/storage"
)

// A Set has the services of rows that the control plane manages, or that workspaces have. A new one
// needs a field here, a line in In if it is read within transactions, and an entry in package removal
// if its rows are a workspace's.
type Set struct {
	Directory   *directory.Directory
	Keyring     *credentials.Keyring
	Configs     *routing.ConfigStore
	Aliases     *routing.Aliases
	Prompts     *prompts.Store
	Guardrails  *hooks.Store
	Plugins     *plugins.Store
	Limits      *policies.Limits
	RateLimits  *policies.Store[policies.RateLimit]  // of Limits
	UsageLimits *policies.Store[policies.UsageLimit] // of Limits
	Batches     *policies.Batches                    // of Limits
	Responses   *stored.Responses
	Owners      *stored.Owners
}

// In returns the stores as a transaction sees them. Responses and owners of objects are only written
// there, and counters of limits have transactions of their own.
func (s *Set) In(tx *storage.Txn) Set {
	in := *s
	in.Directory, in.Keyring, in.Configs, in.Aliases = s.Directory.In(tx), s.Keyring.In(tx), s.Configs.In(tx), s.Aliases.In(tx)
	in.Prompts, in.Guardrails, in.Plugins = s.Prompts.In(tx), s.Guardrails.In(tx), s.Plugins.In(tx)
	in.RateLimits, in.UsageLimits, in.Batches = s.RateLimits.In(tx), s.UsageLimits.In(tx), s.Batches.In(tx)
	return in
}
