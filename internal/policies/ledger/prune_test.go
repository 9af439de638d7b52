package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

// prune runs a step after those in progress.
func prune(t rapid.TB, l *Ledger) {
	t.Helper()
	l.flights.Wait()
	if err := l.prune(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// records returns the number of counters with a record.
func (s *fakeStore) records() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.items {
		if len(key) >= len(recordPrefix) && key[:len(recordPrefix)] == recordPrefix {
			n++
		}
	}
	return n
}

// With any number of keys, few records remain besides those of the last window, and
// jumps of the store's clock do not remove any of those.
func TestSpentRecordsAreDeletedWithLeases(t *testing.T) {
	const each, windows = 2_000, 12
	c := newClock()
	store := newStore(c)
	leap := time.Duration(0)
	store.now = func() time.Time { return c.Now().Add(leap) }
	l := open(store, Options{Now: c.Now})
	for w := range windows {
		for i := range each {
			if _, d, err := l.Reserve(t.Context(), []Claim{{fmt.Sprint(w, " ", i), 1, time.Minute, 1, "", false, 0}}); err != nil || !d.Admitted {
				t.Fatal(d, err)
			}
		}
		l.flights.Wait()
		if n := store.records(); n < each || n > 3*each {
			t.Fatalf("%d records after %d windows", n, w+1)
		}
		leap += 100 * 24 * time.Hour
		c.add(62 * time.Second)
	}
}

// A step scans a bounded number of records, and the next one continues from there.
func TestPruningGoesRound(t *testing.T) {
	d := newDesk(t, Options{})
	for i := range 2*prunedRecords + 10 {
		d.reserve(Claim{fmt.Sprintf("%05d", i), 1, time.Minute, 1, "", false, 0})
	}
	d.clock.add(30 * time.Second)
	d.reserve(Claim{"young", 1, time.Minute, 1, "", false, 0})
	d.flights.Wait()
	d.clock.add(32 * time.Second)
	d.pruner.next = nil
	for _, left := range []int{prunedRecords + 11, 11, 1, 1} {
		prune(t, d.Ledger)
		if n := d.store.records(); n != left {
			t.Fatalf("%d records are left, want %d", n, left)
		}
	}
	d.wantLeft(0, Claim{"young", 1, time.Minute, 1, "", false, 0})
}

// A record that is written during pruning is kept.
func TestPruningSparesWhatIsWrittenMeanwhile(t *testing.T) {
	d := newDesk(t, Options{})
	claim := Claim{"k", 1, time.Minute, 1, "", false, 0}
	d.reserve(claim)
	d.clock.add(62 * time.Second)
	once := true
	d.store.mu.Lock()
	d.store.beforeWrite = func(context.Context) error {
		if once {
			once = false
			d.reserve(claim)
		}
		return nil
	}
	d.store.mu.Unlock()
	prune(t, d.Ledger)
	if d.store.records() != 1 {
		t.Error("the new record is gone")
	}
	l := open(d.store.copy(), Options{Now: d.clock.Now, Uptime: d.clock.uptime})
	if _, got, err := l.Reserve(t.Context(), []Claim{claim}); err != nil || got.Admitted {
		t.Errorf("%+v, %v", got, err)
	}
}

// Only one of the processes that share a store deletes records.
func TestRecordsArePrunedByOneProcess(t *testing.T) {
	store := storetest.Open(t)
	other := storage.NewDB(store).Job("prune")
	c := newClock()
	l := open(store, Options{Now: c.Now, Job: storage.NewDB(store).Job("prune")})
	if _, _, err := l.Reserve(t.Context(), []Claim{{"k", 1, time.Minute, 1, "", false, 0}}); err != nil {
		t.Fatal(err)
	}
	c.add(62 * time.Second)
	records := func() (n int) {
		t.Helper()
		err := store.View(t.Context(), func(tx storage.Tx) error {
			for _, err := range tx.Scan([]byte(recordPrefix), nil, false) {
				if err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := other.Do(t.Context(), func(context.Context, storage.Step) error { return nil }); err != nil {
		t.Fatal(err)
	}
	prune(t, l)
	if n := records(); n != 1 {
		t.Errorf("%d records are left though another process deletes them", n)
	}
	if err := other.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	prune(t, l)
	if n := records(); n != 0 {
		t.Errorf("%d records are left", n)
	}
}
