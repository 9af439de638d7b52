package inference

import (
	"encoding/json"
	"slices"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

// A judgment is what hooks say of a call at one target.
type judgment struct {
	x             *exchange.Exchange
	before, after []hooks.Result
	failed        bool // a hook failed that does not refuse
	strict        bool // streams have no hook_results
	deferred      *deferredJudgment

	// hideRequest and hideAnswer: the body is not kept for the request log, because it may have
	// texts that a hook was to remove.
	hideRequest, hideAnswer bool
}

// JSON is hook_results.
func (j *judgment) JSON() json.RawMessage { return hooks.JSON(j.before, j.after) }

// logged is hook_results for the record of a call, with those of its start. Without bodies, they have
// no parts of texts.
func logged(x *exchange.Exchange, before, after []hooks.Result) json.RawMessage {
	before = slices.Concat(x.Started, before)
	if !x.Excerpts.Kept() {
		before, after = hooks.Explanations(before), hooks.Explanations(after)
	}
	return hooks.JSON(before, after)
}

// Record writes hook_results into the record of the call.
func (j *judgment) Record(r *reqlog.Record) {
	r.HookResults = logged(j.x, j.before, j.after)
	if j.hideRequest {
		r.Request = nil
	}
	if j.hideAnswer {
		r.Response = nil
	}
}

// Deferred returns the hooks that judge the call once it is over.
func (j *judgment) Deferred() (bytes int, work func(room bool)) {
	if j.deferred == nil {
		return 0, nil
	}
	return j.deferred.size, j.deferred.run
}

// Interface guards
var _ exchange.DeferredNote = (*judgment)(nil)
