// Package secretcache keeps the values of secret references in memory: calls do not wait for
// a secret manager, a rotation arrives within [TTL], and an outage of the manager serves the
// last value, for [MaxStale] at most. If the manager says that the secret is gone or that the
// gateway may not read it, the last value is dropped.
package secretcache

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/secrets"
)

const (
	// TTL is the greatest age of a value that is served while its manager answers.
	TTL = 5 * time.Minute

	// MaxStale is the greatest age of a value that is served while its manager cannot be used.
	MaxStale = 24 * time.Hour

	refresh = 4 * time.Minute  // the age from which on a value is fetched again in the background
	retry   = 10 * time.Second // between fetches of a secret whose manager fails
	timeout = 15 * time.Second // of a fetch
	unused  = time.Hour        // until a value is dropped
	atOnce  = 32               // fetches

	// refusals in a row that end the use of a value that is not older than TTL: one may be of a
	// manager that is just being unsealed, or of a file that is being replaced.
	refusals = 2
)

// A Fetch reads the value of a secret from its manager.
type Fetch func(ctx context.Context, r *credentials.SecretReference) (credentials.Secret, error)

// A Cache has the values of secret references. It is safe for concurrent use.
type Cache struct {
	now    func() time.Time
	logger *zap.Logger
	turns  chan struct{}
	ctx    context.Context // of fetches
	cancel context.CancelFunc
	fetch  atomic.Pointer[Fetch]

	life   sync.Mutex     // may be locked while an entry is
	under  sync.WaitGroup // fetches
	closed bool

	mu      sync.RWMutex      // locked before an entry is
	entries map[string]*entry // by the id of the reference
}

// An entry is what is known of a secret reference. It does not use singleflight: whether a fetch is due, and
// what the last one came to, is decided under the same lock.
type entry struct {
	of *credentials.SecretReference // a changed one is another

	mu     sync.Mutex
	value  *credentials.SecretValue // nil: it was never fetched
	at     time.Time                // when value was fetched
	used   time.Time
	next   time.Time     // after a failure, no fetch before
	denied int           // how often in a row the manager refused it
	err    error         // of the last fetch
	flight chan struct{} // closed when the fetch under way ends; nil: none is
	warned bool
}

// A FetchError says why a secret cannot be fetched, in words that callers may see.
type FetchError struct {
	Why string
	Err error
}

func (e *FetchError) Error() string { return e.Why }

// Unwrap returns the cause.
func (e *FetchError) Unwrap() error { return e.Err }

// New returns an empty cache, which must be given a way to fetch by Use.
func New(now func() time.Time, logger *zap.Logger) *Cache {
	c := &Cache{now: now, logger: logger, turns: make(chan struct{}, atOnce), entries: make(map[string]*entry)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Use has values fetched by fetch from now on. Those that are kept stay.
func (c *Cache) Use(fetch Fetch) { c.fetch.Store(&fetch) }

// Close cancels the fetches under way and waits for them. Nothing is fetched afterwards.
func (c *Cache) Close() {
	c.life.Lock()
	c.closed = true
	c.life.Unlock()
	c.cancel()
	c.under.Wait()
}

// Refresh has all values that are kept fetched anew, in the background, unless their manager has just failed. They are
// used until then, and afterwards if they cannot be fetched.
func (c *Cache) Refresh() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.entries {
		e.mu.Lock()
		if e.flight == nil && !c.now().Before(e.next) {
			c.begin(e)
		}
		e.mu.Unlock()
	}
}

// Now fetches the current value of a secret from its manager, whatever is kept, and keeps nothing of it. An error is a
// [FetchError].
func (c *Cache) Now(ctx context.Context, r *credentials.SecretReference) (value credentials.Secret, err error) {
	c.life.Lock()
	if c.closed {
		c.life.Unlock()
		return value, &FetchError{"the gateway is stopping", nil}
	}
	c.under.Add(1)
	c.life.Unlock()
	defer c.under.Done()
	if value, err = c.fetched(ctx, r); err != nil {
		return value, describe(err)
	}
	return value, nil
}

// Stale returns how many secrets have a last value only, since they cannot be fetched.
func (c *Cache) Stale() (n int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.entries {
		e.mu.Lock()
		if e.value != nil && e.err != nil {
			n++
		}
		e.mu.Unlock()
	}
	return n
}

// Secret returns the value of a secret. It waits for a fetch if there is no value, or one
// older than TTL whose manager did not fail before.
func (c *Cache) Secret(ctx context.Context, r *credentials.SecretReference) (*credentials.SecretValue, error) {
	e := c.entry(r)
	now := c.now()
	e.mu.Lock()
	e.used = now
	age := now.Sub(e.at)
	if e.value != nil && age < refresh {
		defer e.mu.Unlock()
		return e.value, nil
	}
	if e.flight == nil && !now.Before(e.next) {
		c.begin(e)
	}
	switch {
	case e.value != nil && (age < TTL || e.err != nil && age < MaxStale), e.flight == nil:
		defer e.mu.Unlock()
		return e.result(now)
	}
	flight := e.flight
	e.mu.Unlock()
	select {
	case <-flight:
	case <-ctx.Done():
		return nil, &FetchError{"it was not waited for", ctx.Err()}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.result(c.now())
}

// result is the value, or why there is none.
func (e *entry) result(now time.Time) (*credentials.SecretValue, error) {
	if e.value != nil && (e.err == nil || now.Sub(e.at) < MaxStale) {
		return e.value, nil
	}
	return nil, e.err
}

// entry returns the entry of a reference. A changed reference has a new one.
func (c *Cache) entry(r *credentials.SecretReference) *entry {
	c.mu.RLock()
	e := c.entries[r.ID]
	c.mu.RUnlock()
	if e != nil && e.of == r {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e = c.entries[r.ID]; e != nil && e.of == r {
		return e
	}
	if e != nil && e.of.UpdatedAt.After(r.UpdatedAt) {
		return &entry{of: r} // of a call that began before the change
	}
	now := c.now()
	maps.DeleteFunc(c.entries, func(_ string, old *entry) bool {
		old.mu.Lock()
		defer old.mu.Unlock()
		return old.flight == nil && now.Sub(old.used) > unused
	})
	e = &entry{of: r, used: now}
	c.entries[r.ID] = e
	return e
}

// begin starts a fetch. The entry is locked.
func (c *Cache) begin(e *entry) {
	c.life.Lock()
	defer c.life.Unlock()
	if c.closed {
		e.err = &FetchError{"the gateway is stopping", nil}
		return
	}
	e.flight = make(chan struct{})
	c.under.Add(1)
	go c.run(e)
}

func (c *Cache) run(e *entry) {
	defer c.under.Done()
	value, err := c.fetched(c.ctx, e.of)
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() {
		close(e.flight)
		e.flight = nil
	}()
	now := c.now()
	if err != nil {
		e.err, e.next = describe(err), now.Add(retry)
		if !e.warned {
			e.warned = true
			message := "a secret cannot be fetched"
			if e.value != nil {
				message += "; its last value is used"
			}
			c.logger.Warn(message, zap.String("secret_reference", e.of.Slug), zap.String("manager", e.of.Manager), zap.Error(err))
		}
		if e.denied++; !secrets.Refusal(err) {
			e.denied = 0
		}
		if why := e.outlived(now); why != "" {
			e.value = nil
			c.logger.Error("the last value of a secret is no longer used: "+why,
				zap.String("secret_reference", e.of.Slug), zap.String("manager", e.of.Manager), zap.Error(err))
		}
		return
	}
	if e.warned {
		c.logger.Info("a secret can be fetched again", zap.String("secret_reference", e.of.Slug), zap.String("manager", e.of.Manager))
	}
	e.warned, e.denied, e.err, e.next, e.at = false, 0, nil, time.Time{}, now
	if e.value == nil || !e.value.Text.Equal(value) {
		e.value = &credentials.SecretValue{Text: value}
	}
}

// outlived returns why the last value may not be used any longer; "": it may, or there is none.
func (e *entry) outlived(now time.Time) string {
	switch {
	case e.value == nil:
	case e.denied >= refusals, e.denied > 0 && now.Sub(e.at) >= TTL:
		return "its manager refuses it"
	case now.Sub(e.at) >= MaxStale:
		return "its manager has failed for too long"
	}
	return ""
}

func (c *Cache) fetched(of context.Context, r *credentials.SecretReference) (value credentials.Secret, err error) {
	ctx, cancel := context.WithTimeout(of, timeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	select {
	case c.turns <- struct{}{}:
	case <-ctx.Done():
		return value, ctx.Err()
	}
	defer func() { <-c.turns }()
	fetch := c.fetch.Load()
	if fetch == nil {
		return value, errors.New("there is no secret manager")
	}
	return (*fetch)(ctx, r)
}

// describe puts an error into words that callers may see: no addresses of managers.
func describe(err error) error {
	var answered *secrets.Error
	var host *credentials.HostError
	var timedOut interface{ Timeout() bool }
	switch {
	case errors.As(err, &answered):
		return &FetchError{answered.Error(), err}
	case errors.As(err, &host):
		return &FetchError{"its host is refused: " + host.Why, err}
	case errors.Is(err, context.Canceled):
		return &FetchError{"the gateway is stopping", err}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timedOut) && timedOut.Timeout():
		return &FetchError{"it did not answer in time", err}
	case errors.Is(err, secrets.ErrTooLarge):
		return &FetchError{err.Error(), err}
	}
	return &FetchError{"it cannot be reached or read", err}
}

// Interface guards
var (
	_ credentials.SecretSource = (*Cache)(nil)
	_ error                    = (*FetchError)(nil)
)
