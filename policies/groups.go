package policies

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/policies/ledger"
)

// Bounds of the counters in use of groups by values that callers make up: metadata and
// models. What is over shares one counter of the policy, the overflow, so that fewer
// calls pass and never more. Groups by what is saved are not bounded.
const (
	MaxGroupsOfCaller = 5_000  // of a policy, that calls of one API key began
	MaxGroupsOfPolicy = 20_000 // of a policy
	MaxGroups         = 100_000
)

// madeUp reports whether callers choose the values of a key.
func madeUp(key string) bool { return key == KeyModel || strings.HasPrefix(key, MetadataPrefix) }

// groups knows which values have a counter of their own, and which may have been counted
// in the overflow. A value has one or the other in any window: else it would be admitted
// twice. It moves only after a window in which nothing of it was admitted.
type groups struct {
	now    func() time.Time
	opened time.Time
	seed   maphash.Seed

	ofCaller, ofPolicy, max int

	mu        sync.Mutex
	policies  map[string]*policyGroups
	count     int // of all policies
	over      stamps
	overflows int64 // calls that were counted in an overflow
	swept     time.Duration
}

// policyGroups is the groups of one policy.
type policyGroups struct {
	window   time.Duration
	own      map[string]*list.Element // of *ownGroup, by the name of the counter
	idle     list.List                // of *ownGroup; the longest idle comes first
	byCaller map[string]int
	// overflow: when a call was last counted in it, and a nanosecond; 0: none was.
	overflow time.Duration
	// restored: until then, a value without a counter may have been in the overflow
	// before this process began.
	restored time.Duration
}

// An ownGroup has a counter of its own.
type ownGroup struct {
	name, caller string
	last         time.Duration // when it began, or was last admitted
}

// A groupRef is where a call is to be counted.
type groupRef struct {
	policy string
	name   string        // of the value's own counter
	own    *list.Element // nil: in the overflow
}

func newGroups(now func() time.Time) *groups {
	return &groups{
		now: now, opened: now(), seed: maphash.MakeSeed(),
		ofCaller: MaxGroupsOfCaller, ofPolicy: MaxGroupsOfPolicy, max: MaxGroups,
		policies: make(map[string]*policyGroups),
	}
}

// elapsed is the time since the start, by the monotonic clock.
func (g *groups) elapsed() time.Duration { return g.now().Sub(g.opened) }

// lasting is how long what was admitted may count: a window, and the precision of the
// ledger on either side.
func lasting(window time.Duration) time.Duration { return window + window/20 }

// of returns the groups of a policy, which holds what a change of its window leaves.
func (g *groups) of(p *RateLimit) *policyGroups {
	pg := g.policies[p.ID]
	if pg == nil {
		pg = &policyGroups{own: make(map[string]*list.Element), byCaller: make(map[string]int)}
		g.policies[p.ID] = pg
	}
	pg.window = windows[p.Unit]
	return pg
}

// restore learns from the ledger which values have counters that count something.
func (g *groups) restore(ctx context.Context, l *ledger.Ledger, p *RateLimit) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	pg := g.of(p)
	err := l.Keys(ctx, prefix(p.ID), func(name string) {
		if name[len(prefix(p.ID))] == overflowMark {
			pg.restored = lasting(pg.window)
			return
		}
		if pg.own[name] == nil {
			g.add(pg, name, "", 0)
		}
	})
	if err != nil {
		return fmt.Errorf("reading the groups of policy %s: %w", p.ID, err)
	}
	return nil
}

func (g *groups) add(pg *policyGroups, name, caller string, now time.Duration) *list.Element {
	name = strings.Clone(name)
	e := pg.idle.PushBack(&ownGroup{name, strings.Clone(caller), now})
	pg.own[name] = e
	pg.byCaller[caller]++
	g.count++
	return e
}

// sweep drops groups that count nothing any more.
func (g *groups) sweep(pg *policyGroups, now time.Duration) {
	for e := pg.idle.Front(); e != nil; e = pg.idle.Front() {
		o := e.Value.(*ownGroup)
		if now-o.last <= lasting(pg.window) {
			break
		}
		pg.idle.Remove(e)
		delete(pg.own, o.name)
		if pg.byCaller[o.caller]--; pg.byCaller[o.caller] <= 0 {
			delete(pg.byCaller, o.caller)
		}
		g.count--
	}
	if now-pg.overflow > lasting(pg.window) {
		pg.overflow = 0
	}
}

// full reports whether a caller may have no further group.
func (g *groups) full(pg *policyGroups, caller string, now time.Duration) bool {
	if g.count >= g.max && now-g.swept >= time.Second {
		g.swept = now
		for _, other := range g.policies {
			g.sweep(other, now)
		}
	}
	return g.count >= g.max || len(pg.own) >= g.ofPolicy || pg.byCaller[caller] >= g.ofCaller
}

// find says where a call is counted whose own counter would have this name. Where that
// is the overflow, its own is nil.
func (g *groups) find(p *RateLimit, name string, f Facts) groupRef {
	ref := groupRef{policy: p.ID, name: name}
	g.mu.Lock()
	defer g.mu.Unlock()
	pg, now := g.of(p), g.elapsed()
	g.sweep(pg, now)
	if ref.own = pg.own[name]; ref.own != nil {
		return ref
	}
	caller, _, _ := f.Fact(KeyAPIKey)
	switch {
	case now < pg.restored:
	case pg.overflow > 0 && g.over.may(maphash.String(g.seed, name), now-lasting(pg.window)):
	case g.full(pg, caller, now):
	default:
		ref.own = g.add(pg, name, caller, now)
	}
	return ref
}

// confirm notes that a call was admitted, and reports whether it was where it belongs:
// false where the value was moved in the meantime, and the call must be counted anew.
func (g *groups) confirm(ref *groupRef) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	pg := g.policies[ref.policy]
	if pg == nil {
		return false // forgotten
	}
	e, now := pg.own[ref.name], g.elapsed()
	if e != ref.own {
		return false
	}
	if e != nil {
		e.Value.(*ownGroup).last = now
		pg.idle.MoveToBack(e)
		return true
	}
	pg.overflow = now + 1
	g.over.stamp(maphash.String(g.seed, ref.name), now)
	g.overflows++
	return true
}

// counts returns the groups that have counters of their own, and the calls that were
// counted in an overflow.
func (g *groups) counts() (own int, overflows int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count, g.overflows
}

// forget drops what is known of a policy.
func (g *groups) forget(policy string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if pg := g.policies[policy]; pg != nil {
		g.count -= len(pg.own)
		delete(g.policies, policy)
	}
}

// stamps remembers, in bounded memory for all policies, when values were counted in an
// overflow: a Bloom filter of times, of the names of counters, which begin with the
// policy's id. It may take a value for one that was, and never the reverse.
type stamps struct {
	times []time.Duration // stampSlots, made at the first stamp; 0: never
}

const stampSlots = 1 << 16

// slots are the places of a value.
func (s *stamps) slots(hash uint64) [4]uint16 {
	return [...]uint16{uint16(hash), uint16(hash >> 16), uint16(hash >> 32), uint16(hash >> 48)}
}

func (s *stamps) stamp(hash uint64, now time.Duration) {
	if s.times == nil {
		s.times = make([]time.Duration, stampSlots)
	}
	for _, i := range s.slots(hash) {
		s.times[i] = max(s.times[i], now+1)
	}
}

// may reports whether the value may have been stamped since then.
func (s *stamps) may(hash uint64, since time.Duration) bool {
	for _, i := range s.slots(hash) {
		if t := s.times[i]; t == 0 || t <= since {
			return false
		}
	}
	return true
}

// bounded reports whether the counters of a policy are.
func (p *RateLimit) bounded() bool { return slices.ContainsFunc(p.GroupBy, madeUp) }

// A counter's name that is longer is replaced by its hash, so that memory is bounded in
// bytes too and the ledger can list it.
const maxGroupName = 256

// overflowMark and hashMark begin what stands after a policy's id in names of counters
// that are no group's; those begin with a digit.
const (
	overflowMark = '+'
	hashMark     = '#'
)

// overflow returns the name of the counter that a group falls into that has none of its
// own: it is shared by all that have the same saved values.
func overflow(policy string, groupBy []string, f Facts) string {
	saved := make([]string, 0, len(groupBy))
	for _, key := range groupBy {
		if !madeUp(key) {
			saved = append(saved, key)
		}
	}
	name, _ := group(policy, saved, f)
	at := len(prefix(policy))
	return short(policy, name[:at]+string(overflowMark)+name[at:])
}

// short bounds the length of a counter's name.
func short(policy, name string) string {
	if len(name) <= maxGroupName {
		return name
	}
	at := len(prefix(policy))
	mark := ""
	if name[at] == overflowMark {
		mark = string(overflowMark)
	}
	sum := sha256.Sum256([]byte(name))
	return name[:at] + mark + string(hashMark) + string(sum[:])
}
