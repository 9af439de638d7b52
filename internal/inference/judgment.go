package inference

import (
	"encoding/json"

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
	late          *late

	// hideRequest and hideAnswer: the body is not kept for the request log, because it may have
	// texts that a hook was to remove.
	hideRequest, hideAnswer bool
}

// JSON is hook_results.
func (j *judgment) JSON() json.RawMessage { return hooks.JSON(j.before, j.after) }

// Record writes hook_results into the record of the call. Without bodies, they have no parts of
// texts.
func (j *judgment) Record(r *reqlog.Record) {
	if j.x.KeepsExcerpts() {
		r.HookResults = j.JSON()
	} else {
		r.HookResults = hooks.JSON(hooks.Explanations(j.before), hooks.Explanations(j.after))
	}
	if j.hideRequest {
		r.Request = nil
	}
	if j.hideAnswer {
		r.Response = nil
	}
}

// Late returns the hooks that judge the call once it is over.
func (j *judgment) Late() (bytes int, work func(room bool)) {
	if j.late == nil {
		return 0, nil
	}
	return j.late.size, j.late.run
}

// Interface guards
var _ exchange.LateNote = (*judgment)(nil)
