package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
)

// cores are the open stores of the process, by canonical directory: they survive
// reloads of the configuration.
var cores = caddy.NewUsagePool()

// A core is an open store and the services over it. What depends on a
// configuration lives in the [App].
type core struct {
	db         *storage.DB
	directory  *directory.Directory
	keyring    *credentials.Keyring
	configs    *routing.Shelf
	breakers   *routing.Breakers
	rateLimits *policies.RateLimits
	ledger     *ledger.Ledger
	trail      *audit.Trail
	records    *reqlog.Log
	answers    *cache.Cache
	inFlight   *inflight.Budget

	master credentials.Digest // of the encryption key
	logger *currentLogger
	users  atomic.Int64
	// release is made once, because a method value is allocated each time.
	release func()
}

// drain is how long the closing of a store waits for streams that still use it.
const drain = 5 * time.Second

func openCore(ctx context.Context, store storage.Store, master credentials.Secret, logger *currentLogger) (*core, error) {
	var (
		now    = time.Now
		random = rand.Reader
		db     = storage.NewDB(store)
		c      = &core{db: db, trail: audit.Open(db, now, random), master: credentials.DigestOf(master.Reveal()), logger: logger, inFlight: inflight.New(0)}
		err    error
	)
	c.release = func() { c.users.Add(-1) }
	if c.directory, err = directory.Open(ctx, db, now, random); err != nil {
		return nil, err
	}
	if c.keyring, err = credentials.OpenKeyring(ctx, db, master, now, random); err != nil {
		return nil, err
	}
	if c.configs, err = routing.OpenShelf(ctx, db, c.keyring, now, random); err != nil {
		return nil, err
	}
	c.breakers = routing.NewBreakers(now, 0)
	if c.ledger, err = ledger.Open(ctx, db, ledger.Options{Now: now, Uptime: uptime}); err != nil {
		return nil, err
	}
	if c.rateLimits, err = policies.OpenRateLimits(ctx, db, c.ledger, now); err != nil {
		return nil, err
	}
	if c.answers, err = cache.Open(ctx, db, now); err != nil {
		return nil, err
	}
	if c.records, err = reqlog.Open(ctx, db, reqlog.Options{Now: now, Random: random, Logger: zap.New(logger)}); err != nil {
		return nil, err
	}
	return c, nil
}

// acquire keeps the store open until release is called.
func (c *core) acquire() (release func()) {
	c.users.Add(1)
	return c.release
}

// Destruct closes the store, once the calls that still use it are done or have had
// their time.
func (c *core) Destruct() error {
	deadline := time.NewTimer(drain)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for c.users.Load() > 0 {
		select {
		case <-tick.C:
			continue
		case <-deadline.C:
			zap.New(c.logger).Warn("closing the store while calls still use it", zap.Int64("calls", c.users.Load()))
		}
		break
	}
	c.records.Close()
	err := c.ledger.Close(context.Background())
	if closeErr := c.db.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	return nil
}

// Interface guards
var _ caddy.Destructor = (*core)(nil)
