package policies

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
)

// KeyToken is the carrier of limits that a JSON Web Token has itself. No condition names it.
const KeyToken = "jwt"

// MaxTokens bounds the JSON Web Tokens with limits whose calls are counted at a time. Of these, a workspace has its
// share (package fairshare).
const MaxTokens = 100_000

// A Token is a verified JSON Web Token.
type Token struct {
	ID             string // the same for the same token only, and not chosen by whoever sends it
	OrganisationID string
	Issued         time.Time // from when on the periods of its budget are counted; zero: from 1970 on
	Expires        time.Time // the last time that it may be used

	// UsageLimits and RateLimits are the claims of these names, which are JSON without names that are there
	// twice; empty: there is none.
	UsageLimits, RateLimits []byte
}

// TokenLimits are the limits that a JSON Web Token has itself: they count the calls that are made with it.
type TokenLimits struct {
	id    string
	rules []*Rule
	lasts time.Duration // how long a counter of theirs may be in memory after a call
}

// tokenBudget is a budget in a claim, as an API key has it. Other members, such as its status, say nothing.
type tokenBudget struct {
	Type              string     `json:"type"`
	CreditLimit       *float64   `json:"credit_limit"`
	AlertThreshold    *float64   `json:"alert_threshold"`
	PeriodicReset     *string    `json:"periodic_reset"`
	PeriodicResetDays *int       `json:"periodic_reset_days"`
	NextUsageResetAt  *time.Time `json:"next_usage_reset_at"`
	OnUnknownPrice    *string    `json:"on_unknown_price"`
}

// tokenRate is a rate limit in a claim.
type tokenRate struct {
	Type  string `json:"type"`
	Unit  string `json:"unit"`
	Value *int64 `json:"value"`
}

// OfToken returns the limits of a token; nil: it has none. The error is a *FieldError.
func (l *Limits) OfToken(t *Token) (*TokenLimits, error) {
	c := &Carried{
		Carrier: KeyToken, OrganisationID: t.OrganisationID,
		ID: t.Expires.UTC().Format(time.DateOnly) + "-" + t.ID, // so that those of a day are found
	}
	if err := c.claimRates(t.RateLimits); err != nil {
		return nil, err
	}
	if err := c.claimBudget(t); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Empty() {
		return nil, nil
	}
	l.tokens.expired(l)
	limits := &TokenLimits{id: c.ID, rules: c.rules(l.now()), lasts: restingBudget}
	for _, r := range limits.rules {
		if !r.Budget() {
			limits.lasts = max(limits.lasts, lasting(r.Window))
		}
	}
	return limits, nil
}

// claimRates reads the claim rate_limits.
func (c *Carried) claimRates(claim []byte) error {
	if len(claim) == 0 {
		return nil
	}
	var rates []tokenRate
	if err := jsonv2.Unmarshal(claim, &rates); err != nil {
		return &FieldError{"rate_limits", "expected a list of limits of type, unit and value (a whole number)"}
	}
	for i, r := range rates {
		if r.Value == nil {
			return &FieldError{fmt.Sprintf("rate_limits[%d].value", i), "required"}
		}
		c.Rates = append(c.Rates, CarriedRate{r.Type, r.Unit, *r.Value})
	}
	return nil
}

// claimBudget reads the claim usage_limits: a budget, or a list of one at most.
func (c *Carried) claimBudget(t *Token) error {
	if len(t.UsageLimits) == 0 {
		return nil
	}
	budgets := make([]tokenBudget, 1)
	var err error
	if t.UsageLimits[0] == '{' {
		err = jsonv2.Unmarshal(t.UsageLimits, &budgets[0])
	} else {
		err = jsonv2.Unmarshal(t.UsageLimits, &budgets)
	}
	switch {
	case err != nil:
		return &FieldError{"usage_limits", "expected a list with a budget as API keys have it"}
	case len(budgets) > 1:
		return &FieldError{"usage_limits", "expected one budget at most"}
	case len(budgets) == 0:
		return nil
	}
	in, b := &budgets[0], &UsageLimit{}
	b.Type = cmp.Or(in.Type, Cost)
	if in.CreditLimit == nil {
		return &FieldError{"usage_limits.credit_limit", "required"}
	}
	if b.Limit, err = b.Units(*in.CreditLimit); err != nil {
		return &FieldError{"usage_limits.credit_limit", err.Error()}
	}
	if in.AlertThreshold != nil {
		units, err := b.Units(*in.AlertThreshold)
		if err != nil {
			return &FieldError{"usage_limits.alert_threshold", err.Error()}
		}
		b.AlertThreshold = &units
	}
	if in.OnUnknownPrice != nil {
		b.OnUnknownPrice = *in.OnUnknownPrice
	}
	if in.PeriodicReset != nil {
		b.PeriodicReset = *in.PeriodicReset
	}
	if in.PeriodicResetDays != nil {
		b.PeriodicResetDays = *in.PeriodicResetDays
	}
	if err := b.Schedule.validate(); err != nil { // before time is counted by it
		return inside("usage_limits.", err)
	}
	issued := t.Issued
	if issued.IsZero() {
		issued = time.Unix(0, 0)
	}
	if b.Begin(issued); in.NextUsageResetAt != nil {
		at := Midnight(*in.NextUsageResetAt)
		b.NextResetAt = &at
	}
	c.Budget = b
	return nil
}

// restingBudget is how long the counter of a budget is in memory after a call, about.
const restingBudget = 15 * time.Minute

// errTooManyTokens means that no more tokens with limits can be counted now.
var errTooManyTokens = errors.New("too many JSON Web Tokens with limits of their own are in use")

// tokens are those with limits that are in use, so that one workspace cannot fill memory with their counters.
type tokens struct {
	mu    sync.Mutex
	of    map[string]*tokenUse
	dues  tokenDues
	count tally
	max   int

	looked time.Time // the day on which expired ones were looked for
}

// A tokenUse is a token whose counters may be in memory.
type tokenUse struct {
	id, workspace string
	until         time.Time
	at            int // in the heap
}

// use notes a call with a token, and reports whether it can be counted.
func (t *tokens) use(workspace string, limits *TokenLimits, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	until := now.Add(limits.lasts)
	if u := t.of[limits.id]; u != nil {
		if until.After(u.until) {
			u.until = until
			heap.Fix(&t.dues, u.at)
		}
		return true
	}
	for len(t.dues) > 0 && !now.Before(t.dues[0].until) {
		u := heap.Pop(&t.dues).(*tokenUse)
		delete(t.of, u.id)
		t.count.add(u.workspace, -1)
	}
	if !t.count.fits(workspace, t.max) {
		return false
	}
	u := &tokenUse{id: limits.id, workspace: strings.Clone(workspace), until: until}
	t.of[u.id] = u
	heap.Push(&t.dues, u)
	t.count.add(u.workspace, 1)
	return true
}

// tokenDues is a heap with the token first that is to be forgotten first.
type tokenDues []*tokenUse

func (d tokenDues) Len() int           { return len(d) }
func (d tokenDues) Less(i, j int) bool { return d[i].until.Before(d[j].until) }
func (d tokenDues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].at, d[j].at = i, j
}

func (d *tokenDues) Push(x any) {
	u := x.(*tokenUse)
	u.at = len(*d)
	*d = append(*d, u)
}

func (d *tokenDues) Pop() any {
	last := len(*d) - 1
	u := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return u
}

// expired has what was counted of tokens that have expired forgotten, once a day.
func (t *tokens) expired(l *Limits) {
	today := Midnight(l.now())
	t.mu.Lock()
	due := today.After(t.looked)
	if due {
		t.looked = today
	}
	t.mu.Unlock()
	if !due {
		return
	}
	l.jobs.Go(func() {
		if err := l.forgetTokens(l.ctx, today); err != nil && l.ctx.Err() == nil {
			l.logger.Warn("forgetting what was counted of JSON Web Tokens that have expired", zap.Error(err))
		}
	})
}

// forgetTokens forgets what was counted of tokens that expired before the day before a day, as the clocks of issuers
// may differ.
func (l *Limits) forgetTokens(ctx context.Context, today time.Time) error {
	const named = KeyToken + "-"
	before := today.AddDate(0, 0, -1).Format(time.DateOnly)
	days := make(map[string]bool)
	err := l.ledger.Counts(ctx, named, func(c ledger.Count) {
		if day := c.Key[len(named):]; len(day) > len(before) && day[:len(before)] < before {
			days[day[:len(before)]] = true
		}
	})
	for day := range days {
		err = errors.Join(err, l.forgetCounters(ctx, named+day+"-"), l.forgetAlerts(ctx, named+day+"-"))
	}
	return err
}

// resetToken forgets what a token used of its budget in the period before.
func (l *Limits) resetToken(r *Rule) {
	before := r.schedule.At(l.now()).Resets - 1
	l.jobs.Go(func() {
		if err := l.forget(l.ctx, countersOf(r.ID, before)); err != nil && l.ctx.Err() == nil {
			l.logger.Warn("resetting the usage of a JSON Web Token", zap.Error(err))
		}
	})
}
