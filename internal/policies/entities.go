package policies

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
)

// An Entity is a counter of a budget: of one combination of the values that it groups by.
type Entity struct {
	ID     string // a UUID that depends on its counter's name
	Group  string // its value key: key:value-key:value, or default
	Booked int64
	Held   int64 // by calls under way and batches, besides
	// ThresholdAlerted and ExhaustedAlerted: an alert was sent because the alert threshold was reached, and because
	// the budget is exhausted.
	ThresholdAlerted, ExhaustedAlerted bool

	name string
}

// defaultGroup is the value key of the counter of a policy that does not group.
const defaultGroup = "default"

// Entities returns the counters of a budget in the present period, at most MaxEntities.
func (l *Limits) Entities(ctx context.Context, p *UsageLimit) ([]*Entity, error) {
	var all []*Entity
	at := p.At(l.now())
	name := countersOf(p.ID, at.Resets)
	seen := make(map[string]bool)
	err := l.ledger.Counts(ctx, prefix(name), func(c ledger.Count) {
		if len(all) < MaxEntities && !seen[c.Key] {
			seen[c.Key] = true
			e := newEntity(p, c.Key, name)
			e.Booked, e.Held = c.Booked(), c.Held
			all = append(all, e)
		}
	})
	all, sentErr := l.readSent(ctx, p, name, all)
	return all, errors.Join(err, sentErr)
}

// newEntity returns a counter of a period of a budget that has counted nothing.
func newEntity(p *UsageLimit, counter, period string) *Entity {
	return &Entity{ID: entityID(counter), Group: valueKey(p.GroupBy, counter, period), name: counter}
}

// MaxEntities bounds the counters of a policy that are listed.
const MaxEntities = 10_000

// ResetEntity forgets what a counter counted. It stays listed in its period. It is called after the commit.
func (l *Limits) ResetEntity(ctx context.Context, e *Entity) error {
	return errors.Join(l.forgetCounters(ctx, e.name), l.keepListed(ctx, e.name))
}

// Exhausted reports whether the budget is exhausted of a counter, as the alert of that means it: its limit is booked, or a call
// was refused when nine tenths were.
func (p *UsageLimit) Exhausted(e *Entity) bool { return e.ExhaustedAlerted || e.Booked >= p.Limit }

func entityID(counter string) string {
	sum := sha256.Sum256([]byte(counter))
	id, _ := uuid.FromBytes(sum[:16])
	return id.String()
}

// valueKey is how the API names a counter. Values that share a counter, or whose names are too
// long to be kept, have the mark of it.
func valueKey(groupBy []string, counter, counters string) string {
	rest := strings.TrimPrefix(counter, prefix(counters))
	if rest == "" {
		return defaultGroup
	}
	if rest[0] == overflowMark || rest[0] == hashMark {
		return rest[:1] + entityID(counter)
	}
	values, ok := groupValues(counter, counters)
	if !ok {
		return rest
	}
	var b strings.Builder
	for i, value := range values {
		key := KeyWorkspace // which is added to the groups of some
		if i < len(groupBy) {
			key = groupBy[i]
		}
		if i > 0 {
			b.WriteByte('-')
		}
		b.WriteString(key + ":" + value)
	}
	return b.String()
}

// groupValues returns the values in the name of a counter, in the order of its groups. ok: it has them.
func groupValues(counter, counters string) (values []string, ok bool) {
	for rest := strings.TrimPrefix(counter, prefix(counters)); rest != ""; {
		length, after, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(after) {
			return nil, false
		}
		values, rest = append(values, after[:n]), after[n:]
	}
	return values, true
}
