package exchange

import (
	"cmp"
	"net/http"

	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/hooks"
)

// Start hooks see the headers of a call, its metadata, its endpoint and its caller, and may refuse
// it. Those of the organisation and the workspace run once the caller is known, before the body is
// read; those of the config run when it is known, which may depend on the body.

// startDefaults runs the start hooks that apply to all calls of the workspace.
func (p *preparation) startDefaults() *Error {
	if p.Gateway.Guardrails == nil {
		return nil
	}
	list, err := p.Gateway.Guardrails.Defaults(p.Caller.WorkspaceID, guardrails.Start)
	if err != nil {
		return Unavailable("The guardrails of the workspace cannot be read for now", err)
	}
	return p.runStart(list)
}

// startHooks runs those of the config.
func (p *preparation) startHooks(list []*hooks.Hook) *Error {
	list, err := p.Gateway.savedHooks(p.Caller.WorkspaceID, list)
	if err != nil {
		return err
	}
	return p.runStart(list)
}

// runStart runs start hooks. One that refuses with an answer is noted instead, where the endpoint has
// such answers.
func (p *preparation) runStart(list []*hooks.Hook) *Error {
	if len(list) == 0 {
		return nil
	}
	now := make([]*hooks.Hook, len(list))
	for i, h := range list {
		now[i] = h.AsStart()
	}
	s := guardrails.Subject{
		Phase: guardrails.Start, Type: p.Endpoint.Name, Stream: p.Stream, Model: p.Model,
		Metadata: p.Metadata.All(), Header: p.request.Header, Workspace: p.Caller.WorkspaceID, Caller: p.Caller.ID(),
	}
	_, s.OtherModel = p.ModelUnread()
	if p.Gateway.CheckServices != nil {
		s.Services = p.Gateway.CheckServices(p.Caller.WorkspaceID, p.Gateway.Through(p.request.Header))
	}
	out := hooks.Run(p.request.Context(), now, s, false, p.Gateway.Now)
	p.Started = append(p.Started, out.Results...)
	p.StartHeader = withHeader(p.StartHeader, out.Header)
	for i := range out.Results {
		p.Gateway.Metrics.Hook(p.Endpoint.Name, "start", out.Results[i].Counted())
	}
	if out.Denied == nil {
		return nil
	}
	why := hooks.Why(out.Denied, guardrails.Start)
	if out.Denied.SoftDeny && hooks.SoftRefusal(p.Endpoint.Name, "", "", why, p.Gateway.Now()) != nil {
		p.softDenial = cmp.Or(p.softDenial, why)
		return nil
	}
	return Denied(why, hooks.JSON(p.Started, nil))
}

// denySoftly answers a call that a start hook refuses so, now that it is known whether it is to
// be answered by a stream.
func (p *preparation) denySoftly() *Error {
	if p.softDenial == "" {
		return nil
	}
	answer := hooks.SoftRefusal(p.Endpoint.Name, p.NewID(), p.Model, p.softDenial, p.Gateway.Now())
	refusal := &Error{Status: http.StatusOK, Type: "hooks_failed", Message: p.softDenial, Answer: answer, Media: "application/json"}
	if p.Stream {
		stream, err := (&cache.Entry{Body: answer}).As(p.Endpoint.Name, true)
		if err != nil {
			return AsError(err)
		}
		refusal.Answer, refusal.Media = stream, "text/event-stream"
		return refusal
	}
	with, err := sjson.SetRawBytes(answer, "hook_results", hooks.JSON(p.Started, nil))
	if err != nil {
		return AsError(err)
	}
	refusal.Answer = with
	return refusal
}
