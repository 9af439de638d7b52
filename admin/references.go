package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
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

// named returns an error if configs, model aliases or prompts refer to a virtual key,
// because it then cannot be deleted.
func (c *call) named(v *credentials.VirtualKey) error {
	if c.mayUse(v.WorkspaceID, v.Slug) {
		return nil // they refer to the operator's provider
	}
	var by users
	err := c.configsThat(&by, only(v.WorkspaceID), func(r routing.Reference) bool {
		return !isBuiltIn(r) && !r.Guardrail && !r.Prompt && names(r.Name, v.Slug, v.ID)
	})
	if err != nil {
		return err
	}
	for _, a := range c.api.Aliases.All() {
		if a.WorkspaceID != v.WorkspaceID || a.Model == "" {
			continue
		}
		if slug, _, err := credentials.ParseModel(a.Model); err == nil && (slug == v.Slug || slug == v.ID) {
			by.named = append(by.named, "model alias "+a.Name)
		}
	}
	if err := c.promptsThat(&by, only(v.WorkspaceID), func(p *prompts.Compiled) bool { return names(p.VirtualKey, v.Slug, v.ID) }); err != nil {
		return err
	}
	return inUse("virtual key", by)
}

// users are what refers to an object. Of workspaces that the caller does not see, it learns the number only.
type users struct {
	named  []string
	hidden int
}

// add adds something of a workspace.
func (u *users) add(c *call, workspace, format string, args ...any) {
	if c.maySee(workspace) {
		u.named = append(u.named, fmt.Sprintf(format, args...))
	} else {
		u.hidden++
	}
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
		if !of(s.WorkspaceID) || s.Archived {
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
		if !of(p.WorkspaceID) || p.Archived {
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

// namedPrompt returns an error if configs refer to a prompt or prompts insert a partial in its workspace,
// or in another one that it is shared with and of returns true for, because it then cannot be
// deleted, or not be taken from there.
func (c *call) namedPrompt(p *prompts.Prompt, of func(workspace string) bool) error {
	var by users
	visible := func(w string) bool { return p.VisibleIn(w) && of(w) }
	is := func(name string) bool {
		name, _, _ = strings.Cut(strings.TrimSpace(name), "@")
		return name == p.Slug || strings.EqualFold(name, p.ID)
	}
	if p.Partial {
		err := c.promptsThat(&by, visible, func(p *prompts.Compiled) bool { return slices.ContainsFunc(p.Uses().Partials, is) })
		if err != nil {
			return err
		}
		return inUse("partial", by)
	}
	if err := c.configsThat(&by, visible, func(r routing.Reference) bool { return r.Prompt && is(r.Name) }); err != nil {
		return err
	}
	return inUse("prompt", by)
}

// namedLabel returns an error if configs or prompts refer to versions by a label of a workspace, because it then can neither be deleted
// nor get another name.
func (c *call) namedLabel(l *prompts.Label) error {
	is := func(reference string) bool {
		name, which, _ := strings.Cut(strings.TrimSpace(reference), "@")
		p, ok := c.api.Prompts.Get(name)
		return ok && which == l.Name && p.WorkspaceID == l.WorkspaceID
	}
	var by users
	err := c.configsThat(&by, everywhere, func(r routing.Reference) bool { return r.Prompt && is(r.Name) })
	if err != nil {
		return err
	}
	if err := c.promptsThat(&by, everywhere, func(p *prompts.Compiled) bool { return slices.ContainsFunc(p.Uses().Partials, is) }); err != nil {
		return err
	}
	return inUse("label", by)
}

// namedConfig returns an error if API keys, workspaces, model aliases or prompts refer
// to a config, because it then can neither be deleted nor archived.
func (c *call) namedConfig(s *routing.Saved) error {
	var by users
	for _, k := range c.api.Keyring.APIKeys() {
		if k.ConfigID == s.ID {
			by.named = append(by.named, fmt.Sprintf("API key %q, as its default", k.Name))
		}
	}
	for _, w := range c.api.Directory.Workspaces() {
		if w.UserKeyConfig == s.ID {
			by.named = append(by.named, fmt.Sprintf("workspace %s, as its user_api_key_config", w.Slug))
		}
	}
	for _, a := range c.api.Aliases.All() {
		if a.ConfigID == s.ID {
			by.named = append(by.named, "model alias "+a.Name)
		}
	}
	if err := c.promptsThat(&by, only(s.WorkspaceID), func(p *prompts.Compiled) bool { return names(p.VirtualKey, s.Slug, s.ID) }); err != nil {
		return err
	}
	return inUse("config", by)
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
	return failure(http.StatusConflict, "The %s is named by %s; change or remove that first", noun, strings.Join(all, ", "))
}
