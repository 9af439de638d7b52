package reqlog

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/fairshare"
)

// What refused calls of a workspace may add to the log. They cost the workspace nothing and can be made as fast as it likes, so that
// without a bound they would push the records of others out of a full log, and out of the queue. Blocks hold records of all workspaces and
// are removed as a whole, so that what is added is bounded, and not what is kept: so many at once, and then a rate
// that callers who are over a limit rarely exceed for long.
const (
	refusedAtOnce         = 10_000
	refusedPerSecond      = 50
	refusedBytesAtOnce    = 16 << 20 // of bodies, metadata and results of guardrails
	refusedBytesPerSecond = 32 << 10
)

func newRefusedQuota(now func() time.Time) *fairshare.Quota {
	return fairshare.NewQuota(
		fairshare.Rate{PerSecond: refusedPerSecond, AtOnce: refusedAtOnce},
		fairshare.Rate{PerSecond: refusedBytesPerSecond, AtOnce: refusedBytesAtOnce}, now)
}

// refused reports whether the gateway refused the call without trying a provider.
func (r *Record) refused() bool {
	return !r.Custom && r.Attempts == 0 && r.Status >= http.StatusBadRequest
}

// admit reports whether a record is within the quota of its workspace, if necessary without its bodies, which are then removed.
func (l *Log) admit(r *Record) (admitted, bodiesLost bool) {
	if !r.refused() {
		return true, false
	}
	size, bodies := r.size()
	size -= baseSize
	if l.refused.Take(r.WorkspaceID, 1, int(size+bodies)) == 0 {
		return true, false
	}
	if l.refused.Tell(r.WorkspaceID) {
		l.Logger.Warn("calls of a workspace are refused so often that not all of their records are kept",
			zap.String("workspace_id", r.WorkspaceID), zap.Int("per_second", refusedPerSecond))
	}
	if bodies > 0 && l.refused.Take(r.WorkspaceID, 1, int(size)) == 0 {
		r.Request, r.Response = nil, nil
		return true, true
	}
	return false, bodies > 0
}
