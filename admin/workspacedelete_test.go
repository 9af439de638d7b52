package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/removal"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/storage"
)

// until waits for a condition.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 20 s: " + what)
		}
	}
}

func (a *api) removed() {
	a.t.Helper()
	until(a.t, "the removal ends", func() bool { return len(a.s.Directory.Removals()) == 0 })
}

func TestWorkspacesAreDeletedByTheirName(t *testing.T) {
	a := newAPI(t)
	id := a.ok("POST", "/v1/admin/workspaces", `{"name":"🚀 Red team","slug":"red"}`).get("id").Str
	initial := a.s.Directory.DefaultWorkspace()
	only, _ := a.key("organisation/service", `"workspaces.update","workspaces.read"`)
	own := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["workspaces.update"],"workspace_id":"red"}`)
	for _, c := range []struct {
		key, path, body string
		status          int
		code, why       string
	}{
		{ownerKey, "red", "", 400, "AB01", ""},
		{ownerKey, "red", `{}`, 400, "AB01", "name"},
		{ownerKey, "red", `{"name":"red"}`, 400, "AB01", "name: expected the name of the workspace"},
		{ownerKey, "red", `{"name":"🚀 Red team","force":true}`, 400, "AB01", "force"},
		{ownerKey, "red", `{"name":"🚀 Red team"}`, 409, "AB07", "API keys (1)"},
		{ownerKey, "red", `{"name":"🚀 Red team","force_delete":false}`, 409, "AB07", "force_delete"},
		{ownerKey, initial.Slug, `{"name":"Default workspace","force_delete":true}`, 409, "AB07", "default workspace"},
		{ownerKey, "nope", `{"name":"n"}`, 404, "AB08", "nope"},
		{only, "red", `{"name":"🚀 Red team"}`, 403, "AB03", "workspaces.delete"},
		{own.get("key").Str, "red", `{"name":"🚀 Red team"}`, 403, "AB03", "workspaces.delete"},
	} {
		out := a.as(c.key, "DELETE", "/v1/admin/workspaces/"+c.path, c.body)
		if out.status != c.status || out.code() != c.code || !strings.Contains(out.message(), c.why) {
			t.Errorf("%s %s: %d %s, want %d %q", c.path, c.body, out.status, out.body, c.status, c.why)
		}
	}
	a.ok("DELETE", "/v1/api-keys/"+own.get("id").Str, "")
	if out := a.ok("DELETE", "/v2/workspaces/"+id, `{"name":"Red team"}`); out.body != "{}" {
		t.Errorf("%s", out.body)
	}
	if r := a.trail()[0]; r.Scope != "workspaces.delete" || r.Resource != id || r.Status != 200 {
		t.Errorf("%+v", r)
	}
	for _, path := range []string{"red", id} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			if out := a.do(method, "/v1/admin/workspaces/"+path, `{"name":"Red team"}`); out.status != 404 {
				t.Errorf("%s %s: %d %s", method, path, out.status, out.body)
			}
		}
	}
	a.workspace("red") // its slug is free
	a.removed()
}

// Everything that a workspace has goes with it: nothing in the store names it, or anything that
// it had, apart from the audit trail.
func TestAWorkspaceIsDeletedWithAllThatItHas(t *testing.T) {
	a := newAPI(t)
	red, blue := a.workspace("red"), a.workspace("blue")
	had := []string{blue}
	var key string
	for range 2 { // of each, more than a test of one would see
		n := len(had)
		for _, o := range []struct{ path, body, id string }{
			{"/v1/api-keys/workspace/service", `{"name":"k","scopes":["virtual_keys.list","completions.write"],"workspace_id":"blue"}`, "id"},
			{"/v1/api-keys/workspace/user", `{"name":"k","scopes":["virtual_keys.list"],"workspace_id":"blue"}`, "id"},
			{"/v1/virtual-keys", `{"name":"k","provider":"openai","key":"sk-1","workspace_id":"blue"}`, "data.slug"},
			{"/v1/configs", `{"name":"k","config":{"retry":{"attempts":1}},"workspace_id":"blue"}`, "id"},
			{"/v1/model-aliases", fmt.Sprintf(`{"name":"k%d","model":"@local/m","workspace_id":"blue"}`, n), "id"},
			{"/v1/integrations", `{"name":"own","ai_provider_id":"openai","key":"sk-1","workspace_id":"blue"}`, "id"},
			{"/v1/prompts", `{"name":"k","string":"s","virtual_key":"@local","workspace_id":"blue"}`, "id"},
			{"/v1/prompts/partials", `{"name":"k","string":"s","workspace_id":"blue"}`, "id"},
			{"/v1/labels", fmt.Sprintf(`{"name":"k%d","workspace_id":"blue"}`, n), "id"},
			{"/v1/collections", `{"name":"k","workspace_id":"blue"}`, "id"},
			{"/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":3,"workspace_id":"blue"}`, "id"},
			{"/v1/policies/usage-limits", `{"type":"requests","credit_limit":3,"workspace_id":"blue"}`, "id"},
		} {
			out := a.ok("POST", o.path, o.body)
			if out.get(o.id).Str == "" {
				t.Fatalf("%s: %s", o.path, out.body)
			}
			had = append(had, out.get(o.id).Str)
			if o.path == "/v1/api-keys/workspace/service" {
				key = out.get("key").Str
			}
		}
	}
	archived := a.ok("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":3,"workspace_id":"blue"}`).get("id").Str
	a.ok("DELETE", "/v1/policies/rate-limits/"+archived, "")
	a.ok("POST", "/v1/integrations", `{"name":"shared","slug":"shared","ai_provider_id":"openai","key":"sk-1"}`)
	a.ok("PUT", "/v1/integrations/shared/workspaces", `{"workspaces":[{"id":"blue","enabled":true},{"id":"red","enabled":true}]}`)
	a.ok("POST", "/v1/secret-references", `{"name":"ref","slug":"ref","manager_type":"environment","secret_path":"TEAM_KEY","allowed_workspaces":["blue","red"]}`)
	for _, w := range []string{blue, "other"} {
		if err := a.responses.Put(t.Context(), w, "resp_"+w, &stored.Response{Object: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		if err := a.objects.Claim(t.Context(), w, "local", []stored.Listed{{ID: "file-" + w, List: "files"}}, a.s.Now(), false); err != nil {
			t.Fatal(err)
		}
	}

	out := a.do("DELETE", "/v1/admin/workspaces/blue", `{"name":"blue"}`)
	const has = "API keys (4), virtual keys and providers (5), integrations (2), configs (2), model aliases (2), prompts and partials (4), labels (2), collections (2), rate-limit policies (2), usage-limit policies (2)"
	if out.status != 409 || !strings.Contains(out.body, has) {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/admin/workspaces/blue", `{"name":"blue","force_delete":true}`)
	if out := a.as(key, "GET", "/v1/virtual-keys", ""); out.status != 401 {
		t.Errorf("a key of the deleted workspace: %d %s", out.status, out.body)
	}
	for _, path := range []string{"/v1/api-keys", "/v1/virtual-keys", "/v1/configs", "/v1/prompts", "/v1/policies/rate-limits"} {
		if out := a.ok("GET", path, ""); strings.Contains(out.body, blue) {
			t.Errorf("%s: %s", path, out.body)
		}
	}
	a.removed()
	err := a.store.View(t.Context(), func(tx storage.Tx) error {
		for item, err := range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
			for _, id := range had {
				if (bytes.Contains(item.Key, []byte(id)) || bytes.Contains(item.Value, []byte(id))) && !bytes.Contains(item.Key, []byte("audit")) {
					t.Errorf("%q = %q has %s", item.Key, item.Value, id)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.ok("GET", "/v1/integrations/shared/workspaces", "").get("workspaces.#.slug").Raw; got != `["red"]` {
		t.Errorf("the shared integration is for %s", got)
	}
	if got := a.ok("GET", "/v1/secret-references/ref", ""); strings.Contains(got.body, blue) || !strings.Contains(got.body, red) {
		t.Errorf("%s", got.body)
	}
	if owns, err := a.objects.Owns(t.Context(), "other", "local", []string{"file-other"}); err != nil || !owns[0] {
		t.Errorf("the objects of others: %v %v", owns, err)
	}
}

// What a crash interrupts goes on with the next start.
func TestARemovalThatWasInterruptedGoesOn(t *testing.T) {
	a := newAPI(t)
	a.s.Removals.(*removal.Remover).Close() // the process ends after the deletion
	blue := a.workspace("blue")
	for range 3 {
		a.ok("POST", "/v1/configs", `{"name":"k","config":{"retry":{"attempts":1}},"workspace_id":"blue"}`)
	}
	a.ok("DELETE", "/v1/admin/workspaces/blue", `{"name":"blue","force_delete":true}`)
	if n := len(a.s.Configs.Of(blue, 10)); n != 3 || len(a.s.Directory.Removals()) != 1 {
		t.Fatalf("%d configs are left", n)
	}
	b := a.second()
	b.removed()
	if n := len(b.s.Configs.Of(blue, 10)); n != 0 {
		t.Errorf("%d configs are left", n)
	}
}

func TestTheNameOfAWorkspaceMayBeginWithAnIcon(t *testing.T) {
	a := newAPI(t)
	for _, c := range []struct{ body, icon, display, plain string }{
		{`{"name":"Red"}`, "", "Red", "Red"},
		{`{"name":"🚀 Red"}`, "🚀", "🚀 Red", "Red"},
		{`{"name":"🇫🇷Red"}`, "🇫🇷", "🇫🇷Red", "Red"},
		{`{"name":"👩🏽‍🚀  Red 🚀"}`, "👩🏽‍🚀", "👩🏽‍🚀  Red 🚀", "Red 🚀"},
		{`{"name":"☀️ Red"}`, "☀️", "☀️ Red", "Red"},
		{`{"name":"🚀"}`, "", "🚀", "🚀"},
		{`{"name":"1. Red"}`, "", "1. Red", "1. Red"},
		{`{"name":"🚀 Red","icon":"rocket"}`, "rocket", "🚀 Red", "Red"},
		{`{"name":"` + strings.Repeat("🚀", 20) + ` Red"}`, "", strings.Repeat("🚀", 20) + " Red", strings.Repeat("🚀", 20) + " Red"},
	} {
		made := a.ok("POST", "/v2/workspaces", c.body)
		path := "/v2/workspaces/" + made.get("id").Str
		for query, name := range map[string]string{"": c.display, "?name_format=display": c.display, "?name_format=plain": c.plain} {
			if out := a.ok("GET", path+query, ""); out.get("name").Str != name || out.get("icon").Str != c.icon {
				t.Errorf("%s%s: %s", c.body, query, out.body)
			}
		}
	}
	if out := a.do("GET", "/v2/workspaces/"+a.s.Directory.DefaultWorkspace().Slug+"?name_format=x", ""); out.status != 400 || !strings.Contains(out.body, "name_format") {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.do("POST", "/v2/workspaces", `{"name":"n","icon":"`+strings.Repeat("x", 65)+`"}`); out.status != 400 || !strings.Contains(out.body, "icon") {
		t.Errorf("%d %s", out.status, out.body)
	}
}

// defaults.config_id is the config that has is_default, from whichever side it is set.
func TestTheDefaultConfigOfAWorkspaceIsSetFromEitherSide(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	a.workspace("blue")
	config := func(more string) string {
		return a.ok("POST", "/v1/configs", `{"name":"c","config":{"retry":{"attempts":1}},"workspace_id":"red"`+more+`}`).get("slug").Str
	}
	first, second := config(`,"isDefault":true`), config("")
	theirs := a.ok("POST", "/v1/configs", `{"name":"c","config":{"retry":{"attempts":1}},"workspace_id":"blue"}`).get("slug").Str
	put := func(body string) { t.Helper(); a.ok("PUT", "/v1/admin/workspaces/red", body) }
	expect := func(slug, rest string) {
		t.Helper()
		w := a.ok("GET", "/v1/admin/workspaces/red", "")
		if w.get("defaults.config_id").Str != slug || w.get("defaults.metadata").Raw != rest {
			t.Errorf("%s, want %q", w.get("defaults").Raw, slug)
		}
		list := a.ok("GET", "/v1/configs?workspace_id=red", "")
		if got := list.get(`data.#(is_default==1)#.slug`); slug == "" && got.Raw != "[]" || slug != "" && got.Raw != `["`+slug+`"]` {
			t.Errorf("the default configs are %s, want %q", got.Raw, slug)
		}
	}
	expect(first, "")
	put(`{"defaults":{"metadata":{"a":"b"}}}`)
	expect(first, `{"a":"b"}`)
	put(`{"defaults":{"config_id":"` + second + `"}}`)
	expect(second, `{"a":"b"}`)
	if changes := a.trail()[0].Changes; len(changes) != 1 || changes[0].Field != "defaults.config_id" || changes[0].To != `"`+second+`"` {
		t.Errorf("the trail says %+v", changes)
	}
	put(`{"defaults":{"config_id":null}}`)
	expect("", `{"a":"b"}`)
	put(`{"defaults":{"config_id":"` + first + `","metadata":null}}`)
	expect(first, "")
	for _, unknown := range []string{"nope", theirs} {
		if out := a.do("PUT", "/v1/admin/workspaces/red", `{"defaults":{"config_id":"`+unknown+`"}}`); out.status != 404 || !strings.Contains(out.body, "defaults.config_id") {
			t.Errorf("%s: %d %s", unknown, out.status, out.body)
		}
	}
	put(`{"defaults":null}`)
	expect("", "")
}

// A reading is a store that counts the items that are read from it by scans.
type reading struct {
	storage.Store
	items atomic.Int64
}

type readingTx struct {
	storage.Tx
	of *reading
}

func (r *reading) View(ctx context.Context, fn func(storage.Tx) error) error {
	return r.Store.View(ctx, func(tx storage.Tx) error { return fn(readingTx{tx, r}) })
}

func (r *reading) Write(ctx context.Context, fn func(storage.Tx) error) error {
	return r.Store.Write(ctx, func(tx storage.Tx) error { return fn(readingTx{tx, r}) })
}

func (r *reading) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return r.Store.Update(ctx, func(tx storage.Tx) error { return fn(readingTx{tx, r}) })
}

func (tx readingTx) Scan(prefix, start []byte, reverse bool) iter.Seq2[storage.Item, error] {
	return func(yield func(storage.Item, error) bool) {
		for item, err := range tx.Tx.Scan(prefix, start, reverse) {
			tx.of.items.Add(1)
			if !yield(item, err) {
				return
			}
		}
	}
}

// Deleting a workspace, and removing what it has, reads what it has, however much others have.
func TestDeletingAWorkspaceReadsNothingOfOthers(t *testing.T) {
	a := newAPI(t)
	a.workspace("blue")
	const others = 30
	for _, of := range []struct {
		workspace string
		rows      int
	}{{a.s.Directory.DefaultWorkspace().Slug, others}, {"blue", 3}} {
		for i := range of.rows {
			a.ok("POST", "/v1/configs", fmt.Sprintf(`{"name":"k","config":{"retry":{"attempts":1}},"workspace_id":%q,"isDefault":%d}`, of.workspace, min(i, 1)))
			a.ok("POST", "/v1/prompts/partials", fmt.Sprintf(`{"name":"k","string":"s","workspace_id":%q}`, of.workspace))
			a.ok("POST", "/v1/virtual-keys", fmt.Sprintf(`{"name":"k","provider":"openai","key":"sk-1","workspace_id":%q}`, of.workspace))
		}
	}
	b, store := &api{t: t}, &reading{Store: a.store}
	b.open(store)
	before := store.items.Load()
	b.ok("DELETE", "/v1/admin/workspaces/blue", `{"name":"blue","force_delete":true}`)
	if n := store.items.Load() - before; n >= others {
		t.Errorf("the deletion scanned %d items", n)
	}
	b.removed()
	if n := store.items.Load() - before; n >= others {
		t.Errorf("the removal scanned %d items", n)
	}
}
