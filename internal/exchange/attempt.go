package exchange

import (
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/telemetry"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// An Attempt is one request to one target of a call. The target is chosen as a whole and does not
// change; the rest is what came of it.
type Attempt struct {
	call *Call

	// Target is the JSON path of the target in the config, Route its provider, and Edit what the
	// config changes in the body.
	Target string
	Route  *credentials.Route
	Edit   *routing.Edit

	// Model is the model that the provider is asked for. SavedModel: it comes from a saved
	// config.
	Model      string
	SavedModel bool

	// Prompt is the saved prompt that the body was rendered from, which the call or the target names.
	Prompt PromptVersion

	// Retry counts the attempts at the target, from 0. Exhausted: it was the last that the
	// target's retry setting allows.
	Retry     int
	Exhausted bool

	Duration       time.Duration
	ProviderStatus int // of the provider's answer; 0: there was none
	Usage          Usage
	rewritten      *Buffer           // the body, if a hook has changed it; nil: none has
	hookHeader     http.Header       // that hooks set on the request, see [guardrails.HeaderSetter]
	estimated      prices.Usage      // of a session: for responses whose usage was not reported
	transcribers   []*Attempt        // of a session: the models that transcribed
	TextBytes      int64             // of the answer, as far as it came; 0 if the provider reports usage
	BodyBytes      int64             // of an answer that is not a stream, as far as it came
	Errored        bool              // the provider itself answered with an error, whatever the status
	Estimated      bool              // the gateway answers itself, with an estimate
	Warnings       []string          // say what of the call was left out for this target
	Abandoned      bool              // the client or the gateway gave it up while the provider may have worked on it
	Private        bool              // other calls do not get the answer
	answerModel    string            // the model that the answer names
	batch          *batchFile        // that a batch is made of; nil: the call makes none
	verdict        *policies.Verdict // what is reserved for the batch; nil: nothing
	meter          *meter            // nil: no limit of tokens or costs counts it
	booked         *booked           // what it used; nil: that is not decided yet
	sample         sample            // of the text of a stream

	// Mask hides the credentials that the provider got, in what is shown of its answer; nil: there
	// is none yet.
	Mask *credentials.Mask
	Outcome
}

// An Outcome is what became of an attempt or of a call.
type Outcome struct {
	Status    int       // of the answer; 0: there was none
	FirstByte time.Time // of the answer
	Malformed int       // events that were removed from a stream
	Cut       string    // why the gateway itself ended the answer, in one word; "": it did not
	Failure   string    // why it failed; "": it did not
	ErrorType string    // the same in one word; "": it did not fail, the status says it, or tracing is off

	// Complete: the answer came to its end, and the client was sent all of it.
	Complete bool
}

// NewAttempt returns an attempt at a target, which does not belong to the exchange's attempts.
func (c *Call) NewAttempt(target string, route *credentials.Route, edit *routing.Edit) *Attempt {
	a := new(Attempt)
	c.choose(a, target, route, edit)
	return a
}

// choose makes an attempt at a target of the call.
func (c *Call) choose(a *Attempt, target string, route *credentials.Route, edit *routing.Edit) {
	*a = Attempt{call: c, Target: target, Route: route, Edit: edit, Prompt: c.Prompt}
	a.Model = a.model()
	a.SavedModel = a.savesModel()
}

// model is the model of the target.
func (a *Attempt) model() string {
	c := a.call
	switch {
	case a.Route.Model != "":
		return a.Route.Model
	case a.Edit.Empty() || c.located.model == "" && c.Body.form == nil && (c.Body.buffer == nil || c.Body.opaque):
		return c.Model
	}
	model := a.Edit.Result("model", c.ownModel())
	if len(model) == 0 || model[0] != '"' {
		return ""
	}
	return jsonscan.Unquote(model)
}

// savesModel reports whether the model of the target comes from a saved config.
func (a *Attempt) savesModel() bool {
	if a.call.ConfigSource.Slug == "" || a.Edit.Empty() {
		return false
	}
	for _, p := range a.Edit.Default {
		if p.Key == "model" && string(p.Value) == string(jsonscan.AppendQuoted(nil, a.Model)) {
			return true
		}
	}
	return a.Edit.Lookup("model") != nil
}

// Choose chooses a target of the call's config for the next attempts. What the target leaves open
// is taken from the call. If the target cannot be used, the former choice remains.
func (x *Exchange) Choose(t *routing.Target) *Error {
	selection, edit := t.Selection(), t.Edit()
	p := targetPrompt{call: x.Call}
	if x.Config.Prompts {
		if err := p.render(t, &selection); err != nil {
			return err
		}
		edit = p.edit.And(edit)
	}
	route, err := x.target(t, selection)
	if err == nil {
		a := x.NewAttempt(t.Path, route, edit)
		if p.prompt.Slug != "" {
			a.Prompt = p.prompt
		}
		if err = a.integrate(); err == nil {
			x.Admitted = false
			x.chosen = a
		}
	}
	return err
}

// Chosen is the target of the next attempts; nil: none was chosen.
func (x *Exchange) Chosen() *Attempt { return x.chosen }

// Begin adds an attempt at the chosen target.
func (x *Exchange) Begin(retry int) *Attempt {
	a := *x.chosen
	a.Retry = retry
	if x.Attempts == nil {
		x.Attempts = x.sent[:0]
	}
	x.Attempts = append(x.Attempts, &a)
	return &a
}

// Latest is the attempt that describes the call: the last that was sent. If none was, or the
// cache answered, it is the chosen target; nil: there is none.
func (x *Exchange) Latest() *Attempt {
	if n := len(x.Attempts); n > 0 && !x.Hit() {
		return x.Attempts[n-1]
	}
	return x.chosen
}

// Usage is what the latest attempt used.
func (x *Exchange) Usage() Usage {
	if a := x.Latest(); a != nil {
		return a.Usage
	}
	return Usage{}
}

// LastUsed is the JSON path of the latest attempt's target in the config; "": nothing was about
// to be sent.
func (x *Exchange) LastUsed() string {
	if a := x.Latest(); a != nil && (x.Admitted || len(x.Attempts) > 0) {
		return a.Target
	}
	return ""
}

// Retries is the number of retries at the latest attempt's target; -1: they are exhausted.
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

// Provider is the provider of the latest attempt; "" if there is none.
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

// SetAnswerModel sets the model that an answer names. Its price applies if there is none for the
// model that was asked for, such as a deployment of Azure.
func (a *Attempt) SetAnswerModel(model string) {
	const maxModel = 256
	if len(model) <= maxModel {
		a.answerModel = model
	}
}

// MetricTarget is what an attempt is counted under; a may be nil.
func (c *Call) MetricTarget(a *Attempt) telemetry.Target {
	if a == nil {
		return telemetry.Target{Endpoint: c.Endpoint.Name, Model: c.Model}
	}
	return telemetry.Target{Endpoint: c.Endpoint.Name, Provider: a.Route.Provider, Model: a.Model, SavedModel: a.SavedModel, Workspace: c.Caller.WorkspaceID}
}

// Hit reports whether the answer came from the cache.
func (x *Exchange) Hit() bool { return x.CacheStatus == CacheHit || x.CacheStatus == CacheSemanticHit }

// Cost is what the call cost at list prices; known: the usage and the price are known. A call
// that was sent to no provider costs nothing. Where a limit of tokens or costs counts the call, it is
// what all of its attempts were booked with.
func (x *Exchange) Cost() (cost prices.Amount, known bool) {
	if len(x.Attempts) == 0 || x.Hit() {
		return 0, true
	}
	latest := x.Latest()
	cost, known = latest.cost(x.Status)
	if latest.booked != nil && latest.booked.priced {
		cost, known = latest.booked.cost, true
	}
	for _, a := range x.Attempts {
		if b := a.booked; a != latest && b != nil && b.priced {
			cost, known = cost.Plus(b.cost), true
		}
	}
	for _, a := range latest.transcribers {
		if one, priced := a.cost(x.Status); priced {
			cost, known = cost.Plus(one), true
		}
	}
	return cost, known
}

// PriceVersion identifies the prices by which [Exchange.Cost] is made; "": the call cost nothing by any.
func (x *Exchange) PriceVersion() string {
	if len(x.Attempts) == 0 || x.Hit() {
		return ""
	}
	return x.Latest().Route.PriceVersion(x.Gateway.Prices.Version())
}

// cost is the cost of an attempt of a call that was answered with a status. If that is not 200,
// only usage that the provider reported costs something.
func (a *Attempt) cost(status int) (cost prices.Amount, known bool) {
	return a.costOf(&a.Usage, status)
}

// costOf is what an attempt at the model would cost that used this.
func (a *Attempt) costOf(u *Usage, status int) (cost prices.Amount, known bool) {
	reported := u.Known || u.Pages > 0 || u.Milliseconds > 0
	for _, model := range [...]string{a.Model, a.answerModel} {
		if p := a.price(model); p != nil {
			if !reported && (status != http.StatusOK || !p.OnlyCalls()) {
				return 0, false
			}
			return p.Cost(&u.Usage)
		}
	}
	return 0, false
}
