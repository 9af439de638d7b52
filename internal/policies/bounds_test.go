package policies

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// many stores n policies like p.
func (w *world) many(n int, p RateLimit) {
	w.t.Helper()
	err := w.db.Update(w.t.Context(), func(tx *storage.Txn) error {
		for i := range n {
			one := p
			one.ID, one.Type, one.Unit = fmt.Sprint(p.ID, i), Requests, "rpm"
			if err := w.Rates.Put(tx, &one); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestPoliciesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		limit       int
		full, other RateLimit
		want        string
	}{
		"of a workspace": {
			MaxOfWorkspace,
			RateLimit{Policy: Policy{WorkspaceID: "a"}},
			RateLimit{Policy: Policy{WorkspaceID: "b"}},
			"A workspace has at most 200 rate-limit policies; archive one first",
		},
		"of the organisation": {
			MaxOfOrganisation,
			RateLimit{Policy: Policy{WorkspaceID: "a", AllWorkspaces: true}},
			RateLimit{Policy: Policy{WorkspaceID: "a"}},
			"An organisation has at most 200 rate-limit policies; archive one first",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.full.ID = "p"
			w.many(c.limit, c.full)
			put := func(p RateLimit, id string) error {
				p.ID, p.Type, p.Unit = id, Requests, "rpm"
				return w.db.Update(t.Context(), func(tx *storage.Txn) error { return w.Rates.Put(tx, &p) })
			}
			var many *TooManyError
			if err := put(c.full, "one more"); !errors.As(err, &many) || err.Error() != c.want {
				t.Errorf("got %v", err)
			}
			if err := put(c.full, "p0"); err != nil { // a change
				t.Error(err)
			}
			if err := put(c.other, "another's"); err != nil {
				t.Error(err)
			}
			archived := c.full
			archived.Archived = true
			if err := put(archived, "p0"); err != nil {
				t.Error(err)
			}
			if err := put(c.full, "one more"); err != nil {
				t.Error(err)
			}
		})
	}
}

// Archived policies are kept up to a bound; the ones of others are not touched.
func TestArchivedPoliciesAreBounded(t *testing.T) {
	w := newWorld(t)
	w.many(10, RateLimit{Policy: Policy{ID: "other", WorkspaceID: "b", Archived: true}})
	w.many(1, RateLimit{Policy: Policy{ID: "old", WorkspaceID: "a", Archived: true}})
	w.pass(time.Second)
	w.many(MaxArchived-1, RateLimit{Policy: Policy{ID: "p", WorkspaceID: "a", Archived: true}})
	if _, ok := w.Rates.Get("old0"); !ok {
		t.Error("it was dropped too early")
	}
	w.put(RateLimit{Policy: Policy{ID: "new", WorkspaceID: "a", Archived: true}})
	if _, ok := w.Rates.Get("old0"); ok || len(w.Rates.All()) != MaxArchived+10 {
		t.Errorf("%d policies, the oldest is there: %v", len(w.Rates.All()), ok)
	}
}
