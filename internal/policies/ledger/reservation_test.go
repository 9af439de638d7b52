package ledger

import (
	"errors"
	"math"
	"testing"
	"time"
)

var tokens = Claim{"tokens", 1000, time.Minute, 400, "", false, 0}

func settle(d *desk, r Reservation, used ...int64) {
	d.Helper()
	if err := d.Settle(d.Context(), r, used); err != nil {
		d.Fatal(err)
	}
}

func TestSettleGivesBackWhatWasNotUsed(t *testing.T) {
	d := newDesk(t, Options{})
	r, _ := d.reserve(tokens)
	d.wantLeft(600, tokens)
	d.clock.add(10 * time.Second)
	settle(d, r, 150)
	d.wantLeft(850, tokens)

	settle(d, r, 0) // only the first counts
	d.Release(r)
	d.wantLeft(850, tokens)

	d.clock.add(51 * time.Second) // the 150 count from the time of the reservation
	d.wantLeft(1000, tokens)
}

func TestGivingBackWhatNoLongerCounts(t *testing.T) {
	d := newDesk(t, Options{})
	r, _ := d.reserve(tokens)
	d.clock.add(61 * time.Second)
	d.reserve(tokens)
	d.Release(r)
	d.wantLeft(600, tokens)
	d.Release(nil)
}

func TestReleasedUnitsNeedNoOtherLease(t *testing.T) {
	d := newDesk(t, Options{})
	for range 100 {
		r, _ := d.reserve(tokens)
		d.Release(r)
	}
	if _, writes := d.store.calls(); writes != 1 {
		t.Errorf("%d writes, want 1", writes)
	}
}

func TestSettleCountsMoreThanWasReserved(t *testing.T) {
	d := newDesk(t, Options{})
	r, _ := d.reserve(tokens)
	d.clock.add(30 * time.Second)
	settle(d, r, 1400)
	d.wantLeft(0, tokens)
	if _, decision := d.reserve(Claim{"tokens", 1000, time.Minute, 0, "", false, 0}); decision.Admitted {
		t.Error("a counter past its limit is within it")
	}
	d.crash()
	d.wantLeft(0, tokens)
	d.clock.add(31 * time.Second) // now the reservation is out of the window
	d.wantLeft(0, tokens)
	d.clock.add(30 * time.Second)
	d.wantLeft(1000, tokens)
}

func TestSettleOfACounterThatWasSwept(t *testing.T) {
	d := newDesk(t, Options{MaxCounters: 1})
	r, _ := d.reserve(tokens)
	d.clock.add(2 * time.Minute)
	d.reserve(Claim{"other", 1, time.Second, 1, "", false, 0})
	d.clock.add(2 * time.Second)
	settle(d, r, 700)
	d.wantLeft(700, tokens)
	d.crash()
	d.wantLeft(700, tokens)
}

func TestSettleWhenTheStoreFails(t *testing.T) {
	d := newDesk(t, Options{})
	broken := errors.New("broken disk")
	r, _ := d.reserve(tokens)
	d.store.failWrites(broken)
	if err := d.Settle(t.Context(), r, []int64{900}); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	d.clock.add(time.Second)
	d.fails(broken, Claim{"tokens", 1000, time.Minute, 0, "", false, 0}) // the record is written first
	d.store.healWrites()
	d.wantLeft(100, tokens)
	d.crash()
	d.wantLeft(84, tokens) // the record included a lease of 16
}

func TestSettleOfHugeUnits(t *testing.T) {
	d := newDesk(t, Options{})
	first, _ := d.reserve(tokens)
	second, _ := d.reserve(tokens)
	settle(d, first, math.MaxInt64)
	settle(d, second, math.MaxInt64)
	d.wantLeft(0, tokens)
	d.crash()
	d.wantLeft(0, tokens)
	d.clock.add(61 * time.Second)
	d.wantLeft(1000, tokens)
}

func TestInvalidSettlement(t *testing.T) {
	d := newDesk(t, Options{})
	r, _ := d.reserve(tokens)
	for _, used := range [][]int64{nil, {1, 2}, {-1}} {
		if err := d.Settle(t.Context(), r, used); !errors.Is(err, ErrClaim) {
			t.Errorf("%v: error %v, want ErrClaim", used, err)
		}
	}
	settle(d, r, 0)
	d.wantLeft(1000, tokens)
}

func TestSettleAfterTheWindowChanged(t *testing.T) {
	d := newDesk(t, Options{})
	r, _ := d.reserve(tokens)
	d.wantLeft(600, Claim{Key: "tokens", Limit: 1000, Window: time.Hour})
	settle(d, r, 500) // counted in the policy's current window
	d.wantLeft(500, Claim{Key: "tokens", Limit: 1000, Window: time.Hour})
}

// Releasing units that were moved must not release other units.
func TestReleaseAfterTheUnitsMoved(t *testing.T) {
	c := func(units int64) Claim { return Claim{"k", 5, time.Minute, units, "", false, 0} }
	t.Run("forgotten", func(t *testing.T) {
		d := newDesk(t, Options{})
		r, _ := d.reserve(c(2))
		if err := d.Forget(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		d.reserve(c(4))
		d.Release(r)
		d.wantLeft(1, c(0))
	})
	t.Run("folded", func(t *testing.T) {
		d := newDesk(t, Options{})
		r, _ := d.reserve(c(2))
		d.clock.add(-10 * time.Second)
		d.wantLeft(3, c(0))
		d.clock.add(10 * time.Second)
		d.reserve(c(3))
		d.Release(r)
		d.clock.add(51 * time.Second) // the moved units leave the window
		d.wantLeft(2, c(0))
	})
}

// What a call that goes on has used counts at once, beyond what it reserved, and once.
func TestAReservationGrowsWithWhatIsUsed(t *testing.T) {
	d := newDesk(t, Options{})
	r, _ := d.reserve(tokens)
	grow := func(used int64, over int) {
		t.Helper()
		if got, err := d.Grow(d.Context(), r, []int64{used}); got != over || err != nil {
			t.Errorf("after %d, %d is over its limit (%v), want %d", used, got, err, over)
		}
	}
	grow(300, -1) // less than was reserved
	d.wantLeft(600, tokens)
	grow(700, -1)
	grow(700, -1)
	d.wantLeft(300, tokens)
	grow(1000, -1)
	grow(1001, 0)
	settle(d, r, 1100)
	grow(2000, -1) // it is settled
	d.restart()
	d.clock.add(time.Second)
	d.wantLeft(0, tokens)
}
