package admin_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
)

// Two control planes with the same store, neither of which receives the other's
// changes, do not exceed any bound on the number of rows by even one.
func TestTwoControlPlanesKeepToTheBoundsOfRows(t *testing.T) {
	policy := func(everywhere bool) func(a *api, tx *storage.Txn, w string, i int) error {
		return func(a *api, tx *storage.Txn, w string, i int) error {
			p := &policies.RateLimit{Policy: policies.Policy{ID: strconv.Itoa(i), Type: policies.Requests, WorkspaceID: w, AllWorkspaces: everywhere}, Unit: "rpm"}
			return a.s.RateLimits.Put(tx, p)
		}
	}
	for _, c := range []struct {
		resource string
		limit    int
		add      func(a *api, tx *storage.Txn, w string, i int) error // adds row number i
		path     string
		body     func(w string, n int) string
	}{
		{
			"policies of a workspace", policies.MaxOfWorkspace, policy(false), "/v1/policies/rate-limits",
			func(w string, _ int) string {
				return `{"type":"requests","unit":"rpm","value":3,"workspace_id":"` + w + `"}`
			},
		},
		{
			"policies of the organisation", policies.MaxOfOrganisation, policy(true), "/v1/policies/rate-limits",
			func(string, int) string { return `{"type":"requests","unit":"rpm","value":3}` },
		},
		{
			"model aliases", routing.MaxAliases,
			func(a *api, tx *storage.Txn, w string, i int) error {
				return a.s.Aliases.Put(tx, &routing.Alias{Name: fmt.Sprint("seed-", i), Model: "@local/m", WorkspaceID: w})
			},
			"/v1/model-aliases",
			func(w string, n int) string {
				return fmt.Sprintf(`{"name":"a-%d","model":"@local/m","workspace_id":%q}`, n, w)
			},
		},
		{
			"workspaces", directory.MaxWorkspaces - 1, // in addition to the default one
			func(a *api, tx *storage.Txn, _ string, i int) error {
				return a.s.Directory.AddWorkspace(tx, &directory.Workspace{ID: fmt.Sprint("w-", i), Slug: fmt.Sprint("s-", i)})
			},
			"/v1/admin/workspaces",
			func(_ string, n int) string { return fmt.Sprintf(`{"name":"w %d"}`, n) },
		},
	} {
		t.Run(c.resource, func(t *testing.T) {
			a := newAPI(t)
			planes := []*api{a, a.second()}
			w := a.ok("GET", "/v1/admin/workspaces", "").get("data.0.id").Str
			const atOnce = 500
			for first := 0; first < c.limit-1; first += atOnce {
				err := a.s.DB.Update(t.Context(), func(tx *storage.Txn) error {
					for i := first; i < min(first+atOnce, c.limit-1); i++ {
						if err := c.add(a, tx, w, i); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			const each = 3
			var group sync.WaitGroup
			statuses := make(chan int, len(planes)*each)
			for n, plane := range planes {
				group.Go(func() {
					for i := range each {
						statuses <- plane.do("POST", c.path, c.body(w, n*each+i)).status
					}
				})
			}
			group.Wait()
			close(statuses)
			made := 0
			for status := range statuses {
				switch status {
				case 200:
					made++
				case 409:
				default:
					t.Errorf("got a %d", status)
				}
			}
			if made != 1 {
				t.Errorf("%d rows were made where there was room for one", made)
			}
		})
	}
}

// Archived policies beyond their bound are removed, regardless of which control plane
// archived them.
func TestTwoControlPlanesKeepToTheBoundOfArchivedPolicies(t *testing.T) {
	a := newAPI(t)
	b := a.second()
	w := a.ok("GET", "/v1/admin/workspaces", "").get("data.0.id").Str
	archive := func(plane *api, id string) {
		t.Helper()
		err := plane.s.DB.Update(t.Context(), func(tx *storage.Txn) error {
			return plane.s.RateLimits.Put(tx, &policies.RateLimit{Policy: policies.Policy{ID: id, Type: policies.Requests, WorkspaceID: w, Archived: true}, Unit: "rpm"})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range policies.MaxArchived {
		archive(a, strconv.Itoa(i))
	}
	archive(b, "x")
	archive(a, "y")
	archive(b, "z")
	archived := 0
	for _, p := range a.second().s.RateLimits.All() {
		if p.Archived {
			archived++
		}
	}
	if archived != policies.MaxArchived {
		t.Errorf("%d archived policies, want %d", archived, policies.MaxArchived)
	}
}
