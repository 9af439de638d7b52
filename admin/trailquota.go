package admin

import (
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/fairshare"
)

// What the callers of a workspace may add to the audit trail, which keeps every row and writes them one after another: so many
// rows and bytes at once, such as a script that makes what a new deployment needs, and then a rate that no deployment has for long. One
// workspace adds at most 675 MiB a day. There is another quota of the same size for refused requests, so that those keep nobody from
// changing anything. Callers of the organisation have none, and what is deleted, such as a key that was stolen and spends all of the quota,
// needs none: it was made within it.
const (
	trailRowsAtOnce     = 20_000
	trailRowsPerSecond  = 5
	trailBytesAtOnce    = 64 << 20
	trailBytesPerSecond = 8 << 10
)

func newTrailQuota(rowsAtOnce, bytesAtOnce int, now func() time.Time) *fairshare.Quota {
	return fairshare.NewQuota(
		fairshare.Rate{PerSecond: trailRowsPerSecond, AtOnce: rowsAtOnce},
		fairshare.Rate{PerSecond: trailBytesPerSecond, AtOnce: bytesAtOnce}, now)
}

// mayAddRow takes the row of a change from the quota of the caller's workspace, once for a request, whose transaction may be tried
// again. Without a row there is no change.
func (c *call) mayAddRow() error {
	if c.caller.WorkspaceID == "" || c.charged || c.deletes() {
		return nil
	}
	wait := c.api.changes.Take(c.caller.WorkspaceID, 1, c.record.Size())
	if wait == 0 {
		c.charged = true
		return nil
	}
	c.tellOfTrail(c.api.changes, "a workspace changes so much that its changes are refused for now, which the audit trail would have to keep")
	e := failure(http.StatusTooManyRequests, "The workspace has changed too much lately, and nothing was changed: expected at most %d changes at once, and then %d a second, with at most %d MiB of rows of the audit trail at once, and then %d KiB a second",
		trailRowsAtOnce, trailRowsPerSecond, trailBytesAtOnce>>20, trailBytesPerSecond>>10)
	e.retryAfter = wait
	return e
}

// deletes reports whether the request deletes, archives or revokes an object, or removes a member.
func (c *call) deletes() bool {
	return c.record.Method == http.MethodDelete && strings.HasSuffix(c.record.Scope, ".delete")
}

// mayRecord reports whether the row of a refused request is within the quota of the caller's workspace.
func (c *call) mayRecord(r *audit.Record) bool {
	if c.caller.WorkspaceID == "" || c.api.turnedAway.Take(c.caller.WorkspaceID, 1, r.Size()) == 0 {
		return true
	}
	c.tellOfTrail(c.api.turnedAway, "requests of a workspace are refused so often that not every refusal is recorded")
	return false
}

func (c *call) tellOfTrail(q *fairshare.Quota, message string) {
	if q.Tell(c.caller.WorkspaceID) {
		c.api.Logger.Warn(message, zap.String("workspace_id", c.caller.WorkspaceID), zap.String("key_id", c.caller.KeyID))
	}
}
