package policies

import (
	"context"
	"crypto/sha256"
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
	name   string
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
			all = append(all, &Entity{ID: entityID(c.Key), Group: valueKey(p.GroupBy, c.Key, name), Booked: c.Booked(), name: c.Key})
		}
	})
	return all, err
}

// MaxEntities bounds the counters of a policy that are listed.
const MaxEntities = 10_000

// ResetEntity forgets what a counter counted. It is called after the commit.
func (l *Limits) ResetEntity(ctx context.Context, e *Entity) error {
	return l.ledger.Forget(ctx, e.name)
}

// Exhausted reports whether a counter has reached its budget.
func (p *UsageLimit) Exhausted(e *Entity) bool { return e.Booked >= p.Limit }

// Alerted reports whether a counter has reached the alert threshold.
func (p *UsageLimit) Alerted(e *Entity) bool {
	return p.AlertThreshold != nil && e.Booked >= *p.AlertThreshold
}

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
	var b strings.Builder
	keys := groupBy
	for i := 0; rest != ""; i++ {
		length, after, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(length)
		if err != nil || n > len(after) {
			return rest
		}
		key := KeyWorkspace // which is added to the groups of some
		if i < len(keys) {
			key = keys[i]
		}
		if i > 0 {
			b.WriteByte('-')
		}
		b.WriteString(key + ":" + after[:n])
		rest = after[n:]
	}
	return b.String()
}
