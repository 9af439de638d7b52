package exchange

import (
	"cmp"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
)

// Fact returns what policies may ask of a prepared call: its value of a key, and another
// name of the same thing if there is one.
func (c *Call) Fact(key string) (value, alias string, ok bool) {
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
	default:
		if name, metadata := strings.CutPrefix(key, "metadata."); metadata {
			value, ok = c.Metadata(name)
			return value, "", ok
		}
	}
	return value, alias, value != ""
}

// Unseen reports that the call may have a model that nobody has seen. alias is how the
// model's other name would begin, which only a target says.
func (c *Call) Unseen() (alias string, unseen bool) { return "", c.unseen(c.Model) }

func (c *Call) unseen(model string) bool {
	return c.unread != read && (c.unread.fixed() || model == "")
}

// Fact is [Call.Fact] of a call that is about to be sent to a target.
func (a *Attempt) Fact(key string) (value, alias string, ok bool) {
	switch key {
	case "provider":
		value, alias = a.Route.Provider, a.Route.VirtualKey // which x-gw-provider takes too
	case "virtual_key":
		value, alias = a.Route.VirtualKey, a.Route.KeyID
	case "model":
		if value = a.Model; value != "" {
			alias = "@" + saved(a.Route) + "/" + value
		}
	default:
		return a.call.Fact(key)
	}
	return value, alias, value != ""
}

// Unseen is [Call.Unseen] of a call that is about to be sent to a target, which may set the
// model.
func (a *Attempt) Unseen() (alias string, unseen bool) {
	if !a.call.unseen(a.Model) {
		return "", false
	}
	return "@" + saved(a.Route) + "/", true
}

// saved is the slug by which a call could name the provider that a route leads to.
func saved(route *credentials.Route) string { return cmp.Or(route.VirtualKey, route.Provider) }
