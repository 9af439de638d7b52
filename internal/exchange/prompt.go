package exchange

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/prompts/template"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// renderPrompt replaces the body, which has the variables of a saved prompt, by what that
// comes to. Of completions it makes a call of the endpoint that the prompt is for, which what the
// prompt names answers: a config that the call names wins, other providers that it names do
// not, since a saved prompt says where it goes.
func (c *Call) renderPrompt(selection *credentials.Selection, limit int64) *Error {
	id, err := url.PathUnescape(strings.Split(c.Path, "/")[2])
	if err != nil || c.Gateway.Prompts == nil {
		return invalidPrompt(id)
	}
	workspace := c.Caller.WorkspaceID
	p, v, ok := c.Gateway.Prompts.Find(workspace, id, false)
	if !ok {
		return invalidPrompt(id)
	}
	if p.WorkspaceID != workspace && c.Endpoint.Scope != credentials.ScopeRender {
		return &Error{
			Status: http.StatusForbidden, Type: typeInvalidRequest, Param: "prompt_id", Code: "prompt_of_another_workspace",
			Message: "The prompt " + p.Slug + " is shared by another workspace, whose provider is not yours: render it, or fork it",
		}
	}
	ctx := c.request.Context()
	compiled, err := c.Gateway.Prompts.Compiled(ctx, p, v)
	if err != nil {
		return Unavailable("The prompt "+p.Slug+" cannot be read now", err)
	}
	rendered, err := c.Gateway.Prompts.Render(ctx, nil, workspace, compiled, c.buffer.b)
	var fault *template.Error
	switch {
	case errors.As(err, &fault):
		return badRequest("", fault.Code, fault.Message)
	case err != nil:
		return Unavailable("The prompt "+p.Slug+" cannot be rendered now", err)
	case int64(len(rendered)) > limit:
		return badRequest("", "prompt_too_large", "The rendered prompt is larger than a request may be")
	}
	buffer, err := c.NewBuffer(rendered)
	if err != nil {
		return Overloaded(err)
	}
	c.buffer.Release()
	c.buffer = buffer
	c.Prompt, c.PromptVersion = p.Slug, v.Number
	if c.Endpoint.Scope == credentials.ScopeRender {
		c.Rendered = true
		return nil
	}
	c.Path = "/completions"
	if compiled.Chat {
		c.Path = "/chat/completions"
	}
	rows := exactRows["/v1"+c.Path]
	c.Endpoint = rows[slices.IndexFunc(rows, func(e *Endpoint) bool { return e.Method == http.MethodPost })]
	c.model, c.Model, c.Stream, c.invalid = validation.Span{}, "", false, nil
	if err := c.checkBody(); err != nil {
		return err
	}
	if selection.Config != "" {
		return nil
	}
	*selection = credentials.Selection{}
	if configs := c.Gateway.Configs; configs != nil && configs.Store != nil {
		if saved, ok := configs.Store.Get(compiled.VirtualKey); ok && saved.WorkspaceID == workspace {
			selection.Config = saved.Slug
			return nil
		}
	}
	selection.Provider = "@" + strings.TrimPrefix(compiled.VirtualKey, "@")
	return nil
}

func invalidPrompt(id string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: typeInvalidRequest, Param: "prompt_id", Code: "prompt_not_found",
		Message: "Invalid prompt id: the workspace has no prompt, or no such version of it, for " + credentials.Clip(id),
	}
}

// ServeRendered answers a call that only renders a prompt.
func (x *Exchange) ServeRendered(w http.ResponseWriter) {
	var b jsonscan.Builder
	b.Open('{')
	b.Key("success").Bool(true)
	b.Key("data").Raw(x.JSON())
	b.Close('}')
	x.Conclude(http.StatusOK, "")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
