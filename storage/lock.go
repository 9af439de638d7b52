package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrLockHeld means that somebody else holds a lock.
	ErrLockHeld = errors.New("the lock is held")

	// ErrLeaseLost means that a lease is not, or no longer, that of the lock: it was
	// released, or its term passed and somebody else has the lock.
	ErrLeaseLost = errors.New("the lease is lost")
)

// A Locker gives locks with leases, for work in the background that one process of those
// that share a store does at a time. [NewLocks] is the one over any [Store]. A driver that has
// locks of its own implements Locker in addition to [Store]; [NewDB] uses it then. Every Locker
// passes the suite in storage/storagetest. It is safe for concurrent use.
//
// A holder that crashed cannot release, so that a lock is anybody's again once its term
// has passed since it was taken or renewed. Clocks can be wrong about that, and a process
// may be stopped for longer than a term without noticing. Exclusive is therefore only what
// is written in transactions that Fence has passed.
type Locker interface {
	// Acquire takes the lock called name for owner, a text that says in errors and to
	// operators who has it, for a term, a positive duration. The error wraps ErrLockHeld if
	// somebody has it, owner included.
	Acquire(ctx context.Context, name, owner string, term time.Duration) (Lease, error)

	// Renew restarts the term of a lease, or returns an error that wraps ErrLeaseLost.
	Renew(ctx context.Context, l Lease) (Lease, error)

	// Release ends a lease. That it is lost already is not an error.
	Release(ctx context.Context, l Lease) error

	// Fence returns an error that wraps ErrLeaseLost unless l is the latest lease of its lock
	// and was not released. The transaction, which must be of the Locker's store, does not
	// commit if the lock changes hands before it does. So all writes of a holder precede
	// those of the next one.
	Fence(tx Tx, l Lease) error
}

// A Lease is a lock that is held.
type Lease struct {
	Name, Owner string
	Token       uint64        // greater than those of all earlier leases of the lock
	Term        time.Duration // since it was taken or renewed
	Until       time.Time     // by the clock of its Locker; it must not be used after that
}

// Locks is the [Locker] over a [Store]. What it says rests on compare and set in
// transactions, and on nothing that a clock says but one thing: when somebody else may take
// over a lock that its holder neither renews nor releases.
//
// For that, no clock is compared with one of another process. A lock may be taken over
// from when it has not been renewed for its term since this Locks saw it first, by this
// process's own clock. Readings of [time.Now] carry a monotonic one, on which steps of the
// wall clock have no effect. Of another clock, a step forward may end the wait too early,
// and the holder then fails to write; a step back restarts it, and delays a takeover by
// a term at most. A holder whose clock steps back may believe for longer that it has the
// lock, and cannot write either.
type Locks struct {
	store Store
	now   func() time.Time
	rows  *Collection[*lock]

	mu   sync.Mutex
	seen map[string]sight // of locks that others hold
}

// A lock is what the store knows of one. It is never deleted, or tokens would start over.
type lock struct {
	Name     string        `json:"name"`
	Owner    string        `json:"owner,omitempty"`
	Token    uint64        `json:"token"` // of the latest lease
	Released bool          `json:"released,omitempty"`
	Renewed  uint64        `json:"renewed,omitempty"` // how often
	Term     time.Duration `json:"term"`
}

// A sight is since when a lock has been seen with the same lease, unrenewed.
type sight struct {
	token, renewed uint64
	since          time.Time
}

// NewLocks returns the locks of a store. Those that use one store may each have their own.
func NewLocks(store Store, now func() time.Time) *Locks {
	return &Locks{
		store: store, now: now, seen: make(map[string]sight),
		rows: NewCollection("lock", func(l *lock) string { return l.Name }),
	}
}

// Acquire implements [Locker]. What it writes is on the disk when it returns, so that no
// token is given twice.
func (s *Locks) Acquire(ctx context.Context, name, owner string, term time.Duration) (Lease, error) {
	if term <= 0 {
		return Lease{}, fmt.Errorf("the term of lock %s must be positive, not %s", name, term)
	}
	begun := s.now()
	var l *lock
	err := s.store.Update(ctx, func(tx Tx) error {
		var err error
		switch l, err = s.rows.Get(tx, name); {
		case errors.Is(err, ErrNotFound):
			l = &lock{Name: name}
		case err != nil:
			return err
		case !l.Released && !s.lapsed(l):
			return fmt.Errorf("lock %s of %s: %w", name, l.Owner, ErrLockHeld)
		}
		l = &lock{Name: name, Owner: owner, Token: l.Token + 1, Term: term}
		return s.rows.Put(tx, l)
	})
	if err != nil {
		return Lease{}, err
	}
	s.mu.Lock()
	delete(s.seen, name)
	s.mu.Unlock()
	return l.lease(begun), nil
}

// lapsed reports whether a lock that is held may be taken over.
func (s *Locks) lapsed(l *lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now() // after the reading: the holder renewed it before
	seen, ok := s.seen[l.Name]
	if !ok || seen.token != l.Token || seen.renewed != l.Renewed || now.Before(seen.since) {
		s.seen[l.Name] = sight{l.Token, l.Renewed, now}
		return false
	}
	return now.Sub(seen.since) >= l.Term
}

// Renew implements [Locker].
func (s *Locks) Renew(ctx context.Context, l Lease) (Lease, error) {
	begun := s.now()
	var renewed *lock
	err := s.store.Write(ctx, func(tx Tx) (err error) {
		if renewed, err = s.held(tx, l); err != nil {
			return err
		}
		renewed.Renewed++
		return s.rows.Put(tx, renewed)
	})
	if err != nil {
		return Lease{}, err
	}
	return renewed.lease(begun), nil
}

// Release implements [Locker].
func (s *Locks) Release(ctx context.Context, l Lease) error {
	err := s.store.Write(ctx, func(tx Tx) error {
		released, err := s.held(tx, l)
		if err != nil {
			return err
		}
		released.Released = true
		return s.rows.Put(tx, released)
	})
	if errors.Is(err, ErrLeaseLost) {
		return nil
	}
	return err
}

// Fence implements [Locker].
func (s *Locks) Fence(tx Tx, l Lease) error {
	_, err := s.held(tx, l)
	return err
}

// held returns the lock that l is the lease of.
func (s *Locks) held(tx Tx, l Lease) (*lock, error) {
	row, err := s.rows.Get(tx, l.Name)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, fmt.Errorf("lock %s: %w", l.Name, ErrLeaseLost)
	case err != nil:
		return nil, err
	case row.Token != l.Token || row.Owner != l.Owner || row.Released:
		return nil, fmt.Errorf("lock %s, which %s had last: %w", l.Name, row.Owner, ErrLeaseLost)
	}
	return row, nil
}

// lease is that of a lock that was taken or renewed at a time.
func (l *lock) lease(at time.Time) Lease {
	return Lease{Name: l.Name, Owner: l.Owner, Token: l.Token, Term: l.Term, Until: at.Add(l.Term)}
}

// Interface guards
var _ Locker = (*Locks)(nil)
