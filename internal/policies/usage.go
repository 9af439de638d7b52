package policies

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
)

// A Usage is what all counters of a policy say together.
type Usage struct {
	*Policy
	Budget bool // otherwise it is a rate limit
	// Used is what all counters have booked, in the period or window; Left is what the one has left that
	// has the least. Both are dollars, tokens or requests.
	Used, Left float64
}

const (
	// maxUsages is of how many policies the usage is returned: those that were made first.
	maxUsages = 500

	// usageLasts is how long what was read is returned, so that it is cheap to ask often.
	usageLasts = 10 * time.Second
)

// usages are what was last read.
type usages struct {
	mu  sync.Mutex
	at  time.Time
	all []Usage
}

// Usages returns what was used of the policies in force, at most 500 and as it was at most ten seconds ago. It reads
// the store, and is not for the way of calls.
func (l *Limits) Usages(ctx context.Context) ([]Usage, error) {
	u := &l.usages
	u.mu.Lock()
	defer u.mu.Unlock()
	now := l.now()
	if age := now.Sub(u.at); !u.at.IsZero() && age >= 0 && age < usageLasts {
		return u.all, nil
	}
	all, err := l.readUsages(ctx, now)
	if err != nil {
		return nil, err
	}
	u.at, u.all = now, all
	return all, nil
}

func (l *Limits) readUsages(ctx context.Context, now time.Time) ([]Usage, error) {
	var all []Usage
	for _, r := range l.rules() {
		if len(all) == maxUsages {
			break
		}
		counters, _ := r.at(now)
		used, most := int64(0), int64(0)
		seen := make(map[string]bool)
		err := l.ledger.Counts(ctx, prefix(counters.name), func(c ledger.Count) {
			if !seen[c.Key] {
				seen[c.Key] = true
				used += c.Booked()
				most = max(most, c.Units)
			}
		})
		if err != nil {
			return nil, err
		}
		all = append(all, Usage{Policy: r.Policy, Budget: r.Budget(), Used: r.Amount(used), Left: r.Amount(max(r.Limit-most, 0))})
	}
	return all, nil
}

// rules returns the policies in force, in the order in which they were made.
func (l *Limits) rules() (all []*Rule) {
	a := l.active.Load()
	all = append(all, a.allWorkspaces.rules()...)
	for _, set := range a.byWorkspace {
		all = append(all, set.rules()...)
	}
	slices.SortFunc(all, func(a, b *Rule) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	return all
}
