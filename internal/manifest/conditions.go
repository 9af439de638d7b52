package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/providers"
)

// checkConditions refuses conditions of a policy on what does not exist: they would never match. had are those of the store.
func (w *whole) checkConditions(p *policies.Policy, had []policies.Condition) error {
	if w.allowMissing || reflect.DeepEqual(p.Conditions, had) {
		return nil
	}
	workspace := p.WorkspaceID
	if p.AllWorkspaces {
		workspace = ""
	}
	for i, c := range p.Conditions {
		for name, values := range map[string][]string{"values": c.Values, "excludes": c.Excludes} {
			for _, v := range values {
				if v != "*" && !w.conditioned(workspace, c.Key, v) {
					return wrong(fmt.Sprintf("conditions[%d].%s", i, name), "there is no %s %q%s", c.Key, credentials.Clip(v), allowing)
				}
			}
		}
	}
	return nil
}

// conditioned reports whether there is what a value of a condition names, as far as that can be known.
func (w *whole) conditioned(workspace, key, v string) bool {
	switch key {
	case policies.KeyWorkspace:
		_, ok := find(w, "workspaces", v, slugOfWorkspace)
		return ok
	case policies.KeyAPIKey:
		_, ok := find(w, "api_keys", v, noMore[credentials.APIKey])
		return ok || v == credentials.OwnerKeyID
	case policies.KeyVirtualKey:
		return w.hasVirtualKey(workspace, v)
	case policies.KeyProvider:
		return w.hasProvider(workspace, strings.TrimPrefix(v, "@"))
	case policies.KeyConfig:
		c, ok := find(w, "configs", v, slugOfConfig)
		return ok && c.Slug == v && (workspace == "" || c.WorkspaceID == workspace)
	case policies.KeyPrompt:
		p, ok := find(w, "prompts", v, slugOfPrompt)
		return ok && p.Slug == v && !p.Partial && !p.Archived && (workspace == "" || p.VisibleIn(workspace))
	case policies.KeyOrganisation:
		return v == w.organisation
	case policies.KeyEndpoint:
		return w.IsEndpoint(v)
	case policies.KeyModel:
		of, model, named := strings.Cut(v, "/")
		slug, saved := strings.CutPrefix(of, "@")
		return !named || !saved || model == "" || w.hasProvider(workspace, slug)
	}
	return true
}

// hasProvider reports whether calls of a workspace, or for "" of any, can go to a provider with that name.
func (w *whole) hasProvider(workspace, name string) bool {
	if _, ok := providers.Lookup(name); ok || w.mayUse(workspace, name) {
		return true
	}
	return slices.ContainsFunc(w.virtualKeys(), func(v *credentials.VirtualKey) bool {
		return v.Slug == name && (workspace == "" || v.WorkspaceID == workspace)
	})
}

func (w *whole) hasVirtualKey(workspace, slugOrID string) bool {
	return slices.ContainsFunc(w.virtualKeys(), func(v *credentials.VirtualKey) bool {
		return (v.Slug == slugOrID || v.ID == slugOrID) && (workspace == "" || v.WorkspaceID == workspace)
	})
}

func (w *whole) virtualKeys() []*credentials.VirtualKey {
	all, ok := w.indexes["all virtual_keys"].([]*credentials.VirtualKey)
	if !ok {
		all = after[credentials.VirtualKey](w, "virtual_keys")
		w.indexes["all virtual_keys"] = all
	}
	return all
}

func slugOfWorkspace(ws *directory.Workspace) []string { return []string{ws.Slug} }
