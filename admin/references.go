package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// saves reports whether a workspace has a saved provider with a slug: one of the
// operator's, or a virtual key.
func (c *call) saves(workspace, slug string) bool {
	if c.mayUse(workspace, slug) {
		return true
	}
	_, ok := c.api.Keyring.VirtualKey(workspace, slug)
	return ok
}

// mayUse reports whether a workspace, or for "" any, may use a provider in the operator's
// configuration.
func (c *call) mayUse(workspace, slug string) bool {
	return c.api.MayUse != nil && c.api.MayUse(workspace, slug)
}

// missing returns an error message if a config refers to something that does not exist
// in its workspace, or else "".
func (c *call) missing(workspace string, r routing.Reference) string {
	slug, saved := strings.CutPrefix(r.Name, "@")
	switch {
	case r.Guardrail:
		g, ok := c.api.Guardrails.Usable(workspace, r.Name)
		if !ok {
			return "the workspace has no such guardrail"
		}
		if _, ok := g.Version(r.Version); !ok {
			return "the guardrail has no such version"
		}
		return ""
	case r.Prompt:
		if _, _, ok := c.api.Prompts.Find(workspace, r.Name, false); !ok {
			return "the workspace has no such prompt, or no such version of it"
		}
		return ""
	case r.VirtualKey:
		if _, ok := c.api.Keyring.VirtualKey(workspace, r.Name); ok {
			return ""
		}
		return "the workspace has no such virtual key"
	case c.saves(workspace, slug), isBuiltIn(r):
		return ""
	case !saved:
		return "there is no such provider: neither built in nor saved"
	}
	return "the workspace has no such provider"
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
	by, err := c.configsThat(v.WorkspaceID, func(r routing.Reference) bool {
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
			by = append(by, "model alias "+a.Name)
		}
	}
	found, err := c.promptsThat(v.WorkspaceID, func(p *prompts.Compiled) bool { return names(p.VirtualKey, v.Slug, v.ID) })
	if err != nil {
		return err
	}
	return inUse("virtual key", append(by, found...))
}

// configsThat describes the configs of a workspace, or for "" of all, with a reference for which is
// returns true.
func (c *call) configsThat(workspace string, is func(routing.Reference) bool) (by []string, err error) {
	for _, s := range c.api.Configs.All() {
		if workspace != "" && s.WorkspaceID != workspace || s.Archived {
			continue
		}
		text, err := c.api.Configs.Text(s.Current())
		if err != nil {
			return nil, err
		}
		for _, r := range routing.References(text, c.api.ParseOptions) {
			if is(r) {
				by = append(by, fmt.Sprintf("config %s (%s)", s.Slug, r.Path))
				break
			}
		}
	}
	return by, nil
}

// names reports whether a reference, with or without a leading @, is one of the names.
func names(reference string, all ...string) bool {
	return slices.Contains(all, strings.TrimPrefix(reference, "@"))
}

// promptsThat describes the prompts and partials of a workspace with a version for
// which is returns true. Only versions that calls can refer to other than by number are
// considered, such as the published one.
func (c *call) promptsThat(workspace string, is func(*prompts.Compiled) bool) (by []string, err error) {
	for _, p := range c.api.Prompts.All() {
		if p.WorkspaceID != workspace || p.Archived {
			continue
		}
		for _, v := range c.api.Prompts.Named(p) {
			compiled, err := c.api.Prompts.Compiled(c, p, v)
			if err != nil {
				return nil, err
			}
			if is(compiled) {
				by = append(by, fmt.Sprintf("prompt %s (version %d)", p.Slug, v.Number))
				break
			}
		}
	}
	return by, nil
}

// namedPrompt returns an error if configs refer to a prompt, because it then cannot be deleted.
func (c *call) namedPrompt(p *prompts.Prompt) error {
	by, err := c.configsThat(p.WorkspaceID, func(r routing.Reference) bool {
		name, _, _ := strings.Cut(r.Name, "@")
		return r.Prompt && (name == p.Slug || name == p.ID)
	})
	if err != nil {
		return err
	}
	return inUse("prompt", by)
}

// namedPartial returns an error if prompts include a partial by its slug, because it
// then cannot be deleted.
func (c *call) namedPartial(partial *prompts.Prompt) error {
	by, err := c.promptsThat(partial.WorkspaceID, func(p *prompts.Compiled) bool {
		return slices.ContainsFunc(p.Uses().Partials, func(name string) bool {
			name, _, _ = strings.Cut(name, "@")
			return name == partial.Slug || name == partial.ID
		})
	})
	if err != nil {
		return err
	}
	return inUse("partial", by)
}

// namedConfig returns an error if API keys, workspaces, model aliases or prompts refer
// to a config, because it then cannot be deleted.
func (c *call) namedConfig(s *routing.Saved) error {
	var by []string
	for _, k := range c.api.Keyring.APIKeys() {
		if k.ConfigID == s.ID {
			by = append(by, fmt.Sprintf("API key %q, as its default", k.Name))
		}
	}
	for _, w := range c.api.Directory.Workspaces() {
		if w.UserKeyConfig == s.ID {
			by = append(by, fmt.Sprintf("workspace %s, as its user_api_key_config", w.Slug))
		}
	}
	for _, a := range c.api.Aliases.All() {
		if a.ConfigID == s.ID {
			by = append(by, "model alias "+a.Name)
		}
	}
	found, err := c.promptsThat(s.WorkspaceID, func(p *prompts.Compiled) bool { return names(p.VirtualKey, s.Slug, s.ID) })
	if err != nil {
		return err
	}
	return inUse("config", append(by, found...))
}

// maxListed is the maximum number of referring objects in an error message.
const maxListed = 20

// inUse returns the error for deleting an object that others refer to, or nil if there
// are none.
func inUse(noun string, by []string) error {
	if len(by) == 0 {
		return nil
	}
	more := ""
	if n := len(by) - maxListed; n > 0 {
		by, more = by[:maxListed], fmt.Sprintf(" and %d more", n)
	}
	return failure(http.StatusConflict, "The %s is named by %s%s; change or remove that first", noun, strings.Join(by, ", "), more)
}
