package external

import (
	"context"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// keysInterval is the least time between two requests of a workspace for a key set, whatever
	// tokens say and whether it can be had.
	keysInterval = 10 * time.Second

	maxKeySets            = 256 // that are kept
	maxKeySetsOfWorkspace = 32
)

// A keySource is where a workspace gets keys from. Workspaces share none, so that the checks of one
// neither displace the sets of another nor make its requests fail.
type keySource struct{ workspace, uri string }

// keySets are key sets that were fetched. Each check decides how long it uses them.
var keySets = &keptKeys{of: make(map[keySource]*keptSet)}

type keptKeys struct {
	mu sync.Mutex
	of map[keySource]*keptSet
}

// A keptSet is what is known of a source. It does not use singleflight: who waits does so no longer than its
// own call, and asks again if what came does not have the key that it wants.
type keptSet struct {
	set     *jose.JSONWebKeySet // nil: it was not fetched yet
	fetched time.Time
	err     error // of the latest request, at failed; nil: it did not fail
	failed  time.Time
	asking  chan struct{} // closed when the request that is under way is over; nil: none is
}

// get returns a set that is younger than keep, and has what is wanted. If there is none, it is
// fetched, by one call at a time; for keysInterval after that, what came of it is the answer to all:
// the set as it is, or the error. If the fetch fails, a set that is younger than keep is returned
// without what is wanted, since that is not known to be there.
func (k *keptKeys) get(ctx context.Context, from keySource, keep time.Duration, now func() time.Time, wanted func(*jose.JSONWebKeySet) bool, fetch func(context.Context) (*jose.JSONWebKeySet, error)) (*jose.JSONWebKeySet, error) {
	for {
		k.mu.Lock()
		s := k.source(from)
		at := now()
		valid := s.set != nil && within(at, s.fetched, keep)
		var asking chan struct{}
		switch {
		case valid && (wanted(s.set) || within(at, s.fetched, keysInterval)),
			valid && s.err != nil && within(at, s.failed, keysInterval):
			defer k.mu.Unlock()
			return s.set, nil
		case s.err != nil && within(at, s.failed, keysInterval):
			defer k.mu.Unlock()
			return nil, s.err
		case s.asking == nil:
			s.asking = make(chan struct{})
		default:
			asking = s.asking
		}
		k.mu.Unlock()
		if asking == nil {
			return k.ask(ctx, s, keep, now, fetch)
		}
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ask fetches the set of a source for all who wait for it.
func (k *keptKeys) ask(ctx context.Context, s *keptSet, keep time.Duration, now func() time.Time, fetch func(context.Context) (*jose.JSONWebKeySet, error)) (*jose.JSONWebKeySet, error) {
	over := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		close(s.asking)
		s.asking = nil
	}
	defer over() // also if fetch panics
	set, err := fetch(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	at := now()
	switch {
	case err == nil:
		s.set, s.fetched, s.err = set, at, nil
		return set, nil
	case ctx.Err() == nil: // otherwise the call has ended, which says nothing of the source
		s.err, s.failed = err, at
		if s.set != nil && within(at, s.fetched, keep) {
			return s.set, nil
		}
	}
	return nil, err
}

// within reports whether less than d has passed since a time. A clock that stepped back has it passed.
func within(now, since time.Time, d time.Duration) bool {
	age := now.Sub(since)
	return age >= 0 && age < d
}

// source returns what is known of a source. If there are too many, others make room: of the workspace, or
// else of the one that has the most.
func (k *keptKeys) source(from keySource) *keptSet {
	if s := k.of[from]; s != nil {
		return s
	}
	count := make(map[string]int)
	most := from.workspace
	for other := range k.of {
		if count[other.workspace]++; count[other.workspace] > count[most] {
			most = other.workspace
		}
	}
	switch {
	case count[from.workspace] >= maxKeySetsOfWorkspace:
		k.drop(from.workspace)
	case len(k.of) >= maxKeySets:
		k.drop(most)
	}
	s := new(keptSet)
	k.of[from] = s
	return s
}

// drop forgets a source of a workspace: one that is being asked only if all are.
func (k *keptKeys) drop(workspace string) {
	var found *keySource
	for other, s := range k.of {
		if other.workspace != workspace {
			continue
		}
		if found = &other; s.asking == nil {
			break
		}
	}
	if found != nil {
		delete(k.of, *found)
	}
}
