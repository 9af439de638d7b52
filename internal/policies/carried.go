package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

// Carried is the limits that an object itself has, such as an API key: they count its calls, in addition to
// the policies that match them.
type Carried struct {
	// Carrier is what kind of object it is: KeyAPIKey, KeyWorkspace, KeyVirtualKey (also a provider),
	// KeyIntegration or KeyToken. ID is the object's, or [IntegrationIn]'s.
	Carrier        string `json:"carrier"`
	ID             string `json:"id"`
	WorkspaceID    string `json:"workspace_id,omitempty"`
	OrganisationID string `json:"organisation_id"`
	// EachWorkspace: the calls of each workspace are counted by themselves.
	EachWorkspace bool `json:"each_workspace,omitempty"`

	Rates  []CarriedRate `json:"rates,omitempty"`
	Budget *UsageLimit   `json:"budget,omitempty"` // of which the policy has only a type; nil: there is none
}

// A CarriedRate is a rate limit of an object.
type CarriedRate struct {
	Type  string `json:"type"`
	Unit  string `json:"unit"`
	Value int64  `json:"value"`
}

// KeyIntegration is the integration of the provider that a call is sent to. Only what an object
// carries depends on it: no condition names it.
const KeyIntegration = "integration"

// IntegrationIn is the id of what an integration carries for one workspace.
func IntegrationIn(workspace, integration string) string { return integration + "-" + workspace }

// Least budgets of objects, by their type.
var leastCredit = map[string]float64{Cost: 1, Tokens: 100, Requests: 1}

// Empty reports whether the object has no limits.
func (c *Carried) Empty() bool { return len(c.Rates) == 0 && c.Budget == nil }

// Validate returns the first error as a *FieldError.
func (c *Carried) Validate() error {
	for i, r := range c.Rates {
		in := fmt.Sprintf("rate_limits[%d].", i)
		if slices.ContainsFunc(c.Rates[:i], func(before CarriedRate) bool { return before.Type == r.Type }) {
			return &FieldError{in + "type", "expected one limit of each type"}
		}
		if err := c.rate(r).Validate(); err != nil {
			return inside(in, err)
		}
	}
	if b := c.Budget; b != nil {
		if least := leastCredit[b.Type]; b.Amount(b.Limit) < least {
			return &FieldError{"usage_limits.credit_limit", fmt.Sprintf("expected %v or more", least)}
		}
		if b.AlertThreshold != nil && *b.AlertThreshold >= b.Limit {
			return &FieldError{"usage_limits.alert_threshold", "expected less than credit_limit"}
		}
		return inside("usage_limits.", b.Validate())
	}
	return nil
}

// inside names a field by that which it is in.
func inside(field string, err error) error {
	if wrong := (*FieldError)(nil); errors.As(err, &wrong) {
		return &FieldError{field + wrong.Field, wrong.Message}
	}
	return err
}

// policy is the policy that a limit of an object comes to. What it counts is part of its id, so
// that another kind of limit begins with 0.
func (c *Carried) policy(kind, counts string) Policy {
	p := Policy{ID: c.Carrier + "-" + c.ID + "-" + counts, Type: kind, WorkspaceID: c.WorkspaceID, OrganisationID: c.OrganisationID}
	if c.EachWorkspace {
		p.GroupBy = []string{KeyWorkspace}
	}
	return p
}

// ofTarget reports whether the object is one that only the target of a call names.
func (c *Carried) ofTarget() bool { return c.Carrier == KeyVirtualKey || c.Carrier == KeyIntegration }

func (c *Carried) rate(r CarriedRate) *RateLimit {
	return &RateLimit{Policy: c.policy(r.Type, r.Type+"-"+r.Unit), Unit: r.Unit, Value: r.Value}
}

func (c *Carried) budget() *UsageLimit {
	b := *c.Budget
	b.Policy = c.policy(b.Type, "budget-"+b.Type)
	return &b
}

// rules are the limits in force.
func (c *Carried) rules(now time.Time) (rules []*Rule) {
	for _, r := range c.Rates {
		rules = append(rules, rateRule(c.rate(r)))
	}
	if c.Budget != nil {
		rules = append(rules, usageRule(c.budget(), now))
	}
	for _, r := range rules {
		r.carrier = c
	}
	return rules
}

// CarriedLimits are the limits of objects. A change applies to the next call after its write has
// been answered. It is safe for concurrent use.
type CarriedLimits struct {
	rows *storage.Cached[*Carried]
	// inForce are the rules of rows, by the id of the object, as they were when they were last
	// asked for.
	inForce *sync.Map // id → *carriedRules
}

type carriedRules struct {
	of    *Carried
	rules []*Rule
}

const carriedWorkspace = "workspace"

func openCarried(ctx context.Context, db *storage.DB) (*CarriedLimits, error) {
	s := &CarriedLimits{inForce: new(sync.Map)}
	s.rows = storage.NewCached(db, storage.NewCollection("carried-limit", func(c *Carried) string { return c.ID },
		storage.Index[*Carried]{Name: carriedWorkspace, Memory: true, Keys: func(c *Carried) []string { return []string{c.WorkspaceID} }}))
	return s, s.rows.Load(ctx)
}

// In returns the limits as tx sees them, to be read and changed.
func (s *CarriedLimits) In(tx *storage.Txn) *CarriedLimits {
	in := *s
	in.rows = s.rows.In(tx)
	return &in
}

// Get returns the limits of an object by its id; they are not changed.
func (s *CarriedLimits) Get(id string) (*Carried, bool) { return s.rows.Get(id) }

// Put stores the limits of an object, or removes them if there are none. The error is a *FieldError,
// or the error of the store.
func (s *CarriedLimits) Put(tx *storage.Txn, c *Carried) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Empty() {
		return s.Delete(tx, c.ID)
	}
	return s.rows.Put(tx, c)
}

// Delete removes the limits of an object, which may have none. Their counters remain, see
// [Limits.ForgetCarried].
func (s *CarriedLimits) Delete(tx *storage.Txn, id string) error {
	if err := s.rows.Delete(tx, id); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

// Of returns the ids of at most limit objects of a workspace that have limits, as memory has them.
func (s *CarriedLimits) Of(workspace string, limit int) []string {
	return storage.Some(s.rows.Memory().Where(carriedWorkspace, workspace), limit, func(c *Carried) string { return c.ID })
}

// rulesOf are the rules of an object.
func (s *CarriedLimits) rulesOf(id string, now time.Time) []*Rule {
	row, ok := s.rows.Get(id)
	if !ok {
		if _, had := s.inForce.Load(id); had {
			s.inForce.Delete(id)
		}
		return nil
	}
	if known, ok := s.inForce.Load(id); ok && known.(*carriedRules).of == row {
		return known.(*carriedRules).rules
	}
	fresh := &carriedRules{row, row.rules(now)}
	s.inForce.Store(id, fresh)
	return fresh.rules
}

// carriers is how many objects with limits a call may belong to.
const carriers = 6

// of are the rules of the objects that a call belongs to: its key, the key that it is counted with,
// its workspace, of its target the virtual key and the integration, and its JSON Web Token.
func (s *CarriedLimits) of(workspace string, f Call, now time.Time) (rules [carriers][]*Rule) {
	if key, with, ok := f.Attribute(KeyAPIKey); ok {
		rules[0] = s.rulesOf(key, now)
		if with != "" && with != key {
			rules[1] = s.rulesOf(with, now)
		}
	}
	rules[2] = s.rulesOf(workspace, now)
	if _, id, ok := f.Attribute(KeyVirtualKey); ok && id != "" {
		rules[3] = s.rulesOf(id, now)
	}
	if integration, _, ok := f.Attribute(KeyIntegration); ok {
		if rules[4] = s.rulesOf(IntegrationIn(workspace, integration), now); rules[4] == nil {
			rules[4] = s.rulesOf(integration, now)
		}
	}
	if t := f.TokenLimits(); t != nil {
		rules[5] = t.rules
	}
	return rules
}

// CarriedUsage returns what was used of the budget of an object in the present period, and whether it is exhausted. Where each
// workspace is counted by itself, it is what the given one used, or for "" all together, which is never exhausted.
func (l *Limits) CarriedUsage(ctx context.Context, c *Carried, workspace string) (units int64, exhausted bool, err error) {
	if c.Budget == nil {
		return 0, false, nil
	}
	budget := c.budget()
	all, err := l.Entities(ctx, budget)
	for _, e := range all {
		if workspace == "" || !c.EachWorkspace || e.Group == KeyWorkspace+":"+workspace {
			units += e.Booked
			exhausted = exhausted || budget.Exhausted(e)
		}
	}
	return units, exhausted && (workspace != "" || !c.EachWorkspace), err
}

// ForgetCarried drops the counters of limits that an object had and does not have any more. It is
// called after the commit; has is nil if it has none.
func (l *Limits) ForgetCarried(ctx context.Context, had, has *Carried) error {
	var errs []error
	for _, before := range had.rules(l.now()) {
		if has == nil || !slices.ContainsFunc(has.rules(l.now()), func(r *Rule) bool { return r.ID == before.ID }) {
			errs = append(errs, l.forget(ctx, before.ID))
			continue
		}
		if before.Budget() && before.schedule.Resets != has.Budget.Resets {
			errs = append(errs, l.forget(ctx, countersOf(before.ID, before.schedule.Resets)))
		}
	}
	return errors.Join(errs...)
}

// Reset makes the usage of a budget 0 at a time.
func (s *Schedule) Reset(now time.Time) {
	at := now.UTC()
	*s = s.At(now)
	s.Resets++
	s.LastResetAt = &at
}

// resetCarried stores that the usage of an object's budget was reset because its time had come.
func (l *Limits) resetCarried(id string) {
	l.jobs.Go(func() {
		var before, after *Carried
		err := l.db.Update(l.ctx, func(tx *storage.Txn) error {
			before, after = nil, nil
			in := l.Carried.In(tx)
			old, ok := in.Get(id)
			if !ok || old.Budget == nil {
				return nil
			}
			row, b := *old, *old.Budget
			b.Schedule = b.At(l.now())
			if row.Budget = &b; b.Resets == old.Budget.Resets {
				return nil
			}
			before, after = old, &row
			return in.rows.Put(tx, &row)
		})
		if err == nil && before != nil {
			err = l.ForgetCarried(l.ctx, before, after)
		}
		if err != nil && l.ctx.Err() == nil {
			l.logger.Warn("resetting the usage of an object's budget", zap.String("id", id), zap.Error(err))
		}
	})
}
