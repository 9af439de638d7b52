package app

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/storage"
)

// Services are the services over a store, and the one list of them: they survive
// reloads of the configuration, and are handed on as they are. A new service is a field
// here and its lines in [openServices]. Who uses one says what of it in an interface of
// its own.
type Services struct {
	DB         *storage.DB
	Trail      *audit.Trail
	Directory  *directory.Directory
	Keyring    *credentials.Keyring
	Configs    *routing.ConfigStore
	Aliases    *routing.Aliases
	Breakers   *routing.Breakers
	Counter    ledger.Counter
	RateLimits *policies.RateLimits
	Answers    *cache.Cache
	Responses  *stored.Responses
	Owners     *stored.Owners
	InFlight   *inflight.Budget
	Records    reqlog.Store

	closers []func() error // in the order in which what they close was opened
}

// openServices opens the services of a store in an order in which each finds those that
// it is made of. It closes the store where one cannot be opened; else Close does.
// master seals what is secret in it.
func openServices(ctx context.Context, store storage.Store, master credentials.Secret, logger *zap.Logger) (_ *Services, err error) {
	now, random, db := time.Now, rand.Reader, storage.NewDB(store)
	s := &Services{
		DB: db, Trail: audit.Open(db, now, random), Breakers: routing.NewBreakers(now, 0), InFlight: inflight.New(0),
		Responses: stored.NewResponses(db),
	}
	s.onClose(db.Close)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()

	if s.Directory, err = directory.Open(ctx, db, now, random); err != nil {
		return nil, err
	}
	if s.Owners, err = stored.OpenOwners(ctx, db); err != nil {
		return nil, err
	}
	if s.Keyring, err = credentials.OpenKeyring(ctx, db, master, now, random); err != nil {
		return nil, err
	}
	if s.Configs, err = routing.OpenConfigStore(ctx, db, s.Keyring, now, random); err != nil {
		return nil, err
	}
	if s.Aliases, err = routing.OpenAliases(ctx, db, now, random); err != nil {
		return nil, err
	}
	if s.Counter, err = ledger.Open(ctx, db, ledger.Options{Now: now, Uptime: uptime, Job: db.Job("rate-limit-records")}); err != nil {
		return nil, err
	}
	s.onClose(func() error { return s.Counter.Close(context.Background()) })
	if s.RateLimits, err = policies.OpenRateLimits(ctx, db, s.Counter, now); err != nil {
		return nil, err
	}
	if s.Answers, err = cache.Open(ctx, db, now); err != nil {
		return nil, err
	}
	if s.Records, err = reqlog.Open(ctx, db, reqlog.Options{Now: now, Random: random, Logger: logger}); err != nil {
		return nil, err
	}
	s.onClose(func() error { s.Records.Close(); return nil })
	return s, nil
}

// onClose has something closed before all that was opened earlier.
func (s *Services) onClose(fn func() error) { s.closers = append(s.closers, fn) }

// Close closes what has to be closed, the last opened first, whatever fails.
func (s *Services) Close() error {
	var errs []error
	for _, fn := range slices.Backward(s.closers) {
		errs = append(errs, fn())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// managed are the services that the control plane manages, yet without what depends on
// the configuration.
func (s *Services) managed() admin.Services {
	return admin.Services{
		DB: s.DB, Directory: s.Directory, Keyring: s.Keyring, RateLimits: s.RateLimits, Trail: s.Trail, Records: s.Records,
		Configs: s.Configs, Aliases: s.Aliases, Breakers: s.Breakers, InFlight: s.InFlight, Now: time.Now, Random: rand.Reader,
	}
}
