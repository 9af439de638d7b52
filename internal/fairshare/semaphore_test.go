package fairshare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// However many operations one holder has waiting, another's runs next, and holders take turns.
func TestHoldersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(2)
		var order []string
		next := make(chan struct{})
		run := func(name string) {
			go func() {
				release, err := s.Acquire(t.Context(), name)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name) // one after another: see below
				<-next
				release()
			}()
			synctest.Wait()
		}
		for range 5 {
			run("a") // one runs: a single holder has half of two
		}
		if fmt.Sprint(order) != "[a]" {
			t.Fatalf("%v run", order)
		}
		for range 3 {
			run("b")
		}
		run("c")
		if fmt.Sprint(order) != "[a b]" {
			t.Fatalf("%v run", order)
		}
		for range 9 {
			next <- struct{}{}
			synctest.Wait()
		}
		if len(order) != 9 || !slices.Contains(order[2:5], "c") {
			t.Errorf("c waits for longer than a turn of each of the others: %v", order)
		}
		if len(s.holders) != 0 || s.free != 2 {
			t.Errorf("%d holders are left, and %d may run", len(s.holders), s.free)
		}
	})
}

func TestOneOperationAtLeastRuns(t *testing.T) {
	s := NewSemaphore(1)
	for _, name := range []string{"a", "a", "b"} {
		release, err := s.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
}

// Against a model: never more run than may, of a holder never more than its share unless it is the
// first, and nothing is lost when some give up.
func TestSemaphoreCounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			most := rapid.IntRange(1, 6).Draw(rt, "most")
			s := NewSemaphore(most)
			running := make(map[string]int)
			type operation struct {
				name    string
				cancel  context.CancelFunc
				release func()
				err     error
				done    bool
			}
			var all []*operation
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				switch rapid.IntRange(0, 2).Draw(rt, "step") {
				case 0:
					ctx, cancel := context.WithCancel(t.Context())
					o := &operation{name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name"), cancel: cancel}
					all = append(all, o)
					go func() { o.release, o.err = s.Acquire(ctx, o.name); o.done = true }()
				case 1:
					if len(all) > 0 {
						rapid.SampledFrom(all).Draw(rt, "cancelled").cancel()
					}
				case 2:
					for _, o := range all {
						if o.release != nil {
							o.release()
							o.release = nil
							break
						}
					}
				}
				synctest.Wait()
				total := 0
				clear(running)
				waits := false
				for _, o := range all {
					if o.release != nil {
						running[o.name]++
						total++
					}
					waits = waits || !o.done
					if o.done && o.err != nil && !errors.Is(o.err, context.Canceled) {
						rt.Fatal(o.err)
					}
				}
				if total > most || s.free != most-total {
					rt.Fatalf("%d of %d run, %d are free", total, most, s.free)
				}
				if waits && total == 0 {
					rt.Fatal("something waits, and nothing runs")
				}
			}
			for _, o := range all {
				o.cancel()
			}
			synctest.Wait()
			for _, o := range all {
				if o.release != nil {
					o.release()
				}
			}
			if len(s.holders) != 0 || s.free != most {
				rt.Fatalf("%d holders are left, and %d of %d may run", len(s.holders), s.free, most)
			}
		})
	})
}
