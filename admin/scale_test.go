package admin_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
)

// Of each kind of saved objects, how many a benchmark has.
const (
	manyConfigs     = 10_000
	manyPrompts     = 100
	manyVersions    = 100    // of each prompt
	manyOthers      = 10_000 // integrations, and users, each in a workspace
	manyInWorkspace = 1000   // guardrails, and collections
	manyPolicies    = 200
)

// manyVirtualKeys is how many of them a benchmark has: fewer with -short.
func manyVirtualKeys() int {
	if testing.Short() {
		return 1000
	}
	return 100_000
}

// fill stores many objects, several in a transaction.
func (a *api) fill(workspace string) {
	a.t.Helper()
	batches := func(n, atOnce int, add func(tx *storage.Txn, i int) error) {
		for first := 0; first < n; first += atOnce {
			err := a.s.DB.Update(a.t.Context(), func(tx *storage.Txn) error {
				for i := first; i < min(first+atOnce, n); i++ {
					if err := add(tx, i); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				a.t.Fatal(err)
			}
		}
	}
	batches(manyVirtualKeys(), 250, func(tx *storage.Txn, i int) error {
		return a.s.Keyring.AddVirtualKey(tx, &credentials.VirtualKey{
			Credential: credentials.Credential{ID: storage.NewID(rand.Reader), Provider: "openai"},
			Slug:       fmt.Sprint("key-", i), Name: fmt.Sprint("Key ", i), WorkspaceID: workspace,
		}, credentials.NewSecret("sk-0123456789abcdef"))
	})
	batches(manyConfigs, 100, func(tx *storage.Txn, i int) error {
		return a.s.Configs.Put(tx, &routing.Saved{Slug: fmt.Sprint("pc-", i), Name: fmt.Sprint("Config ", i), WorkspaceID: workspace, Default: i == 0},
			`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@local"},{"provider":"openai","api_key":"sk-0123456789abcdef"}]}`, "k")
	})
	organisation := a.s.Directory.Organisation().ID
	batches(manyOthers, 100, func(tx *storage.Txn, i int) error {
		in := &credentials.Integration{
			Credential: credentials.Credential{ID: storage.NewID(rand.Reader), Provider: "openai"}, Slug: fmt.Sprint("integration-", i), Name: "Integration",
			OrganisationID: organisation, AllWorkspaces: i%2 == 0, Access: map[string]bool{workspace: true},
		}
		u := &directory.User{Email: fmt.Sprintf("user%d@example.com", i), Role: []roles.Organisation{roles.Admin, roles.Member}[i%2]}
		if err := errors.Join(a.s.Keyring.ReplaceIntegration(tx, in, credentials.NewSecret("sk-1")), a.s.Directory.PutUser(tx, u)); err != nil {
			return err
		}
		return a.s.Directory.PutMember(tx, &directory.Member{WorkspaceID: workspace, UserID: u.ID, Role: roles.WorkspaceMember})
	})
	batches(manyInWorkspace, 100, func(tx *storage.Txn, i int) error {
		text := &hooks.Text{Checks: json.RawMessage(`[{"id":"default.contains","parameters":{"words":["x"],"operator":"none"}}]`), Actions: json.RawMessage(`{}`)}
		return errors.Join(
			a.s.Guardrails.Put(tx, &hooks.Guardrail{Slug: fmt.Sprint("pg-", i), Name: fmt.Sprint("Guardrail ", i), OrganisationID: organisation, WorkspaceID: workspace}, text, ""),
			a.s.Prompts.PutCollection(tx, &prompts.Collection{Slug: fmt.Sprint("co-", i), Name: fmt.Sprint("Collection ", i), WorkspaceID: workspace}))
	})
	batches(manyPolicies, 100, func(tx *storage.Txn, i int) error {
		p := policies.Policy{ID: storage.NewID(rand.Reader), Type: policies.Requests, WorkspaceID: workspace, OrganisationID: organisation, Conditions: []policies.Condition{{Key: "api_key", Values: []string{fmt.Sprint(i)}}}}
		return a.s.RateLimits.Put(tx, &policies.RateLimit{Policy: p, Unit: "rpm", Value: 1})
	})
	saved := make([]*prompts.Prompt, manyPrompts)
	batches(manyPrompts*manyVersions, 10, func(tx *storage.Txn, i int) error {
		content := &prompts.Content{String: fmt.Sprintf(`[{"role":"user","content":"%d {{a}} %s"}]`, i, strings.Repeat("word ", 200)), VirtualKey: "@local"}
		n := i % manyPrompts
		if saved[n] == nil {
			saved[n] = &prompts.Prompt{Slug: fmt.Sprint("pp-", n), Name: fmt.Sprint("Prompt ", n), WorkspaceID: workspace, CollectionID: prompts.DefaultCollection(workspace, time.Time{}).ID}
			return a.s.Prompts.Add(tx, saved[n], content)
		}
		return a.s.Prompts.Put(tx, saved[n], content)
	})
}

// BenchmarkSavedObjects lists, filters and gets objects among many, and opens the services of a
// store that has them, which is most of a start. bytes/object is the memory that they take; that of virtual keys has the
// integrations in it.
func BenchmarkSavedObjects(b *testing.B) {
	a := newAPI(b)
	workspace := a.s.Directory.DefaultWorkspace().ID
	collection := prompts.DefaultCollection(workspace, time.Time{}).ID
	a.fill(workspace)
	for _, c := range []struct{ name, path string }{
		{"list virtual keys", "/v1/virtual-keys?page_size=100&current_page=0"},
		{"last page of virtual keys", "/v1/virtual-keys?page_size=100&current_page=999"},
		{"list virtual keys of a workspace", "/v1/virtual-keys?page_size=100&current_page=0&workspace_id=" + workspace},
		{"get a virtual key", "/v1/virtual-keys/key-77777"},
		{"list API keys", "/v1/api-keys"},
		{"list providers", "/v1/providers"},
		{"list configs", "/v1/configs"},
		{"last page of configs", "/v1/configs?current_page=99"},
		{"list configs of a workspace", "/v1/configs?workspace_id=" + workspace},
		{"get a config", "/v1/configs/pc-7777"},
		{"list prompts", "/v1/prompts"},
		{"list prompts of a collection", "/v1/prompts?page_size=20&collection_id=" + collection},
		{"list shared prompts", "/v1/prompts?type=shared"},
		{"search prompts", "/v1/prompts?search=prompt%2077"},
		{"list integrations", "/v1/integrations"},
		{"list integrations of a workspace", "/v1/integrations?workspace_id=" + workspace},
		{"list guardrails", "/v1/guardrails"},
		{"search guardrails", "/v1/guardrails?search=rail%2077"},
		{"list collections", "/v1/collections"},
		{"list rate limits", "/v1/policies/rate-limits?type=requests"},
		{"list users", "/v1/admin/users"},
		{"list users by role", "/v1/admin/users?role=admin"},
		{"list members of a workspace", "/v1/admin/workspaces/" + workspace + "/users"},
		{"get a version of a prompt", "/v1/prompts/pp-77?version=50"},
		{"list the versions of a prompt", "/v1/prompts/pp-77/versions"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), "GET", c.path, nil)
				r.Header.Set("X-Gw-Api-Key", ownerKey)
				w := httptest.NewRecorder()
				if a.handler().ServeHTTP(w, r); w.Code != 200 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
	b.Run("default config", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if a.s.Configs.DefaultOf(workspace) == nil {
				b.Fatal("there is none")
			}
		}
	})
	b.Run("change a virtual key", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.ok("PUT", "/v1/virtual-keys/key-500", `{"note":"changed"}`)
		}
	})
	for _, c := range []struct {
		name    string
		objects int
		open    func(db *storage.DB) (any, error)
	}{
		{"start with virtual keys", manyVirtualKeys(), func(db *storage.DB) (any, error) {
			return credentials.OpenKeyring(b.Context(), db, credentials.NewSecret(strings.Repeat("m", 32)), time.Now, rand.Reader)
		}},
		{"start with configs", manyConfigs, func(db *storage.DB) (any, error) {
			return routing.OpenConfigStore(b.Context(), db, a.s.Keyring, time.Now, rand.Reader)
		}},
		{"start with versions of prompts", manyPrompts * manyVersions, func(db *storage.DB) (any, error) {
			return prompts.Open(b.Context(), db, time.Now, rand.Reader)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			kept := make([]any, 1) // not to be collected
			var before, after runtime.MemStats
			for b.Loop() {
				kept[0] = nil
				runtime.GC()
				runtime.ReadMemStats(&before)
				var err error
				if kept[0], err = c.open(storage.NewDB(unfed{a.store})); err != nil {
					b.Fatal(err)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
			}
			runtime.KeepAlive(kept)
			b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(c.objects), "bytes/object")
		})
	}
}
