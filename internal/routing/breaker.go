package routing

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A BreakerPolicy says when a failing target is taken out of use, and for how long
// (cb_config). A breaker opens when either threshold is reached.
type BreakerPolicy struct {
	Failures        int           // failure_threshold; 0: none
	Percentage      float64       // of failures among the calls, failure_threshold_percentage; 0: none
	MinimumRequests int           // before Percentage counts
	Cooldown        time.Duration // from when it opened; at least 30 s
	On              *StatusSet    // the statuses that are failures; nil: 500 and above
}

const (
	defaultMinimumRequests = 5
	// countersLive is how long failures are counted, from the first call on.
	countersLive = 24 * time.Hour
	// DefaultBreakers is how many targets are watched at the same time.
	DefaultBreakers = 10_000
)

// failure reports whether a status counts as a failure.
func (p *BreakerPolicy) failure(status int) bool {
	if p.On != nil {
		return p.On.Has(status)
	}
	return status >= 500
}

// A BreakerKey is a target of a saved config, with the slug of its provider: if a target is
// changed to use another provider, its breaker starts afresh.
type BreakerKey struct {
	Workspace string // whose calls are watched
	Config    string // id
	Path      string
	Slug      string
}

// Breakers are the circuit breakers of all saved configs. A closed breaker counts failures.
// When a threshold is reached, it opens for the cooldown, and is then half open: a single
// call, the probe, goes to the target, and closes the breaker or opens it again. A probe
// whose result is not reported expires after another cooldown. It is safe for concurrent
// use.
type Breakers struct {
	now func() time.Time

	mu    sync.Mutex
	table breakerTable
}

type breakerState struct {
	key             BreakerKey
	since           time.Time // of the first call that is counted
	calls, failures int

	opened   time.Time // zero: it is closed
	cooldown time.Duration
	probed   time.Time // start of the probe that is under way; zero: none is
	reason   string

	place placeInTable
}

// NewBreakers returns breakers for up to most targets (0: DefaultBreakers), of which a
// workspace has at most its fair share. Beyond that, the least recently used one of the
// workspace is dropped, and an open one only if all are open.
func NewBreakers(now func() time.Time, most int) *Breakers {
	if most <= 0 {
		most = DefaultBreakers
	}
	return &Breakers{now: now, table: newBreakerTable(most)}
}

// state returns the live state of key, or nil if there is none.
func (b *Breakers) state(key BreakerKey, now time.Time) *breakerState {
	s := b.table.states[key]
	if s == nil {
		return nil
	}
	if from := s.start(); now.Sub(from) >= countersLive+s.cooldown {
		b.table.remove(s)
		return nil
	}
	return s
}

// start returns the start of the state's lifetime: the first call, or the time it opened.
func (s *breakerState) start() time.Time {
	if s.opened.IsZero() {
		return s.since
	}
	return s.opened
}

// Open reports whether the target must not be called.
func (b *Breakers) Open(key BreakerKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	s := b.state(key, now)
	return s != nil && !s.opened.IsZero() && (s.cooling(now) || s.probing(now))
}

func (s *breakerState) cooling(now time.Time) bool { return now.Sub(s.opened) < s.cooldown }

func (s *breakerState) probing(now time.Time) bool {
	return !s.probed.IsZero() && now.Sub(s.probed) < s.cooldown
}

// StartCall records that a call goes to the target. If the breaker is half open, the call
// is its probe.
func (b *Breakers) StartCall(key BreakerKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if s := b.state(key, now); s != nil && !s.opened.IsZero() && !s.cooling(now) && !s.probing(now) {
		s.probed = now
	}
}

// Report records the status of a call to the target. Errors of the gateway itself must not
// be reported. While the breaker is open, nothing is counted.
func (b *Breakers) Report(key BreakerKey, p *BreakerPolicy, status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	failed := p.failure(status)
	s := b.state(key, now)
	if s == nil {
		s = &breakerState{key: key, since: now}
		if !b.table.add(s) {
			return
		}
	}
	defer b.table.use(s)
	if !s.opened.IsZero() {
		switch {
		case s.cooling(now) || !s.probing(now):
		case failed:
			s.open(now, p, fmt.Sprintf("tried after the cooldown, and failed with status %d", status))
		default:
			b.table.remove(s)
		}
		return
	}
	s.calls++
	if !failed {
		return
	}
	s.failures++
	share := 100 * float64(s.failures) / float64(s.calls)
	switch {
	case p.Failures > 0 && s.failures >= p.Failures:
		s.open(now, p, fmt.Sprintf("%d failures (failure_threshold %d), the last with status %d", s.failures, p.Failures, status))
	case p.Percentage > 0 && s.calls >= p.MinimumRequests && share >= p.Percentage:
		s.open(now, p, fmt.Sprintf("%d of %d calls failed (failure_threshold_percentage %g), the last with status %d", s.failures, s.calls, p.Percentage, status))
	}
}

func (s *breakerState) open(now time.Time, p *BreakerPolicy, reason string) {
	s.opened, s.cooldown, s.probed, s.reason = now, p.Cooldown, time.Time{}, reason
}

// An OpenBreaker is a breaker that is open or half open.
type OpenBreaker struct {
	BreakerKey
	Since    time.Time // when it opened
	Until    time.Time // when a probe may be sent
	HalfOpen bool      // Until has passed
	Reason   string
}

// Snapshot lists the breakers that are not closed, by config and path.
func (b *Breakers) Snapshot() []OpenBreaker {
	b.mu.Lock()
	now := b.now()
	var open []OpenBreaker
	for key, s := range b.table.states {
		if b.state(key, now) == nil || s.opened.IsZero() {
			continue
		}
		open = append(open, OpenBreaker{s.key, s.opened, s.opened.Add(s.cooldown), !s.cooling(now), s.reason})
	}
	b.mu.Unlock()
	slices.SortFunc(open, func(x, y OpenBreaker) int {
		return cmp.Or(cmp.Compare(x.Config, y.Config), cmp.Compare(x.Workspace, y.Workspace), cmp.Compare(x.Path, y.Path), cmp.Compare(x.Slug, y.Slug))
	})
	return open
}

// Of returns the breakers of one saved config, for the calls of a workspace.
func (b *Breakers) Of(workspace, config string) ConfigBreakers {
	return ConfigBreakers{b, workspace, config}
}

// ConfigBreakers are the breakers of one saved config.
type ConfigBreakers struct {
	breakers          *Breakers
	workspace, config string
}

func (c ConfigBreakers) key(t *Target) BreakerKey {
	return BreakerKey{c.workspace, c.config, t.Path, t.slug()}
}

// Open reports whether t must not be called.
func (c ConfigBreakers) Open(t *Target) bool { return c.breakers.Open(c.key(t)) }

// StartCall records that a call goes to t.
func (c ConfigBreakers) StartCall(t *Target) { c.breakers.StartCall(c.key(t)) }

// Report records the status of a call to t. It does nothing if no breaker watches t.
func (c ConfigBreakers) Report(t *Target, status int) {
	if t.Breaker != nil {
		c.breakers.Report(c.key(t), t.Breaker, status)
	}
}

// slug returns the provider of the target as the config names it.
func (t *Target) slug() string {
	if t.Provider != "" && t.Provider[0] == '@' || t.VirtualKey == "" {
		if t.Provider == "" {
			return text(t.Edit().Lookup("model"))
		}
		return t.Provider
	}
	return t.VirtualKey
}

// Interface guards
var _ Circuit = ConfigBreakers{}
