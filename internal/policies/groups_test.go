package policies

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
)

const metadataUser = MetadataPrefix + "user"

func userOf(key, user string) call { return call{KeyAPIKey: {key}, metadataUser: {user}} }

// bound sets the bounds of groups.
func (w *world) bound(ofCaller, ofPolicy, all int) {
	w.groups.ofCaller, w.groups.ofPolicy, w.groups.maxOwn = ofCaller, ofPolicy, all
}

// One tenant makes up values without end: memory stays bounded, and neither another
// caller's groups nor those by saved objects are touched.
func TestValuesWithoutEndKeepMemoryBounded(t *testing.T) {
	const values, ofCaller = 20_000, 100
	w := newWorld(t)
	w.bound(ofCaller, 10*ofCaller, 20*ofCaller)
	w.put(RateLimit{Policy: Policy{ID: "users", WorkspaceID: "ws", GroupBy: []string{metadataUser}}, Value: 2})
	w.put(RateLimit{Policy: Policy{ID: "models", WorkspaceID: "ws", GroupBy: []string{KeyModel}}, Value: 2})
	w.put(RateLimit{Policy: Policy{ID: "keys", WorkspaceID: "ws", GroupBy: []string{KeyAPIKey}}, Value: 1 << 40})
	var before uint64
	admitted := 0
	long := strings.Repeat("x", 1<<10)
	for i := range values {
		if i == 2*ofCaller {
			before = heapInUse()
		}
		c := userOf("attacker", fmt.Sprint(long, i))
		c[KeyModel] = [2]string{fmt.Sprint(long, i)}
		if v := w.admit("ws", c); v.Denied == nil {
			admitted++
		}
	}
	if after := heapInUse(); after > before+8<<20 {
		t.Errorf("%d bytes more", after-before)
	}
	if own, overflows := w.Groups(); own != 2*ofCaller || overflows != 4 {
		t.Errorf("%d groups, %d calls in the overflow", own, overflows)
	}
	if n := w.ledger.(*ledger.Ledger).Counters(); n > 2*ofCaller+3 {
		t.Errorf("%d counters", n)
	}
	if admitted != ofCaller+2 {
		t.Errorf("%d admitted, want one of each group and two of the overflow", admitted)
	}
	for i := range 20 {
		c := userOf(fmt.Sprint("key-", i), fmt.Sprint("user-", i))
		c[KeyModel] = [2]string{fmt.Sprint("model-", i)}
		w.must(2, "ws", c)
		if v := w.admit("ws", c); v.Denied == nil {
			t.Errorf("a third call of %v", c)
		}
	}
	w.pass(2 * time.Minute)
	c := userOf("attacker", "new")
	c[KeyModel] = [2]string{"new"}
	w.must(2, "ws", c)
	if own, _ := w.Groups(); own != 2 {
		t.Errorf("%d groups after a window", own)
	}
}

// Bounds by policy and of all are kept too; what has a counter keeps it.
func TestBoundsOfGroups(t *testing.T) {
	for name, bounds := range map[string][3]int{"of a caller": {3, 9, 9}, "of a policy": {9, 4, 9}, "of all": {9, 9, 4}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.bound(bounds[0], bounds[1], bounds[2])
			w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws", GroupBy: []string{metadataUser}}, Value: 1})
			for i := range 3 {
				w.must(1, "ws", userOf("a", fmt.Sprint(i)))
			}
			w.must(1, "ws", userOf("a", "over"))
			w.refused("ws", userOf("a", "also over"), "p")
			w.restart() // the bounds are the default ones now
			w.refused("ws", userOf("a", "over"), "p")
			w.refused("ws", userOf("b", "over"), "p")
			for i := range 3 {
				w.refused("ws", userOf("b", fmt.Sprint(i)), "p")
			}
			w.pass(2 * time.Minute)
			w.must(1, "ws", userOf("a", "over"))
			w.must(1, "ws", userOf("a", "also over"))
		})
	}
}

// What is saved is part of the overflow's name: keys that are grouped apart stay apart.
func TestTheOverflowKeepsSavedValuesApart(t *testing.T) {
	w := newWorld(t)
	w.bound(1, 10, 10)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws", GroupBy: []string{metadataUser, KeyAPIKey}}, Value: 1})
	for _, key := range []string{"a", "b"} {
		w.must(1, "ws", userOf(key, "own"))
		w.must(1, "ws", userOf(key, "over"))
		w.refused("ws", userOf(key, "over too"), "p")
	}
}

func TestForgottenPoliciesHoldNoGroups(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws", GroupBy: []string{metadataUser}}, Value: 1})
	w.must(1, "ws", userOf("a", "u"))
	if err := w.Forget(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if own, _ := w.Groups(); own != 0 {
		t.Errorf("%d groups", own)
	}
}

// TestGroupsNeverAdmitMoreThanTheLimit: with more values than bounds, by several callers,
// through restarts and crashes, no value is admitted more often than its limit in any
// window.
func TestGroupsNeverAdmitMoreThanTheLimit(t *testing.T) {
	w := newWorld(t)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		p := RateLimit{Policy: Policy{ID: fmt.Sprint("p", n), WorkspaceID: fmt.Sprint("ws", n)}, Value: rapid.Int64Range(1, 4).Draw(t, "limit")}
		byKey := rapid.Bool().Draw(t, "by key")
		if p.GroupBy = []string{metadataUser}; byKey {
			p.GroupBy = append(p.GroupBy, KeyAPIKey)
		}
		w.put(p)
		ofCaller, ofPolicy := rapid.IntRange(1, 3).Draw(t, "of a caller"), rapid.IntRange(1, 5).Draw(t, "of a policy")
		w.bound(ofCaller, ofPolicy, 1<<20)
		admitted := map[string][]time.Time{}
		one := func(t *rapid.T) {
			key, user := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), fmt.Sprint(rapid.IntRange(0, 7).Draw(t, "user"))
			v, err := w.Admit(context.Background(), p.WorkspaceID, userOf(key, user), ScopeAll, 0)
			if err != nil {
				t.Fatal(err)
			}
			if v.Denied != nil {
				return
			}
			value := user
			if byKey {
				value += " of " + key
			}
			now := w.clock()
			admitted[value] = append(admitted[value], now)
			var within int64
			for _, at := range admitted[value] {
				if at.After(now.Add(-time.Minute)) {
					within++
				}
			}
			if within > p.Value {
				t.Fatalf("%d calls of %q in a window, of %d", within, value, p.Value)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"call": one, "another": one, "one more": one, "and one": one,
			"pass":    func(t *rapid.T) { w.pass(time.Duration(rapid.IntRange(0, 70).Draw(t, "seconds")) * time.Second) },
			"restart": func(*rapid.T) { w.restart(); w.bound(ofCaller, ofPolicy, 1<<20) },
			"crash":   func(*rapid.T) { w.open(); w.bound(ofCaller, ofPolicy, 1<<20) },
		})
		p.Archived = true
		w.put(p)
		if err := w.Forget(context.Background(), p.ID); err != nil {
			t.Fatal(err)
		}
	})
}

// What is remembered of the overflows is bounded for all policies together.
func TestOverflowsOfManyPoliciesTakeLittle(t *testing.T) {
	const policies, most = 64, 6 << 20
	w := newWorld(t)
	w.bound(1, 10, 10*policies)
	for i := range policies {
		w.put(RateLimit{Policy: Policy{ID: fmt.Sprint("p", i), WorkspaceID: "ws", GroupBy: []string{metadataUser}}, Value: 10})
	}
	w.must(1, "ws", userOf("a", "own"))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w.must(1, "ws", userOf("a", "over"))
	runtime.GC()
	runtime.ReadMemStats(&after)
	if _, overflows := w.Groups(); overflows != policies {
		t.Errorf("%d calls in overflows", overflows)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > most {
		t.Errorf("%d bytes more, of %d policies", grown, policies)
	}
	runtime.KeepAlive(w)
}

// What is refused, given back or not decided takes no room.
func TestCallsThatAreNotForwardedMakeNoGroups(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "users", WorkspaceID: "ws", GroupBy: []string{metadataUser}}, Value: 1})
	w.put(RateLimit{Policy: Policy{ID: "closed", WorkspaceID: "ws", Conditions: []Condition{{KeyAPIKey, []string{"refused"}, nil}}}, Value: 0})
	w.put(RateLimit{Policy: Policy{ID: "model", WorkspaceID: "ws", Conditions: []Condition{{KeyModel, []string{"m"}, nil}}}, Value: 1})
	empty := func() {
		t.Helper()
		if own, _ := w.Groups(); own != 0 || len(w.groups.policies["users"].callers) != 0 || w.groups.policies["users"].idle.Len() != 0 {
			t.Errorf("%d groups", own)
		}
	}
	w.refused("ws", userOf("refused", "a"), "closed")
	empty()
	unseen := userOf("k", "b")
	unseen["unseen"] = [2]string{}
	if v := w.admit("ws", unseen); v.Undecided == nil {
		t.Error("it was decided")
	}
	empty()
	v := w.admit("ws", userOf("k", "c"))
	w.Release(v)
	w.Release(v)
	empty()
	w.must(1, "ws", userOf("k", "c"))
	w.refused("ws", userOf("k", "c"), "users")
	if own, _ := w.Groups(); own != 1 {
		t.Errorf("%d groups", own)
	}
}

// After a restart, what a caller had is still its own: it gets no more.
func TestARestartGivesNoGroupsAnew(t *testing.T) {
	for name, bounds := range map[string][3]int{"of a caller": {3, 99, 99}, "of a workspace in a policy": {9, 4, 99}, "of a workspace in all": {9, 99, 4}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.bound(bounds[0], bounds[1], bounds[2])
			w.put(RateLimit{Policy: Policy{ID: "p", AllWorkspaces: true, GroupBy: []string{metadataUser}}, Value: 1})
			for i := range 3 {
				w.must(1, "ws", userOf("a", fmt.Sprint(i)))
			}
			w.restart()
			w.bound(bounds[0], bounds[1], bounds[2])
			w.must(1, "ws", userOf("a", "over"))
			w.refused("ws", userOf("a", "over too"), "p")
			if own, overflows := w.Groups(); own != 3 || overflows != 1 {
				t.Errorf("%d groups, %d overflows", own, overflows)
			}
		})
	}
}

// Values that share a counter are remembered up to a bound, past which they are refused: of
// one that nobody remembers, nobody knows where it counts.
func TestValuesThatShareAreBounded(t *testing.T) {
	w := newWorld(t)
	w.bound(0, 10, 10)
	w.groups.maxShared = 8
	w.put(RateLimit{Policy: Policy{ID: "p", AllWorkspaces: true, GroupBy: []string{metadataUser}}, Value: 100})
	for i := range 6 {
		w.must(2, "a", userOf("a", fmt.Sprint(i)))
	}
	v := w.refused("a", userOf("a", "one more"), "p")
	if s := v.Requests; s.Limit != 100 || s.Remaining != 0 || s.RetryAfter != time.Minute {
		t.Errorf("%+v", s)
	}
	w.must(2, "b", userOf("b", "of another workspace"))
	w.must(2, "b", userOf("b", "1"))
	w.pass(2 * time.Minute)
	w.must(2, "a", userOf("a", "one more"))
}

// TestATenantCannotTakeTheGroupsOfAnother: whatever one tenant does, with any number of keys
// and policies, another's first values have counters of their own: each is admitted as soon
// as its own window allows.
func TestATenantCannotTakeTheGroupsOfAnother(t *testing.T) {
	const bound = 64
	const sure = bound * 3 / 16
	w := newWorld(t)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		restarts := rapid.Bool().Draw(t, "restarts")
		p := RateLimit{Policy: Policy{ID: fmt.Sprint("all", n), AllWorkspaces: true, GroupBy: []string{metadataUser}}, Value: 1}
		if restarts { // else nobody knows afterwards which values shared, and new ones share for a window
			p.GroupBy = append(p.GroupBy, KeyWorkspace)
		}
		greedy := RateLimit{Policy: Policy{ID: fmt.Sprint("own", n), WorkspaceID: "greedy", GroupBy: []string{metadataUser, KeyModel}}, Value: 1 << 30}
		bind := func() {
			w.bound(bound, bound, bound)
			w.groups.maxShared = bound
		}
		w.put(p)
		w.put(greedy)
		defer func() {
			for _, p := range []RateLimit{p, greedy} {
				p.Archived = true
				w.put(p)
				if err := w.Forget(context.Background(), p.ID); err != nil {
					t.Error(err)
				}
			}
		}()
		bind()
		values := 0
		last := map[string]time.Time{}
		call := func(workspace, key, user string) bool {
			c := userOf(key, user)
			c[KeyWorkspace], c[KeyModel] = [2]string{workspace}, [2]string{user}
			v, err := w.Admit(context.Background(), workspace, c, ScopeAll, 0)
			if err != nil {
				t.Fatal(err)
			}
			return v.Denied == nil
		}
		flood := func(t *rapid.T) {
			key := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))
			for range rapid.IntRange(1, 2*bound).Draw(t, "values") {
				values++
				call("greedy", key, fmt.Sprint(values))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"flood": flood,
			"the other": func(t *rapid.T) {
				user := fmt.Sprint("user", rapid.IntRange(1, sure).Draw(t, "user"))
				at, counted := last[user]
				admitted := call("other", "key", user)
				switch since := w.clock().Sub(at); {
				case admitted && counted && since < time.Minute:
					t.Fatalf("%s was admitted twice within %v", user, since)
				case !admitted && (!counted || since >= time.Minute+2*time.Second):
					t.Fatalf("%s was refused; admitted before: %v, %v ago", user, counted, since)
				case admitted:
					last[user] = w.clock()
				}
			},
			"pass": func(t *rapid.T) { w.pass(time.Duration(rapid.IntRange(0, 70).Draw(t, "seconds")) * time.Second) },
			"restart": func(t *rapid.T) {
				if !restarts {
					t.Skip("not this time")
				}
				w.restart()
				bind()
			},
		})
	})
}
