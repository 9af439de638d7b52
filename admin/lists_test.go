package admin_test

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
)

// listed returns the ids of a list, of pages of seven.
func (a *api) listed(key, path string, query url.Values) (ids []string) {
	a.t.Helper()
	for page := 0; ; page++ {
		query.Set("page_size", "7")
		query.Set("current_page", fmt.Sprint(page))
		out := a.as(key, "GET", path+"?"+query.Encode(), "")
		if out.status != 200 {
			a.t.Fatalf("%s?%s: %d %s", path, query.Encode(), out.status, out.body)
		}
		rows := out.get("data").Array()
		for _, row := range rows {
			ids = append(ids, row.Get("id").Str)
		}
		if len(rows) < 7 {
			if total := out.get("total").Int(); total != int64(len(ids)) {
				a.t.Errorf("%s?%s: total %d of %d", path, query.Encode(), total, len(ids))
			}
			return ids
		}
	}
}

// idsOf are those of the rows that a list should have.
func idsOf[Row any](rows []*Row, id func(*Row) string, keep func(*Row) bool) (ids []string) {
	for _, row := range rows {
		if keep(row) {
			ids = append(ids, id(row))
		}
	}
	return ids
}

// Lists are answered by indexes; what they have is what a filter of all rows leaves.
func TestListsByIndexHaveWhatAFilterOfAllRowsLeaves(t *testing.T) {
	a := newAPI(t)
	seed := mathrand.Uint64()
	t.Logf("seed %d", seed)
	random := mathrand.New(mathrand.NewPCG(seed, 0))
	any := func(of []string) string { return of[random.IntN(len(of))] }

	keys := map[string]string{"": ownerKey} // by workspace
	var workspaces, collections []string
	for _, slug := range []string{"red", "blue", "gone"} {
		a.workspace(slug)
		w, _ := a.s.Directory.Workspace(slug)
		workspaces = append(workspaces, w.ID)
		keys[w.ID] = a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"`+slug+`","scopes":["prompts.list","configs.list","virtual_keys.list","providers.list","workspace_service_api_keys.list"]}`).get("key").Str
		collections = append(collections, prompts.DefaultCollection(w.ID, w.CreatedAt).ID,
			a.ok("POST", "/v1/collections", `{"name":"c","workspace_id":"`+slug+`"}`).get("id").Str)
	}
	a.ok("POST", "/v1/api-keys/organisation/service", `{"name":"k","scopes":["logs.view"]}`)
	update := func(do func(tx *storage.Txn) error) {
		t.Helper()
		if err := a.s.DB.Update(t.Context(), do); err != nil {
			t.Fatal(err)
		}
	}
	organisation := a.s.Directory.Organisation().ID
	for i := range 120 {
		update(func(tx *storage.Txn) error {
			at := random.IntN(len(workspaces))
			workspace := workspaces[at]
			v := &credentials.VirtualKey{
				Credential: credentials.Credential{ID: storage.NewID(rand.Reader), Provider: "openai"}, Slug: fmt.Sprint("key-", i), WorkspaceID: workspace,
				IntegrationID: any([]string{"", "01900000-0000-7000-8000-000000000001"}),
			}
			if err := a.s.Keyring.AddVirtualKey(tx, v, credentials.NewSecret("sk-1")); err != nil {
				return err
			}
			c := &routing.Saved{Slug: fmt.Sprint("pc-", i), OrganisationID: organisation, WorkspaceID: workspace, Archived: random.IntN(3) == 0}
			if err := a.s.Configs.Put(tx, c, `{"provider":"@local"}`, "k"); err != nil {
				return err
			}
			p := &prompts.Prompt{
				Slug: fmt.Sprint("pp-", i), OrganisationID: organisation, Name: any([]string{"Alpha", "Beta"}), WorkspaceID: workspace, CollectionID: collections[2*at+random.IntN(2)],
				Partial: random.IntN(3) == 0, Archived: random.IntN(5) == 0,
			}
			switch random.IntN(4) {
			case 0:
				p.Share = &prompts.Share{AllWorkspaces: true}
			case 1:
				p.Share = &prompts.Share{Workspaces: []string{any(workspaces)}}
			}
			if at == 2 { // a workspace that shares prompts cannot be deleted
				p.Share = nil
			}
			return a.s.Prompts.Add(tx, p, &prompts.Content{String: "text", VirtualKey: "@local"})
		})
	}
	// What changes and goes leaves the lists that it was in.
	for i, p := range a.s.Prompts.All() {
		update(func(tx *storage.Txn) error {
			if i%10 == 0 {
				return a.s.Prompts.Delete(tx, p)
			}
			changed := *p
			changed.Archived, changed.Name, changed.Share = changed.Archived != (i%5 == 0), any([]string{"Alpha", "Beta"}), nil
			if i%3 == 0 {
				changed.Share = p.Share
			}
			return a.s.Prompts.Put(tx, &changed, nil)
		})
	}
	var gone []string // a workspace that is deleted, and still has its rows
	for _, deleted := range []bool{false, true} {
		if deleted {
			update(func(tx *storage.Txn) error { return a.s.Directory.RemoveWorkspace(tx, workspaces[2]) })
			gone = workspaces[2:]
		}
		seen := func(caller, only, workspace string) bool {
			return !slices.Contains(gone, workspace) && (caller == "" || caller == workspace) && (only == "" || only == workspace)
		}
		for caller, key := range keys {
			if slices.Contains(gone, caller) {
				continue
			}
			for _, only := range append([]string{""}, workspaces...) {
				if caller != "" && only != "" && only != caller || slices.Contains(gone, only) {
					continue
				}
				query := func(more ...string) url.Values {
					q := url.Values{}
					if only != "" {
						q.Set("workspace_id", only)
					}
					for i := 0; i < len(more); i += 2 {
						if more[i+1] != "" {
							q.Set(more[i], more[i+1])
						}
					}
					return q
				}
				check := func(path string, q url.Values, want []string) {
					t.Helper()
					if got := a.listed(key, path, q); !slices.Equal(got, want) {
						t.Errorf("deleted %v, key of %q: %s?%s: got %v, want %v", deleted, caller, path, q.Encode(), got, want)
					}
				}
				check("/v1/virtual-keys", query(), idsOf(a.s.Keyring.VirtualKeys(), func(v *credentials.VirtualKey) string { return v.ID }, func(v *credentials.VirtualKey) bool {
					return seen(caller, only, v.WorkspaceID)
				}))
				check("/v1/providers", query(), idsOf(a.s.Keyring.VirtualKeys(), func(v *credentials.VirtualKey) string { return v.ID }, func(v *credentials.VirtualKey) bool {
					return v.IntegrationID != "" && seen(caller, only, v.WorkspaceID)
				}))
				check("/v1/configs", query(), idsOf(a.s.Configs.All(), func(s *routing.Saved) string { return s.ID }, func(s *routing.Saved) bool {
					return !s.Archived && seen(caller, only, s.WorkspaceID)
				}))
				some := a.s.Keyring.APIKeys()[:3]
				named := strings.ToUpper(some[2].ID) + "," + some[0].ID + "," + some[2].ID + ",0191e7a3-0000-7000-8000-000000000000"
				for _, ids := range []string{"", named} {
					check("/v1/api-keys", query("ids", ids), idsOf(a.s.Keyring.APIKeys(), func(k *credentials.APIKey) string { return k.ID }, func(k *credentials.APIKey) bool {
						return seen(caller, only, k.WorkspaceID) && (ids == "" || k == some[0] || k == some[2])
					}))
				}
				for _, f := range []struct{ kind, show, search string }{
					{"", "", ""},
					{"shared", "", ""},
					{"", "true", ""},
					{"shared", "true", "BET"},
					{"", "", "alp"},
					{"all", "true", "pp-1"},
				} {
					for _, collection := range append([]string{"", "unknown"}, collections...) {
						for _, partial := range []bool{false, true} {
							path := "/v1/prompts"
							if partial {
								path = "/v1/prompts/partials"
							}
							of := caller
							if only != "" {
								of = only
							}
							check(path, query("type", f.kind, "show_prompt_share", f.show, "search", f.search, "collection_id", collection),
								idsOf(a.s.Prompts.All(), func(p *prompts.Prompt) string { return p.ID }, func(p *prompts.Prompt) bool {
									own := of == "" || p.WorkspaceID == of
									foreign := !own && p.Share.In(of)
									has := own && f.kind != "shared" || foreign && (f.kind == "shared" || f.show != "") || of == "" && f.kind == "shared" && p.Share != nil
									return has && (foreign || seen(caller, only, p.WorkspaceID)) && p.Partial == partial && !p.Archived &&
										(collection == "" || p.CollectionID == collection) &&
										(strings.Contains(strings.ToLower(p.Name), strings.ToLower(f.search)) || strings.Contains(p.Slug, f.search))
								}))
						}
					}
				}
			}
		}
	}
	details := a.ok("GET", "/v1/collections?page_size=100", "")
	details.get("data").ForEach(func(_, c gjson.Result) bool {
		want := len(idsOf(a.s.Prompts.All(), func(p *prompts.Prompt) string { return p.ID }, func(p *prompts.Prompt) bool { return p.CollectionID == c.Get("id").Str }))
		if got := c.Get("collection_details.prompts_count").Int(); got != int64(want) {
			t.Errorf("%d prompts, want %d: %s", got, want, c.Raw)
		}
		return true
	})
}

// A page of versions has those of the page only, and says how many there are.
func TestPagesOfVersions(t *testing.T) {
	a := newAPI(t)
	slug := a.ok("POST", "/v1/prompts", `{"name":"p","string":"0","virtual_key":"@local"}`).get("slug").Str
	for i := 1; i < 5; i++ {
		a.ok("PUT", "/v1/prompts/"+slug, fmt.Sprintf(`{"string":"%d"}`, i))
	}
	for _, c := range []struct{ query, want string }{
		{"?page_size=2", "1 2"},
		{"?page_size=2&current_page=2", "5"},
		{"?page_size=2&current_page=3", ""},
		{"?page_size=0", ""},
		{"?current_page=9223372036854775807", ""},
		{"", "1 2 3 4 5"},
	} {
		out := a.ok("GET", "/v1/prompts/"+slug+"/versions"+c.query, "")
		var got []string
		for _, v := range out.get("data").Array() {
			got = append(got, v.Get("prompt_version").Raw)
		}
		if strings.Join(got, " ") != c.want || out.get("total").Int() != 5 {
			t.Errorf("%s: %s", c.query, out.body)
		}
	}
}
