package policies

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/storage"
)

// parked are the reservations of batches that are not settled.
type parked struct {
	// changing is held while counters are forgotten, so that no batch is noted in the middle that holds some
	// of them; for reading, while one is noted.
	changing sync.RWMutex

	mu     sync.Mutex
	of     map[string]*reserved // by the key of the batch
	units  map[string]int64     // that they hold, by counter
	places map[string]int       // of calls that make a batch, by workspace
}

// reserved is what a batch has reserved in this process.
type reserved struct {
	reservation ledger.Reservation // nil: it could not be restored
	held        []ledger.Held      // its claims
	types       []string           // of their policies
	models      []string           // whose calls they are for, as in the claims
	rules       []*Rule            // which they were made by; nil: in another process
}

// asReserved are units by which all that is reserved counts as used.
func (r *reserved) asReserved() []int64 {
	units := make([]int64, len(r.held))
	for i := range r.held {
		units[i] = r.held[i].Units
	}
	return units
}

// enter takes a place for a batch of a workspace, and reports whether there is one.
func (l *Limits) enter(workspace string) bool {
	p := &l.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.Batches.fits(workspace, p.places[workspace]+1) {
		return false
	}
	if p.places == nil {
		p.places = make(map[string]int)
	}
	p.places[strings.Clone(workspace)]++
	return true
}

// leave gives back the place of a call, if it has one.
func (l *Limits) leave(v *Verdict) {
	if !v.place {
		return
	}
	v.place = false
	workspace := v.demand.Model.Workspace
	p := &l.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places[workspace]--; p.places[workspace] <= 0 {
		delete(p.places, workspace)
	}
}

var errBatchTooLong = errors.New("its id, or the names of the counters that it holds, are too long to be kept")

// Park keeps what a call has reserved of tokens and costs for the batch that its provider has accepted, until
// [Limits.SettleBatch] is told what that used. It is to be called before the caller gets the batch's id. v is nil if no
// such limit counts the call. What was reserved for a batch that is known already is given back. If there is an error,
// what was reserved counts as used; parked reports whether it is not.
func (l *Limits) Park(ctx context.Context, v *Verdict, b *Batch) (parked bool, err error) {
	l.parked.changing.RLock()
	defer l.parked.changing.RUnlock()
	row := *b
	row.CreatedAt, row.Claims, row.Settled = l.now().UTC(), nil, false
	r := l.detach(v, &row)
	known := false
	err = errBatchTooLong
	if len(row.ID) <= maxBatchName && row.weight() <= 1+maxBatchClaims/bytesOfBatch {
		err = l.db.Update(ctx, func(tx *storage.Txn) error {
			rows := l.Batches.rows.In(tx)
			if _, known = rows.Get(row.key()); known {
				return nil
			}
			if err := l.Batches.makeRoom(tx, row.WorkspaceID, row.CreatedAt); err != nil {
				return err
			}
			return rows.Put(tx, &row)
		})
	}
	switch {
	case r == nil:
		return err == nil, err
	case err != nil:
		return false, errors.Join(err, l.ledger.Settle(context.WithoutCancel(ctx), r.reservation, r.asReserved()))
	case known:
		l.ledger.Release(r.reservation)
		return true, nil
	}
	l.parked.mu.Lock()
	defer l.parked.mu.Unlock()
	l.parked.put(row.key(), r)
	return true, nil
}

// put keeps what a batch has reserved.
func (p *parked) put(batch string, r *reserved) {
	if p.of == nil {
		p.of, p.units = make(map[string]*reserved), make(map[string]int64)
	}
	p.of[batch] = r
	if r.reservation != nil {
		for i := range r.held {
			p.units[r.held[i].Key] += r.held[i].Units
		}
	}
}

// free notes that a batch holds no units of a claim any more.
func (p *parked) free(r *reserved, claim int) {
	if r.reservation == nil {
		return
	}
	h := &r.held[claim]
	if p.units[h.Key] -= h.Units; p.units[h.Key] <= 0 {
		delete(p.units, h.Key)
	}
}

// holds returns how many units of a counter batches hold.
func (p *parked) holds(counter string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.units[counter]
}

// detach takes what a verdict holds of tokens and costs out of it, and notes it in a batch; nil: that is nothing.
func (l *Limits) detach(v *Verdict, b *Batch) *reserved {
	if v == nil || v.reservation == nil {
		return nil
	}
	r := new(reserved)
	var which []int
	for i, rule := range v.matched {
		if rule != nil && rule.counts != countsCalls {
			which = append(which, i)
			r.types, r.rules, r.models = append(r.types, rule.Type), append(r.rules, rule), append(r.models, v.ofModel[i])
			v.matched[i] = nil
		}
	}
	if len(which) == 0 {
		return nil
	}
	r.reservation, r.held = l.ledger.Detach(v.reservation, which)
	for i, h := range r.held {
		if h.Units > 0 { // or else it was forgotten
			b.Claims = append(b.Claims, batchClaim{r.types[i], r.models[i], h})
		}
	}
	return r
}

// restoreBatches holds again what batches have reserved.
func (l *Limits) restoreBatches(ctx context.Context) {
	for _, b := range l.Batches.rows.All() {
		if !b.holds() {
			continue
		}
		r := new(reserved)
		for _, c := range b.Claims {
			r.held, r.types, r.models = append(r.held, c.Held), append(r.types, c.Type), append(r.models, c.Model)
		}
		var err error
		if r.reservation, err = l.ledger.Restore(ctx, r.held); err != nil {
			l.logger.Error("what a batch has reserved counts as used", zap.String("batch", b.ID), zap.String("provider", b.Provider), zap.Error(err))
		}
		l.parked.put(b.key(), r)
	}
}

// SeeBatch notes what a provider says of a batch that is known: the id of the file with its output, or "", and whether it
// has ended with nothing. Then all that was reserved is given back.
func (l *Limits) SeeBatch(ctx context.Context, name *BatchName, output string, nothing bool) error {
	row, ok := l.Batches.rows.Get(name.Key())
	switch {
	case !ok || row.Settled:
		return nil
	case nothing:
		_, err := l.SettleBatch(ctx, name, Used{})
		return err
	case output == "" || output == row.OutputFile && row.Confirmed || len(output) > maxBatchFile:
		return nil
	}
	return l.db.Update(ctx, func(tx *storage.Txn) error {
		row, ok := l.Batches.rows.In(tx).Get(name.Key())
		if !ok || row.Settled {
			return nil
		}
		return l.Batches.setOutput(tx, row, output, true)
	})
}

// SettleBatch books what a batch used, and gives back the rest of what was reserved for it, once: settled reports
// whether this call did. It counts in the periods of the budgets in which the batch was made. With used.Unknown, at least what was
// reserved counts. If there is an error, nothing is booked, unless settled.
func (l *Limits) SettleBatch(ctx context.Context, name *BatchName, used Used) (settled bool, err error) {
	key := name.Key()
	var claims []batchClaim
	// It is noted first: after a crash in between, what was reserved counts as used.
	err = l.db.Update(ctx, func(tx *storage.Txn) error {
		settled = false
		row, ok := l.Batches.rows.In(tx).Get(key)
		if !ok || row.Settled {
			return nil
		}
		settled, claims = true, row.Claims
		row.Settled, row.Claims = true, nil
		return l.Batches.rows.In(tx).Put(tx, row)
	})
	if err != nil || !settled {
		return false, err
	}
	r := l.unpark(key)
	if r == nil || r.reservation == nil {
		return true, nil
	}
	final := r.asReserved()
	for i := range final {
		if !slices.ContainsFunc(claims, func(c batchClaim) bool { return c.Key == r.held[i].Key && c.Type == r.types[i] }) {
			continue // its counter was forgotten
		}
		of := used.of(r.models[i])
		units, unknown := of.Tokens, of.Unknown
		if r.types[i] == Cost {
			units, unknown = int64(of.Cost), unknown || of.CostUnknown
		}
		if !unknown || units > final[i] {
			final[i] = max(units, 0)
		}
	}
	err = l.ledger.Settle(ctx, r.reservation, final)
	for i, rule := range l.rulesOf(r, name.WorkspaceID) {
		if rule != nil && rule.Budget() {
			counter, booked := l.ledger.Booked(r.reservation, i)
			l.checkAlerts(rule, name.WorkspaceID, counter, booked, false)
		}
	}
	return true, err
}

// rulesOf are the policies that the claims of a batch were made by, as far as they are found.
func (l *Limits) rulesOf(r *reserved, workspace string) []*Rule {
	if r.rules != nil {
		return r.rules
	}
	rules := make([]*Rule, len(r.held))
	a, now := l.active.Load(), l.now()
	for _, rule := range slices.Concat(a.allWorkspaces.rules(), a.byWorkspace[workspace].rules()) {
		counters, _ := rule.at(now)
		for i := range r.held {
			if strings.HasPrefix(r.held[i].Key, prefix(counters.name)) {
				rules[i] = rule
			}
		}
	}
	return rules
}

// AwaitedBatch is [Batches.Awaited].
func (l *Limits) AwaitedBatch(name *BatchName) *Batch { return l.Batches.Awaited(name) }

// AwaitsBatches reports whether any batch of a workspace is not settled.
func (l *Limits) AwaitsBatches(workspace string) bool { return l.Batches.AwaitsAny(workspace) }

// BatchOfOutput is [Batches.OfOutput].
func (l *Limits) BatchOfOutput(workspace, account, file string) *Batch {
	return l.Batches.OfOutput(workspace, account, file)
}

// unpark takes what a batch has reserved in this process; nil: nothing.
func (l *Limits) unpark(key string) *reserved {
	l.parked.mu.Lock()
	defer l.parked.mu.Unlock()
	r := l.parked.of[key]
	delete(l.parked.of, key)
	if r != nil {
		for i := range r.held {
			l.parked.free(r, i)
		}
	}
	return r
}

// DropBatch removes a batch. What it has reserved counts as used.
func (l *Limits) DropBatch(tx *storage.Txn, key string) error {
	tx.OnCommit(func() {
		if r := l.unpark(key); r != nil && r.reservation != nil {
			_ = l.ledger.Settle(context.Background(), r.reservation, r.asReserved()) // nothing is written
		}
	})
	return l.Batches.rows.In(tx).Delete(tx, key)
}

// expireBatches removes the batches that are too old.
func (l *Limits) expireBatches(ctx context.Context) error {
	before := l.now().Add(-BatchesLast)
	var old []string
	for _, b := range l.Batches.rows.All() {
		if b.CreatedAt.Before(before) {
			old = append(old, b.key())
		}
	}
	for some := range slices.Chunk(old, 100) {
		err := l.db.Update(ctx, func(tx *storage.Txn) error {
			for _, key := range some {
				if err := l.DropBatch(tx, key); err != nil && !errors.Is(err, storage.ErrNotFound) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// expire removes batches that are too old, now and then, until the limits are closed.
func (l *Limits) expire() {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		if err := l.expireBatches(l.ctx); err != nil && l.ctx.Err() == nil {
			l.logger.Warn("removing batches that were not settled in time", zap.Error(err))
		}
		select {
		case <-ticker.C:
		case <-l.ctx.Done():
			return
		}
	}
}

// forgetCounters empties the counters whose names begin with prefix. What batches hold of them is forgotten before, so
// that it is not given back to what is counted from now on.
func (l *Limits) forgetCounters(ctx context.Context, prefix string) error {
	l.parked.changing.Lock()
	defer l.parked.changing.Unlock()
	for _, b := range l.Batches.rows.All() {
		if len(without(b.Claims, prefix)) == len(b.Claims) {
			continue
		}
		err := l.db.Update(ctx, func(tx *storage.Txn) error {
			row, ok := l.Batches.rows.In(tx).Get(b.key())
			if !ok {
				return nil
			}
			row.Claims = without(row.Claims, prefix)
			return l.Batches.rows.In(tx).Put(tx, row)
		})
		if err != nil {
			return err
		}
	}
	l.parked.forget(prefix)
	return l.ledger.Forget(ctx, prefix)
}

// forget notes that batches hold nothing of counters any more.
func (p *parked) forget(prefix string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.of {
		for i := range r.held {
			if strings.HasPrefix(r.held[i].Key, prefix) {
				p.free(r, i)
				r.held[i].Units = 0
			}
		}
	}
}
