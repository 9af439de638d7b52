package policies

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/storage"
)

// A batchCall makes a batch whose calls may use so many tokens.
type batchCall struct {
	call
	tokens int64
}

// Demand is that of the lines.
func (c batchCall) Demand(*estimate.Estimator) estimate.Demand {
	return estimate.Demand{
		Model: estimate.Model{Workspace: "ws-1"},
		Lines: &estimate.Lines{Calls: 1, Most: prices.Usage{Prompt: c.tokens}, Cost: prices.Amount(10 * c.tokens)},
	}
}

// A batcher is a workspace that makes batches.
type batcher struct {
	*world
	ws, policy string
}

func (b *batcher) named(id string) *Batch {
	return &Batch{BatchName: BatchName{WorkspaceID: b.ws, Account: "a", ID: id}}
}

func (b *batcher) creates(tokens int64) *Verdict {
	b.t.Helper()
	v, err := b.Admit(b.t.Context(), b.ws, batchCall{call{}, tokens}, ScopeAll, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// park has a batch accepted whose creation was admitted.
func (b *batcher) park(v *Verdict, id string) {
	b.t.Helper()
	if parked, err := b.Park(b.t.Context(), v, b.named(id)); !parked || err != nil {
		b.t.Fatal(parked, err)
	}
	b.settle(v, Used{}) // the call is over
}

func (b *batcher) settleBatch(id string, used Used) bool {
	b.t.Helper()
	settled, err := b.SettleBatch(b.t.Context(), &b.named(id).BatchName, used)
	if err != nil {
		b.t.Fatal(err)
	}
	return settled
}

// counts returns what is counted, and how much of it is held.
func (b *batcher) counts() (units, held int64) {
	b.t.Helper()
	p, _ := b.Budgets.Get(b.policy)
	for _, booked := range b.booked(b.policy) {
		v := b.creates(p.Limit + 1)
		if v.Denied == nil {
			b.t.Fatal("a call fits that asks for more than the limit")
		}
		units, held = booked+v.Denied.Held, v.Denied.Held
	}
	return units, held
}

// Against a naive model, what is counted is always what was booked and what batches that are not settled have reserved,
// whatever happens to them, and each is booked once.
func TestWhatBatchesReserveIsBookedOnce(t *testing.T) {
	w := newWorld(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		b := &batcher{w, fmt.Sprint("ws-", run), fmt.Sprint("budget-", run)}
		const limit = 64 // of which a crash loses no lease
		p := budgetOf(Tokens, limit)
		p.ID, p.WorkspaceID = b.policy, b.ws
		w.budget(p)
		var booked int64               // in the model
		open := make(map[string]int64) // batches that are not settled, and what counts for each; 0: its counter was reset
		made := make(map[string]time.Time)
		voided := make(map[string]bool)
		held := func() (n int64) {
			for id, units := range open {
				if !voided[id] {
					n += units
				}
			}
			return n
		}
		some := func(of map[string]int64) string {
			var ids []string
			for i := range 100 {
				if id := fmt.Sprint("batch", i); of[id] > 0 {
					ids = append(ids, id)
				}
			}
			if len(ids) == 0 {
				return ""
			}
			return rapid.SampledFrom(ids).Draw(rt, "batch")
		}
		n := 0
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			step := rapid.SampledFrom([]string{
				"create", "create", "create", "create fails", "create again", "restart", "kill", "read", "read", "read twice", "nothing", "put", "reset", "age", "unknown",
			}).Draw(rt, "step")
			switch step {
			case "create", "create fails", "create again":
				units := rapid.Int64Range(1, 30).Draw(rt, "units")
				v := b.creates(units)
				fits := booked+held()+units <= limit
				if (v.Denied == nil) != fits {
					rt.Fatalf("%d fit besides %d booked and %d held: %v", units, booked, held(), v.Denied == nil)
				}
				known := some(open)
				switch {
				case !fits:
				case step == "create fails":
					w.Release(v)
				case step == "create again" && known != "":
					b.park(v, known)
				default:
					n++
					id := fmt.Sprint("batch", n)
					b.park(v, id)
					open[id], made[id] = units, w.clock()
				}
			case "restart":
				w.restart()
			case "kill": // nothing is written any more
				w.Close()
				w.open()
			case "read", "read twice", "unknown":
				id := some(open)
				if id == "" {
					continue
				}
				used := rapid.Int64Range(0, 40).Draw(rt, "used")
				if !b.settleBatch(id, Used{Tokens: used, Unknown: step == "unknown"}) {
					rt.Fatalf("%s is not settled", id)
				}
				if step == "unknown" {
					used = max(used, open[id])
				}
				if !voided[id] {
					booked += used
				}
				delete(open, id)
				if step == "read twice" && b.settleBatch(id, Used{Tokens: used}) {
					rt.Fatalf("%s is settled twice", id)
				}
			case "nothing":
				id := some(open)
				if id == "" {
					continue
				}
				if err := w.SeeBatch(t.Context(), &b.named(id).BatchName, "", true); err != nil {
					rt.Fatal(err)
				}
				delete(open, id)
			case "put":
				id := some(open)
				if id == "" {
					continue
				}
				err := w.db.Update(t.Context(), func(tx *storage.Txn) error {
					for _, row := range w.Batches.In(tx).Named(id) {
						if row.WorkspaceID == b.ws {
							return w.Batches.NameOutput(tx, row, "file-of-"+id)
						}
					}
					return storage.ErrNotFound
				})
				if err != nil {
					rt.Fatal(err)
				}
				if of := w.Batches.OfOutput(b.ws, "a", "file-of-"+id); of == nil || of.ID != id {
					rt.Fatalf("the file is of %+v", of)
				}
			case "reset":
				policy, _ := w.Budgets.Get(b.policy)
				all, err := w.Entities(t.Context(), policy)
				if err != nil {
					rt.Fatal(err)
				}
				for _, e := range all {
					if err := w.ResetEntity(t.Context(), e); err != nil {
						rt.Fatal(err)
					}
				}
				booked = 0
				for id := range open {
					voided[id] = true
				}
			case "age":
				w.pass(3 * 24 * time.Hour)
				if err := w.expireBatches(t.Context()); err != nil {
					rt.Fatal(err)
				}
				for id, units := range open {
					if w.clock().Sub(made[id]) > BatchesLast {
						if !voided[id] {
							booked += units
						}
						delete(open, id)
					}
				}
			}
			got, of := b.counts()
			if step == "kill" && got > booked+held() { // what was given back last was not written
				booked = got - of
			}
			if got != booked+held() || of != held() {
				rt.Fatalf("after %q: %d counted, of which %d are held; want %d booked and %d held", step, got, of, booked, held())
			}
		}
		w.Close()
	})
}

// A request is booked at once, and costs like tokens.
func TestABatchHoldsTokensAndCostsOnly(t *testing.T) {
	w := newWorld(t)
	b := &batcher{w, "ws-1", "c"}
	requests, cost := budgetOf(Requests, 10), budgetOf(Cost, 10_000)
	requests.ID, cost.ID = "r", "c"
	w.budget(requests)
	w.budget(cost)
	b.park(b.creates(100), "b1")
	if n := w.booked("r")["default"]; n != 1 {
		t.Errorf("%d requests", n)
	}
	w.restart()
	if n := w.booked("c")["default"]; n != 0 {
		t.Errorf("%d booked before the batch is settled", n)
	}
	b.settleBatch("b1", Used{Tokens: 5, Cost: 77})
	if n := w.booked("c")["default"]; n != 77 {
		t.Errorf("%d booked", n)
	}
}

// A workspace that has too many batches under way makes no more.
func TestBatchesUnderWayAreBounded(t *testing.T) {
	w := newWorld(t)
	b := &batcher{w, "ws-1", "b"}
	w.budget(budgetOf(Tokens, 1<<40))
	w.parked.places = map[string]int{"ws-1": maxBatches * 3 / 4}
	if v := b.creates(1); v.Denied == nil || v.Denied.Unmetered == "" {
		t.Fatalf("%+v", v)
	}
	w.parked.places = nil
	v := b.creates(1)
	if v.Denied != nil || w.parked.places["ws-1"] != 1 {
		t.Fatalf("%+v, %v", v.Denied, w.parked.places)
	}
	w.Release(v)
	if len(w.parked.places) > 0 {
		t.Errorf("%v", w.parked.places)
	}
}

// An id that is too long to be kept has all that was reserved count.
func TestWhatCannotBeParkedCountsAsUsed(t *testing.T) {
	w := newWorld(t)
	b := &batcher{w, "ws-1", "b"}
	w.budget(budgetOf(Tokens, 1000))
	v := b.creates(100)
	if parked, err := w.Park(t.Context(), v, b.named(fmt.Sprintf("%0600d", 1))); parked || err == nil {
		t.Fatal(parked, err)
	}
	w.settle(v, Used{Tokens: 100})
	if n := w.booked("b")["default"]; n != 100 {
		t.Errorf("%d booked", n)
	}
}
