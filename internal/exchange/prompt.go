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

// A PromptVersion is a version of a saved prompt; the zero value is none.
type PromptVersion struct {
	Slug    string
	Version int // number

	ID, VersionID string
}

// renderPrompt replaces the body, which has the variables of a saved prompt, by what that
// comes to. Of completions it makes a call of the endpoint that the prompt is for, which what the
// prompt names answers: a config that the call names wins, other providers that it names do
// not, since a saved prompt says where it goes.
func (p *preparation) renderPrompt(selection *credentials.Selection, limit int64) *Error {
	id, err := url.PathUnescape(strings.Split(p.Path, "/")[2])
	if err != nil || p.Gateway.Prompts == nil {
		return invalidPrompt(id)
	}
	workspace := p.Caller.WorkspaceID
	saved, v, ok := p.Gateway.Prompts.Find(workspace, id, false)
	if !ok {
		return invalidPrompt(id)
	}
	if saved.WorkspaceID != workspace && p.Endpoint.Scope != credentials.ScopeRender {
		return &Error{
			Status: http.StatusForbidden, Type: typeInvalidRequest, Param: "prompt_id", Code: "prompt_of_another_workspace",
			Message: "The prompt " + saved.Slug + " is shared by another workspace, whose provider is not yours: render it, or fork it",
		}
	}
	ctx := p.request.Context()
	compiled, err := p.Gateway.Prompts.Compiled(ctx, saved, v)
	if err != nil {
		return Unavailable("The prompt "+saved.Slug+" cannot be read now", err)
	}
	rendered, err := p.Gateway.Prompts.Render(ctx, nil, workspace, compiled, p.Body.buffer.b)
	var fault *template.Error
	switch {
	case errors.As(err, &fault) && fault.Code == validation.DuplicateField:
		param, _, _ := strings.Cut(fault.Message, ":")
		return badRequest(param, fault.Code, fault.Message)
	case errors.As(err, &fault):
		return badRequest("variables", fault.Code, fault.Message)
	case err != nil:
		return Unavailable("The prompt "+saved.Slug+" cannot be rendered now", err)
	case int64(len(rendered)) > limit:
		return badRequest("variables", "prompt_too_large", "The rendered prompt is larger than a request may be")
	}
	buffer, err := p.Memory.NewBuffer(rendered)
	if err != nil {
		return Overloaded(err)
	}
	p.Body.buffer.Release()
	p.Body.buffer = buffer
	p.Prompt = PromptVersion{saved.Slug, v.Number, saved.ID, v.ID}
	if p.Endpoint.Scope == credentials.ScopeRender {
		p.Rendered = true
		return nil
	}
	p.Path = "/completions"
	if compiled.Chat {
		p.Path = "/chat/completions"
	}
	rows := exactRows["/v1"+p.Path]
	p.Endpoint = rows[slices.IndexFunc(rows, func(e *Endpoint) bool { return e.Method == http.MethodPost })]
	p.Body.model, p.Model, p.Stream, p.invalid = validation.Span{}, "", false, nil
	if err := p.checkBody(); err != nil {
		return err
	}
	if selection.Config != "" {
		return nil
	}
	*selection = credentials.Selection{}
	if configs := p.Gateway.Configs; configs != nil && configs.Store != nil {
		if config, ok := configs.Store.Get(compiled.VirtualKey); ok && config.WorkspaceID == workspace {
			selection.Config = config.Slug
			return nil
		}
	}
	selection.Provider = "@" + strings.TrimPrefix(compiled.VirtualKey, "@")
	p.noDefault = !p.Caller.ForbidsOverride // a key that is bound to a config stays so
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
	b.Key("data").Raw(x.Body.JSON())
	b.Close('}')
	x.Conclude(http.StatusOK, "")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
