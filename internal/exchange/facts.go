package exchange

import (
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/internal/telemetry"
)

// Fact returns what policies may ask of a prepared call: its value of a key, and
// another name of the same thing where there is one.
func (x *Exchange) Fact(key string) (value, alias string, ok bool) {
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
		if x.Route != nil {
			value, alias = x.Route.Provider, x.Route.VirtualKey // which x-gw-provider takes too
		}
	case "virtual_key":
		if x.Route != nil {
			value, alias = x.Route.VirtualKey, x.Route.KeyID
		}
	case "model":
		if value = x.SentModel(); value != "" && x.Route != nil {
			alias = "@" + x.saved() + "/" + value
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

// SentModel is the model that the target in Route gets.
func (x *Exchange) SentModel() string {
	switch {
	case x.committed:
		return x.sent
	case x.Route != nil && x.Route.Model != "":
		return x.Route.Model
	case x.edit.Empty() || x.located.model == "" && x.form == nil && (x.buffer == nil || x.opaque):
		return x.Model
	}
	model := x.edit.Result("model", x.ownModel())
	if len(model) == 0 || model[0] != '"' {
		return ""
	}
	return jsonscan.Unquote(model)
}

// SavedModel reports whether it is a saved config that says which model the target in
// Route gets.
func (x *Exchange) SavedModel() bool {
	if x.ConfigID == "" || x.edit.Empty() {
		return false
	}
	for _, p := range x.edit.Default {
		if p.Key == "model" && string(p.Value) == string(jsonscan.AppendQuoted(nil, x.SentModel())) {
			return true
		}
	}
	return x.edit.Lookup("model") != nil
}

// count counts a call that is over.
func (x *Exchange) count() {
	m := x.Gateway.Metrics
	if m == nil {
		return
	}
	call := telemetry.Call{
		Target: x.MetricTarget(),
		Status: x.Status, Duration: x.Gateway.Now().Sub(x.Start), Cache: x.CacheStatus,
	}
	if x.Attempts > 0 && !x.Hit() { // what the cache answers was used before
		call.Usage = x.Usage.Usage
	}
	call.Cost, _ = x.Cost()
	if x.Stream && x.Status == http.StatusOK && !x.FirstByte.IsZero() {
		call.FirstToken = x.FirstByte.Sub(x.Start)
	}
	m.Call(&call)
}

// MetricTarget is what a call, and an attempt at its target, is counted under.
func (x *Exchange) MetricTarget() telemetry.Target {
	return telemetry.Target{Endpoint: x.Endpoint.Name, Provider: x.Provider(), Model: x.SentModel(), SavedModel: x.SavedModel()}
}

// LeftTarget notes that the target in Route failed, and that another follows.
func (x *Exchange) LeftTarget() {
	if m := x.Gateway.Metrics; m != nil {
		t := x.MetricTarget()
		m.Fallback(&t)
	}
}

// saved is the slug by which a call could name the provider that it goes to.
func (x *Exchange) saved() string {
	if x.Route.VirtualKey != "" {
		return x.Route.VirtualKey
	}
	return x.Route.Provider
}
