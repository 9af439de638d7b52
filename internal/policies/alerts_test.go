package policies

import (
	"context"
	"errors"
	"maps"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/storage"
)

// listen has the alerts of a world listed, also after a restart.
func (w *world) listen() { w.OnAlert(w.received.add) }

// received are the alerts that were committed.
type received struct {
	mu   sync.Mutex
	all  []*Alert
	fail error
}

func (h *received) add(tx *storage.Txn, a *Alert) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	tx.OnCommit(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, a)
	})
	return h.fail
}

// alerted returns the types of the alerts since the last time, once all that is queued is sent.
func (w *world) alerted() (types string) {
	w.t.Helper()
	w.restart()
	w.listen()
	w.received.mu.Lock()
	defer w.received.mu.Unlock()
	var all []string
	for _, a := range w.received.all {
		all = append(all, strings.TrimPrefix(a.Type, "usage_limit_"))
	}
	w.received.all = nil
	return strings.Join(all, " ")
}

func (w *world) use(tokens int64) {
	w.t.Helper()
	w.settle(w.admit("ws-1", call{"demand": {"1 1"}}), Used{Tokens: tokens})
}

func (w *world) expectAlerts(want string) {
	w.t.Helper()
	if got := w.alerted(); got != want {
		w.t.Errorf("alerts %q, want %q", got, want)
	}
}

func TestABudgetIsToldOfOnceInEachPeriod(t *testing.T) {
	w := newWorld(t)
	w.listen()
	threshold := int64(60)
	b := budgetOf(Tokens, 100)
	b.Name, b.AlertThreshold, b.PeriodicResetDays = "team", &threshold, 1
	b.Begin(w.clock())
	w.budget(b)
	w.use(59)
	w.expectAlerts("")
	w.use(1)
	w.use(1)
	w.expectAlerts("threshold_reached")
	w.use(1)
	w.expectAlerts("") // across a restart
	w.use(38)
	w.refused("ws-1", call{}, "b")
	w.expectAlerts("exhausted")
	w.refused("ws-1", call{}, "b")
	w.expectAlerts("")

	b.Limit = 200 // raised: it may be exhausted again
	w.budget(b)
	w.use(100)
	w.expectAlerts("exhausted")

	w.pass(24 * time.Hour)
	w.use(150)
	w.expectAlerts("threshold_reached")
}

func TestAnAlertSaysWhatItIsAbout(t *testing.T) {
	w := newWorld(t)
	w.listen()
	threshold := int64(50)
	b := budgetOf(Tokens, 100)
	b.Name, b.AlertThreshold, b.GroupBy, b.OrganisationID = "team", &threshold, []string{KeyAPIKey, MetadataPrefix + "user"}, "org"
	w.budget(b)
	v := w.admit("ws-1", call{"demand": {"1 1"}, KeyAPIKey: {"key-1"}, MetadataPrefix + "user": {"ann"}})
	w.settle(v, Used{Tokens: 70})
	w.Close()
	if len(w.received.all) != 1 {
		t.Fatalf("%d alerts", len(w.received.all))
	}
	a := w.received.all[0]
	if a.Policy != "b" || a.Name != "team" || a.Group != "api_key:key-1-metadata.user:ann" || a.Key != "key-1" || a.Counts != Tokens || a.Limit != 100 ||
		*a.Threshold != 50 || a.Booked != 70 || a.WorkspaceID != "ws-1" || a.OrganisationID != "org" || a.ID == "" || !a.At.Equal(w.clock()) || a.Carrier != "" {
		t.Errorf("%+v", a)
	}
	p, _ := w.Budgets.Get("b")
	all, err := w.Entities(t.Context(), p)
	if err != nil || len(all) != 1 || !all[0].ThresholdAlerted || all[0].ExhaustedAlerted {
		t.Errorf("%+v, %v", all, err)
	}
}

// Calls are refused before the limit of tokens is reached: there is an alert for that, but not for one large call.
func TestARefusalTellsThatABudgetIsExhausted(t *testing.T) {
	w := newWorld(t)
	w.listen()
	w.budget(budgetOf(Tokens, 1000))
	w.refused("ws-1", call{"demand": {"100 5000"}}, "b")
	w.use(890)
	w.refused("ws-1", call{"demand": {"100 5000"}}, "b")
	w.expectAlerts("")
	w.use(20)
	exhausted := func(want bool) {
		t.Helper()
		p, _ := w.Budgets.Get("b")
		all, err := w.Entities(t.Context(), p)
		if err != nil || len(all) != 1 || p.Exhausted(all[0]) != want || all[0].ExhaustedAlerted != want {
			t.Errorf("%+v, %v; want exhausted: %v", all, err, want)
		}
	}
	exhausted(false)
	w.refused("ws-1", call{}, "b")
	w.expectAlerts("exhausted")
	exhausted(true) // as its status says, too
	raised := budgetOf(Tokens, 1100)
	w.budget(raised)
	exhausted(false)
}

// Alerts of an object's own budget are about the object.
func TestABudgetOfAKeyIsToldOf(t *testing.T) {
	w := newWorld(t)
	w.listen()
	b := budgetOf(Requests, 2)
	b.ID = ""
	w.carry(Carried{Carrier: KeyAPIKey, ID: "key-1", WorkspaceID: "ws-1", OrganisationID: "org", Budget: &b})
	for range 2 {
		w.settle(w.admit("ws-1", call{KeyAPIKey: {"key-1"}}), Used{})
	}
	w.Close()
	if len(w.received.all) != 1 {
		t.Fatalf("%d alerts", len(w.received.all))
	}
	if a := w.received.all[0]; a.Type != AlertExhausted || a.Carrier != KeyAPIKey || a.Object != "key-1" || a.Key != "key-1" || a.Policy != "" || a.Group != "default" {
		t.Errorf("%+v", a)
	}
}

// Of what is of no workspace itself, a token's budget and that of an integration for each workspace, the alert names the call's.
func TestAnAlertNamesTheWorkspaceOfTheCall(t *testing.T) {
	w := newWorld(t)
	w.listen()
	b := budgetOf(Requests, 1)
	b.ID = ""
	w.carry(Carried{Carrier: KeyIntegration, ID: "integration-1", OrganisationID: "org", EachWorkspace: true, Budget: &b})
	w.settle(w.admit("ws-1", w.with("token-1", `{"type":"requests","credit_limit":1}`, "")), Used{})
	w.settle(w.admit("ws-2", call{KeyIntegration: {"integration-1"}, KeyWorkspace: {"ws-2"}}), Used{})
	w.Close()
	got := make(map[string]string)
	for _, a := range w.received.all {
		got[a.Carrier] = a.WorkspaceID
	}
	if want := map[string]string{KeyToken: "ws-1", KeyIntegration: "ws-2"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// An alert that cannot be stored is sent by a later call, and sent again after a reset.
func TestAnAlertIsNotLostWithAFailedWriteOrAReset(t *testing.T) {
	w := newWorld(t)
	w.listen()
	w.received.fail = errors.New("no room")
	w.budget(budgetOf(Tokens, 100))
	w.use(100)
	w.expectAlerts("")
	w.received.fail = nil
	w.refused("ws-1", call{}, "b")
	w.expectAlerts("exhausted")

	p, _ := w.Budgets.Get("b")
	all, err := w.Entities(t.Context(), p)
	if err != nil || len(all) != 1 || !all[0].ExhaustedAlerted {
		t.Fatalf("%+v, %v", all, err)
	}
	// It is listed with nothing used, and can be reset again.
	for range 2 {
		if err := w.ResetEntity(t.Context(), all[0]); err != nil {
			t.Fatal(err)
		}
		before := *all[0]
		if all, err = w.Entities(t.Context(), p); err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		if e := all[0]; e.ID != before.ID || e.Group != before.Group || e.Booked != 0 || e.Held != 0 || e.ExhaustedAlerted || p.Exhausted(e) {
			t.Errorf("%+v after a reset", e)
		}
	}
	w.use(100)
	w.expectAlerts("exhausted")

	if err := w.Forget(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	var rows int
	err = w.db.View(t.Context(), func(tx storage.Tx) error {
		for range w.alerts.rows.All(tx) {
			rows++
		}
		return nil
	})
	if err != nil || rows != 0 {
		t.Errorf("%d rows are left, %v", rows, err)
	}
}

// Whatever calls use at once, and whenever the gateway restarts: of each counter, each alert is sent once,
// and only if it has come to that.
func TestEachAlertIsToldOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		w.listen()
		threshold := rapid.Int64Range(0, 99).Draw(r, "threshold")
		b := budgetOf(Tokens, 100)
		b.AlertThreshold, b.GroupBy = &threshold, []string{KeyAPIKey}
		w.budget(b)
		keys := []string{"a", "b", "c"}
		booked, sent := make(map[string]int64), make(map[string]int)
		for range rapid.IntRange(1, 4).Draw(r, "rounds") {
			var calls sync.WaitGroup
			for range rapid.IntRange(1, 8).Draw(r, "calls") {
				key, tokens := rapid.SampledFrom(keys).Draw(r, "key"), rapid.Int64Range(0, 60).Draw(r, "tokens")
				v := w.admit("ws-1", call{"demand": {"1 1"}, KeyAPIKey: {key}})
				if v.Denied != nil {
					continue
				}
				booked[key] += tokens
				calls.Go(func() {
					if err := w.Settle(context.Background(), v, Used{Tokens: tokens}); err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
			w.restart()
			for _, a := range w.received.all {
				sent[a.Key+" "+a.Type]++
			}
			w.received.all = nil
			w.listen()
		}
		for _, key := range keys {
			_, used := booked[key]
			for kind, want := range map[string]bool{AlertThreshold: used && booked[key] >= threshold, AlertExhausted: booked[key] >= 100} {
				n := sent[key+" "+kind]
				refused := kind == AlertExhausted && booked[key] >= 90
				if n > 1 || want && n != 1 || !want && !refused && n != 0 {
					r.Errorf("%s of %s is sent %d times, of which %d are booked", kind, key, n, booked[key])
				}
			}
		}
	})
}

// Memory knows of a bounded number of counters the alerts that were sent, and sends no fewer for that.
func TestWhatIsKnownToBeToldIsBounded(t *testing.T) {
	a := newAlerts()
	limit := int64(1)
	for i := range 2*maxKnown + 1 {
		counter := strings.Repeat("x", i%7) + string(rune('a'+i%26)) + time.Duration(i).String()
		if !a.note(counter, sentAlerts{Limit: &limit}) || a.note(counter, sentAlerts{Limit: &limit}) {
			t.Fatalf("counter %d", i)
		}
	}
	if len(a.known) > maxKnown {
		t.Errorf("%d are known", len(a.known))
	}
}

func TestWhatIsBookedIsWithoutReservations(t *testing.T) {
	w := newWorld(t)
	claims := []ledger.Claim{{Key: "k", Limit: math.MaxInt64, Window: ledger.Forever, Units: 10, Estimate: true}}
	first, _, err := w.ledger.Reserve(t.Context(), claims)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.ledger.Reserve(t.Context(), claims); err != nil {
		t.Fatal(err)
	}
	if err := w.ledger.Settle(t.Context(), first, []int64{25}); err != nil {
		t.Fatal(err)
	}
	if key, n := w.ledger.Booked(first, 0); key != "k" || n != 25 {
		t.Errorf("%q, %d", key, n)
	}
}
