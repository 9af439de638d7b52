package app

import (
	"net/http"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/exchange"
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
// of the organisation, unless the workspace is excluded from them; of phase Start, the other way round,
// and no workspace is excluded. An error means that some of them
// cannot be read, so that no call may pass.
func (g savedGuardrails) Defaults(workspace string, phase guardrails.Phase) (all []*hooks.Hook, err error) {
	w, ok := g.directory.Workspace(workspace)
	if !ok {
		return nil, nil
	}
	above := g.directory.Organisation().Guardrails
	lists, excluded := [2][]string{w.Guardrails.Input, above.Input}, w.Excluded.Input
	switch phase {
	case guardrails.Start:
		lists, excluded = [2][]string{above.Start, w.Guardrails.Start}, false
	case guardrails.Output:
		lists, excluded = [2][]string{w.Guardrails.Output, above.Output}, w.Excluded.Output
	case guardrails.Input:
	}
	if excluded {
		lists[1] = nil
	}
	for _, list := range lists {
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

// checks are what the checks of all workspaces have in common that ask others.
func (a *App) checks() upstream.Checks {
	c := upstream.Checks{
		Saved: func(name string) (map[string]string, error) { return a.services.Plugins.Settings(name) },
		Own: func(header string) bool {
			_, own := a.headers.Suffix(header)
			return own
		},
		HoldsKey: func(text string) bool {
			return !a.started() || exchange.HoldsKey(text, a.runtime.Gateway.Authenticator)
		},
	}
	if a.azure != nil {
		c.Identity = a.azure.Token
	}
	return c
}

// checkServices are what checks ask others with that judge no target of a call, and so have no
// handler whose transport they use.
func (a *App) checkServices() func(workspaceID string, through http.Header) guardrails.Services {
	options := a.own()
	options.Guard = a.guard
	client, checks := upstream.NewClient(a.transport.Pools(), options), a.checks()
	return func(workspaceID string, through http.Header) guardrails.Services {
		return checks.For(client, workspaceID, through)
	}
}
