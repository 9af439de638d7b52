package exchange

import (
	"cmp"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/validation"
)

// prepare makes all of the call that is known before anything is sent, in the order in which calls
// are refused. The route is nil if the target is chosen later, or if there is none.
func (c *Call) prepare(limits Limits) (*credentials.Route, *Error) {
	selection, err := c.admitCaller()
	if err != nil {
		return nil, err
	}
	if err := c.receive(limits, &selection); err != nil || c.Rendered {
		return nil, err
	}
	if err := c.findStored(&selection); err != nil || c.StoredResponse != nil {
		return nil, err
	}
	c.selection = selection
	if err := c.configure(); err != nil {
		return nil, err
	}
	if c.invalid != nil && !c.passthrough() {
		return nil, badRequest(c.invalid.Param, c.invalid.Code, c.invalid.Message)
	}
	if err := c.readOptions(c.request.Header); err != nil {
		return nil, err
	}
	switch {
	case c.Config != nil && c.Endpoint.Single && !c.Config.Root.Leaf():
		return nil, badRequest("x-gw-config", "invalid_config", "Invalid config provided. Maximum one target is allowed for batch/file/fine_tuning requests")
	case c.Endpoint.Name == Models:
		c.Catalogue = c.catalogue()
	}
	if c.Config != nil || c.Catalogue {
		return nil, nil
	}
	return c.route()
}

// admitCaller says who calls, and admits the call to those under way. The selection is what the
// headers say of where the call goes.
func (c *Call) admitCaller() (credentials.Selection, *Error) {
	selection, err := c.authenticate()
	if err != nil {
		return selection, err
	}
	if err := c.Lease(&c.slot, &c.lease); err != nil {
		return selection, err
	}
	if err := c.readMetadata(c.request.Header); err != nil {
		return selection, err
	}
	return selection, c.startDefaults()
}

// receive takes the body, or renders it from the prompt that the call names, and checks what the
// endpoint's tables say of it.
func (c *Call) receive(limits Limits, selection *credentials.Selection) *Error {
	c.longest = limits.Body
	if err := c.takeBody(limits); err != nil {
		return err
	}
	if err := c.denySoftly(); err != nil {
		return err
	}
	if c.Endpoint.Prompt {
		if err := c.renderPrompt(selection, limits.Body); err != nil || c.Rendered {
			return err
		}
	}
	if c.Endpoint.Query != nil && c.invalid == nil {
		c.invalid = validation.CheckQuery(c.Endpoint.Query, c.request.URL.Query())
	}
	return nil
}

// findStored finds out which model and which object the call names, and whose it is. Of a response
// that the gateway stores, there is nothing more to find.
func (c *Call) findStored(selection *credentials.Selection) *Error {
	if err := c.locate(); err != nil {
		return err
	}
	selection.Model = c.Model
	if refusal := c.recall(selection); refusal != nil {
		return CredentialError(refusal)
	}
	if c.StoredResponse != nil {
		if err := c.reserveTurns([]stored.Response{*c.StoredResponse}); err != nil {
			return Overloaded(err)
		}
	}
	return nil
}

// configure resolves the call's config, and runs the hooks that it starts with.
func (c *Call) configure() *Error {
	if refusal := c.Gateway.Router.Inline(c.Caller.WorkspaceID, c.selection); refusal != nil {
		return CredentialError(refusal)
	}
	version, _ := c.Gateway.Headers.Get(c.request.Header, HeaderConfigVersion)
	var err *Error
	alias := ""
	if c.selection.Config == "" {
		alias = c.aliased(&c.selection)
	}
	if c.Config, err = c.config(cmp.Or(c.selection.Config, alias), version); err != nil {
		if alias != "" && err.Param == "x-gw-config" { // which the call does not have
			err.Param = "model"
			err.Message = "The model " + credentials.Clip(c.selection.Model) + " is an alias of the config " + credentials.Clip(alias) + ": " + err.Message
		}
		return err
	}
	if c.Config != nil {
		if err := c.startHooks(c.Config.Start); err != nil {
			return err
		}
		if err := c.denySoftly(); err != nil {
			return err
		}
	}
	if c.Prompt != "" && c.Config != nil && c.Config.Prompts {
		return badRequest("x-gw-config", "prompt_in_config", "The call names a prompt, and its config others (prompt_id): send the variables to /chat/completions or /completions with this config, or use a config without prompt_id")
	}
	c.admitPrompted()
	return nil
}

// route returns the route of a call without a config.
func (c *Call) route() (*credentials.Route, *Error) {
	route, refusal := c.Gateway.Router.Route(c.Caller, c.selection)
	if refusal != nil {
		return nil, c.noRoute(refusal)
	}
	if err := c.complete(route); err != nil {
		return nil, err
	}
	if route.Model != "" {
		c.Model = route.Model
	}
	return route, c.missingModel()
}

// noRoute is the answer to a call without a route. If nothing names a provider, it says what else
// the client may have meant.
func (c *Call) noRoute(refusal *credentials.Error) *Error {
	if refusal.Reason != credentials.NoProvider {
		return CredentialError(refusal)
	}
	if id := c.responseID(); id != "" && c.selection.Slug() == "" {
		return unknownResponse(id)
	}
	if c.Endpoint == &passThrough && refusal.Field == "x-gw-provider" {
		path := "/v1" + c.Path
		refusal.Message = c.request.Method + " " + credentials.Clip(path) + " is none of the gateway's endpoints, and no provider is named that may have it (x-gw-provider)" +
			didYouMean(path, c.Gateway.ControlPlane...)
		return CredentialError(refusal)
	}
	if _, unseen := c.ModelUnread(); unseen {
		return c.RefuseUnread("nothing else says where the call goes")
	}
	if refusal.Field == "x-gw-provider" {
		if c.selection.Model == "" {
			refusal.Message = "Either x-gw-config or x-gw-provider header is required: the call has no model that could name its provider; send x-gw-provider: @slug, or save a config as the API key's default"
		} else {
			refusal.Message += c.meant()
		}
	}
	return CredentialError(refusal)
}

// meant is what the answer to a call without a provider says of its model: which alias or which
// provider of the workspace the client may have meant.
func (c *Call) meant() string {
	model := c.selection.Model
	said := "; the model " + credentials.Clip(model) + " names no provider, and is no alias of the workspace"
	if c.Gateway.Aliases != nil {
		if alias := credentials.Nearest(model, c.Gateway.Aliases(c.Caller.WorkspaceID)); alias != "" && alias != model {
			return said + "; did you mean " + credentials.Clip(alias) + "?"
		}
	}
	if slugs := c.Gateway.Router.Saved(c.Caller); len(slugs) > 0 {
		said += "; did you mean @" + slugs[0] + "/" + credentials.Clip(model) + "?"
	}
	return said
}

// aliased is the saved config that the call's model is an alias of, "" where it is of none, or
// where the call names a provider.
func (c *Call) aliased(s *credentials.Selection) string {
	if c.Gateway.Router.Alias == nil || s.Model == "" || s.Slug() != "" {
		return ""
	}
	to := c.Gateway.Router.Alias(c.Caller.WorkspaceID, s.Model)
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
	if c.Config == nil || c.InlineConfig {
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
