package inference

import (
	"bytes"
	"cmp"
	"context"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A guardrailHook runs the hooks of configs: those of calls for each target, from the body as the
// client sent it, and those of answers for each attempt.
type guardrailHook struct{ f *Forwarder }

// Before runs the hooks of the call.
func (h *guardrailHook) Before(ctx context.Context, c *Candidate) (Visit, *Reply, *exchange.Error) {
	c.Notes.Set(h, nil) // it is of the target before
	if members := filesOf[c.Endpoint.Name]; members != nil {
		return h.beforeLines(c, members)
	}
	judged := hooks.Judged(c.Endpoint.Name, guardrails.Input)
	if !judged && !c.Proxied() {
		return nil, nil, nil
	}
	before, after, refusal := c.Hooks(c.Target)
	if !judged {
		before, after = hooks.Proxied(before), nil
	}
	if refusal != nil || len(before) == 0 && len(after) == 0 {
		return nil, nil, refusal
	}
	if !hooks.Judged(c.Endpoint.Name, guardrails.Output) {
		after = nil
	}
	for _, hook := range after {
		if !hook.Async {
			c.Vary = append(c.Vary, "hook: "+hook.Key)
		}
	}
	g, refusal := h.guard(c, before, after)
	if refusal != nil {
		return nil, nil, refusal
	}
	if c.Endpoint.Name == exchange.CreateResponse && hooks.Decides(after) && gjson.GetBytes(g.request, "background").Bool() {
		return nil, nil, unreadCall("background", "A response with background: true cannot be checked: guardrails of the config hold the answer back until they have judged it. Send background: false")
	}
	r, refusal := g.judgeCall(ctx, c)
	return g, r, refusal
}

// guard returns the visit of a call whose body hooks can read.
func (h *guardrailHook) guard(c *Candidate, before, after []*hooks.Hook) (*guard, *exchange.Error) {
	strict, refusal := strict(c.Call, c.Target)
	if refusal != nil {
		return nil, refusal
	}
	body, _, err := c.Chosen().Payload().JSON(false)
	if err != nil {
		refusal := exchange.AsError(err)
		refusal.Caller = true
		return nil, refusal
	}
	g := &guard{f: h.f, x: c.Exchange, judgment: &judgment{x: c.Exchange, strict: strict}, before: before, after: after}
	if body != nil {
		defer body.Release()
		// The hooks get a copy, since a check that waits for others may be left behind with it, and
		// their texts are another.
		if err := c.Memory.Reserve(2 * len(body.Bytes())); err != nil {
			return nil, exchange.Overloaded(err)
		}
		if jsonscan.Members(body.Bytes(), nil) == nil {
			g.request = bytes.Clone(body.Bytes())
		}
	}
	// Of what passes through to another path, there need not be a body that can be read.
	if g.request == nil && (!c.Proxied() || hooks.Decides(before) && (body != nil || c.Body.PassesThrough())) {
		return nil, uncheckable(c)
	}
	c.Notes.Set(h, g.judgment)
	return g, nil
}

// uncheckable refuses a call whose body no hook can read.
func uncheckable(c *Candidate) *exchange.Error {
	return unreadCall("", "The body of a call to "+cmp.Or(c.Endpoint.Path, "a path that passes through")+" must be a JSON object, so that guardrails can check it: send content-type: application/json")
}

// unreadCall refuses a call because of what guardrails cannot read.
func unreadCall(param, message string) *exchange.Error {
	return &exchange.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Param: param, Code: "guardrail_unreadable", Caller: true, Message: message}
}

// A guard is the visit of a call to its hooks at one target.
type guard struct {
	f             *Forwarder
	x             *exchange.Exchange
	judgment      *judgment
	before, after []*hooks.Hook
	request       []byte // as it is sent
	answer        []byte // in one piece, for the hooks that run after it; nil: none is there yet
	recorder      *recorder
	reserved      int // memory of copies of the answer under way, in bytes
}

// subject is what the hooks judge.
func (g *guard) subject(a *exchange.Attempt, phase guardrails.Phase) guardrails.Subject {
	_, other := a.ModelUnread()
	return guardrails.Subject{
		Phase: phase, Type: g.x.Endpoint.Name, Stream: a.Payload().Streams(), Provider: a.Route.Provider, Model: a.Model, OtherModel: other, Workspace: g.x.Caller.WorkspaceID, Caller: g.x.Caller.ID(),
		Metadata: g.x.Metadata.All(), Header: g.x.Header(), Request: g.request, Services: g.f.Checks.For(g.f.client, g.x.Caller.WorkspaceID, g.x.Gateway.Through(g.x.Header())),
	}
}

// judgeCall runs the hooks of the call.
func (g *guard) judgeCall(ctx context.Context, c *Candidate) (*Reply, *exchange.Error) {
	chosen, j := c.Chosen(), g.judgment
	out := hooks.Run(ctx, g.before, g.subject(chosen, guardrails.Input), false, g.x.Gateway.Now)
	if out.Unread != "" {
		return nil, unreadCall("", "Guardrails cannot check the call: "+out.Unread)
	}
	g.count("input", out.Results)
	j.before, j.failed, j.hideRequest = out.Results, out.Failed, out.Unfinished
	g.x.SetHookHeader(out.Header)
	if out.Body != nil && g.request != nil {
		if err := g.x.Memory.Reserve(cap(out.Body)); err != nil {
			return nil, exchange.Overloaded(err)
		}
		g.request = out.Body
		g.x.Replace(out.Body)
		c.drop()
	}
	if out.Denied == nil {
		return nil, nil
	}
	why := hooks.Why(out.Denied, guardrails.Input)
	if out.Denied.SoftDeny {
		if body := g.softRefusal(chosen, why); body != nil {
			j.failed = false
			return g.reply(chosen, body)
		}
	}
	return nil, exchange.Denied(why, j.JSON())
}

// softRefusal is an answer that says why there is no other; nil: the endpoint has none.
func (g *guard) softRefusal(a *exchange.Attempt, why string) []byte {
	return hooks.SoftRefusal(g.x.Endpoint.Name, g.x.NewID(), a.Model, why, g.x.Gateway.Now())
}

// reply answers with a body in the form that the call asks for.
func (g *guard) reply(a *exchange.Attempt, body []byte) (*Reply, *exchange.Error) {
	r := &Reply{Type: "application/json", Body: body}
	if a.Payload().Streams() {
		stream, err := (&cache.Entry{Body: body}).As(g.x.Endpoint.Name, true)
		if err != nil {
			return nil, exchange.AsError(err)
		}
		r.Type, r.Body = "text/event-stream", stream
	}
	return r, nil
}

// Header returns nil: hooks add no headers.
func (g *guard) Header() []exchange.HeaderField { return nil }

// Settle does nothing.
func (g *guard) Settle([]*exchange.Attempt) {}

// Release does nothing.
func (g *guard) Release() {}

// Interface guards
var (
	_ Hook  = (*guardrailHook)(nil)
	_ Visit = (*guard)(nil)
)
