package policies

import (
	"container/list"
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/internal/fairshare"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
)

// Bounds of the number of values in use that callers can choose: metadata and models. Up to
// the first three bounds, each value has its own counter. Values beyond them share one
// counter of the policy, the overflow, so that fewer calls are admitted and never more. Up
// to MaxShared such values are remembered; calls with further ones are refused. Of each
// bound but the first, a workspace has its fair share (package fairshare). Groups by saved
// objects are not bounded.
const (
	MaxGroupsOfCaller = 5_000  // of a policy, that calls of one API key began
	MaxGroupsOfPolicy = 20_000 // of a policy
	MaxGroups         = 100_000
	MaxShared         = 50_000
)

// chosenByCaller reports whether callers choose the values of a key.
func chosenByCaller(key string) bool {
	return key == KeyModel || strings.HasPrefix(key, MetadataPrefix)
}

// groups records which values have a counter of their own, and which share one. Within a
// window, a value has either one or the other, as it would be admitted twice otherwise. It
// only moves after a window in which nothing of it was admitted.
type groups struct {
	now    func() time.Time
	opened time.Time
	seed   maphash.Seed

	ofCaller, ofPolicy, maxOwn, maxShared int

	mu          sync.Mutex
	policies    map[string]*policyGroups
	own, shared tally // of all policies
	overflows   int64 // calls counted in an overflow
	swept       time.Duration
}

// policyGroups holds the values of one policy.
type policyGroups struct {
	window  time.Duration
	own     map[string]*value // by the name of the counter
	shared  map[uint64]*value // by the hash of the name that their own counter would have
	idle    list.List         // of all *value; the longest idle first
	count   tally             // of own
	callers map[caller]*callerGroups
	// restored: until this time, an unknown value may have been counted in the overflow
	// with this name before the process started.
	restored map[string]time.Duration
}

// A caller is a key of a workspace.
type caller struct{ workspace, key string }

// callerGroups counts a policy's values that a caller introduced.
type callerGroups struct {
	caller
	owner       string // in the form that the ledger stores
	own, shared int
}

// A value is a value of a group that was chosen by a caller.
type value struct {
	of     *policyGroups
	name   string // of its own counter; empty: it shares one
	hash   uint64
	caller *callerGroups
	last   time.Duration // when it was first seen, or last admitted
	// uses is the number of calls that were admitted, or are being decided. A value without
	// uses is dropped at once, so that refused calls take no memory.
	uses int64
	idle *list.Element // nil: the value was dropped
}

// A groupRef says where a call is to be counted. It holds a use of its value.
type groupRef struct {
	name  string // of the value's own counter
	value *value // nil: nowhere, because there are too many
}

// tally counts values, in total and by workspace.
type tally struct {
	n  int
	of map[string]int
}

func (t *tally) add(workspace string, n int) {
	if t.of == nil {
		t.of = make(map[string]int)
	}
	t.n += n
	if t.of[workspace] += n; t.of[workspace] == 0 {
		delete(t.of, workspace)
	}
}

// fits reports whether one more value is within a workspace's share of limit.
func (t *tally) fits(workspace string, limit int) bool {
	return fairshare.Left(int64(t.of[workspace]+1), int64(limit-t.n-1)) >= 0
}

func newGroups(now func() time.Time) *groups {
	return &groups{
		now: now, opened: now(), seed: maphash.MakeSeed(),
		ofCaller: MaxGroupsOfCaller, ofPolicy: MaxGroupsOfPolicy, maxOwn: MaxGroups, maxShared: MaxShared,
		policies: make(map[string]*policyGroups),
	}
}

// elapsed returns the time since the start, by the monotonic clock.
func (g *groups) elapsed() time.Duration { return g.now().Sub(g.opened) }

// lasting returns how long an admission may count: a window, plus the precision of the
// ledger on either side.
func lasting(window time.Duration) time.Duration { return window + window/20 }

// of returns the values of a policy. A change of the policy's window keeps them.
func (g *groups) of(p *counters) *policyGroups {
	pg := g.policies[p.name]
	if pg == nil {
		pg = &policyGroups{own: make(map[string]*value), shared: make(map[uint64]*value), callers: make(map[caller]*callerGroups)}
		g.policies[p.name] = pg
	}
	pg.window = p.window
	return pg
}

// caller returns the groups of a caller.
func (pg *policyGroups) caller(c caller) *callerGroups {
	of := pg.callers[c]
	if of == nil {
		c = caller{strings.Clone(c.workspace), strings.Clone(c.key)}
		of = &callerGroups{caller: c, owner: c.workspace + "\x00" + c.key}
		pg.callers[c] = of
	}
	return of
}

// restore reads from the ledger which values have active counters, and their owners.
func (g *groups) restore(ctx context.Context, l ledger.Counter, p *counters) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	pg := g.of(p)
	err := l.Counts(ctx, prefix(p.name), func(n ledger.Count) {
		name, owner := n.Key, n.Owner
		if name[len(prefix(p.name))] == overflowMark {
			if pg.restored == nil {
				pg.restored = make(map[string]time.Duration)
			}
			pg.restored[name] = lasting(pg.window)
			return
		}
		if pg.own[name] == nil {
			workspace, key, _ := strings.Cut(owner, "\x00")
			g.add(pg, caller{workspace, key}, name, 0, 0)
		}
	})
	if err != nil {
		return fmt.Errorf("reading the groups of policy %s: %w", p.ID, err)
	}
	return nil
}

// add adds a value with one use. Without a name, it shares a counter.
func (g *groups) add(pg *policyGroups, c caller, name string, hash uint64, now time.Duration) *value {
	v := &value{of: pg, name: strings.Clone(name), hash: hash, caller: pg.caller(c), last: now, uses: 1}
	v.idle = pg.idle.PushBack(v)
	if v.name == "" {
		pg.shared[hash] = v
	} else {
		pg.own[v.name] = v
	}
	g.count(v, 1)
	return v
}

func (g *groups) count(v *value, n int) {
	if v.name == "" {
		v.caller.shared += n
		g.shared.add(v.caller.workspace, n)
		return
	}
	v.caller.own += n
	v.of.count.add(v.caller.workspace, n)
	g.own.add(v.caller.workspace, n)
}

// drop forgets a value.
func (g *groups) drop(v *value) {
	pg := v.of
	pg.idle.Remove(v.idle)
	v.idle = nil
	if v.name == "" {
		delete(pg.shared, v.hash)
	} else {
		delete(pg.own, v.name)
	}
	g.count(v, -1)
	if v.caller.own+v.caller.shared == 0 {
		delete(pg.callers, v.caller.caller)
	}
}

// sweep drops values that no longer count.
func (g *groups) sweep(pg *policyGroups, now time.Duration) {
	for e := pg.idle.Front(); e != nil; e = pg.idle.Front() {
		v := e.Value.(*value)
		if now-v.last <= lasting(pg.window) {
			break
		}
		g.drop(v)
	}
	for name, until := range pg.restored {
		if now < until {
			break // the others end later
		}
		delete(pg.restored, name)
	}
}

// sweepAll drops values of all policies that no longer count, at most once a second.
func (g *groups) sweepAll(now time.Duration) {
	if now-g.swept < time.Second {
		return
	}
	g.swept = now
	for _, pg := range g.policies {
		g.sweep(pg, now)
	}
}

// find returns where a call is counted, given the caller and the name that its own counter
// would have. If the call is not admitted, the use of the value must be ended with release.
func (g *groups) find(p *counters, name string, c caller, f Call) groupRef {
	ref := groupRef{name: name}
	g.mu.Lock()
	defer g.mu.Unlock()
	pg, now := g.of(p), g.elapsed()
	g.sweep(pg, now)
	if ref.value = pg.own[name]; ref.value != nil {
		ref.value.uses++
		return ref
	}
	hash := maphash.String(g.seed, name)
	if ref.value = pg.shared[hash]; ref.value != nil {
		ref.value.uses++
		return ref
	}
	if !g.own.fits(c.workspace, g.maxOwn) {
		g.sweepAll(now)
	}
	switch {
	case !pg.mayHaveShared(p, f) && g.fits(pg, c):
		ref.value = g.add(pg, c, name, hash, now)
	case g.shared.fits(c.workspace, g.maxShared):
		ref.value = g.add(pg, c, "", hash, now)
	}
	return ref
}

// fits reports whether a caller may have another counter of a policy.
func (g *groups) fits(pg *policyGroups, c caller) bool {
	own := 0
	if of := pg.callers[c]; of != nil {
		own = of.own
	}
	return own < g.ofCaller && pg.count.fits(c.workspace, g.ofPolicy) && g.own.fits(c.workspace, g.maxOwn)
}

// mayHaveShared reports whether an unknown value may have been counted in an overflow
// before the process started.
func (pg *policyGroups) mayHaveShared(p *counters, f Call) bool {
	return len(pg.restored) > 0 && pg.restored[overflow(p.name, p.grouping(f), f)] > 0
}

// claim directs a claim to the counter of the value.
func (r *groupRef) claim(c *ledger.Claim, p *counters, f Call) {
	switch {
	case r.value == nil: // to be refused, together with the call's other claims
		c.Key, c.Limit = overflow(p.name, p.grouping(f), f), 0
	case r.value.name == "":
		c.Key = overflow(p.name, p.grouping(f), f)
	default:
		c.Key, c.Owner = r.name, r.value.caller.owner
	}
}

// confirm records that calls were admitted. It returns false if a value was moved in the
// meantime, so that the call must be counted again.
func (g *groups) confirm(refs []groupRef) bool {
	if len(refs) == 0 {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	there, now := true, g.elapsed()
	for i := range refs {
		v := refs[i].value
		if v.idle == nil {
			there = false
			continue
		}
		v.last = now
		v.of.idle.MoveToBack(v.idle)
		if v.name == "" {
			g.overflows++
		}
	}
	return there
}

// release ends the uses of calls that were not admitted, or not forwarded.
func (g *groups) release(refs []groupRef) {
	if len(refs) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range refs {
		v := refs[i].value
		if v == nil || v.idle == nil {
			continue
		}
		if v.uses--; v.uses == 0 {
			g.drop(v)
		}
	}
}

// counts returns the number of groups with their own counters, and of calls counted in an
// overflow.
func (g *groups) counts() (own int, overflows int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.own.n, g.overflows
}

// forget drops the values of counters, by their name or that of the policy.
func (g *groups) forget(of string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, pg := range g.policies {
		if name != of && !strings.HasPrefix(name, prefix(of)) {
			continue
		}
		for e := pg.idle.Front(); e != nil; e = pg.idle.Front() {
			g.drop(e.Value.(*value))
		}
		delete(g.policies, name)
	}
}
