package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/prices"
)

// What is left is that of the group with the least, and what is used that of all; neither is older than ten
// seconds.
func TestTheUsageOfPoliciesIsThatOfAllTheirGroups(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "r", WorkspaceID: "ws-1", CreatedAt: time.Unix(1, 0)}, Value: 100})
	b := budgetOf(Cost, int64(10*prices.Dollar))
	b.GroupBy, b.CreatedAt = []string{KeyAPIKey}, time.Unix(2, 0)
	w.budget(b)
	idle := budgetOf(Tokens, 7000)
	idle.ID, idle.WorkspaceID = "idle", "ws-2"
	w.budget(idle)
	use := func(key string, cost prices.Amount) {
		w.settle(w.admit("ws-1", call{KeyAPIKey: {key}, "price": {"1"}}), Used{Cost: cost})
	}
	use("a", 3*prices.Dollar)
	use("b", 4*prices.Dollar)
	use("b", prices.Dollar/2)
	expect := func(want ...string) {
		t.Helper()
		all, err := w.Usages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, u := range all {
			got = append(got, fmt.Sprint(u.ID, " ", u.Budget, " ", u.Used, " ", u.Left))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	expect("r false 3 97", "b true 7.5 5.5", "idle true 0 7000")
	use("a", 2*prices.Dollar)
	w.pass(5 * time.Second)
	expect("r false 3 97", "b true 7.5 5.5", "idle true 0 7000")
	w.pass(5 * time.Second)
	expect("r false 4 96", "b true 9.5 5", "idle true 0 7000")
	w.pass(2 * time.Minute)
	w.restart()
	expect("r false 0 100", "b true 9.5 5", "idle true 0 7000")
}
