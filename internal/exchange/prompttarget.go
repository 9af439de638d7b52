package exchange

import (
	"errors"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/prompts/template"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// admitPrompted holds the body once more against the rules of its endpoint if prompts that the
// config names may bring what it lacks.
func (p *preparation) admitPrompted() {
	if p.invalid == nil || p.Config == nil || !p.Config.Prompts || p.Endpoint.Table != validation.Chat {
		return
	}
	report, err := validation.Check(validation.PromptedChat, p.Body.buffer.b)
	if err == nil {
		p.Body.report, p.invalid = report, nil
	}
}

// A targetPrompt is the saved prompt of a target, rendered for a call.
type targetPrompt struct {
	call   *Call
	prompt PromptVersion // the zero value: the target has none
	edit   *routing.Edit // what it changes in the call's body
}

// ofPrompts are the members of a body that are for prompts and no provider.
var ofPrompts = []string{"variables", "prompt_id"}

// ownOfPrompts are the fields that make a prompt: the call's own do not replace them.
var ownOfPrompts = map[string]bool{"messages": true, "prompt": true, "model": true}

// render renders the prompt of a target with the variables in the call's body. The messages
// and the model are the prompt's; other fields of the call override the prompt's parameters. If
// selection, which is the target's, names no provider, it becomes the prompt's.
func (r *targetPrompt) render(t *routing.Target, selection *credentials.Selection) *Error {
	c := r.call
	r.edit = new(routing.Edit)
	if c.Body.buffer != nil && !c.Body.opaque {
		r.edit.Drop = routing.Members(ofPrompts...)
	}
	if t.PromptID == "" {
		return nil
	}
	table := c.Endpoint.Table
	if c.Body.buffer == nil || c.Body.opaque || c.Gateway.Prompts == nil || table != validation.Chat && table != validation.Completion {
		return badRequest("x-gw-config", "prompt_in_config", "The config names the prompt "+credentials.Clip(t.PromptID)+", which only chat and text completions can be made of")
	}
	workspace := c.Caller.WorkspaceID
	p, v, ok := c.Gateway.Prompts.Find(workspace, t.PromptID, false)
	if !ok {
		return badRequest("x-gw-config", "invalid_prompt", "Following prompt_id are not valid: "+credentials.Clip(t.PromptID))
	}
	ctx := c.request.Context()
	compiled, err := c.Gateway.Prompts.Compiled(ctx, p, v)
	switch {
	case err != nil:
		return Unavailable("The prompt "+p.Slug+" cannot be read now", err)
	case compiled.Chat && table != validation.Chat:
		return badRequest("x-gw-config", "prompt_in_config", "The prompt "+p.Slug+" is for chat completions: call /chat/completions")
	case !compiled.Chat && table != validation.Completion:
		return badRequest("x-gw-config", "prompt_in_config", "The prompt "+p.Slug+" is for text completions: call /completions")
	}
	if fault := r.provider(p, compiled, selection); fault != nil {
		return fault
	}
	if fault := r.fields(p, compiled); fault != nil {
		return fault
	}
	if model := r.edit.Lookup("model"); selection.Model == "" && len(model) > 0 && model[0] == '"' {
		selection.Model = jsonscan.Unquote(model)
	}
	r.prompt = PromptVersion{p.Slug, v.Number, p.ID, v.ID}
	return nil
}

// provider completes the selection of a target by the provider that its prompt is for.
func (r *targetPrompt) provider(p *prompts.Prompt, compiled *prompts.Compiled, s *credentials.Selection) *Error {
	switch {
	case s.VirtualKey != "" || s.Provider != "" || strings.HasPrefix(s.Model, "@"):
		return nil
	case p.WorkspaceID != r.call.Caller.WorkspaceID:
		return badRequest("x-gw-config", "prompt_of_another_workspace", "The prompt "+p.Slug+" is shared by another workspace, whose provider is not yours: name a provider in the target")
	}
	if configs := r.call.Gateway.Configs; configs != nil && configs.Store != nil {
		if saved, ok := configs.Store.Get(compiled.VirtualKey); ok && saved.WorkspaceID == p.WorkspaceID {
			return badRequest("x-gw-config", "prompt_in_config", "The prompt "+p.Slug+" is for the config "+saved.Slug+", and a config cannot be a target: name a provider in the target")
		}
	}
	s.Provider = "@" + strings.TrimPrefix(compiled.VirtualKey, "@")
	return nil
}

var errVariablesTwice = errors.New("variables: given twice")

// fields adds what a prompt comes to, with the variables in the call's body, to the edit of the
// body. The result is held against the rules of the call's endpoint.
func (r *targetPrompt) fields(p *prompts.Prompt, compiled *prompts.Compiled) *Error {
	c, edit := r.call, r.edit
	body, variables := c.Body.buffer.b, []byte("{}")
	given := make(map[string]bool)
	if err := jsonscan.Members(body, func(m jsonscan.Member) error {
		name := m.Key.String()
		if name == "variables" {
			if given[name] {
				return errVariablesTwice
			}
			variables = body[m.Start:m.End]
		}
		given[name] = true
		return nil
	}); errors.Is(err, errVariablesTwice) {
		return badRequest("variables", validation.DuplicateField, err.Error())
	} else if err != nil {
		return badRequest("", "invalid_json", "Invalid request body: "+err.Error())
	}
	asked := append([]byte(`{"variables":`), variables...)
	if c.Stream {
		asked = append(asked, `,"stream":true`...)
	}
	asked = append(asked, '}')
	rendered, err := c.Gateway.Prompts.Render(c.request.Context(), nil, c.Caller.WorkspaceID, compiled, asked)
	var fault *template.Error
	switch {
	case errors.As(err, &fault):
		return badRequest("variables", fault.Code, "The prompt "+p.Slug+" of the config: "+fault.Message)
	case err != nil:
		return Unavailable("The prompt "+p.Slug+" cannot be rendered now", err)
	case int64(len(rendered)) > c.Body.limit:
		return badRequest("variables", "prompt_too_large", "The rendered prompt is larger than a request may be")
	}
	if err := c.Memory.Reserve(len(rendered)); err != nil {
		return Overloaded(err)
	}
	err = jsonscan.Members(rendered, func(m jsonscan.Member) error {
		if name := m.Key.String(); ownOfPrompts[name] || !given[name] {
			edit.Override = append(edit.Override, routing.Member(name, rendered[m.Start:m.End]))
		}
		return nil
	})
	var merged []byte
	if err == nil {
		merged, err = routing.Apply(body, edit)
	}
	if err != nil {
		return badRequest("", "invalid_config", "The prompt "+p.Slug+" cannot be put into the body: "+err.Error())
	}
	report, err := validation.Check(c.Endpoint.Table, merged)
	var invalid *validation.Error
	switch {
	case errors.As(err, &invalid):
		return badRequest(invalid.Param, invalid.Code, "The prompt "+p.Slug+" of the config: "+invalid.Message)
	case err != nil:
		return badRequest("", "invalid_json", "The prompt "+p.Slug+" of the config: "+err.Error())
	case report.Has("models"):
		return badRequest("models", "field_not_changeable", "The prompt "+p.Slug+" of the config sets 'models', which a target cannot")
	}
	return nil
}
