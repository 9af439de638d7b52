package fairshare

import (
	"fmt"
	"testing"
	"time"
)

// What a holder adds at once, and later, is bounded in records and in bytes; others have quotas of their own.
func TestAQuotaIsOfEachHolder(t *testing.T) {
	now := time.Unix(0, 0)
	q := NewQuota(Rate{PerSecond: 1, AtOnce: 4}, Rate{PerSecond: 10, AtOnce: 100}, func() time.Time { return now })
	for i, c := range []struct {
		name           string
		records, bytes int
		later          time.Duration
		want           time.Duration
	}{
		{"a", 3, 10, 0, 0},
		{"a", 2, 10, 0, time.Second},
		{"a", 1, 95, 0, time.Second}, // 90 are left
		{"a", 1, 90, 0, 0},
		{"a", 1, 1, 0, time.Second},
		{"b", 4, 100, 0, 0},
		{"a", 1, 10, time.Second, 0},
		{"a", 4, 100, 9 * time.Second, time.Second},
		{"a", 4, 100, time.Second, 0},
	} {
		now = now.Add(c.later)
		if got := q.Take(c.name, c.records, c.bytes); got != c.want {
			t.Errorf("%d: wait %v, want %v", i, got, c.want)
		}
	}
}

func TestTheOperatorIsToldOnceAMinute(t *testing.T) {
	now := time.Unix(0, 0)
	q := NewQuota(Rate{1, 1}, Rate{1, 1}, func() time.Time { return now })
	for _, c := range []struct {
		name  string
		later time.Duration
		want  bool
	}{{"a", 0, true}, {"a", 0, false}, {"b", 0, true}, {"a", tellEvery - 1, false}, {"a", 1, true}} {
		now = now.Add(c.later)
		if got := q.Tell(c.name); got != c.want {
			t.Errorf("%s at %v: %v", c.name, now, got)
		}
	}
}

// Holders that have not used theirs lately are forgotten, and no others.
func TestIdleHoldersAreForgotten(t *testing.T) {
	now := time.Unix(0, 0)
	q := NewQuota(Rate{1, 2}, Rate{1, 1}, func() time.Time { return now })
	for i := range maxIdle {
		q.Take(fmt.Sprint(i), 1, 1)
	}
	now = now.Add(time.Second)
	q.Take("late", 2, 1)
	if len(q.holders) != 1 {
		t.Errorf("%d holders are known", len(q.holders))
	}
	if q.Take("late", 1, 0) == 0 {
		t.Error("a holder has its quota back too early")
	}
}
