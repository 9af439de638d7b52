package policies

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/fairshare"
	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/storage"
)

// Limits holds the policies of a store and admits calls. It is safe for concurrent use.
type Limits struct {
	Rates   *Store[RateLimit]
	Budgets *Store[UsageLimit]
	Carried *CarriedLimits
	Batches *Batches

	parked parked // what these have reserved

	db       *storage.DB
	ledger   ledger.Counter
	groups   *groups
	learned  *estimate.Estimator
	texts    *fairshare.Semaphore // by workspace, of those that are counted
	alerts   *alerts
	tokens   tokens
	now      func() time.Time
	active   atomic.Pointer[active] // of what memory has
	waits    waits                  // of callers of budgets
	changing sync.Mutex             // of active

	usages    usages
	uncounted atomic.Int64 // calls that passed although they could not be counted
	loggedAt  atomic.Int64 // when that was last logged, in nanoseconds since 1970

	logger *zap.Logger
	ctx    context.Context // of what is done in the background
	cancel context.CancelFunc
	jobs   sync.WaitGroup

	loops sync.WaitGroup // that send alerts, and remove batches that are too old
}

// active is the policies in force, by the workspace whose calls they count.
type active struct {
	allWorkspaces *ruleSet
	byWorkspace   map[string]*ruleSet
}

// Open loads the policies of a store, whose calls l counts. Close l after the last use, and
// before it the limits.
func Open(ctx context.Context, db *storage.DB, l ledger.Counter, now func() time.Time, logger *zap.Logger) (_ *Limits, err error) {
	p := &Limits{db: db, ledger: l, groups: newGroups(now), learned: estimate.New(), texts: newTextCounters(), alerts: newAlerts(), now: now, logger: logger}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.tokens.of, p.tokens.max = make(map[string]*tokenUse), MaxTokens
	rates, err := openStore(ctx, db, "rate-limit", func(p *RateLimit) *Policy { return &p.Policy }, (*RateLimit).Validate, now, p.refresh)
	if err != nil {
		return nil, err
	}
	budgets, err := openStore(ctx, db, "usage-limit", func(p *UsageLimit) *Policy { return &p.Policy }, (*UsageLimit).Validate, now, p.refresh)
	if err != nil {
		return nil, err
	}
	if p.Carried, err = openCarried(ctx, db); err != nil {
		return nil, err
	}
	if p.Batches, err = openBatches(ctx, db); err != nil {
		return nil, err
	}
	p.changing.Lock()
	p.Rates, p.Budgets = rates, budgets
	p.changing.Unlock()
	p.refresh()
	a := p.active.Load()
	restore := func(rules []*Rule) error {
		for _, r := range rules {
			if !r.bounded() {
				continue
			}
			c, _ := r.at(now())
			if err := p.groups.restore(ctx, l, c); err != nil {
				return err
			}
		}
		return nil
	}
	err = restore(a.allWorkspaces.rules())
	for _, set := range a.byWorkspace {
		err = errors.Join(err, restore(set.rules()))
	}
	p.tokens.expired(p)
	p.restoreBatches(ctx)
	p.loops.Go(p.sendAlerts)
	p.loops.Go(p.expire)
	p.loops.Go(p.reduceLeases)
	return p, err
}

// reduceLeases gives back leases that a crash would count as used, until the limits are closed.
func (l *Limits) reduceLeases() {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.ledger.ReduceLeases()
		case <-l.ctx.Done():
			return
		}
	}
}

// Close ends what is done in the background.
func (l *Limits) Close() {
	l.cancel()
	l.jobs.Wait()
	l.loops.Wait()
}

// refresh finds the policies in force.
func (l *Limits) refresh() {
	l.changing.Lock()
	defer l.changing.Unlock()
	if l.Rates == nil || l.Budgets == nil {
		return // they are being loaded
	}
	var allWorkspaces []*Rule
	byWorkspace := make(map[string][]*Rule)
	add := func(r *Rule) {
		if r.AllWorkspaces {
			allWorkspaces = append(allWorkspaces, r)
		} else {
			byWorkspace[r.WorkspaceID] = append(byWorkspace[r.WorkspaceID], r)
		}
	}
	for _, p := range l.Rates.active() {
		add(rateRule(p))
	}
	now := l.now()
	for _, p := range l.Budgets.active() {
		add(usageRule(p, now))
	}
	a := &active{newRuleSet(allWorkspaces), make(map[string]*ruleSet, len(byWorkspace))}
	for workspace, rules := range byWorkspace {
		a.byWorkspace[workspace] = newRuleSet(rules)
	}
	l.active.Store(a)
}

// reset stores that the usage of a budget was reset because its time had come, and forgets what
// was counted before. Until it is stored, every process finds the same from the schedule.
func (l *Limits) reset(r *Rule) {
	switch {
	case r.Carrier() == KeyToken:
		l.resetToken(r)
		return
	case r.carrier != nil:
		l.resetCarried(r.carrier.ID)
		return
	}
	id := r.ID
	l.jobs.Go(func() {
		var before, after int64
		err := l.db.Update(l.ctx, func(tx *storage.Txn) error {
			in := l.Budgets.In(tx)
			old, ok := in.Get(id)
			if !ok {
				return nil
			}
			p := *old
			before, p.Schedule = p.Resets, p.At(l.now())
			if after = p.Resets; after == before || p.Archived {
				return nil
			}
			return in.rows.Put(tx, &p)
		})
		for n := before; err == nil && n < after; n++ {
			err = l.forget(l.ctx, countersOf(id, n))
		}
		if err != nil && l.ctx.Err() == nil {
			l.logger.Warn("resetting the usage of a policy", zap.String("policy", id), zap.Error(err))
		}
	})
}

// Forget drops the counters of a policy that was archived. It is called after the commit.
func (l *Limits) Forget(ctx context.Context, id string) error { return l.forget(ctx, id) }

func (l *Limits) forget(ctx context.Context, name string) error {
	err := errors.Join(l.forgetCounters(ctx, prefix(name)), l.forgetAlerts(ctx, prefix(name)))
	l.groups.forget(name)
	l.waits.forget(prefix(name))
	return err
}

// Uncounted notes that a call passes although it could not be counted, and logs why, once a minute.
func (l *Limits) Uncounted(why error) {
	l.uncounted.Add(1)
	now, last := l.now().UnixNano(), l.loggedAt.Load()
	if (last == 0 || now-last >= int64(time.Minute)) && l.loggedAt.CompareAndSwap(last, now) {
		l.logger.Error("calls pass without being counted against their limits, as on_store_failure says", zap.Error(why))
	}
}

// UncountedCalls returns how many calls passed that could not be counted.
func (l *Limits) UncountedCalls() int64 { return l.uncounted.Load() }

// Groups returns the number of groups, by values chosen by callers, with their own
// counters, and the number of calls counted in shared counters.
func (l *Limits) Groups() (own int, overflows int64) { return l.groups.counts() }
