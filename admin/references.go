package admin

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// saves reports whether a workspace has a saved provider with a slug: one of the
// operator's, or a virtual key.
func (c *call) saves(workspace, slug string) bool {
	if c.api.MayUse != nil && c.api.MayUse(workspace, slug) {
		return true
	}
	_, ok := c.api.Keyring.VirtualKey(workspace, slug)
	return ok
}

// missing returns an error message if a config refers to something that does not exist in
// its workspace, or "".
func (c *call) missing(workspace string, r routing.Reference) string {
	slug, saved := strings.CutPrefix(r.Name, "@")
	switch {
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
	return ok && !r.VirtualKey
}

// named returns an error if configs or model aliases refer to a virtual key, which then
// cannot be removed.
func (c *call) named(v *credentials.VirtualKey) error {
	if c.api.MayUse != nil && c.api.MayUse(v.WorkspaceID, v.Slug) {
		return nil // they refer to the operator's provider
	}
	var by []string
	for _, s := range c.api.Configs.All() {
		if s.WorkspaceID != v.WorkspaceID || s.Archived {
			continue
		}
		text, err := c.api.Configs.Text(s.Current())
		if err != nil {
			return err
		}
		for _, r := range routing.References(text, c.api.ParseOptions) {
			if isBuiltIn(r) {
				continue
			}
			if name := strings.TrimPrefix(r.Name, "@"); name == v.Slug || name == v.ID {
				by = append(by, fmt.Sprintf("config %s (%s)", s.Slug, r.Path))
				break
			}
		}
	}
	for _, a := range c.api.Aliases.All() {
		if a.WorkspaceID != v.WorkspaceID || a.Model == "" {
			continue
		}
		if slug, _, err := credentials.ParseModel(a.Model); err == nil && (slug == v.Slug || slug == v.ID) {
			by = append(by, "model alias "+a.Name)
		}
	}
	return inUse("virtual key", by)
}

// namedConfig returns an error if API keys, workspaces or model aliases refer to a config, which then
// cannot be removed.
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
	return inUse("config", by)
}

// maxListed bounds how many referring objects an error lists.
const maxListed = 20

// inUse returns the error for removing an object that others refer to, or nil if none do.
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
