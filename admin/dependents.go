package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/routing"
)

// A dependent is a kind of objects that refer to those of another kind, which cannot be deleted
// before. add adds those that refer to a row.
type dependent[Row any] struct {
	kind string // in the plural
	add  func(c *call, by *users, row *Row) error
}

// What refers to the objects that can be deleted. Conditions of policies are left out: they may name what
// does not exist.
var (
	dependentsOfConfigs = []dependent[routing.Saved]{
		{"workspaces with the config as default", func(c *call, by *users, s *routing.Saved) error {
			if s.Default {
				by.add(c, s.WorkspaceID, "workspace %s, as its default config", c.workspaceSlug(s.WorkspaceID))
			}
			return nil
		}},
		{"workspaces with the config as user_api_key_config", func(c *call, by *users, s *routing.Saved) error {
			for _, w := range c.api.Directory.Workspaces() {
				if w.UserKeyConfig == s.ID {
					by.add(c, w.ID, "workspace %s, as its user_api_key_config", w.Slug)
				}
			}
			return nil
		}},
		{"API keys", func(c *call, by *users, s *routing.Saved) error {
			for _, k := range c.api.Keyring.APIKeys() {
				if k.ConfigID == s.ID {
					by.add(c, k.WorkspaceID, "API key %q, as its default", k.Name)
				}
			}
			return nil
		}},
		{"invites", func(c *call, by *users, s *routing.Saved) error {
			for _, i := range c.api.Directory.Invites() {
				if i.Keys != nil && i.Keys.ConfigID == s.ID && i.Status(c.api.Now()) == "pending" {
					by.add(c, "", "invite %s, as the default of its API keys", i.ID)
				}
			}
			return nil
		}},
		{"model aliases", func(c *call, by *users, s *routing.Saved) error {
			for _, a := range c.api.Aliases.All() {
				if a.ConfigID == s.ID {
					by.add(c, a.WorkspaceID, "model alias %s", a.Name)
				}
			}
			return nil
		}},
		{"prompts", func(c *call, by *users, s *routing.Saved) error {
			return c.promptsThat(by, only(s.WorkspaceID), func(p *prompts.Compiled) bool { return names(p.VirtualKey, s.Slug, s.ID) })
		}},
	}

	dependentsOfVirtualKeys = []dependent[credentials.VirtualKey]{
		{"configs", func(c *call, by *users, v *credentials.VirtualKey) error {
			return c.configsThat(by, only(v.WorkspaceID), func(r routing.Reference) bool {
				return !isBuiltIn(r) && !r.Guardrail && !r.Prompt && names(r.Name, v.Slug, v.ID)
			})
		}},
		{"model aliases", func(c *call, by *users, v *credentials.VirtualKey) error {
			for _, a := range c.api.Aliases.All() {
				if a.WorkspaceID != v.WorkspaceID || a.Model == "" {
					continue
				}
				if slug, _, err := credentials.ParseModel(a.Model); err == nil && (slug == v.Slug || slug == v.ID) {
					by.add(c, a.WorkspaceID, "model alias %s", a.Name)
				}
			}
			return nil
		}},
		{"prompts", func(c *call, by *users, v *credentials.VirtualKey) error {
			return c.promptsThat(by, only(v.WorkspaceID), func(p *prompts.Compiled) bool { return names(p.VirtualKey, v.Slug, v.ID) })
		}},
	}

	dependentsOfIntegrations = []dependent[credentials.Integration]{
		{"providers", func(c *call, by *users, i *credentials.Integration) error {
			for _, v := range c.api.Keyring.ProvidersOf(i.ID) {
				by.add(c, v.WorkspaceID, "provider %s of workspace %s", v.Slug, c.workspaceSlug(v.WorkspaceID))
			}
			return nil
		}},
	}

	dependentsOfSecretReferences = []dependent[credentials.SecretReference]{
		{"integrations", func(c *call, by *users, ref *credentials.SecretReference) error {
			for _, i := range c.api.Keyring.Integrations() {
				if hasSecret(&i.Credential, ref) {
					by.add(c, i.WorkspaceID, "integration %s", i.Slug)
				}
			}
			return nil
		}},
		{"virtual keys", func(c *call, by *users, ref *credentials.SecretReference) error {
			for _, v := range c.api.Keyring.VirtualKeys() {
				if hasSecret(&v.Credential, ref) {
					by.add(c, v.WorkspaceID, "virtual key %s", v.Slug)
				}
			}
			return nil
		}},
	}

	dependentsOfGuardrails = []dependent[hooks.Guardrail]{
		{"defaults of the organisation", func(c *call, by *users, g *hooks.Guardrail) error {
			by.judged(c, "", "the defaults of the organisation", &c.api.Directory.Organisation().Guardrails, g)
			return nil
		}},
		{"defaults of workspaces", func(c *call, by *users, g *hooks.Guardrail) error {
			for _, w := range c.api.Directory.Workspaces() {
				by.judged(c, w.ID, "the defaults of the workspace "+w.Slug, &w.Guardrails, g)
			}
			return nil
		}},
		{"configs", func(c *call, by *users, g *hooks.Guardrail) error {
			return c.configsThat(by, usedBy(g), func(r routing.Reference) bool { return r.Guardrail && names(r.Name, g.Slug, g.ID) })
		}},
	}

	dependentsOfPrompts = []dependent[prompts.Prompt]{
		{"configs", func(c *call, by *users, p *prompts.Prompt) error {
			return c.configsThat(by, p.VisibleIn, func(r routing.Reference) bool { return r.Prompt && refersTo(r.Name, p) })
		}},
	}

	dependentsOfPartials = []dependent[prompts.Prompt]{
		{"prompts", func(c *call, by *users, p *prompts.Prompt) error {
			return c.promptsThat(by, p.VisibleIn, func(other *prompts.Compiled) bool {
				return slices.ContainsFunc(other.Uses().Partials, func(name string) bool { return refersTo(name, p) })
			})
		}},
	}

	dependentsOfLabels = []dependent[prompts.Label]{
		{"configs", func(c *call, by *users, l *prompts.Label) error {
			return c.configsThat(by, everywhere, func(r routing.Reference) bool { return r.Prompt && c.byLabel(r.Name, l) })
		}},
		{"prompts", func(c *call, by *users, l *prompts.Label) error {
			return c.promptsThat(by, everywhere, func(p *prompts.Compiled) bool {
				return slices.ContainsFunc(p.Uses().Partials, func(name string) bool { return c.byLabel(name, l) })
			})
		}},
	}

	dependentsOfCollections = []dependent[prompts.Collection]{
		{"collections", func(c *call, by *users, p *prompts.Collection) error {
			for _, child := range c.api.Prompts.CollectionsIn(p.ID) {
				by.add(c, child.WorkspaceID, "collection %s", child.Slug)
			}
			return nil
		}},
		{"prompts and partials", func(c *call, by *users, p *prompts.Collection) error {
			for _, inside := range c.api.Prompts.InCollection(p.ID) {
				noun := "prompt"
				if inside.Partial {
					noun = "partial"
				}
				by.add(c, inside.WorkspaceID, "%s %s", noun, inside.Slug)
			}
			return nil
		}},
	}
)

// unused returns an error if others refer to an object, because it then cannot be deleted.
func unused[Row any](c *call, noun string, row *Row, all []dependent[Row]) error {
	return unusedIn(c, noun, row, all, everywhere)
}

// unusedIn is unused for what refers to the object from certain workspaces.
func unusedIn[Row any](c *call, noun string, row *Row, all []dependent[Row], of func(workspace string) bool) error {
	by := users{of: of}
	for _, d := range all {
		if err := d.add(c, &by, row); err != nil {
			return err
		}
	}
	return inUse(noun, by)
}

// workspaceSlug returns the slug of a workspace, or else its id.
func (c *call) workspaceSlug(id string) string {
	if w, ok := c.api.Directory.Workspace(id); ok {
		return w.Slug
	}
	return id
}

// hasSecret reports whether parts of a credential are a secret of a secret manager.
func hasSecret(cred *credentials.Credential, ref *credentials.SecretReference) bool {
	return slices.ContainsFunc(cred.Mappings, func(m credentials.SecretMapping) bool { return m.Reference == ref.ID })
}

// judged adds defaults of a workspace, or for "" of the organisation, that have a guardrail.
func (u *users) judged(c *call, workspace, what string, by *directory.Guardrails, g *hooks.Guardrail) {
	for _, list := range by.Lists() {
		if slices.Contains(*list.IDs, g.ID) {
			u.add(c, workspace, "%s (%s)", what, list.Field)
		}
	}
}

// refersTo reports whether a reference is to a prompt or partial, whichever version of it.
func refersTo(reference string, p *prompts.Prompt) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(reference), "@")
	return name == p.Slug || strings.EqualFold(name, p.ID)
}

// byLabel reports whether a reference is to a version by a label of a workspace.
func (c *call) byLabel(reference string, l *prompts.Label) bool {
	name, which, _ := strings.Cut(strings.TrimSpace(reference), "@")
	p, ok := c.api.Prompts.Get(name)
	return ok && which == l.Name && p.WorkspaceID == l.WorkspaceID
}

// users are what refers to an object. Of workspaces that the caller does not see, it learns the number only.
type users struct {
	of     func(workspace string) bool // only what these have
	named  []string
	hidden int
}

// add adds something of a workspace, or for "" of the organisation.
func (u *users) add(c *call, workspace, format string, args ...any) {
	switch {
	case !u.of(workspace):
	case c.maySee(workspace):
		u.named = append(u.named, fmt.Sprintf(format, args...))
	default:
		u.hidden++
	}
}
