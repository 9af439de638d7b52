package policies

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
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
		Lines: &estimate.Lines{LinesOf: estimate.LinesOf{Calls: 1, Most: prices.Usage{Prompt: c.tokens}, Cost: prices.Amount(10 * c.tokens)}},
	}
}

// A batcher is a workspace that makes batches.
type batcher struct {
	*world
	ws, policy string
}

// named is a batch, or a fine-tuning job if its id begins so. Of each kind, the provider numbers them.
func (b *batcher) named(id string) *Batch {
	_, number, _ := strings.Cut(id, "-")
	return &Batch{BatchName: BatchName{WorkspaceID: b.ws, Account: "a", ID: number, Job: strings.HasPrefix(id, "job-")}}
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

// Against a naive model, what is counted is always what was booked and what batches and jobs that are not settled have reserved,
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
			for _, id := range slices.Sorted(maps.Keys(of)) {
				if of[id] > 0 {
					ids = append(ids, id)
				}
			}
			if len(ids) == 0 {
				return ""
			}
			return rapid.SampledFrom(ids).Draw(rt, "batch")
		}
		n := make(map[string]int)
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
					kind := rapid.SampledFrom([]string{"batch", "job"}).Draw(rt, "kind")
					n[kind]++
					id := fmt.Sprint(kind, "-", n[kind])
					b.park(v, id)
					open[id], made[id] = units, w.clock()
				}
			case "restart":
				w.restart()
			case "kill":
				w.kill()
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
					for _, row := range w.Batches.In(tx).Named(b.named(id).ID) {
						if row.WorkspaceID == b.ws && row.Key() == b.named(id).Key() {
							return w.Batches.NameOutput(tx, row, "file-of-"+id)
						}
					}
					return storage.ErrNotFound
				})
				if job := b.named(id).Job; job != errors.Is(err, storage.ErrNotFound) || !job && err != nil {
					rt.Fatal(err)
				}
				if of := w.Batches.OfOutput(b.ws, "a", "file-of-"+id); !b.named(id).Job && (of == nil || of.Key() != b.named(id).Key()) {
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
	b.park(b.creates(100), "batch-b1")
	if n := w.booked("r")["default"]; n != 1 {
		t.Errorf("%d requests", n)
	}
	w.restart()
	if n := w.booked("c")["default"]; n != 0 {
		t.Errorf("%d booked before the batch is settled", n)
	}
	b.settleBatch("batch-b1", Used{Tokens: 5, Cost: 77})
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
	if parked, err := w.Park(t.Context(), v, b.named(fmt.Sprintf("b-%0600d", 1))); parked || err == nil {
		t.Fatal(parked, err)
	}
	w.settle(v, Used{Tokens: 100})
	if n := w.booked("b")["default"]; n != 100 {
		t.Errorf("%d booked", n)
	}
}

// A mixedCall makes a batch whose calls have several models.
type mixedCall struct {
	call
	lines *estimate.Lines
}

func (c mixedCall) Demand(*estimate.Estimator) estimate.Demand {
	return estimate.Demand{Model: estimate.Model{Workspace: "ws-1"}, Lines: c.lines}
}

// mixed has calls of so many tokens, by model.
func mixed(tokens map[string]int64) mixedCall {
	lines := new(estimate.Lines)
	for _, model := range slices.Sorted(maps.Keys(tokens)) {
		of := estimate.LinesOf{Model: model, Calls: 1, Most: prices.Usage{Prompt: tokens[model]}}
		lines.Models = append(lines.Models, of)
		lines.Most.Add(&of.Most)
	}
	return mixedCall{call{"unseen": {"", "@own/"}}, lines}
}

// A policy about the model counts those calls of a batch that have it, and a batch is one request.
func TestABatchIsCountedByTheModelsOfItsCalls(t *testing.T) {
	w := newWorld(t)
	one := func(p UsageLimit, id string) UsageLimit {
		p.ID = id
		return p
	}
	on := func(p UsageLimit, models ...string) UsageLimit {
		p.Conditions = []Condition{{KeyModel, models, nil}}
		return p
	}
	by := func(p UsageLimit) UsageLimit {
		p.GroupBy = []string{KeyModel}
		return p
	}
	w.budget(one(budgetOf(Tokens, 1001), "all"))
	w.budget(one(on(budgetOf(Tokens, 1000), "a", "@own/b"), "a or b"))
	w.budget(one(on(budgetOf(Tokens, 1000), "other"), "other"))
	w.budget(one(by(budgetOf(Tokens, 500)), "each"))
	w.budget(one(by(budgetOf(Requests, 2)), "requests of each"))
	w.budget(one(on(budgetOf(Requests, 2), "@own/*"), "requests"))
	b := &batcher{w, "ws-1", "all"}
	creates := func(c mixedCall, ask Scope) *Verdict {
		t.Helper()
		v, err := w.Admit(t.Context(), "ws-1", c, ask, 0)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	expect := func(id string, want map[string]int64) {
		t.Helper()
		if got := w.booked(id); !maps.Equal(got, want) {
			t.Errorf("%s: %v booked, want %v", id, got, want)
		}
	}
	tokens := map[string]int64{"a": 100, "b": 200, "c": 300}
	if v := creates(mixed(map[string]int64{"a": 10, "b": 501}), ScopeAll); v.Denied == nil || v.Denied.ID != "each" || v.Denied.Needs != 501 {
		t.Errorf("%+v", v.Denied)
	}
	if v := creates(mixed(map[string]int64{"a": 500, "b": 500, "c": 2}), ScopeAll); v.Denied == nil || v.Denied.ID != "all" || v.Denied.Needs != 1002 {
		t.Errorf("%+v", v.Denied)
	}
	v := creates(mixed(tokens), ScopeAll)
	if v.Denied != nil {
		t.Fatalf("%+v", v.Denied)
	}
	row := b.named("batch-b1")
	row.Models = []string{"a", "b", "c"}
	if parked, err := b.Park(t.Context(), v, row); !parked || err != nil {
		t.Fatal(parked, err)
	}
	b.settle(v, Used{})
	expect("requests", map[string]int64{"default": 1})
	expect("requests of each", map[string]int64{"model:a": 1, "model:b": 1, "model:c": 1})
	expect("each", map[string]int64{"model:a": 0, "model:b": 0, "model:c": 0})
	if v := creates(mixed(map[string]int64{"a": 401}), OfUsage); v.Denied == nil || v.Denied.ID != "each" || v.Denied.Held != 100 {
		t.Errorf("%+v", v.Denied)
	}
	w.restart()
	b.settleBatch("batch-b1", Used{Tokens: 66, Of: map[string]*Used{"a": {Tokens: 11}, "b": {Tokens: 22, Unknown: true}, "c": {Tokens: 33}}})
	expect("all", map[string]int64{"default": 66})
	expect("a or b", map[string]int64{"default": 211})
	expect("each", map[string]int64{"model:a": 11, "model:b": 200, "model:c": 33})
	expect("other", map[string]int64{})

	// Without the model of each call, it is refused.
	unnamed := mixed(tokens)
	unnamed.lines.Unnamed = "a line names no model"
	if v := creates(unnamed, ScopeAll); v.Undecided == nil {
		t.Errorf("%+v", v)
	}
	// Before its file is read, only policies of requests that are not about the model are asked.
	w.budget(one(budgetOf(Requests, 0), "none"))
	if v := creates(unnamed, OfRequests); v.Denied == nil || v.Denied.ID != "none" || v.Undecided != nil {
		t.Errorf("%+v", v)
	}
}

// BenchmarkBatchesKnown is what a call for a batch costs more while 20,000 batches hold something.
func BenchmarkBatchesKnown(b *testing.B) {
	w := newWorld(b)
	w.budget(budgetOf(Tokens, 1<<40))
	for first := 0; first < maxBatches; first += 1000 {
		err := w.db.Update(b.Context(), func(tx *storage.Txn) error {
			for i := first; i < first+1000; i++ {
				row := &Batch{BatchName: BatchName{WorkspaceID: fmt.Sprint("ws-", i%10), Account: "a", ID: fmt.Sprint("batch-", i)}, CreatedAt: w.clock()}
				row.Claims = []batchClaim{{Type: Tokens, Held: ledger.Held{Key: "b/@0/", Window: ledger.Forever, Units: 1}}}
				if err := w.Batches.rows.In(tx).Put(tx, row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	for name, ask := range map[string]func(){
		"fits":      func() { w.Batches.fits("ws-1", 1) },
		"AwaitsAny": func() { w.Batches.AwaitsAny("ws-1") },
		"idle":      func() { w.Batches.idle("ws-1", w.clock()) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				ask()
			}
		})
	}
}
