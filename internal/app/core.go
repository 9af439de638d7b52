package app

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
)

// cores are the open stores of the process, by canonical directory. They survive reloads of
// the configuration.
var cores = caddy.NewUsagePool()

// A core is an open store with its services, and counts the calls that use it. What depends
// on a configuration is part of the [App].
type core struct {
	*Services

	master credentials.Digest // of the encryption key
	seal   string             // id of the audit trail's key
	logger *currentLogger
	users  atomic.Int64
	// release is created once, because each use of a method value allocates.
	release func()
}

// drain is how long closing a store waits for streams that still use it.
const drain = 5 * time.Second

func newCore(s *Services, master credentials.Secret, seal audit.Key, logger *currentLogger) *core {
	c := &core{Services: s, master: credentials.DigestOf(master.Reveal()), seal: seal.String(), logger: logger}
	c.release = func() { c.users.Add(-1) }
	return c
}

// acquire keeps the store open until release is called.
func (c *core) acquire() (release func()) {
	c.users.Add(1)
	return c.release
}

// Destruct closes the store when the calls that still use it have ended, or after the drain
// time.
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
	if err := c.Close(); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	return nil
}

// Interface guards
var _ caddy.Destructor = (*core)(nil)
