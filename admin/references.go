package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stores"
	"github.com/caddy-gw/gateway/providers"
)

// saves reports whether a workspace has a saved provider with a slug: one of the
// operator's, or a virtual key.
func (c *call) saves(workspace, slug string) bool {
	return c.references().Saves(workspace, slug)
}

// mayUse reports whether a workspace, or for "" any, may use a provider in the operator's
// configuration.
func (c *call) mayUse(workspace, slug string) bool {
	return c.api.MayUse != nil && c.api.MayUse(workspace, slug)
}

// references finds what configs, prompts and aliases refer to.
func (c *call) references() *stores.References {
	return &stores.References{
		Operators: c.mayUse,
		BuiltIn:   func(name string) bool { _, ok := providers.Lookup(name); return ok },
		VirtualKey: func(workspace, slugOrID string) bool {
			_, ok := c.api.Keyring.VirtualKey(workspace, slugOrID)
			return ok
		},
		Guardrail: c.api.Guardrails.Usable,
		Misplaced: func(workspace string, to routing.Reference) string {
			h, err := c.api.Guardrails.Hook(workspace, to.Name, to.Version)
			if err != nil {
				return "the guardrail cannot be read for now"
			}
			return h.Misplaced(to.Phase)
		},
		Prompt: func(workspace, reference string) bool {
			_, _, ok := c.api.Prompts.Find(workspace, reference, false)
			return ok
		},
		Config: c.api.Configs.Get,
	}
}

// isBuiltIn reports whether a reference names a built-in provider.
func isBuiltIn(r routing.Reference) bool {
	_, ok := providers.Lookup(r.Name)
	return ok && !r.VirtualKey && !r.Guardrail && !r.Prompt
}

// only returns whether a workspace is a certain one.
func only(workspace string) func(string) bool {
	return func(w string) bool { return w == workspace }
}

// everywhere is every workspace.
func everywhere(string) bool { return true }

// configsThat adds the configs of workspaces with a reference for which is returns true.
func (c *call) configsThat(by *users, of func(workspace string) bool, is func(routing.Reference) bool) error {
	for _, s := range c.api.Configs.All() {
		if !by.of(s.WorkspaceID) || !of(s.WorkspaceID) || s.Archived {
			continue
		}
		text, err := c.api.Configs.Text(s.Current())
		if err != nil {
			return err
		}
		for _, r := range routing.References(text, c.api.ParseOptions) {
			if is(r) {
				by.add(c, s.WorkspaceID, "config %s (%s)", s.Slug, r.Path)
				break
			}
		}
	}
	return nil
}

// names reports whether a reference, with or without a leading @, is one of the names.
func names(reference string, all ...string) bool {
	return slices.Contains(all, strings.TrimPrefix(reference, "@"))
}

// promptsThat adds the prompts and partials of workspaces with a version for
// which is returns true. Only versions that calls can refer to other than by number are
// considered, such as the published one.
func (c *call) promptsThat(by *users, of func(workspace string) bool, is func(*prompts.Compiled) bool) error {
	for _, p := range c.api.Prompts.All() {
		if !by.of(p.WorkspaceID) || !of(p.WorkspaceID) || p.Archived {
			continue
		}
		for _, v := range c.api.Prompts.Named(p) {
			compiled, err := c.api.Prompts.Compiled(c, p, v)
			if err != nil {
				return err
			}
			if is(compiled) {
				by.add(c, p.WorkspaceID, "prompt %s (version %d)", p.Slug, v.Number)
				break
			}
		}
	}
	return nil
}

// maxListed is the maximum number of referring objects in an error message.
const maxListed = 20

// inUse returns the error for deleting an object that others refer to, or nil if there
// are none.
func inUse(noun string, by users) error {
	all := by.named
	if n := len(all) - maxListed; n > 0 {
		all = append(slices.Clone(all[:maxListed]), fmt.Sprintf("%d more", n))
	}
	switch {
	case by.hidden == 1:
		all = append(slices.Clip(all), "1 object of another workspace")
	case by.hidden > 1:
		all = append(slices.Clip(all), fmt.Sprintf("%d objects of other workspaces", by.hidden))
	case len(all) == 0:
		return nil
	}
	return failure(http.StatusConflict, "The %s is used by %s; change or remove that first", noun, strings.Join(all, ", "))
}
