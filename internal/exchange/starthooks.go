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
func (c *Call) startDefaults() *Error {
	if c.Gateway.Guardrails == nil {
		return nil
	}
	list, err := c.Gateway.Guardrails.Defaults(c.Caller.WorkspaceID, guardrails.Start)
	if err != nil {
		return Unavailable("The guardrails of the workspace cannot be read for now", err)
	}
	return c.runStart(list)
}

// startHooks runs those of the config.
func (c *Call) startHooks(list []*hooks.Hook) *Error {
	list, err := c.saved(list)
	if err != nil {
		return err
	}
	return c.runStart(list)
}

// runStart runs start hooks. One that refuses with an answer is noted instead, where the endpoint has
// such answers.
func (c *Call) runStart(list []*hooks.Hook) *Error {
	if len(list) == 0 {
		return nil
	}
	now := make([]*hooks.Hook, len(list))
	for i, h := range list {
		now[i] = h.AsStart()
	}
	s := guardrails.Subject{
		Phase: guardrails.Start, Type: c.Endpoint.Name, Stream: c.Stream, Model: c.Model,
		Metadata: c.AllMetadata(), Header: c.request.Header, Workspace: c.Caller.WorkspaceID, Caller: c.CallerID(),
	}
	if c.Gateway.CheckServices != nil {
		s.Services = c.Gateway.CheckServices(c.Caller.WorkspaceID, c.Through())
	}
	out := hooks.Run(c.request.Context(), now, s, false, c.Gateway.Now)
	c.Started = append(c.Started, out.Results...)
	for i := range out.Results {
		c.Gateway.Metrics.Hook(c.Endpoint.Name, "start", out.Results[i].Counted())
	}
	if out.Denied == nil {
		return nil
	}
	why := hooks.Why(out.Denied, guardrails.Start)
	if out.Denied.SoftDeny && hooks.SoftRefusal(c.Endpoint.Name, "", "", why, c.Gateway.Now()) != nil {
		c.softDenial = cmp.Or(c.softDenial, why)
		return nil
	}
	return Denied(why, hooks.JSON(c.Started, nil))
}

// denySoftly answers a call that a start hook refuses so, now that it is known whether it is to
// be answered by a stream.
func (c *Call) denySoftly() *Error {
	if c.softDenial == "" {
		return nil
	}
	answer := hooks.SoftRefusal(c.Endpoint.Name, c.NewID(), c.Model, c.softDenial, c.Gateway.Now())
	refusal := &Error{Status: http.StatusOK, Type: "hooks_failed", Message: c.softDenial, Answer: answer, Media: "application/json"}
	if c.Stream {
		stream, err := (&cache.Entry{Body: answer}).As(c.Endpoint.Name, true)
		if err != nil {
			return AsError(err)
		}
		refusal.Answer, refusal.Media = stream, "text/event-stream"
		return refusal
	}
	with, err := sjson.SetRawBytes(answer, "hook_results", hooks.JSON(c.Started, nil))
	if err != nil {
		return AsError(err)
	}
	refusal.Answer = with
	return refusal
}

// CallerID is the id of the user who calls, or else of the API key.
func (c *Call) CallerID() string { return cmp.Or(c.Caller.UserID, c.Caller.KeyID) }
