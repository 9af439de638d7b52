package app

import (
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/upstream"
)

// savedGuardrails are the saved guardrails, and those that apply to all calls of a workspace or of
// the organisation.
type savedGuardrails struct {
	*hooks.Store
	directory *directory.Directory
}

// Defaults returns the hooks of a phase that apply to all calls of a workspace: its own, then those
// of the organisation, unless the workspace is excluded from them. An error means that some of them
// cannot be read, so that no call may pass.
func (g savedGuardrails) Defaults(workspace string, phase guardrails.Phase) (all []*hooks.Hook, err error) {
	w, ok := g.directory.Workspace(workspace)
	if !ok {
		return nil, nil
	}
	above := g.directory.Organisation().Guardrails
	own, shared, excluded := w.Guardrails.Input, above.Input, w.Excluded.Input
	if phase == guardrails.Output {
		own, shared, excluded = w.Guardrails.Output, above.Output, w.Excluded.Output
	}
	if excluded {
		shared = nil
	}
	for _, list := range [...][]string{own, shared} {
		for _, id := range list {
			h, err := g.Hook(workspace, id, "")
			if err != nil {
				return nil, err
			}
			all = append(all, h)
		}
	}
	return all, nil
}

// savedSettings returns what the organisation has saved for a vendor of checks, or for a check.
func (a *App) savedSettings(name string) (map[string]string, error) {
	return a.services.Plugins.Settings(name)
}

// checkServices are what checks work with that ask others, apart from those of calls.
func (a *App) checkServices() func(workspaceID string) guardrails.Services {
	options := a.own()
	options.Guard = a.guard
	client := upstream.NewClient(a.transport.Pools(), options)
	return func(workspaceID string) guardrails.Services {
		return &upstream.CheckServices{Client: client, Workspace: workspaceID, Saved: a.savedSettings, Own: func(header string) bool {
			_, own := a.headers.Suffix(header)
			return own
		}}
	}
}
