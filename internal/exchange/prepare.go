package exchange

import (
	"cmp"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/validation"
)

// A preparation makes a call. Only its methods write to the call (TestACallIsFrozen), and it does not
// outlive [Exchange.Prepare].
type preparation struct {
	*Call

	invalid    *validation.Error // found by the endpoint's tables, which a config may ignore
	noDefault  bool              // no config is the call's unless it names one: its prompt names a provider
	softDenial string            // why a hook refuses the call with an answer, once that can be made; "": none does
}

// prepare makes all of the call that is known before anything is sent, in the order in which calls
// are refused. The route is nil if the target is chosen later, or if there is none.
func (p *preparation) prepare(limits Limits) (*credentials.Route, *Error) {
	selection, err := p.admitCaller()
	if err != nil {
		return nil, err
	}
	if err := p.receive(limits, &selection); err != nil || p.Rendered {
		return nil, err
	}
	if err := p.findStored(&selection); err != nil || p.StoredResponse != nil {
		return nil, err
	}
	p.selection = selection
	if err := p.configure(); err != nil {
		return nil, err
	}
	if p.invalid != nil && !p.passthrough() {
		return nil, badRequest(p.invalid.Param, p.invalid.Code, p.invalid.Message)
	}
	if err := p.readOptions(p.request.Header); err != nil {
		return nil, err
	}
	switch {
	case p.Config != nil && p.Endpoint.Single && !p.Config.Root.Leaf():
		return nil, badRequest("x-gw-config", "invalid_config", "Invalid config provided. Maximum one target is allowed for batch/file/fine_tuning requests")
	case p.Endpoint.Name == Models:
		p.Catalogue = p.catalogue()
	}
	if p.Config != nil || p.Catalogue != nil {
		return nil, nil
	}
	return p.route()
}

// admitCaller says who calls, and admits the call to those under way. The selection is what the
// headers say of where the call goes.
func (p *preparation) admitCaller() (credentials.Selection, *Error) {
	selection, err := p.authenticate()
	if err != nil {
		return selection, err
	}
	if err := p.Lease(&p.slot, &p.Memory.lease); err != nil {
		return selection, err
	}
	if err := p.readMetadata(p.request.Header); err != nil {
		return selection, err
	}
	return selection, p.startDefaults()
}

// receive takes the body, or renders it from the prompt that the call names, and checks what the
// endpoint's tables say of it.
func (p *preparation) receive(limits Limits, selection *credentials.Selection) *Error {
	p.Body.limit = limits.Body
	if err := p.takeBody(limits); err != nil {
		return err
	}
	if err := p.denySoftly(); err != nil {
		return err
	}
	if p.Endpoint.Prompt {
		if err := p.renderPrompt(selection, limits.Body); err != nil || p.Rendered {
			return err
		}
	}
	if p.Endpoint.Query != nil && p.invalid == nil {
		p.invalid = validation.CheckQuery(p.Endpoint.Query, p.request.URL.Query())
	}
	return nil
}

// findStored finds out which model and which object the call names, and whose it is. Of a response
// that the gateway stores, there is nothing more to find.
func (p *preparation) findStored(selection *credentials.Selection) *Error {
	if err := p.locate(); err != nil {
		return err
	}
	selection.Model = p.Model
	if refusal := p.recall(selection); refusal != nil {
		return CredentialError(refusal)
	}
	if p.StoredResponse != nil {
		if err := p.Responses().reserve([]stored.Response{*p.StoredResponse}); err != nil {
			return Overloaded(err)
		}
	}
	return nil
}

// configure resolves the call's config, and runs the hooks that it starts with.
func (p *preparation) configure() *Error {
	if refusal := p.Gateway.Router.Inline(p.Caller.WorkspaceID, p.selection); refusal != nil {
		return CredentialError(refusal)
	}
	version, _ := p.Gateway.Headers.Get(p.request.Header, HeaderConfigVersion)
	var err *Error
	alias := ""
	if p.selection.Config == "" {
		alias = p.aliased(&p.selection)
	}
	if p.Config, err = p.config(cmp.Or(p.selection.Config, alias), version); err != nil {
		if alias != "" && err.Param == "x-gw-config" { // which the call does not have
			err.Param = "model"
			err.Message = "The model " + credentials.Clip(p.selection.Model) + " is an alias of the config " + credentials.Clip(alias) + ": " + err.Message
		}
		return err
	}
	if p.Config != nil {
		if err := p.startHooks(p.Config.Start); err != nil {
			return err
		}
		if err := p.denySoftly(); err != nil {
			return err
		}
	}
	if p.Prompt.Slug != "" && p.Config != nil && p.Config.Prompts {
		return badRequest("x-gw-config", "prompt_in_config", "The call names a prompt, and its config others (prompt_id): send the variables to /chat/completions or /completions with this config, or use a config without prompt_id")
	}
	p.admitPrompted()
	return nil
}

// route returns the route of a call without a config.
func (p *preparation) route() (*credentials.Route, *Error) {
	route, refusal := p.Gateway.Router.Route(p.Caller, p.selection)
	if refusal != nil {
		return nil, p.noRoute(refusal)
	}
	if err := p.complete(route); err != nil {
		return nil, err
	}
	if route.Model != "" {
		p.Model = route.Model
	}
	return route, p.missingModel()
}

// missingModel refuses a call without a config that lacks a required field.
func (p *preparation) missingModel() *Error {
	if p.Body.buffer == nil || p.Config != nil {
		return nil
	}
	if fault := (Payload{call: p.Call}).missing(); fault != nil {
		return badRequest(fault.Param, fault.Code, fault.Message)
	}
	return nil
}

// noRoute is the answer to a call without a route. If nothing names a provider, it says what else
// the client may have meant.
func (p *preparation) noRoute(refusal *credentials.Error) *Error {
	if refusal.Reason != credentials.NoProvider {
		return CredentialError(refusal)
	}
	if id := p.Responses().id(); id != "" && p.selection.Slug() == "" {
		return unknownResponse(id)
	}
	if p.Endpoint == &passThrough && refusal.Field == "x-gw-provider" {
		path := "/v1" + p.Path
		refusal.Message = p.request.Method + " " + credentials.Clip(path) + " is none of the gateway's endpoints, and no provider is named that may have it (x-gw-provider)" +
			didYouMean(path, p.Gateway.ControlPlane...)
		return CredentialError(refusal)
	}
	if _, unseen := p.ModelUnread(); unseen {
		return p.RefuseUnread("nothing else says where the call goes")
	}
	if refusal.Field == "x-gw-provider" {
		if p.selection.Model == "" {
			refusal.Message = "Either x-gw-config or x-gw-provider header is required: the call has no model that could name its provider; send x-gw-provider: @slug, or save a config as the API key's default"
		} else {
			refusal.Message += p.meant()
		}
	}
	return CredentialError(refusal)
}

// meant is what the answer to a call without a provider says of its model: which alias or which
// provider of the workspace the client may have meant.
func (p *preparation) meant() string {
	model := p.selection.Model
	message := "; the model " + credentials.Clip(model) + " names no provider, and is no alias of the workspace"
	if p.Gateway.Aliases != nil {
		if alias := credentials.Nearest(model, p.Gateway.Aliases(p.Caller.WorkspaceID)); alias != "" && alias != model {
			return message + "; did you mean " + credentials.Clip(alias) + "?"
		}
	}
	if slugs := p.Gateway.Router.Saved(p.Caller); len(slugs) > 0 {
		message += "; did you mean @" + slugs[0] + "/" + credentials.Clip(model) + "?"
	}
	return message
}

// aliased is the saved config that the call's model is an alias of, "" where it is of none, or
// where the call names a provider.
func (p *preparation) aliased(s *credentials.Selection) string {
	if p.Gateway.Router.Alias == nil || s.Model == "" || s.Slug() != "" {
		return ""
	}
	to := p.Gateway.Router.Alias(p.Caller.WorkspaceID, s.Model)
	if strings.HasPrefix(to, "@") {
		return ""
	}
	return to
}

// target returns the route of a target of the call's config, which selects s.
func (c *Call) target(t *routing.Target, s credentials.Selection) (*credentials.Route, *Error) {
	if s.VirtualKey == "" && s.Provider == "" && !strings.HasPrefix(s.Model, "@") {
		own := c.selection
		if secret := c.Stored(t); secret != "" && secret != "api_key" {
			field := "x-gw-provider"
			if own.CustomHost != "" {
				field = "x-gw-custom-host"
			}
			return nil, CredentialError(&credentials.Error{
				Reason: credentials.StoredSecretElsewhere, Field: field,
				Message: "The saved config's " + secret + " goes only where the config says, and not where " + field + " does: name the provider in the config, or send your own credential",
			})
		}
		own.Config = ""
		if s.CustomHost != "" {
			own.CustomHost = s.CustomHost
		}
		if s.Model != "" {
			own.Model = s.Model
		}
		s = own
	}
	if s.Model == "" && (s.VirtualKey != "" || strings.HasPrefix(s.Provider, "@")) {
		s.Model = c.Model // so that @slug/ is removed if it is the same slug
	}
	route, refusal := c.Gateway.Router.Route(c.Caller, s)
	if refusal != nil {
		return nil, CredentialError(refusal)
	}
	route.Stored = route.Stored || c.Stored(t) != ""
	return route, c.complete(route)
}

// complete checks that the call may use the credential of a route, and fetches what of it is
// managed elsewhere.
func (c *Call) complete(route *credentials.Route) *Error {
	if err := c.admitStored(route); err != nil {
		return err
	}
	if refusal := c.Gateway.Router.Fetch(c.request.Context(), c.Caller.WorkspaceID, route); refusal != nil {
		return CredentialError(refusal)
	}
	return nil
}

// Stored returns the name of a credential that a target of a saved config holds; "" if it holds
// none, or if the config is the call's own.
func (c *Call) Stored(t *routing.Target) string {
	if c.Config == nil || c.ConfigSource.Inline {
		return ""
	}
	for _, s := range t.Vendor {
		if routing.IsSecret(s.Name) {
			return s.Name
		}
	}
	switch {
	case len(t.Edit().Secrets()) > 0:
		return "override_params"
	case !t.APIKey.Empty():
		return "api_key"
	}
	return ""
}
