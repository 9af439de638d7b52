package policies

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// carry stores the limits of a key.
func (w *world) carry(c Carried) {
	w.t.Helper()
	if err := w.db.Update(w.t.Context(), func(tx *storage.Txn) error { return w.Carried.Put(tx, &c) }); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) refusedBy(c call, carrier string) {
	w.t.Helper()
	v, err := w.Admit(w.t.Context(), "ws-1", c, ScopeAll, 0)
	if err != nil || v.Denied == nil || v.Denied.Carrier() != carrier {
		w.t.Errorf("%+v, %v", v, err)
	}
}

// The limits of a key count its calls and those that are counted with it, in whatever workspace.
func TestLimitsOfKeysCountTheirCallsOnly(t *testing.T) {
	w := newWorld(t)
	w.carry(Carried{Carrier: KeyAPIKey, ID: "a", WorkspaceID: "ws-1", Rates: []CarriedRate{{Requests, "rph", 2}}})
	w.must(1, "ws-1", call{KeyAPIKey: {"a"}})
	w.must(1, "ws-2", call{KeyAPIKey: {"made", "a"}})
	w.refusedBy(call{KeyAPIKey: {"a"}}, KeyAPIKey)
	w.refusedBy(call{KeyAPIKey: {"made", "a"}}, KeyAPIKey)
	w.must(3, "ws-1", call{KeyAPIKey: {"b"}})
	w.restart()
	w.refusedBy(call{KeyAPIKey: {"a"}}, KeyAPIKey)
	w.carry(Carried{Carrier: KeyAPIKey, ID: "a", WorkspaceID: "ws-1", Rates: []CarriedRate{{Requests, "rph", 3}}})
	w.must(1, "ws-1", call{KeyAPIKey: {"a"}})
	w.refusedBy(call{KeyAPIKey: {"a"}}, KeyAPIKey)
	w.carry(Carried{Carrier: KeyAPIKey, ID: "a"})
	if _, has := w.Carried.Get("a"); has {
		t.Error("no limits are stored")
	}
	w.must(5, "ws-1", call{KeyAPIKey: {"a"}})
}

// A period of a key's budget ends for good, also if the clock steps back and the process crashes.
func TestABudgetOfAKeyIsResetOnce(t *testing.T) {
	w := newWorld(t)
	b := &UsageLimit{Policy: Policy{Type: Requests}, Limit: 2, Schedule: Schedule{PeriodicResetDays: 1}}
	b.Begin(w.clock())
	w.carry(Carried{Carrier: KeyAPIKey, ID: "a", Budget: b})
	c := call{KeyAPIKey: {"a"}}
	w.settle(w.admit("ws-1", c), Used{})
	w.settle(w.admit("ws-1", c), Used{})
	w.refusedBy(c, KeyAPIKey)
	w.pass(24 * time.Hour)
	w.settle(w.admit("ws-1", c), Used{})
	w.jobs.Wait() // it is stored
	w.pass(-time.Hour)
	w.settle(w.admit("ws-1", c), Used{})
	w.refusedBy(c, KeyAPIKey)
	w.restart()
	w.refusedBy(c, KeyAPIKey)
	stored, _ := w.Carried.Get("a")
	if used, err := w.CarriedUsage(t.Context(), stored); err != nil || used != 2 || stored.Budget.Resets != 1 || stored.Budget.LastResetAt == nil {
		t.Errorf("%d used, %v, %+v", used, err, stored.Budget.Schedule)
	}
	w.pass(25 * time.Hour)
	w.must(2, "ws-1", c)
}

func TestLimitsOfObjectsAreValidated(t *testing.T) {
	budget := func(kind string, limit int64) *UsageLimit {
		return &UsageLimit{Policy: Policy{Type: kind}, Limit: limit}
	}
	for field, c := range map[string]Carried{
		"rate_limits[1].type":       {Rates: []CarriedRate{{Requests, "rpm", 1}, {Requests, "rph", 1}}},
		"rate_limits[0].type":       {Rates: []CarriedRate{{Cost, "rpm", 1}}},
		"rate_limits[0].unit":       {Rates: []CarriedRate{{Tokens, "rpy", 1}}},
		"rate_limits[0].value":      {Rates: []CarriedRate{{Tokens, "rpm", -1}}},
		"usage_limits.credit_limit": {Budget: budget(Tokens, 99)},
		"usage_limits.type":         {Budget: budget("", 99)},
	} {
		var wrong *FieldError
		c.Carrier, c.ID = KeyAPIKey, "a"
		if err := c.Validate(); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	ok := Carried{Carrier: KeyAPIKey, ID: "a", Rates: []CarriedRate{{Requests, "rpm", 0}, {Tokens, "rpd", 1}}, Budget: budget(Cost, 1e12)}
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
}
