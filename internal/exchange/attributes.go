package exchange

import (
	"cmp"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/policies"
)

// Attribute returns what policies may ask of a prepared call: its value of a key, and another
// name of the same thing if there is one.
func (c *Call) Attribute(key string) (value, alias string, ok bool) {
	switch key {
	case "api_key":
		if value = c.Caller.KeyID; c.Caller.CountedAs != value {
			alias = c.Caller.CountedAs
		}
	case "workspace_id":
		value, alias = c.Caller.WorkspaceID, c.Gateway.Router.SlugOf(c.Caller.WorkspaceID)
	case "organisation_id":
		value = c.Caller.OrganisationID
	case "model":
		value = c.Model
	case "endpoint_type":
		value = c.Endpoint.Name
	case "config":
		value = c.ConfigSource.Slug
	case "prompt":
		value = c.Prompt.Slug
	default:
		if name, metadata := strings.CutPrefix(key, "metadata."); metadata {
			value, ok = c.Metadata.Get(name)
			return value, "", ok
		}
	}
	return value, alias, value != ""
}

// ModelUnread reports whether the call may be for a model that was not read. alias is how the
// model's other name would begin, which only a target says.
func (c *Call) ModelUnread() (alias string, unread bool) { return "", c.mayHaveOther(c.Model) }

// mayHaveOther reports whether the provider may read another model than the given one.
func (c *Call) mayHaveOther(model string) bool {
	return c.unread != read && (c.unread.fixed() || model == "")
}

// Attribute is [Call.Attribute] of a call that is about to be sent to a target.
func (a *Attempt) Attribute(key string) (value, alias string, ok bool) {
	switch key {
	case "provider":
		value, alias = a.Route.Provider, a.Route.VirtualKey // which x-gw-provider takes too
	case "virtual_key":
		value, alias = a.Route.VirtualKey, a.Route.KeyID
	case "integration":
		value = a.Route.Integration
	case "model":
		if value = a.Model; value != "" {
			alias = "@" + saved(a.Route) + "/" + value
		}
	case "prompt":
		value = a.Prompt.Slug
	default:
		return a.call.Attribute(key)
	}
	return value, alias, value != ""
}

// PromptByTarget reports whether the call's prompt depends on the target.
func (c *Call) PromptByTarget() bool { return c.Config != nil && c.Config.Prompts }

// TokenLimits returns the limits that the JSON Web Token has itself by which the caller was identified.
func (c *Call) TokenLimits() *policies.TokenLimits {
	limits, _ := c.Caller.TokenLimits.(*policies.TokenLimits)
	return limits
}

// TokenLimits is [Call.TokenLimits] of the attempt's call.
func (a *Attempt) TokenLimits() *policies.TokenLimits { return a.call.TokenLimits() }

// Reads is [Call.Reads] of the attempt's call.
func (a *Attempt) Reads() bool { return a.call.Reads() }

// PromptByTarget is [Call.PromptByTarget] of the attempt's call.
func (a *Attempt) PromptByTarget() bool { return a.call.PromptByTarget() }

// ModelUnread is [Call.ModelUnread] of a call that is about to be sent to a target, which may set the
// model.
func (a *Attempt) ModelUnread() (alias string, unread bool) {
	if !a.call.mayHaveOther(a.Model) && a.Payload().modelsSet() == "" {
		return "", false
	}
	return "@" + saved(a.Route) + "/", true
}

// saved is the slug by which a call could name the provider that a route leads to.
func saved(route *credentials.Route) string { return cmp.Or(route.VirtualKey, route.Provider) }
