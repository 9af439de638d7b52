package storage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/storagetest"
)

func TestLocks(t *testing.T) {
	storagetest.RunLocks(t, func(t *testing.T) (storage.Store, func(func() time.Time) storage.Locker) {
		s := unsynced{open(t)}
		return s, func(now func() time.Time) storage.Locker { return storage.NewLocks(s, now) }
	})
}

const minute = time.Minute

// A world has two processes over one store, and a clock.
type world struct {
	storage.Store
	at         time.Time
	ann, bob   *storage.Locks
	annJ, bobJ *storage.Job
}

func newWorld(t *testing.T) *world {
	w := &world{Store: open(t), at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	now := func() time.Time { return w.at }
	w.ann, w.bob = storage.NewLocks(w, now), storage.NewLocks(w, now)
	w.annJ, w.bobJ = storage.NewJob(w.ann, "job", "ann", now), storage.NewJob(w.bob, "job", "bob", now)
	return w
}

// takeOver has bob take a lock from ann.
func (w *world) takeOver(t *testing.T) storage.Lease {
	t.Helper()
	if _, err := w.bob.Acquire(t.Context(), "job", "bob", minute); !errors.Is(err, storage.ErrLockHeld) {
		t.Fatalf("the lock is not held: %v", err)
	}
	w.at = w.at.Add(minute)
	lease, err := w.bob.Acquire(t.Context(), "job", "bob", minute)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// A transaction that passed the fence does not commit if the lock changes hands before.
func TestALockThatChangesHandsStopsATransaction(t *testing.T) {
	w := newWorld(t)
	lease, err := w.ann.Acquire(t.Context(), "job", "ann", minute)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	err = w.Write(t.Context(), func(tx storage.Tx) error {
		if err := w.ann.Fence(tx, lease); err != nil {
			return err
		}
		if runs++; runs == 1 {
			w.takeOver(t)
		}
		return tx.Set([]byte("written by"), []byte("ann"))
	})
	if !errors.Is(err, storage.ErrLeaseLost) || runs != 1 {
		t.Errorf("the transaction ran %d times, and returned %v", runs, err)
	}
	err = w.View(t.Context(), func(tx storage.Tx) error {
		_, err := tx.Get([]byte("written by"))
		return err
	})
	if !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a former holder wrote: %v", err)
	}
}

// The clock of another process makes no difference, and a step of this process's own delays
// a takeover by a term at most.
func TestStepsOfTheClock(t *testing.T) {
	w := newWorld(t)
	if _, err := w.ann.Acquire(t.Context(), "job", "ann", minute); err != nil {
		t.Fatal(err)
	}
	acquire := func(step string, after time.Duration, want bool) {
		t.Helper()
		w.at = w.at.Add(after)
		if _, err := w.bob.Acquire(t.Context(), "job", "bob", minute); (err == nil) != want {
			t.Errorf("%s: %v", step, err)
		}
	}
	acquire("a clock that is years ahead", 100_000*time.Hour, false)
	acquire("a step back", -90_000*time.Hour, false)
	acquire("before the term is over", minute-1, false)
	acquire("when it is", 1, true)
}

func step(context.Context, storage.Step) error { return nil }

// fenced is a step that writes.
func (w *world) fenced(ctx context.Context, s storage.Step) error {
	return w.Write(ctx, func(tx storage.Tx) error {
		if err := s.Fence(tx); err != nil {
			return err
		}
		return tx.Set([]byte("done"), nil)
	})
}

func TestAJobIsDoneByOneProcess(t *testing.T) {
	w := newWorld(t)
	do := func(j *storage.Job, want error) {
		t.Helper()
		if err := j.Do(t.Context(), w.fenced); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	do(w.annJ, nil)
	do(w.bobJ, storage.ErrLockHeld)
	for range 10 { // with each step, its term restarts when half of it is over
		w.at = w.at.Add(storage.JobTerm * 3 / 4)
		do(w.annJ, nil)
		do(w.bobJ, storage.ErrLockHeld)
	}
	if err := w.annJ.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(w.bobJ, nil)
	do(w.annJ, storage.ErrLockHeld)
	// bob crashes
	w.at = w.at.Add(storage.JobTerm)
	do(w.annJ, nil)
	do(w.bobJ, storage.ErrLockHeld)
}

// A process at rest writes nothing, and a step in the first half of the term nothing either.
func TestAJobWritesOnlyForItsTerm(t *testing.T) {
	w := newWorld(t)
	token := func() storage.Lease {
		t.Helper()
		var got storage.Lease
		err := w.annJ.Do(t.Context(), func(_ context.Context, s storage.Step) error {
			got = s.Lease
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := token()
	w.at = w.at.Add(storage.JobTerm / 3)
	if l := token(); l != first {
		t.Errorf("renewed to %+v", l)
	}
	w.at = w.at.Add(storage.JobTerm / 3)
	if l := token(); l.Token != first.Token || !l.Until.Equal(w.at.Add(storage.JobTerm)) {
		t.Errorf("not renewed: %+v", l)
	}
	w.at = w.at.Add(10 * storage.JobTerm) // longer than the term, but nobody took over
	if l := token(); l.Token != first.Token {
		t.Errorf("another lease: %+v", l)
	}
}

// A step that loses its lease stops: it can write no more, and its context ends.
func TestAJobThatLosesItsLeaseStops(t *testing.T) {
	w := newWorld(t)
	steps := 0
	err := w.annJ.Do(t.Context(), func(ctx context.Context, s storage.Step) error {
		for ; ; steps++ {
			if err := w.fenced(ctx, s); err != nil {
				return err
			}
			if steps == 3 {
				_ = w.bobJ.Do(ctx, step)
				w.at = w.at.Add(storage.JobTerm)
				if err := w.bobJ.Do(ctx, step); err != nil {
					return err
				}
			}
		}
	})
	if !errors.Is(err, storage.ErrLeaseLost) || steps != 4 {
		t.Errorf("it stopped after %d writes with %v", steps, err)
	}
	if err := w.annJ.Do(t.Context(), step); !errors.Is(err, storage.ErrLockHeld) {
		t.Errorf("the next step: %v", err)
	}
	// The context ends by the time that is left: here, none.
	late := storage.NewJob(overdue{w.ann}, "late", "ann", func() time.Time { return w.at })
	err = late.Do(t.Context(), func(ctx context.Context, _ storage.Step) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, storage.ErrLeaseLost) {
		t.Errorf("a step that takes too long: %v", err)
	}
}

// overdue gives leases whose term is over.
type overdue struct{ storage.Locker }

func (o overdue) Acquire(ctx context.Context, name, owner string, term time.Duration) (storage.Lease, error) {
	l, err := o.Locker.Acquire(ctx, name, owner, term)
	l.Until = l.Until.Add(-l.Term)
	return l, err
}

func TestWaitingForAJob(t *testing.T) {
	w := newWorld(t)
	held, done := make(chan struct{}), make(chan struct{})
	var errs [2]error
	var order []string
	go func() {
		defer close(done)
		errs[0] = w.annJ.Do(t.Context(), func(context.Context, storage.Step) error {
			close(held)
			for w.bobJ.Do(t.Context(), step) == nil { // it is held meanwhile
			}
			order = append(order, "ann")
			return nil
		})
		errs[1] = w.annJ.Release(t.Context())
	}()
	<-held
	if err := w.bobJ.Wait(t.Context(), func(context.Context, storage.Step) error { order = append(order, "bob"); return nil }); err != nil {
		t.Error(err)
	}
	<-done
	if err := errors.Join(errs[:]...); err != nil || len(order) != 2 || order[0] != "ann" {
		t.Errorf("in the order %v, %v", order, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.annJ.Wait(ctx, step); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting in vain: %v", err)
	}
}

// DBs of one store have the jobs of one another, and give them up when they close.
func TestJobsOfDatabases(t *testing.T) {
	s := open(t)
	a, b := storage.NewDB(struct{ storage.Store }{s}), storage.NewDB(keptOpen{s})
	if job := a.Job("job"); a.Job("job") != job || a.Job("another") == job {
		t.Error("a name is not a job")
	}
	if err := b.Job("job").Do(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if err := a.Job("job").Do(t.Context(), step); !errors.Is(err, storage.ErrLockHeld) {
		t.Errorf("both do it: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Job("job").Do(t.Context(), step); err != nil {
		t.Errorf("after the other closed: %v", err)
	}
	// A driver that has locks of its own.
	own := storage.NewDB(struct {
		storage.Store
		storage.Locker
	}{s, overdue{storage.NewLocks(s, time.Now)}})
	if err := own.Job("third").Do(t.Context(), func(ctx context.Context, _ storage.Step) error { <-ctx.Done(); return ctx.Err() }); !errors.Is(err, storage.ErrLeaseLost) {
		t.Errorf("the driver's locks are not used: %v", err)
	}
}

// keptOpen is a store that its user does not close.
type keptOpen struct{ storage.Store }

func (keptOpen) Close() error { return nil }
