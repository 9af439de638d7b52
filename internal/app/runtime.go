package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/manifest"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers"
)

// Runtime is what requests use, once the configuration has started. A handler takes from it what it
// declares that it uses, and keeps no more.
type Runtime struct {
	*Services
	Gateway *exchange.Gateway
	Admin   http.Handler
	// MaxLoggedBody is what is kept of each body of a workspace's calls, in bytes.
	MaxLoggedBody func(workspaceID string) int

	checker   *checker
	manifests *manifest.Services
}

// build makes the services of this configuration over the store's.
func (a *App) build(c *core) *Runtime {
	organisation := c.Directory.Organisation()
	authenticator := &credentials.Authenticator{
		Keyring: c.Keyring, OrganisationID: organisation.ID, DefaultWorkspace: c.Directory.DefaultWorkspace().ID,
		HasWorkspace: c.Directory.HasWorkspace,
	}
	if !a.adminKey.Empty() {
		digest := credentials.DigestOf(a.adminKey.Reveal())
		authenticator.AdminKey = &digest
	}
	if !a.dataToken.Empty() {
		digest := credentials.DigestOf(a.dataToken.Reveal())
		authenticator.DataService = &digest
	}
	authenticator.Tokens = a.tokens(c)
	for slug, p := range a.providers {
		for _, name := range p.Workspaces {
			if _, ok := c.Directory.Workspace(name); !ok {
				a.logger.Warn("a provider names a workspace that does not exist; until it does, nobody of it can use the provider",
					zap.String("provider", slug), zap.String("workspace", name))
			}
		}
	}
	block := a.BlockInlineConfig
	if a.blockInline {
		block = &a.blockInline
	}
	router := &credentials.Router{
		Keyring: c.Keyring, Secrets: c.Secrets, Providers: a.providers, Passthrough: a.paths, BuiltIn: providers.BaseURL, HostSetting: providers.HostSetting, Guard: a.guard, BlockInline: block != nil && *block,
		BlockedIn: func(id string) bool {
			w, ok := c.Directory.Workspace(id)
			return ok && c.Directory.Organisation().BlocksInline(c.Directory.DataPlaneOf(w), block)
		},
		SlugOf: func(id string) string {
			if w, ok := c.Directory.Workspace(id); ok {
				return w.Slug
			}
			return ""
		},
	}
	c.Secrets.Use(a.fetchSecrets(c.Keyring))
	a.parse.SavedProvider = router.MayUse
	named := &aliases{c.Aliases, a.Aliases, router.Hides}
	router.Alias = named.target
	gateway := &exchange.Gateway{
		CheckServices: a.checkServices(),
		Authenticator: authenticator, Router: router, Headers: a.headers, Now: clocks.now, Random: rand.Reader, ID: "caddy-gw-" + strings.ToLower(rand.Text()), Acquire: c.acquire,
		Configs: &exchange.Configs{Store: c.Configs, Options: a.parse}, Responses: c.Responses, Owners: c.Owners, Batches: c.Limits, Prompts: c.Prompts, Guardrails: savedGuardrails{c.Guardrails, c.Directory},
		Several: func() bool { return len(c.Directory.Workspaces()) > 1 },
		Metrics: a.metrics, Prices: a.prices, InFlight: c.InFlight, Calls: c.Calls, Texts: c.Texts, Aliases: named.names,
		Unpriced: saysUnpriced(a.logger, time.Now),
		WorkspaceMetadata: func(id string) json.RawMessage {
			w, ok := c.Directory.Workspace(id)
			if !ok {
				return nil
			}
			return w.Metadata
		},
	}
	managed := c.managed()
	managed.ParseOptions, managed.Authenticator, managed.Guard, managed.Headers = a.parse, authenticator, a.guard, a.headers
	managed.KeyPrefix, managed.Logger, managed.BlockInline = a.keyPrefix, a.logger, block
	managed.MayUse, managed.BaseURL = router.MayUse, a.baseURL()
	if a.mail != nil {
		managed.Mail = a.mail
	}
	managed.Price = func(workspaceID, provider, model string) *prices.Price {
		return router.Price(workspaceID, provider, model, func(model string, providers ...string) *prices.Price {
			return a.prices.Of(model, time.Now(), providers...)
		})
	}
	managed.CheckServices = func(workspaceID string) guardrails.Services {
		return gateway.CheckServices(workspaceID, gateway.Through(nil))
	}
	managed.Identities = a.ProviderIdentity
	managed.Managers, managed.CountryHeader = a.managers, a.AuditLog.CountryHeader
	api := admin.New(managed)
	gateway.ControlPlane = api.Paths()
	return &Runtime{
		Services: c.Services, Gateway: gateway, Admin: api, checker: a.checker(c.Services), manifests: a.manifests(c),
		MaxLoggedBody: func(workspaceID string) int {
			limit := c.Records.MaxBody()
			if limit == 0 {
				return 0
			}
			if w, ok := c.Directory.Workspace(workspaceID); !ok || w.NoBodies {
				return 0
			}
			return limit
		},
	}
}

// Ready returns an error if calls cannot be served now. It says why to anyone who asks, and so
// names nothing of the machine.
func (a *App) Ready() error {
	select {
	case <-a.ready:
	default:
		return errors.New("starting")
	}
	if err := a.services.DB.Writable(); err != nil {
		return errors.New("the store is not writable")
	}
	return nil
}

// Runtime returns what requests use. It waits until the configuration has started.
func (a *App) Runtime(ctx context.Context) (*Runtime, error) {
	select {
	case <-a.ready:
		return a.runtime, nil
	default:
	}
	select {
	case <-a.ready:
		return a.runtime, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
