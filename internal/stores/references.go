package stores

import (
	"strings"

	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/routing"
)

// References finds what configs, prompts and model aliases of a workspace refer to, in the store or in what it will
// have.
type References struct {
	// Operators reports whether a workspace may use a provider of the operator's configuration.
	Operators  func(workspace, slug string) bool
	BuiltIn    func(provider string) bool
	VirtualKey func(workspace, slugOrID string) bool
	Guardrail  func(workspace, slugOrID string) (*hooks.Guardrail, bool)
	// Misplaced says why a guardrail that is there never judges where it is referred to; "": it does.
	Misplaced func(workspace string, to routing.Reference) string
	Prompt    func(workspace, reference string) bool
	Config    func(slugOrID string) (*routing.Saved, bool)
}

// Saves reports whether a workspace has a saved provider with a slug: one of the operator's, or a virtual key.
func (r *References) Saves(workspace, slug string) bool {
	return r.Operators(workspace, slug) || r.VirtualKey(workspace, slug)
}

// Answers reports whether a workspace has a provider or config with a name, which a prompt may have as its virtual
// key.
func (r *References) Answers(workspace, name string) bool {
	slug := strings.TrimPrefix(name, "@")
	if slug == "" {
		return false
	}
	if r.Saves(workspace, slug) {
		return true
	}
	s, ok := r.Config(name)
	return ok && s.WorkspaceID == workspace && !s.Archived
}

// Missing returns an error message if a config refers to something that does not exist in its workspace, or else "".
func (r *References) Missing(workspace string, to routing.Reference) string {
	slug, saved := strings.CutPrefix(to.Name, "@")
	switch {
	case to.Guardrail:
		g, ok := r.Guardrail(workspace, to.Name)
		if !ok {
			return "the workspace has no such guardrail"
		}
		if _, ok := g.Version(to.Version); !ok {
			return "the guardrail has no such version"
		}
		return r.Misplaced(workspace, to)
	case to.Prompt:
		if !r.Prompt(workspace, to.Name) {
			return "the workspace has no such prompt, or no such version of it"
		}
		return ""
	case to.VirtualKey:
		if !r.VirtualKey(workspace, to.Name) {
			return "the workspace has no such virtual key"
		}
		return ""
	case r.Saves(workspace, slug), r.BuiltIn(to.Name):
		return ""
	case !saved:
		return "there is no such provider: neither built in nor saved"
	}
	return "the workspace has no such provider"
}
