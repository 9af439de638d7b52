package app

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/alerts"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/plugins"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/removal"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/rotation"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/secretcache"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/stores"
	"github.com/caddy-gw/gateway/internal/tokens"
	"github.com/caddy-gw/gateway/storage"
)

// Services is the one list of the services of a store, with [stores.Set]. They survive reloads of
// the configuration. A new service needs a field in one of the two and its lines in [openServices].
// Users of a service declare interfaces with what they use.
type Services struct {
	stores.Set // which the control plane manages, and which go with a workspace

	DB        *storage.DB
	Trail     *audit.Trail
	Secrets   *secretcache.Cache
	Breakers  *routing.Breakers
	Counter   ledger.Counter
	Alerts    *alerts.Notifier
	Answers   *cache.Cache
	InFlight  *inflight.Budget // of bytes
	Calls     *inflight.Budget
	Texts     *tokens.Queue // of streams that broke off
	Records   reqlog.Store
	Removals  *removal.Remover
	Rotations *rotation.Rotator

	closers []func() error // in the order in which their services were opened
}

// openServices opens the services of a store, each after those that it needs. If one cannot
// be opened, the store is closed; otherwise Close closes it. Secrets in the store are
// sealed with master, rows of the audit trail with seal.
func openServices(ctx context.Context, store storage.Store, master credentials.Secret, seal audit.Key, logger *zap.Logger) (_ *Services, err error) {
	now, random, db := clocks.now, rand.Reader, storage.NewDB(store)
	s := &Services{
		DB: db, Breakers: routing.NewBreakers(now, 0), InFlight: inflight.New(0), Calls: inflight.NewCalls(0), Texts: new(tokens.Queue),
	}
	s.Responses = stored.NewResponses(db, now)
	s.onClose(db.Close)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()

	if s.Trail, err = audit.Open(ctx, db, audit.Options{Key: seal, Now: now, Random: random, Logger: logger.Named("gw.audit")}); err != nil {
		return nil, err
	}
	s.Trail.Start()
	s.onClose(func() error { s.Trail.Close(); return nil })
	if s.Directory, err = directory.Open(ctx, db, now, random); err != nil {
		return nil, err
	}
	if s.Owners, err = stored.OpenOwners(ctx, db); err != nil {
		return nil, err
	}
	if s.Keyring, err = credentials.OpenKeyring(ctx, db, master, now, random); err != nil {
		return nil, err
	}
	s.Rotations = rotation.New(db, s.Keyring, s.Directory, s.Trail, now, logger)
	s.Rotations.Start()
	s.onClose(func() error { s.Rotations.Close(); return nil })
	s.Secrets = secretcache.New(now, logger)
	s.onClose(func() error { s.Secrets.Close(); return nil })
	if s.Configs, err = routing.OpenConfigStore(ctx, db, s.Keyring, now, random); err != nil {
		return nil, err
	}
	if s.Aliases, err = routing.OpenAliases(ctx, db, now, random); err != nil {
		return nil, err
	}
	if s.Prompts, err = prompts.Open(ctx, db, now, random); err != nil {
		return nil, err
	}
	if s.Guardrails, err = hooks.OpenStore(ctx, db, s.Keyring, now, random); err != nil {
		return nil, err
	}
	if s.Plugins, err = plugins.Open(ctx, db, s.Keyring, now, random); err != nil {
		return nil, err
	}
	if s.Counter, err = ledger.Open(ctx, db, ledger.Options{Now: now, Elapsed: clocks.elapsed, Uptime: clocks.uptime, Job: db.Job("rate-limit-records")}); err != nil {
		return nil, err
	}
	s.onClose(func() error { return s.Counter.Close(context.Background()) })
	s.Alerts = alerts.New(db, now, logger)
	s.Alerts.Start()
	s.onClose(func() error { s.Alerts.Close(); return nil })
	if s.Limits, err = policies.Open(ctx, db, s.Counter, now, logger); err != nil {
		return nil, err
	}
	s.RateLimits, s.UsageLimits, s.Batches = s.Limits.Rates, s.Limits.Budgets, s.Limits.Batches
	s.Limits.OnAlert(s.Alerts.Add)
	s.onClose(func() error { s.Limits.Close(); return nil })
	if s.Answers, err = cache.Open(ctx, db, now); err != nil {
		return nil, err
	}
	if s.Records, err = reqlog.Open(ctx, db, reqlog.Options{Now: now, Random: random, Logger: logger}); err != nil {
		return nil, err
	}
	s.onClose(func() error { s.Records.Close(); return nil })
	s.Removals = removal.Open(db, s.Directory, removal.Parts(db, &s.Set), logger)
	s.onClose(func() error { s.Removals.Close(); return nil })
	s.onClose(func() error { s.Texts.Close(); return nil }) // what waits settles calls, and writes their records
	return s, nil
}

// onClose registers a function to be called on Close, before those registered earlier.
func (s *Services) onClose(fn func() error) { s.closers = append(s.closers, fn) }

// Close closes the services in reverse order, even if there are errors.
func (s *Services) Close() error {
	var errs []error
	for _, fn := range slices.Backward(s.closers) {
		errs = append(errs, fn())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// managed returns the services that the control plane manages, without those that depend on
// the configuration.
func (s *Services) managed() admin.Services {
	return admin.Services{
		Set: s.Set, DB: s.DB, Trail: s.Trail, Records: s.Records, Breakers: s.Breakers, InFlight: s.InFlight, Removals: s.Removals, Rotations: s.Rotations, Resync: s.Secrets.Refresh, Now: clocks.now, Random: rand.Reader,
	}
}
