package exchange

import (
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/telemetry"
)

// An Attempt is one request to one target of a call. What was chosen is set together and
// stays; the rest is what came of it.
type Attempt struct {
	// Target is the JSON path of the target in the config, Route where it leads, and Edit
	// what the config changes in the body for it.
	Target string
	Route  *credentials.Route
	Edit   *routing.Edit

	// Model is the one that the provider is asked for, SavedModel whether a saved config
	// says so.
	Model      string
	SavedModel bool

	// Retry counts the attempts at the target, from 0. Exhausted: it was the last that the
	// target's retry setting allows.
	Retry     int
	Exhausted bool

	Duration time.Duration
	Status   int    // that the provider answered with; 0: it did not
	Failure  string // why it failed; "": it did not
	Usage    Usage
	answered string // the model that the answer names
}

// choose makes a target the one that the next attempts are for.
func (x *Exchange) choose(target string, route *credentials.Route, edit *routing.Edit) {
	a := &Attempt{Target: target, Route: route, Edit: edit, Model: x.modelFor(route, edit)}
	a.SavedModel = x.savesModel(edit, a.Model)
	x.chosen = a
}

// modelFor is the model that a target gets.
func (x *Exchange) modelFor(route *credentials.Route, edit *routing.Edit) string {
	switch {
	case route.Model != "":
		return route.Model
	case edit.Empty() || x.located.model == "" && x.form == nil && (x.buffer == nil || x.opaque):
		return x.Model
	}
	model := edit.Result("model", x.ownModel())
	if len(model) == 0 || model[0] != '"' {
		return ""
	}
	return jsonscan.Unquote(model)
}

// savesModel reports whether it is a saved config that says which model a target gets.
func (x *Exchange) savesModel(edit *routing.Edit, model string) bool {
	if x.ConfigID == "" || edit.Empty() {
		return false
	}
	for _, p := range edit.Default {
		if p.Key == "model" && string(p.Value) == string(jsonscan.AppendQuoted(nil, model)) {
			return true
		}
	}
	return edit.Lookup("model") != nil
}

// Begin is the next attempt at the target that was chosen.
func (x *Exchange) Begin(retry int) *Attempt {
	a := *x.chosen
	a.Retry = retry
	x.Attempts = append(x.Attempts, &a)
	return &a
}

// Latest is the attempt that the call's outcome is of: the last that was sent, or where
// none was, or the cache answered, the target that was chosen; nil: there is none.
func (x *Exchange) Latest() *Attempt {
	if n := len(x.Attempts); n > 0 && !x.Hit() {
		return x.Attempts[n-1]
	}
	return x.chosen
}

// Route is where the target that was chosen leads; nil: none was.
func (x *Exchange) Route() *credentials.Route {
	if x.chosen == nil {
		return nil
	}
	return x.chosen.Route
}

// SentModel is the model that the target that was chosen gets, or else the call's own.
func (x *Exchange) SentModel() string {
	if x.chosen == nil {
		return x.Model
	}
	return x.chosen.Model
}

// Usage is what the latest attempt used.
func (x *Exchange) Usage() Usage {
	if a := x.Latest(); a != nil {
		return a.Usage
	}
	return Usage{}
}

// LastUsed is the JSON path of the latest attempt's target in the config; "": nothing was
// about to be sent.
func (x *Exchange) LastUsed() string {
	if a := x.Latest(); a != nil && (x.Admitted || len(x.Attempts) > 0) {
		return a.Target
	}
	return ""
}

// Retries counts those of the latest attempt's target; -1: they are exhausted.
func (x *Exchange) Retries() int {
	switch a := x.Latest(); {
	case a == nil:
		return 0
	case a.Exhausted:
		return -1
	default:
		return a.Retry
	}
}

// Provider is the provider of the latest attempt, as answers name it; "" where there is none.
func (x *Exchange) Provider() string {
	if a := x.Latest(); a != nil {
		return a.Route.Provider
	}
	return ""
}

// AskedModel is the model of the latest attempt, or else the call's own.
func (x *Exchange) AskedModel() string {
	if a := x.Latest(); a != nil {
		return a.Model
	}
	return x.Model
}

// AnsweredBy notes the model that an answer names. It is the one that has a price where
// the caller's name for it has none, as deployments of Azure have not.
func (a *Attempt) AnsweredBy(model string) {
	const maxModel = 256
	if len(model) <= maxModel {
		a.answered = model
	}
}

// MetricTarget is what an attempt is counted under; of a nil one, a call without any.
func (x *Exchange) MetricTarget(a *Attempt) telemetry.Target {
	if a == nil {
		return telemetry.Target{Endpoint: x.Endpoint.Name, Model: x.Model}
	}
	return telemetry.Target{Endpoint: x.Endpoint.Name, Provider: a.Route.Provider, Model: a.Model, SavedModel: a.SavedModel}
}

// Hit reports whether the answer came from the cache.
func (x *Exchange) Hit() bool { return x.CacheStatus == CacheHit || x.CacheStatus == CacheSemanticHit }

// Cost is what the call cost at list prices; known: the provider said what was used, and
// there is a price for it. What no provider was asked for costs nothing.
func (x *Exchange) Cost() (cost prices.Amount, known bool) {
	if len(x.Attempts) == 0 || x.Hit() {
		return 0, true
	}
	return x.cost(x.Latest())
}

// cost is what an attempt cost. Where its answer is not the caller's with status 200, only
// what its provider says was used costs something.
func (x *Exchange) cost(a *Attempt) (cost prices.Amount, known bool) {
	u := &a.Usage
	told := u.Known || u.Pages > 0 || u.Milliseconds > 0
	for _, model := range [...]string{a.Model, a.answered} {
		if p := x.Gateway.Prices.Of(model, x.Start, a.Route.Provider, a.Route.Dialect); p != nil {
			if !told && (x.Status != http.StatusOK || !p.OnlyCalls()) {
				return 0, false
			}
			return p.Cost(&u.Usage)
		}
	}
	return 0, false
}
