package exchange

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/telemetry"
)

// Fact returns what policies may ask of a prepared call: its value of a key, and
// another name of the same thing where there is one.
func (x *Exchange) Fact(key string) (value, alias string, ok bool) {
	route := x.Route()
	switch key {
	case "api_key":
		if value = x.Caller.KeyID; x.Caller.CountedAs != value {
			alias = x.Caller.CountedAs
		}
	case "workspace_id":
		value, alias = x.Caller.WorkspaceID, x.Gateway.Router.SlugOf(x.Caller.WorkspaceID)
	case "organisation_id":
		value = x.Caller.OrganisationID
	case "provider":
		if route != nil {
			value, alias = route.Provider, route.VirtualKey // which x-gw-provider takes too
		}
	case "virtual_key":
		if route != nil {
			value, alias = route.VirtualKey, route.KeyID
		}
	case "model":
		if value = x.SentModel(); value != "" && route != nil {
			alias = "@" + saved(route) + "/" + value
		}
	case "endpoint_type":
		value = x.Endpoint.Name
	default:
		if name, metadata := strings.CutPrefix(key, "metadata."); metadata {
			value, ok = x.Metadata(name)
			return value, "", ok
		}
	}
	return value, alias, value != ""
}

// count counts a call that is over.
func (x *Exchange) count() {
	m := x.Gateway.Metrics
	if m == nil {
		return
	}
	call := telemetry.Call{
		Target: x.MetricTarget(x.Latest()),
		Status: x.Status, Duration: x.Gateway.Now().Sub(x.Start), Cache: x.CacheStatus,
	}
	if len(x.Attempts) > 0 && !x.Hit() { // what the cache answers was used before
		call.Usage = x.Usage().Usage
	}
	call.Cost, _ = x.Cost()
	if x.Stream && x.Status == http.StatusOK && !x.FirstByte.IsZero() {
		call.FirstToken = x.FirstByte.Sub(x.Start)
	}
	m.Call(&call)
}

// LeftTarget notes that the target that was chosen failed, and that another follows.
func (x *Exchange) LeftTarget() {
	if m := x.Gateway.Metrics; m != nil {
		t := x.MetricTarget(x.chosen)
		m.Fallback(&t)
	}
}

// saved is the slug by which a call could name the provider that a route leads to.
func saved(route *credentials.Route) string { return cmp.Or(route.VirtualKey, route.Provider) }
