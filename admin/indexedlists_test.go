package admin_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net/url"
	"slices"
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

// A listCheck is a list with its filters, and what a filter of all rows leaves: the ids, in order.
type listCheck struct {
	path    string
	filters map[string][]string // values to try, besides none
	none    bool                // the list cannot be limited to a workspace
	// want returns what a caller's list has. caller and only are workspaces, or "".
	want func(caller, only string, f url.Values) []string
}

// Each list is answered by indexes in memory; what it has is what a filter of all rows leaves: as they
// were made, after changes, after a restart, and while a workspace is removed.
func TestEveryListByIndexHasWhatAFilterOfAllRowsLeaves(t *testing.T) {
	a := newAPI(t)
	seed := mathrand.Uint64()
	t.Logf("seed %d", seed)
	random := mathrand.New(mathrand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	update := func(do func(tx *storage.Txn) error) {
		t.Helper()
		if err := a.s.DB.Update(t.Context(), do); err != nil {
			t.Fatal(err)
		}
	}
	organisation := a.s.Directory.Organisation().ID
	scopes := []string{"prompts.list", "configs.list", "guardrails.list", "policies.list", "workspaces.list", "workspace_users.list", "workspace_integrations.list", "organisation_integrations.list"}
	service := func(workspace string, scopes []string) string {
		kind := `organisation/service`
		if workspace != "" {
			kind = "workspace/service"
		}
		body, _ := json.Marshal(map[string]any{"name": "k", "workspace_id": workspace, "scopes": scopes})
		return a.ok("POST", "/v1/api-keys/"+kind, strings.Replace(string(body), `"workspace_id":"",`, "", 1)).get("key").Str
	}
	keys := map[string]string{"": ownerKey}
	var workspaces []string
	for _, name := range []string{"Red", "red", "Gone"} {
		w := a.ok("POST", "/v1/admin/workspaces", `{"name":"`+name+`"}`).get("id").Str
		workspaces = append(workspaces, w)
		keys[w] = service(w, scopes)
	}
	ofAny := append([]string{""}, workspaces...)

	// What there is: each is made, and some is changed and removed later.
	var users, references []string
	text := &hooks.Text{Checks: json.RawMessage(`[{"id":"default.contains","parameters":{"words":["x"],"operator":"none"}}]`), Actions: json.RawMessage(`{}`)}
	label := func(l *prompts.Label) {
		l.Name, l.WorkspaceID = fmt.Sprint(pick("red", "blue"), "-", storage.NewID(rand.Reader)), pick(workspaces...)
	}
	guardrail := func(g *hooks.Guardrail) { g.Name, g.WorkspaceID = pick("Red", "Blue"), pick(ofAny...) }
	limit := func(p *policies.Policy, kinds ...string) {
		p.ID, p.WorkspaceID, p.OrganisationID, p.Type, p.AllWorkspaces = storage.NewID(rand.Reader), pick(workspaces...), organisation, pick(kinds...), random.IntN(2) == 0
		p.Conditions, p.Archived = []policies.Condition{{Key: "api_key", Values: []string{storage.NewID(rand.Reader)}}}, random.IntN(3) == 0
	}
	for i := range 60 {
		update(func(tx *storage.Txn) error {
			in := &credentials.Integration{
				Credential: credentials.Credential{ID: storage.NewID(rand.Reader), Provider: "openai"}, Slug: fmt.Sprint("i-", i), Name: "i",
				OrganisationID: organisation, WorkspaceID: pick(ofAny...), AllWorkspaces: random.IntN(2) == 0, Tags: map[string]string{"team": pick("red", "blue")},
			}
			if in.WorkspaceID == "" {
				in.Access = map[string]bool{pick(workspaces...): random.IntN(2) == 0, pick(workspaces...): random.IntN(2) == 0}
			}
			if err := a.s.Keyring.ReplaceIntegration(tx, in, credentials.NewSecret("sk-1")); err != nil {
				return err
			}
			g := &hooks.Guardrail{Slug: fmt.Sprint("pg-", i), OrganisationID: organisation}
			guardrail(g)
			if err := a.s.Guardrails.Put(tx, g, text, ""); err != nil {
				return err
			}
			r := &policies.RateLimit{Unit: pick("rpm", "rph"), Value: 1}
			limit(&r.Policy, "requests", "tokens")
			if err := a.s.RateLimits.Put(tx, r); err != nil {
				return err
			}
			u := &policies.UsageLimit{Limit: 1_000_000}
			limit(&u.Policy, "cost", "tokens", "requests")
			if err := a.s.UsageLimits.Put(tx, u); err != nil {
				return err
			}
			l := new(prompts.Label)
			if label(l); i > 0 {
				if err := a.s.Prompts.PutLabel(tx, l); err != nil {
					return err
				}
			}
			c := &prompts.Collection{Slug: fmt.Sprint("co-", i), Name: pick("Red", "Blue"), WorkspaceID: pick(workspaces...)}
			if err := a.s.Prompts.PutCollection(tx, c); err != nil {
				return err
			}
			person := &directory.User{Email: fmt.Sprintf("u%d@example.com", i), Role: roles.Organisation(pick("admin", "member"))}
			if err := a.s.Directory.PutUser(tx, person); err != nil {
				return err
			}
			users = append(users, person.ID)
			for range 2 {
				m := &directory.Member{WorkspaceID: pick(workspaces...), UserID: person.ID, Role: roles.Workspace(pick("admin", "manager", "member"))}
				if err := a.s.Directory.PutMember(tx, m); err != nil {
					return err
				}
			}
			invite := &directory.Invite{Email: fmt.Sprintf("i%d@example.com", i), Role: roles.Organisation(pick("admin", "member")), Cancelled: random.IntN(3) == 0}
			if err := a.s.Directory.PutInvite(tx, invite, fmt.Sprint("token-", i)); err != nil {
				return err
			}
			alias := &routing.Alias{Name: fmt.Sprint("alias-", i), Model: "@local/m", WorkspaceID: pick(workspaces...), OrganisationID: organisation}
			return a.s.Aliases.Put(tx, alias)
		})
		references = append(references, a.ok("POST", "/v1/secret-references", fmt.Sprintf(`{"name":"r%d","manager_type":"environment","secret_path":"TEAM_KEY","tags":{"team":"%s"},"allow_all_workspaces":true}`, i, pick("red", "blue"))).get("id").Str)
	}
	changed := func() { // what changes and goes leaves the lists that it was in
		for i := range 20 {
			update(func(tx *storage.Txn) error {
				in := *a.s.Keyring.Integrations()[random.IntN(50)]
				in.AllWorkspaces, in.Tags = !in.AllWorkspaces, map[string]string{"team": pick("red", "blue")}
				if in.WorkspaceID == "" {
					in.Access = map[string]bool{pick(workspaces...): random.IntN(2) == 0}
				}
				g := *a.s.Guardrails.All()[random.IntN(40)]
				g.Name = pick("Red", "Blue")
				r := *a.s.RateLimits.All()[random.IntN(40)]
				r.Archived, r.Unit = random.IntN(2) == 0, pick("rpm", "rph")
				u := *a.s.UsageLimits.All()[random.IntN(40)]
				u.Archived = random.IntN(2) == 0
				l := *a.s.Prompts.Labels("")[random.IntN(40)]
				label(&l)
				c := *a.s.Prompts.Collections("")[random.IntN(40)]
				c.Name = pick("Red", "Blue")
				person, _ := a.s.Directory.User(users[random.IntN(40)])
				promoted := *person
				promoted.Role = roles.Organisation(pick("admin", "member"))
				invite := *a.s.Directory.Invites()[random.IntN(40)]
				invite.Cancelled, invite.Role = true, roles.Organisation(pick("admin", "member"))
				for _, err := range []error{
					a.s.Keyring.ReplaceIntegration(tx, &in, credentials.Secret{}), a.s.Guardrails.Put(tx, &g, nil, ""), a.s.RateLimits.Put(tx, &r), a.s.UsageLimits.Put(tx, &u),
					a.s.Prompts.PutLabel(tx, &l), a.s.Prompts.PutCollection(tx, &c), a.s.Directory.PutUser(tx, &promoted), a.s.Directory.PutInvite(tx, &invite, ""),
				} {
					if err != nil {
						return err
					}
				}
				if i%4 > 0 {
					return nil
				}
				m := a.s.Directory.Members(workspaces[0])[0]
				for _, err := range []error{
					a.s.Keyring.RemoveIntegration(tx, a.s.Keyring.Integrations()[52].ID), a.s.Guardrails.Delete(tx, a.s.Guardrails.All()[42].ID), a.s.Prompts.DeleteLabel(tx, a.s.Prompts.Labels("")[42]),
					a.s.Prompts.DeleteCollection(tx, a.s.Prompts.Collections("")[42].ID), a.s.Directory.RemoveMember(tx, m.WorkspaceID, m.UserID), a.s.Directory.RemoveInvite(tx, a.s.Directory.Invites()[42].ID),
					a.s.Aliases.Delete(tx, a.s.Aliases.All()[42].ID),
				} {
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		renamed := *a.s.Directory.Workspaces()[1]
		renamed.Name = pick("RED", "Blue")
		update(func(tx *storage.Txn) error { return a.s.Directory.ReplaceWorkspace(tx, &renamed) })
		a.ok("DELETE", "/v1/secret-references/"+references[0], "")
		references = references[1:]
	}

	var gone []string
	lives := func(workspace string) bool { return !slices.Contains(gone, workspace) }
	seen := func(caller, only, workspace string) bool {
		return lives(workspace) && (caller == "" || caller == workspace) && (only == "" || only == workspace)
	}
	is := func(filter, value string) bool { return filter == "" || strings.EqualFold(filter, value) }
	has := func(search string, names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(strings.ToLower(n), strings.ToLower(search)) })
	}
	status := func(archived bool) string {
		if archived {
			return "archived"
		}
		return "active"
	}
	policyFilters := map[string][]string{"status": {"active", "archived"}, "type": {"requests", "tokens"}}
	checks := []listCheck{
		{path: "/v1/integrations", filters: map[string][]string{"type": {"workspace", "organisation", "all"}, "tags": {`{"team":"red"}`, `{}`}}, want: func(caller, only string, f url.Values) []string {
			return idsOf(a.s.Keyring.Integrations(), func(i *credentials.Integration) string { return i.ID }, func(i *credentials.Integration) bool {
				of := caller + strings.TrimPrefix(only, caller)
				return (of == "" && (i.WorkspaceID == "" || lives(i.WorkspaceID)) || of != "" && i.EnabledIn(of)) && (f.Get("tags") != `{"team":"red"}` || i.Tags["team"] == "red") &&
					(f.Get("type") != "workspace" || i.WorkspaceID != "") && (f.Get("type") != "organisation" || i.WorkspaceID == "")
			})
		}},
		{path: "/v1/guardrails", filters: map[string][]string{"search": {"RED", "pg-1"}, "ids": {"pg-3,pg-1, pg-2,pg-1,unknown", "unknown"}, "id": {"pg-3"}, "target": {"llm", "mcp_tools", "mcp_tools,llm"}}, want: func(caller, only string, f url.Values) []string {
			return idsOf(a.s.Guardrails.All(), func(g *hooks.Guardrail) string { return g.ID }, func(g *hooks.Guardrail) bool {
				return seen(caller, only, g.WorkspaceID) && has(f.Get("search"), g.Name, g.Slug) && f.Get("target") != "mcp_tools" && is(f.Get("id"), g.Slug) &&
					(f.Get("ids") == "" || slices.Contains(strings.Split(strings.ReplaceAll(f.Get("ids"), " ", ""), ","), g.Slug))
			})
		}},
		{path: "/v1/policies/rate-limits", filters: map[string][]string{"status": policyFilters["status"], "type": policyFilters["type"], "unit": {"rpm", "rps"}}, want: func(caller, only string, f url.Values) []string {
			return idsOf(a.s.RateLimits.All(), func(p *policies.RateLimit) string { return p.ID }, func(p *policies.RateLimit) bool {
				return seen(caller, only, p.WorkspaceID) && (f.Get("status") == "" && !p.Archived || f.Get("status") == status(p.Archived)) && is(f.Get("type"), p.Type) && is(f.Get("unit"), p.Unit)
			})
		}},
		{path: "/v1/policies/usage-limits", filters: policyFilters, want: func(caller, only string, f url.Values) []string {
			return idsOf(a.s.UsageLimits.All(), func(p *policies.UsageLimit) string { return p.ID }, func(p *policies.UsageLimit) bool {
				return seen(caller, only, p.WorkspaceID) && (f.Get("status") == "" && !p.Archived || f.Get("status") == status(p.Archived)) && is(f.Get("type"), p.Type)
			})
		}},
		{path: "/v1/labels", filters: map[string][]string{"search": {"RED", "production", "none"}}, want: func(caller, only string, f url.Values) []string {
			return idsOf(slices.Concat(prompts.UniversalLabels(), a.s.Prompts.Labels("")), func(l *prompts.Label) string { return l.ID }, func(l *prompts.Label) bool {
				return (l.Universal() || seen(caller, only, l.WorkspaceID)) && has(f.Get("search"), l.Name)
			})
		}},
		{path: "/v1/collections", filters: map[string][]string{"search": {"RED", "default", "co-1"}}, want: func(caller, only string, f url.Values) []string {
			var all []*prompts.Collection
			for _, w := range a.s.Directory.Workspaces() {
				all = append(all, prompts.DefaultCollection(w.ID, w.CreatedAt))
			}
			return idsOf(append(all, a.s.Prompts.Collections("")...), func(c *prompts.Collection) string { return c.ID }, func(c *prompts.Collection) bool {
				return seen(caller, only, c.WorkspaceID) && has(f.Get("search"), c.Name, c.Slug)
			})
		}},
		{path: "/v1/model-aliases", want: func(caller, only string, _ url.Values) []string {
			return idsOf(a.s.Aliases.All(), func(l *routing.Alias) string { return l.ID }, func(l *routing.Alias) bool { return seen(caller, only, l.WorkspaceID) })
		}},
		{path: "/v1/admin/workspaces", none: true, filters: map[string][]string{"name": {"red", "none"}, "exact_name": {"red", "Red"}, "status": {"active", "archived"}}, want: func(caller, _ string, f url.Values) []string {
			return idsOf(a.s.Directory.Workspaces(), func(w *directory.Workspace) string { return w.ID }, func(w *directory.Workspace) bool {
				return seen(caller, "", w.ID) && is(f.Get("name"), w.Name) && (f.Get("exact_name") == "" || f.Get("exact_name") == w.Name) && f.Get("status") != "archived"
			})
		}},
		{path: "/v1/admin/users", none: true, filters: map[string][]string{"role": {"admin", "member", "owner"}, "email": {"U7@example.com", "none@example.com"}}, want: func(caller, _ string, f url.Values) []string {
			if caller != "" {
				return nil
			}
			return idsOf(a.s.Directory.Users(), func(u *directory.User) string { return u.ID }, func(u *directory.User) bool {
				return is(f.Get("role"), string(u.Role)) && is(f.Get("email"), u.Email)
			})
		}},
		{path: "/v1/admin/users/invites", none: true, filters: map[string][]string{"role": {"admin", "member"}, "email": {"I7@example.com", "none@example.com"}, "status": {"pending", "cancelled", "expired"}}, want: func(caller, _ string, f url.Values) []string {
			if caller != "" {
				return nil
			}
			return idsOf(a.s.Directory.Invites(), func(i *directory.Invite) string { return i.ID }, func(i *directory.Invite) bool {
				return is(f.Get("role"), string(i.Role)) && is(f.Get("email"), i.Email) && is(f.Get("status"), i.Status(time.Unix(0, a.now.Load())))
			})
		}},
		{path: "/v1/secret-references", none: true, filters: map[string][]string{"manager_type": {"environment", "aws_sm"}, "search": {"R1", "none"}, "tags": {`{"team":"red"}`}}, want: func(caller, _ string, f url.Values) []string {
			if caller != "" {
				return nil
			}
			return idsOf(a.s.Keyring.SecretReferences(), func(r *credentials.SecretReference) string { return r.ID }, func(r *credentials.SecretReference) bool {
				return is(f.Get("manager_type"), r.Manager) && has(f.Get("search"), r.Name, r.Slug) && (f.Get("tags") == "" || r.Tags["team"] == "red")
			})
		}},
	}
	for i := range 2 {
		checks = append(checks, listCheck{path: "/v1/admin/workspaces/" + workspaces[i] + "/users", none: true, filters: map[string][]string{"role": {"admin", "manager"}, "email": {"U7@example.com", "none@example.com"}}, want: func(caller, _ string, f url.Values) (ids []string) {
			if caller != "" && caller != workspaces[i] {
				return nil
			}
			for _, u := range slices.Sorted(slices.Values(users)) {
				if m, ok := a.s.Directory.Member(workspaces[i], u); ok && is(f.Get("role"), string(m.Role)) {
					if u, _ := a.s.Directory.User(u); is(f.Get("email"), u.Email) {
						ids = append(ids, u.ID)
					}
				}
			}
			return ids
		}})
	}
	found := make(map[string]int)
	all := func(when string) {
		t.Helper()
		for _, check := range checks {
			for caller, key := range keys {
				for _, only := range ofAny {
					if !lives(caller) || !lives(only) || only != "" && (check.none || caller != "" && only != caller) {
						continue
					}
					for _, f := range combinations(check.filters) {
						if only != "" {
							f.Set("workspace_id", only)
						}
						want := check.want(caller, only, f)
						if caller != "" && want == nil && a.as(key, "GET", check.path+"?"+f.Encode(), "").status != 200 {
							continue // nor may it ask
						}
						if got := a.listed(key, check.path, f); !slices.Equal(got, want) {
							t.Errorf("%s, key of %q: %s?%s: got %v, want %v", when, caller, check.path, f.Encode(), got, want)
						}
						found[check.path] += len(want)
					}
				}
			}
		}
	}
	all("as made")
	changed()
	all("after changes")
	a.open(unfed{a.store})
	all("after a restart")
	update(func(tx *storage.Txn) error { return a.s.Directory.RemoveWorkspace(tx, workspaces[2]) })
	gone = workspaces[2:]
	all("while a workspace is removed")
	for _, check := range checks {
		if found[check.path] == 0 {
			t.Errorf("%s had nothing", check.path)
		}
	}
}

// combinations are the queries of filters: none, each value of each, and each two of them.
func combinations(filters map[string][]string) []url.Values {
	type one struct{ name, value string }
	var all []one
	for name, values := range filters {
		for _, v := range values {
			all = append(all, one{name, v})
		}
	}
	queries := []url.Values{{}}
	for i, f := range all {
		queries = append(queries, url.Values{f.name: {f.value}})
		for _, g := range all[:i] {
			if g.name != f.name {
				queries = append(queries, url.Values{f.name: {f.value}, g.name: {g.value}})
			}
		}
	}
	return queries
}
