package exchange

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/routing"
)

// Statuses of answers that hooks have judged.
const (
	StatusHooksFailed = 246 // a hook failed that does not refuse
	StatusHooksDenied = 446 // a hook refuses the call or its answer
)

// Succeeded reports whether a status is that of a model's answer.
func Succeeded(status int) bool { return status == http.StatusOK || status == StatusHooksFailed }

// Hooks returns the hooks of calls to a target and of their answers: those of the config, then the
// defaults of the workspace and its organisation.
func (x *Exchange) Hooks(t *routing.Target) (before, after []*hooks.Hook, err *Error) {
	if before, err = x.Gateway.savedHooks(x.Caller.WorkspaceID, t.Before); err != nil {
		return nil, nil, err
	}
	if after, err = x.Gateway.savedHooks(x.Caller.WorkspaceID, t.After); err != nil {
		return nil, nil, err
	}
	if before, err = x.withDefaults(before, guardrails.Input); err != nil {
		return nil, nil, err
	}
	after, err = x.withDefaults(after, guardrails.Output)
	return before, after, err
}

// withDefaults returns hooks with those that apply to all calls of the workspace.
func (x *Exchange) withDefaults(list []*hooks.Hook, phase guardrails.Phase) ([]*hooks.Hook, *Error) {
	if x.Gateway.Guardrails == nil {
		return list, nil
	}
	more, err := x.Gateway.Guardrails.Defaults(x.Caller.WorkspaceID, phase)
	switch {
	case err != nil:
		return nil, Unavailable("The guardrails of the workspace cannot be read for now", err)
	case more == nil:
		return list, nil
	}
	return slices.Concat(list, more), nil
}

// savedHooks returns hooks with those that the names of saved guardrails stand for.
func (g *Gateway) savedHooks(workspace string, list []*hooks.Hook) ([]*hooks.Hook, *Error) {
	if !slices.ContainsFunc(list, func(h *hooks.Hook) bool { return h.Slug != "" }) {
		return list, nil
	}
	list = slices.Clone(list)
	for i, h := range list {
		if h.Slug == "" {
			continue
		}
		saved, err := (*hooks.Hook)(nil), hooks.ErrUnknown
		if g.Guardrails != nil {
			saved, err = g.Guardrails.Hook(workspace, h.Slug, h.VersionID)
		}
		switch {
		case errors.Is(err, hooks.ErrUnknown):
			name := credentials.Clip(h.Slug)
			if h.VersionID != "" {
				name += " with the version " + credentials.Clip(h.VersionID)
			}
			return nil, badRequest("x-gw-config", "invalid_guardrail", "Invalid guardrail: there is no guardrail "+name+" in the workspace")
		case err != nil:
			return nil, Unavailable("The guardrail "+credentials.Clip(h.Slug)+" cannot be read for now", err)
		}
		list[i] = saved.As(h.Mutator)
	}
	return list, nil
}

// Replace has the body of the next attempts replaced, for which the caller has reserved the
// memory.
func (x *Exchange) Replace(body []byte) {
	b := &Buffer{b: body}
	b.refs.Store(1)
	b.forgotten.Store(true) // the target holds it for all its attempts
	x.chosen.rewritten = b
}

// SetHookHeader has the next attempts sent with what hooks set.
func (x *Exchange) SetHookHeader(h http.Header) {
	x.chosen.hookHeader = withHeader(x.chosen.hookHeader, h)
}

// HookHeader is what hooks set on the request, where a name without values is removed from it; nil: nothing.
func (a *Attempt) HookHeader() http.Header { return withHeader(a.call.StartHeader, a.hookHeader) }

// withHeader returns a header with the fields of another one, which win. It changes neither.
func withHeader(h, other http.Header) http.Header {
	switch {
	case len(other) == 0:
		return h
	case len(h) == 0:
		return other
	}
	both := maps.Clone(h)
	maps.Copy(both, other)
	return both
}

// Denied is the answer to a call that a hook refuses.
func Denied(message string, results json.RawMessage) *Error {
	return &Error{Status: StatusHooksDenied, Type: "hooks_failed", Message: message, Hooks: results}
}
