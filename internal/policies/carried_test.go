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
	if used, _, err := w.CarriedUsage(t.Context(), stored, ""); err != nil || used != 2 || stored.Budget.Resets != 1 || stored.Budget.LastResetAt == nil {
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

// Each object counts the calls that belong to it: a workspace, a target's virtual key, and its
// integration in one workspace, or else in each by itself.
func TestObjectsCountTheirOwnCalls(t *testing.T) {
	two := []CarriedRate{{Requests, "rph", 2}}
	in := call{KeyAPIKey: {"k"}, KeyVirtualKey: {"openai", "vk"}, KeyIntegration: {"in"}}
	for name, c := range map[string]struct {
		carried Carried
		target  bool
		others  []call   // which it does not count
		own     []string // workspaces that it counts by themselves
	}{
		"workspace":            {Carried{Carrier: KeyWorkspace, ID: "ws-1", WorkspaceID: "ws-1"}, false, nil, nil},
		"virtual key":          {Carried{Carrier: KeyVirtualKey, ID: "vk", WorkspaceID: "ws-1"}, true, []call{{KeyVirtualKey: {"openai", "vk2"}}, {KeyVirtualKey: {"vk", "vk2"}}}, nil},
		"integration":          {Carried{Carrier: KeyIntegration, ID: IntegrationIn("ws-1", "in"), WorkspaceID: "ws-1"}, true, []call{{KeyIntegration: {"other"}}}, nil},
		"integration anywhere": {Carried{Carrier: KeyIntegration, ID: "in", EachWorkspace: true}, true, []call{{KeyIntegration: {"other"}}}, []string{"ws-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			in[KeyWorkspace] = [2]string{"ws-1"}
			c.carried.Rates = two
			w.carry(c.carried)
			w.must(2, "ws-1", in)
			w.refusedBy(in, c.carried.Carrier)
			for _, other := range c.others {
				w.must(3, "ws-1", other)
			}
			for _, workspace := range c.own {
				in[KeyWorkspace] = [2]string{workspace}
				w.must(2, workspace, in)
				if v, err := w.Admit(t.Context(), workspace, in, ScopeAll, 0); err != nil || v.Denied == nil {
					t.Errorf("%s: %+v, %v", workspace, v, err)
				}
			}
			if c.own == nil {
				in[KeyWorkspace] = [2]string{"ws-2"}
				if c.carried.WorkspaceID != "" && c.carried.Carrier != KeyVirtualKey {
					w.must(3, "ws-2", in)
				}
			}
			// What a target carries is asked when it is tried.
			in[KeyWorkspace] = [2]string{"ws-1"}
			for scope, asked := range map[Scope]bool{ScopeCall: !c.target, ScopeTarget: c.target} {
				v, err := w.Admit(t.Context(), "ws-1", in, scope, 0)
				if err != nil || (v.Denied != nil) != asked {
					t.Errorf("scope %d: %+v, %v", scope, v, err)
				}
			}
		})
	}
}

// The limits of an integration in a workspace stand in place of those of each workspace.
func TestAWorkspacesOwnLimitsOfAnIntegrationComeFirst(t *testing.T) {
	w := newWorld(t)
	w.carry(Carried{Carrier: KeyIntegration, ID: "in", EachWorkspace: true, Rates: []CarriedRate{{Requests, "rph", 1}}})
	w.carry(Carried{Carrier: KeyIntegration, ID: IntegrationIn("ws-1", "in"), WorkspaceID: "ws-1", Rates: []CarriedRate{{Requests, "rph", 3}}})
	c := call{KeyWorkspace: {"ws-1"}, KeyIntegration: {"in"}}
	w.must(3, "ws-1", c)
	w.refusedBy(c, KeyIntegration)
	w.carry(Carried{Carrier: KeyIntegration, ID: IntegrationIn("ws-1", "in")})
	w.must(1, "ws-1", c)
	w.refusedBy(c, KeyIntegration)
}
