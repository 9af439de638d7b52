package credentials

import (
	"strings"
)

// Blocks reports whether a workspace may only use saved resources.
func (r *Router) Blocks(workspaceID string) bool {
	return r.BlockInline || r.BlockedIn != nil && r.BlockedIn(workspaceID)
}

// Inline returns an error if a request contains something that block_inline_config forbids,
// checking in the documented order.
func (r *Router) Inline(workspaceID string, s Selection) *Error {
	if !r.Blocks(workspaceID) {
		return nil
	}
	n, unknown := r.named(workspaceID, s)
	switch {
	case strings.HasPrefix(strings.TrimSpace(s.Config), "{"):
		return newError(InlineConfigBlocked, fieldConfig, "Inline configs are blocked"+inlineBlocked)
	case unknown != nil:
		return unknown
	case n.builtIn != "" && n.field == fieldProvider: // in the model, it is ignored if a config names another
		return inlineProvider(n.field)
	case s.CustomHost != "":
		return newError(InlineHostBlocked, fieldCustomHost, "Inline custom hosts are blocked"+inlineBlocked)
	}
	return nil
}

const inlineBlocked = "; the organisation accepts only saved resources (block_inline_config)"

func inlineProvider(field string) *Error {
	return newError(InlineProviderBlocked, field, "Inline providers are blocked"+inlineBlocked)
}
