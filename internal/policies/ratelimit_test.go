package policies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

// A world is a store with its policies and a clock that is set by hand.
type world struct {
	*Limits
	t   testing.TB
	db  *storage.DB
	now atomic.Int64

	writes *mortal // those of the ledger

	booted   int64
	received received
}

func (w *world) clock() time.Time { return time.Unix(0, w.now.Load()) }

// uptime is that of a machine which boots once.
func (w *world) uptime() (boot string, up time.Duration) {
	return "boot", time.Duration(w.now.Load() - w.booted)
}

func (w *world) pass(d time.Duration) { w.now.Add(int64(d)) }

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOver(t, storetest.OpenDB(t))
}

func newWorldOver(t testing.TB, db *storage.DB) *world {
	t.Helper()
	w := &world{t: t, db: db}
	w.booted = time.Now().Truncate(24 * time.Hour).UnixNano()
	w.now.Store(w.booted)
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.writes = &mortal{DB: w.db}
	l, err := ledger.Open(w.t.Context(), w.writes, ledger.Options{Now: w.clock, Uptime: w.uptime})
	if err != nil {
		w.t.Fatal(err)
	}
	limits, err := Open(w.t.Context(), w.db, l, w.clock, zaptest.NewLogger(w.t))
	if err != nil {
		w.t.Fatal(err)
	}
	w.Limits = limits
	w.t.Cleanup(limits.Close)
	w.t.Cleanup(func() { _ = l.Close(context.Background()) }) // closed twice after a restart
}

// mortal is the store of a process that may be killed, after which it writes nothing any more.
type mortal struct {
	*storage.DB
	mu   sync.RWMutex
	dead bool
}

// Write writes unless the process was killed.
func (m *mortal) Write(ctx context.Context, fn func(storage.Tx) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.dead {
		return storage.ErrUnwritable
	}
	return m.DB.Write(ctx, fn)
}

// kill starts another process, without what the one before it had in memory.
func (w *world) kill() {
	w.t.Helper()
	w.Close()
	w.writes.mu.Lock()
	w.writes.dead = true
	w.writes.mu.Unlock()
	w.open()
}

func (w *world) restart() {
	w.t.Helper()
	w.Close()
	if err := w.ledger.Close(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

func (w *world) put(p RateLimit) {
	w.t.Helper()
	if p.Type == "" {
		p.Type = Requests
	}
	if p.Unit == "" {
		p.Unit = "rpm"
	}
	if err := w.db.Update(w.t.Context(), func(tx *storage.Txn) error { return w.Rates.Put(tx, &p) }); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) admit(workspace string, f Call) *Verdict {
	w.t.Helper()
	v, err := w.Admit(w.t.Context(), workspace, f, ScopeAll, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// must admits n calls and says so if one is refused.
func (w *world) must(n int, workspace string, f Call) {
	w.t.Helper()
	for i := range n {
		if v := w.admit(workspace, f); v.Denied != nil {
			w.t.Fatalf("call %d was refused by %s", i+1, v.Denied.ID)
		}
	}
}

func (w *world) refused(workspace string, f Call, by string) *Verdict {
	w.t.Helper()
	v := w.admit(workspace, f)
	if v.Denied == nil || v.Denied.ID != by {
		w.t.Fatalf("got %+v, want a refusal by %s", v.Denied, by)
	}
	return v
}

func TestAdmitSaysNothingWhereNoPolicyMatches(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1", Conditions: []Condition{{KeyModel, []string{"other"}, nil}}}, Value: 0})
	v := w.admit("ws-1", call{KeyModel: {"m"}})
	if v.Requests != nil || v.Denied != nil {
		t.Errorf("got %+v", v)
	}
	w.Release(v) // to no harm
}

// What depends on a model that nobody saw cannot be counted.
func TestAdmitDecidesNothingByAModelThatNobodySaw(t *testing.T) {
	model := func(values ...string) Condition { return Condition{KeyModel, values, nil} }
	for name, c := range map[string]struct {
		policy    RateLimit
		undecided bool
	}{
		"a model":                          {RateLimit{Policy: Policy{Conditions: []Condition{model("m")}}}, true},
		"any model":                        {RateLimit{Policy: Policy{Conditions: []Condition{model("*")}}}, true},
		"a model of the provider":          {RateLimit{Policy: Policy{Conditions: []Condition{model("@own/m")}}}, true},
		"any of the provider's":            {RateLimit{Policy: Policy{Conditions: []Condition{model("@own/*")}}}, true},
		"any of another's":                 {RateLimit{Policy: Policy{Conditions: []Condition{model("@other/*")}}}, false},
		"any of another's, or one":         {RateLimit{Policy: Policy{Conditions: []Condition{model("@other/*", "m")}}}, true},
		"grouped by model":                 {RateLimit{Policy: Policy{GroupBy: []string{KeyAPIKey, KeyModel}}}, true},
		"grouped by model, and what lacks": {RateLimit{Policy: Policy{GroupBy: []string{KeyModel, MetadataPrefix + "team"}}}, false},
		"a model of the provider's calls":  {RateLimit{Policy: Policy{Conditions: []Condition{{KeyProvider, []string{"openai"}, nil}, model("m")}}}, true},
		"a model of another's calls":       {RateLimit{Policy: Policy{Conditions: []Condition{model("m"), {KeyProvider, []string{"groq"}, nil}}}}, false},
		"grouped by model, of other calls": {RateLimit{Policy: Policy{GroupBy: []string{KeyModel}, Conditions: []Condition{{KeyProvider, []string{"groq"}, nil}}}}, false},
		"no model":                         {RateLimit{Policy: Policy{GroupBy: []string{KeyAPIKey}}}, false},
		"of another workspace":             {RateLimit{Policy: Policy{WorkspaceID: "ws-2", Conditions: []Condition{model("m")}}}, false},
		"archived":                         {RateLimit{Policy: Policy{Archived: true, Conditions: []Condition{model("m")}}}, false},
		"everywhere":                       {RateLimit{Policy: Policy{WorkspaceID: "ws-2", AllWorkspaces: true, Conditions: []Condition{model("m")}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(RateLimit{Policy: Policy{ID: "all", WorkspaceID: "ws-1"}, Value: 1})
			c.policy.ID, c.policy.Value = "p", 1
			if c.policy.WorkspaceID == "" {
				c.policy.WorkspaceID = "ws-1"
			}
			w.put(c.policy)
			f := call{KeyAPIKey: {"k"}, KeyProvider: {"openai"}, "unseen": {"", "@own/"}}
			v := w.admit("ws-1", f)
			if (v.Undecided != nil) != c.undecided || v.Denied != nil {
				t.Fatalf("got %+v", v)
			}
			if c.undecided { // nothing was counted
				delete(f, "unseen")
				w.must(1, "ws-1", f)
			}
		})
	}
}

func TestAdmitCountsUpToTheValueInAnyWindow(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1"}, Value: 3})
	for want := int64(2); want >= 0; want-- {
		v := w.admit("ws-1", call{})
		if v.Denied != nil || v.Requests.Limit != 3 || v.Requests.Remaining != want || v.Requests.Reset <= 0 {
			t.Fatalf("got %+v", v.Requests)
		}
		w.pass(10 * time.Second)
	}
	v := w.refused("ws-1", call{}, "p")
	if v.Requests.Remaining != 0 || v.Requests.RetryAfter < 30*time.Second || v.Requests.RetryAfter > 31*time.Second {
		t.Errorf("got %+v", v.Requests)
	}
	w.pass(v.Requests.RetryAfter)
	w.must(1, "ws-1", call{})
	w.refused("ws-1", call{}, "p")
}

func TestAdmitRefusalConsumesNothingOfTheOtherPolicies(t *testing.T) {
	for _, order := range [][2]string{{"a-tight", "b-loose"}, {"b-tight", "a-loose"}} {
		t.Run(order[0], func(t *testing.T) {
			w := newWorld(t)
			tight, loose := order[0], order[1]
			w.put(RateLimit{Policy: Policy{ID: tight, WorkspaceID: "ws-1", GroupBy: []string{KeyAPIKey}}, Value: 1})
			w.put(RateLimit{Policy: Policy{ID: loose, WorkspaceID: "ws-1"}, Value: 3})
			one, two := call{KeyAPIKey: {"one"}}, call{KeyAPIKey: {"two"}}
			w.must(1, "ws-1", one)
			for range 10 {
				w.refused("ws-1", one, tight)
			}
			w.must(1, "ws-1", two)
			w.must(1, "ws-1", call{KeyAPIKey: {"three"}}) // the third of loose
			w.refused("ws-1", call{KeyAPIKey: {"four"}}, loose)
		})
	}
}

func TestAdmitTellsOfTheTightestPolicy(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "a", WorkspaceID: "ws-1"}, Value: 100})
	w.put(RateLimit{Policy: Policy{ID: "b", WorkspaceID: "ws-1"}, Value: 5, Unit: "rph"})
	w.put(RateLimit{Policy: Policy{ID: "c", WorkspaceID: "ws-1"}, Value: 50, Unit: "rpd"})
	if v := w.admit("ws-1", call{}); v.Requests.Limit != 5 || v.Requests.Remaining != 4 {
		t.Errorf("got %+v", v.Requests)
	}

	// Of two with as little left, the one that takes longer to recover.
	w = newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "a", WorkspaceID: "ws-1"}, Value: 5})
	w.put(RateLimit{Policy: Policy{ID: "b", WorkspaceID: "ws-1"}, Value: 5, Unit: "rpd"})
	w.put(RateLimit{Policy: Policy{ID: "c", WorkspaceID: "ws-1"}, Value: 5, Unit: "rph"})
	if v := w.admit("ws-1", call{}); v.Requests.Reset < 23*time.Hour {
		t.Errorf("got %+v", v.Requests)
	}
}

func TestAdmitRefusalTellsOfThePolicyToWaitForLongest(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "a", WorkspaceID: "ws-1"}, Value: 1})
	w.put(RateLimit{Policy: Policy{ID: "b", WorkspaceID: "ws-1"}, Value: 1, Unit: "rph"})
	w.must(1, "ws-1", call{})
	if v := w.refused("ws-1", call{}, "b"); v.Requests.RetryAfter < 59*time.Minute {
		t.Errorf("got %+v", v.Requests)
	}
}

func TestAPolicyOfZeroRefusesEverythingAndNamesATimeThatExists(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1"}, Value: 0, Unit: "rph"})
	if v := w.refused("ws-1", call{}, "p"); v.Requests.RetryAfter != time.Hour {
		t.Errorf("retry after %s", v.Requests.RetryAfter)
	}
}

// A call that no model answers is counted only by policies with a condition on its endpoint.
func TestReadsCountWhereTheirEndpointIsNamed(t *testing.T) {
	reads := call{"reads": {}, KeyEndpoint: {"listFiles"}, KeyWorkspace: {"ws-1"}}
	for _, c := range []struct {
		condition *Condition
		counts    bool
	}{
		{nil, false},
		{&Condition{Key: KeyWorkspace, Values: []string{"ws-1"}}, false},
		{&Condition{Key: KeyEndpoint, Values: []string{"listFiles"}}, true},
		{&Condition{Key: KeyEndpoint, Values: []string{"*"}}, true},
		{&Condition{Key: KeyEndpoint, Values: []string{"*"}, Excludes: []string{"listFiles"}}, false},
		{&Condition{Key: KeyEndpoint, Values: []string{"chatComplete"}}, false},
	} {
		w := newWorld(t)
		p := Policy{ID: "p", WorkspaceID: "ws-1"}
		if c.condition != nil {
			p.Conditions = []Condition{*c.condition}
		}
		w.put(RateLimit{Policy: p, Value: 0})
		if v := w.admit("ws-1", reads); (v.Denied != nil) != c.counts {
			t.Errorf("%+v: counts %v", c.condition, !c.counts)
		}
	}
}

func TestAPolicyCountsItsOwnWorkspaceOnlyUnlessItCountsEverywhere(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "own", WorkspaceID: "ws-1"}, Value: 1})
	w.must(1, "ws-1", call{})
	w.refused("ws-1", call{}, "own")
	w.must(5, "ws-2", call{})

	w.put(RateLimit{Policy: Policy{ID: "all", WorkspaceID: "ws-1", AllWorkspaces: true}, Value: 2})
	w.must(1, "ws-2", call{})
	w.must(1, "ws-3", call{})
	w.refused("ws-4", call{}, "all")

	w = newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "each", WorkspaceID: "ws-1", AllWorkspaces: true, GroupBy: []string{KeyWorkspace}}, Value: 1})
	for i := range 3 {
		ws := fmt.Sprint("ws-", i)
		facts := call{KeyWorkspace: {ws, "slug-" + ws}}
		w.must(1, ws, facts)
		w.refused(ws, facts, "each")
	}
}

func TestAnOrganisationPolicyCanBeLimitedToAWorkspaceByIDOrSlug(t *testing.T) {
	for _, name := range []string{"ws-1", "slug-1"} {
		w := newWorld(t)
		w.put(RateLimit{Policy: Policy{ID: "p", AllWorkspaces: true, Conditions: []Condition{{KeyWorkspace, []string{name}, nil}}}, Value: 0})
		w.refused("ws-1", call{KeyWorkspace: {"ws-1", "slug-1"}}, "p")
		w.must(1, "ws-2", call{KeyWorkspace: {"ws-2", "slug-2"}})
	}
}

func TestGroupsHaveCountersOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1", GroupBy: []string{KeyAPIKey, KeyModel}}, Value: 1})
	for _, c := range []call{
		{KeyAPIKey: {"1"}, KeyModel: {"11"}}, {KeyAPIKey: {"11"}, KeyModel: {"1"}}, {KeyAPIKey: {"1"}, KeyModel: {"1"}}, {KeyAPIKey: {"11"}, KeyModel: {"11"}},
	} {
		w.must(1, "ws-1", c)
		w.refused("ws-1", c, "p")
	}
	w.must(3, "ws-1", call{KeyAPIKey: {"1"}}) // no model: in no group
}

func TestAPolicyHoldsFromTheNextCallAfterItsWrite(t *testing.T) {
	w := newWorld(t)
	w.must(2, "ws-1", call{})
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1"}, Value: 1})
	w.must(1, "ws-1", call{})
	w.refused("ws-1", call{}, "p")
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1"}, Value: 3}) // keeps what it counted
	w.must(2, "ws-1", call{})
	w.refused("ws-1", call{}, "p")
}

func TestAnArchivedPolicyStopsAtOnceAndItsCountsAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1"}, Value: 1})
	w.put(RateLimit{Policy: Policy{ID: "p2", WorkspaceID: "ws-1"}, Value: 2})
	w.must(1, "ws-1", call{})
	w.refused("ws-1", call{}, "p")
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1", Archived: true}, Value: 1})
	if err := w.Forget(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	w.must(1, "ws-1", call{})
	w.refused("ws-1", call{}, "p2") // whose name starts alike, and which was not forgotten
	if p, ok := w.Rates.Get("p"); !ok || !p.Archived || len(w.Rates.All()) != 2 {
		t.Errorf("got %+v of %d", p, len(w.Rates.All()))
	}
	w.restart()
	w.refused("ws-1", call{}, "p2")
	w.pass(2 * time.Minute)
	w.must(2, "ws-1", call{})
}

func TestPoliciesAndCountsSurviveARestart(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1"}, Value: 2})
	w.must(1, "ws-1", call{})
	w.restart()
	w.must(1, "ws-1", call{})
	w.refused("ws-1", call{}, "p")
}

func TestReleaseGivesBackToEveryPolicyOnce(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "a", WorkspaceID: "ws-1"}, Value: 2})
	w.put(RateLimit{Policy: Policy{ID: "b", WorkspaceID: "ws-1"}, Value: 2, Unit: "rpd"})
	v := w.admit("ws-1", call{})
	w.must(1, "ws-1", call{})
	w.Release(v)
	w.Release(v)
	w.must(1, "ws-1", call{})
	denied := w.admit("ws-1", call{})
	if denied.Denied == nil {
		t.Fatal("given back twice")
	}
	w.Release(denied) // nothing to give back
	if w.admit("ws-1", call{}).Denied == nil {
		t.Error("a refused call gave something back")
	}
}

func TestPutSetsTheTimesAndRefusesWhatIsNotValid(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1"}, Value: 1})
	first, _ := w.Rates.Get("p")
	if !first.CreatedAt.Equal(w.clock()) || !first.UpdatedAt.Equal(w.clock()) {
		t.Errorf("got %+v", first)
	}
	w.pass(time.Minute)
	changed := *first
	changed.Value = 2
	w.put(changed)
	second, _ := w.Rates.Get("p")
	if !second.CreatedAt.Equal(first.CreatedAt) || !second.UpdatedAt.Equal(w.clock()) || second.Value != 2 {
		t.Errorf("got %+v", second)
	}
	var fault *FieldError
	err := w.db.Update(t.Context(), func(tx *storage.Txn) error {
		return w.Rates.Put(tx, &RateLimit{Policy: Policy{ID: "q", Type: Requests}, Unit: "rpy"})
	})
	if !errors.As(err, &fault) || fault.Field != "unit" {
		t.Errorf("got %v", err)
	}
	if _, ok := w.Rates.Get("q"); ok {
		t.Error("it was stored all the same")
	}
}

func TestAWriteThatFailsChangesNoPolicy(t *testing.T) {
	w := newWorld(t)
	failed := errors.New("failed")
	err := w.db.Update(t.Context(), func(tx *storage.Txn) error {
		if err := w.Rates.Put(tx, &RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1", Type: Requests}, Unit: "rpm"}); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	w.must(1, "ws-1", call{})
}

func TestConcurrentCallsNeverPassTheValue(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "a", WorkspaceID: "ws-1"}, Value: 100})
	w.put(RateLimit{Policy: Policy{ID: "b", WorkspaceID: "ws-1", GroupBy: []string{KeyAPIKey}}, Value: 40, Unit: "rph"})
	var admitted [4]atomic.Int64
	var callers sync.WaitGroup
	for key := range admitted {
		for range 4 {
			callers.Go(func() {
				for range 20 {
					v, err := w.Admit(context.Background(), "ws-1", call{KeyAPIKey: {fmt.Sprint(key)}}, ScopeAll, 0)
					if err != nil {
						t.Error(err)
						return
					}
					if v.Denied == nil {
						admitted[key].Add(1)
					}
				}
			})
		}
	}
	callers.Wait()
	var total int64
	for i := range admitted {
		n := admitted[i].Load()
		if total += n; n > 40 {
			t.Errorf("key %d: %d calls", i, n)
		}
	}
	if total != 100 {
		t.Errorf("%d calls in all", total)
	}
}

func TestAdmitSaysWhyACallCouldNotBeCounted(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1"}, Value: 1})
	if err := w.ledger.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, err := w.Admit(t.Context(), "ws-1", call{}, ScopeAll, 0); !errors.Is(err, ledger.ErrClosed) || v != nil {
		t.Errorf("got %+v, %v", v, err)
	}
}
