package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stores"
	"github.com/caddy-gw/gateway/providers"
)

// A whole is what the store will have once a document is imported. Objects are checked against it that refer
// to others, which may be in the document, in any order.
type whole struct {
	*session
	planned map[string]map[string]any // rows of the document, by kind and id
	indexes map[string]any            // by kind
}

// after returns the rows of a kind.
func after[T any](w *whole, kind string) (all []*T) {
	t := tableOf[T](w, kind)
	planned := w.planned[kind]
	for _, row := range t.rows(w.session).All() {
		if planned[t.id(row)] == nil {
			all = append(all, row)
		}
	}
	for _, row := range planned {
		all = append(all, row.(*T))
	}
	return all
}

func tableOf[T any](w *whole, name string) *table[T] {
	return w.kinds[slices.IndexFunc(w.kinds, func(k kind) bool { return k.name() == name })].(*table[T])
}

// find returns the row of a kind with an id, or another text by which keys finds it.
func find[T any](w *whole, kind, by string, keys func(*T) []string) (*T, bool) {
	index, ok := w.indexes[kind].(map[string]*T)
	if !ok {
		index = make(map[string]*T)
		t := tableOf[T](w, kind)
		for _, row := range after[T](w, kind) {
			index[t.id(row)] = row
			for _, key := range keys(row) {
				index[key] = row
			}
		}
		w.indexes[kind] = index
	}
	row, ok := index[by]
	return row, ok
}

func slugOfPrompt(p *prompts.Prompt) []string     { return []string{p.Slug} }
func slugOfConfig(c *routing.Saved) []string      { return []string{c.Slug} }
func slugOfGuardrail(g *hooks.Guardrail) []string { return []string{g.Slug} }
func noMore[T any](*T) []string                   { return nil }
func nameOfLabel(l *prompts.Label) []string       { return []string{l.WorkspaceID + "/" + l.Name} }
func namesOfKey(v *credentials.VirtualKey) []string {
	return []string{v.WorkspaceID + "/" + v.Slug, v.WorkspaceID + "/" + v.ID}
}

// references finds what is referred to.
func (w *whole) references() *stores.References {
	return &stores.References{
		Operators: w.mayUse,
		BuiltIn:   func(name string) bool { _, ok := providers.Lookup(name); return ok },
		VirtualKey: func(workspace, slugOrID string) bool {
			_, ok := find(w, "virtual_keys", workspace+"/"+slugOrID, namesOfKey)
			return ok
		},
		Guardrail: func(workspace, slugOrID string) (*hooks.Guardrail, bool) {
			g, ok := find(w, "guardrails", slugOrID, slugOfGuardrail)
			return g, ok && (g.WorkspaceID == "" || g.WorkspaceID == workspace)
		},
		Misplaced: func(_ string, to routing.Reference) string {
			g, ok := find(w, "guardrails", to.Name, slugOfGuardrail)
			if !ok {
				return ""
			}
			v, ok := g.Version(to.Version)
			if !ok {
				return ""
			}
			h, err := w.Guardrails.HookOf(g, v)
			if err != nil {
				return "the guardrail cannot be read: " + err.Error()
			}
			return h.Misplaced(to.Phase)
		},
		Prompt: func(workspace, reference string) bool {
			name, which, named := strings.Cut(reference, "@")
			p, ok := find(w, "prompts", name, slugOfPrompt)
			if !ok || named && which == "" || !p.VisibleIn(workspace) || p.Partial || p.Archived {
				return false
			}
			_, ok = p.Version(which, func(name string) (string, bool) {
				for _, l := range prompts.UniversalLabels() {
					if l.Name == name {
						return l.ID, true
					}
				}
				l, ok := find(w, "labels", p.WorkspaceID+"/"+name, nameOfLabel)
				if !ok {
					return "", false
				}
				return l.ID, true
			})
			return ok
		},
		Config: func(slugOrID string) (*routing.Saved, bool) { return find(w, "configs", slugOrID, slugOfConfig) },
	}
}

// mayUse reports whether a workspace may use a provider of the operator's configuration.
func (x *session) mayUse(workspace, slug string) bool {
	return x.ParseOptions.SavedProvider != nil && x.ParseOptions.SavedProvider(workspace, slug)
}

// allowing says how to import an object all the same that refers to what does not exist.
const allowing = " (--allow-missing imports it all the same)"

// checkOwners refuses a document after which the organisation has no owner any more.
func (w *whole) checkOwners(steps []*step) error {
	before := 0
	for _, u := range w.Directory.Users() {
		if u.Role == roles.Owner {
			before++
		}
	}
	owns := func(u *directory.User) bool { return u.Role == roles.Owner }
	if before == 0 || slices.ContainsFunc(after[directory.User](w, "users"), owns) {
		return nil
	}
	for _, p := range steps {
		if p.kind == "users" {
			if was, ok := w.Directory.User(p.id); ok && owns(was) {
				return wrong(p.at+".role", "%s", directory.LastOwner)
			}
		}
	}
	return nil
}

func (w *whole) checkConfig(c, old *routing.Saved) error {
	newest := c.Current()
	if w.allowMissing || c.Archived || old != nil && old.Current().Number >= newest.Number {
		return nil
	}
	text, err := w.Keyring.UnsealText(newest.ID, newest.Sealed)
	if err != nil {
		return err
	}
	o, references := w.ParseOptions, w.references()
	o.Workspace = c.WorkspaceID
	o.Missing = func(r routing.Reference) string {
		why := references.Missing(c.WorkspaceID, r)
		if why != "" {
			why += allowing
		}
		return why
	}
	if _, faults := routing.Parse([]byte(text), o); len(faults) > 0 {
		return wrong("versions", "number %d: %s", newest.Number, strings.Join(faults.Strings(), "; "))
	}
	return nil
}

func (w *whole) checkPrompt(p, old *prompts.Prompt) error {
	for id, number := range p.Labels {
		if !slices.ContainsFunc(p.Versions, func(v prompts.Version) bool { return v.Number == number }) {
			return wrong("labels", "there is no version %d, which has the label %s", number, credentials.Clip(id))
		}
		if l, ok := find(w, "labels", id, nameOfLabel); ok && l.WorkspaceID != p.WorkspaceID {
			return wrong("labels", "the workspace has no label %q", credentials.Clip(id))
		}
	}
	if w.allowMissing || p.Partial || p.Archived || old != nil && old.Latest().Number >= p.Latest().Number {
		return nil
	}
	c, err := w.content(p, p.Latest())
	if err != nil {
		return err
	}
	if !w.references().Answers(p.WorkspaceID, c.VirtualKey) {
		return wrong("versions", "number %d: virtual_key: the workspace has no virtual key, provider or config %q%s", p.Latest().Number, credentials.Clip(c.VirtualKey), allowing)
	}
	return nil
}

func (w *whole) checkAlias(a, _ *routing.Alias) error {
	if err := credentials.CheckAlias(a.Name); err != nil {
		return wrong("name", "%v", err)
	}
	if a.ConfigID != "" {
		if c, ok := find(w, "configs", a.ConfigID, slugOfConfig); !ok || c.WorkspaceID != a.WorkspaceID {
			return wrong("config_id", "the workspace has no config %q", credentials.Clip(a.ConfigID))
		}
		return nil
	}
	slug, _, err := credentials.ParseModel(a.Model)
	if err != nil {
		return wrong("model", "%v", err)
	}
	if !w.allowMissing && !w.references().Saves(a.WorkspaceID, slug) {
		return wrong("model", "the workspace has no provider %q%s", credentials.Clip(slug), allowing)
	}
	return nil
}

func (w *whole) checkVirtualKey(v, old *credentials.VirtualKey) error {
	if old == nil || old.Slug != v.Slug {
		if err := credentials.CheckProviderSlug(v.Slug); err != nil {
			return wrong("slug", "%v", err)
		}
		if w.mayUse(v.WorkspaceID, v.Slug) {
			return wrong("slug", "%q is a provider of the operator's configuration", v.Slug)
		}
	}
	if v.IntegrationID != "" {
		i, ok := find(w, "integrations", v.IntegrationID, noMore[credentials.Integration])
		switch {
		case !ok: // which refs say
		case i.Provider != v.Provider:
			return wrong("provider", "expected that of the integration, %s", i.Provider)
		case i.WorkspaceID != "" && i.WorkspaceID != v.WorkspaceID:
			return wrong("integration_id", "the integration is another workspace's")
		}
	}
	return w.checkMapped(v.WorkspaceID, &v.Credential)
}

func (w *whole) checkIntegration(i, _ *credentials.Integration) error {
	if i.WorkspaceID == "" {
		return nil
	}
	if len(i.Access) > 0 {
		return wrong("access", "the integration is one workspace's own")
	}
	return w.checkMapped(i.WorkspaceID, &i.Credential)
}

// checkMapped refuses secret references that a workspace may not use.
func (w *whole) checkMapped(workspace string, c *credentials.Credential) error {
	if w.allowMissing {
		return nil
	}
	for n, m := range c.Mappings {
		if r, ok := find(w, "secret_references", m.Reference, noMore[credentials.SecretReference]); ok && !r.Allows(workspace) {
			return wrong(fmt.Sprintf("mappings[%d].reference", n), "there is no secret reference %q that the workspace may use%s", credentials.Clip(m.Reference), allowing)
		}
	}
	return nil
}

// checkSections refuses what a workspace changes of sections of settings that the organisation decides. What a new one brings along waits
// until the organisation lets workspaces decide, as what others had decided does.
func (w *whole) checkSections(ws, old *directory.Workspace) error {
	organisations := after[directory.Organisation](w, "organisation")
	if old == nil || len(organisations) == 0 {
		return nil
	}
	o := organisations[0]
	changed := map[string]string{} // sections, with what is changed of them
	if !reflect.DeepEqual(ws.UserKeys, old.UserKeys) {
		changed[directory.UserAPIKeys] = "user_keys"
	}
	if !reflect.DeepEqual(ws.Export, old.Export) {
		changed[directory.ExportSettings] = "export"
	}
	if !reflect.DeepEqual(ws.DataPlane, old.DataPlane) {
		changed[directory.DataPlaneSecurity] = "data_plane"
	}
	for i := range roles.Settings {
		s := &roles.Settings[i]
		on, set := ws.Security[s.Name]
		was, had := old.Security[s.Name]
		if set != had || on != was {
			changed[s.Section] = "security." + s.Name
		}
	}
	for _, section := range directory.Sections {
		if field := changed[section.Name]; field != "" && !o.LetsDecide(section.Name) {
			return wrong(field, "workspaces do not decide the section %s; overrides of the organisation lets them", section.Name)
		}
	}
	return nil
}

func (w *whole) checkWorkspaceConfig(ws, old *directory.Workspace) error {
	if err := w.checkSections(ws, old); err != nil {
		return err
	}
	if c, ok := find(w, "configs", ws.UserKeyConfig, slugOfConfig); ok && ws.UserKeyConfig != "" && c.WorkspaceID != ws.ID {
		return wrong("user_key_config", "the workspace has no config %q", credentials.Clip(ws.UserKeyConfig))
	}
	return nil
}

func (w *whole) checkKey(k, old *credentials.APIKey) error {
	if c, ok := find(w, "configs", k.ConfigID, slugOfConfig); ok && k.ConfigID != "" && c.WorkspaceID != k.WorkspaceID {
		return wrong("config_id", "there is no config %q in the key's workspace", credentials.Clip(k.ConfigID))
	}
	if k.UserID == "" || old != nil {
		return nil
	}
	if k.Kind != credentials.WorkspaceUser {
		return wrong("user_id", "only a key of kind workspace-user belongs to a user")
	}
	u, ok := find(w, "users", k.UserID, noMore[directory.User])
	if ok && u.Role.Administers() {
		return nil
	}
	if _, member := find(w, "members", k.WorkspaceID+"/"+k.UserID, noMore[directory.Member]); !member {
		return wrong("user_id", "the workspace has no member %q", credentials.Clip(k.UserID))
	}
	return nil
}

func (w *whole) checkCollection(c, _ *prompts.Collection) error {
	var above []string
	for p := c; p.ParentID != ""; {
		if slices.Contains(above, p.ID) {
			return wrong("parent_id", "the collection is within itself")
		}
		above = append(above, p.ID)
		parent, ok := find(w, "collections", p.ParentID, noMore[prompts.Collection])
		if !ok { // the default one
			break
		}
		if parent.WorkspaceID != c.WorkspaceID {
			return wrong("parent_id", "the workspace has no collection %q", credentials.Clip(p.ParentID))
		}
		p = parent
	}
	if len(above) > prompts.MaxNesting {
		return wrong("parent_id", "expected at most %d collections within each other", prompts.MaxNesting)
	}
	return nil
}
