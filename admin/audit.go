package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/storage"
)

// maxAuditText bounds what the audit trail keeps of a path and of a query, in bytes.
const maxAuditText = 512

// newRecord returns the audit record of a request, without what is known only later.
func (a *API) newRecord(rt *route, caller *credentials.Caller, r *http.Request) audit.Record {
	named := rt.item(r)
	return audit.Record{
		OrganisationID: caller.OrganisationID, WorkspaceID: caller.WorkspaceID, KeyID: caller.KeyID, KeyName: caller.KeyName,
		UserID: caller.UserID, Type: rt.kind, Scope: rt.scopes[0], Resource: credentials.Clip(cmp.Or(named.query[rt.inner], named.key)), Method: r.Method, Path: audit.Shorten(r.URL.Path, maxAuditText), Query: audit.Shorten(r.URL.RawQuery, maxAuditText),
		IP: clientIP(r), Country: a.country(r), UserAgent: userAgent(r, a.Authenticator), RequestID: cmp.Or(requestID(a.Headers, r.Header), requestUUID(r)),
	}
}

// country returns the country of a client, as the proxy before says it in a header that the
// operator names. Of others than Caddy's trusted proxies, it would be made up.
func (a *API) country(r *http.Request) string {
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); !trusted || a.CountryHeader == "" {
		return ""
	}
	return credentials.Clip(r.Header.Get(a.CountryHeader))
}

// requestUUID returns Caddy's {http.request.uuid}, which its access log can have, too.
func requestUUID(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	id, _ := repl.GetString("http.request.uuid")
	return id
}

// A view returns a row as the control plane shows it, in which secrets are masked.
type view[Row any] func(c *call, row *Row) (any, error)

// shownBy makes a view the one by which the audit trail shows changes of the rows of a
// resource.
func (r *resource[Row]) shownBy(a *API, v view[Row]) { a.views[r.path] = v }

// An edit is what a change has done to something that is stored: its members as the control plane
// shows it, before (nil: it is new) and after (nil: it is gone). Every change returns one, for the
// audit trail.
type edit struct{ before, after map[string]any }

// show returns the members of a row as the control plane shows it, with its details, or nil if
// there is no view.
func (r *resource[Row]) show(c *call, row *Row) map[string]any {
	v, ok := c.api.views[cmp.Or(r.shownAs, r.path)].(view[Row])
	if !ok {
		return nil
	}
	asked := c.item
	c.item = new(item) // without the parameters of the request
	defer func() { c.item = asked }()
	members, err := membersOf(v(c, row))
	if err == nil && r.details != nil {
		var more map[string]any
		if more, err = membersOf(r.details(c, row)); err == nil {
			maps.Copy(members, more)
		}
	}
	if err == nil && r.secrets != nil {
		err = r.secrets(c, row, func(secret string, path ...string) { hide(members, secret, path) })
	}
	if err != nil {
		// The row can still be changed and deleted, or it could never be put right.
		c.api.Logger.Warn("the audit trail does not say what changes, because the row cannot be shown", zap.String("resource", c.record.Scope), zap.Error(err))
		return nil
	}
	return members
}

// hide says of a member what secret it stands for.
func hide(members map[string]any, secret string, path []string) {
	for ; len(path) > 1; path = path[1:] {
		members, _ = members[path[0]].(map[string]any)
	}
	shown, ok := members[path[0]]
	if _, object := shown.(map[string]any); ok && shown != nil && !object {
		members[path[0]] = audit.Mask(shown, secret)
	}
}

// membersOf returns the members of an object in JSON.
func membersOf(shown any, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(shown)
	if err != nil {
		return nil, err
	}
	decoded, err := audit.Decode(raw)
	members, ok := decoded.(map[string]any)
	if err == nil && !ok {
		err = errors.New("what is shown is not an object")
	}
	return members, err
}

// edited returns what has changed in a row, and makes the record one of its workspace.
func (r *resource[Row]) edited(c *call, row *Row, before, after map[string]any) edit {
	r.concerns(c, row)
	if r.inner != "" && c.item.query[r.inner] != "" {
		c.record.ResourceID, c.record.ResourceName = r.identity(c, row)
	}
	return edit{before, after}
}

// also has a change report another edit, for which the row that it is about has no members.
func (c *call) also(e edit) { c.others = append(c.others, e) }

// auditComparison is what the audit trail shows of an edit: of members that follow from what was done, nothing.
var auditComparison = audit.Comparison{Ignored: []string{"object", "last_updated_at", "last_used_at", "updated_at"}, Max: audit.MaxChanges}

// changed records what an edit, and those that were added to it, have changed.
func (c *call) changed(e edit) {
	c.record.Changes = nil
	for _, e := range append([]edit{e}, c.others...) {
		c.record.Changes = append(c.record.Changes, auditComparison.Changes(e.before, e.after)...)
	}
	if len(c.record.Changes) > audit.MaxChanges {
		c.record.Changes = c.record.Changes[:audit.MaxChanges]
	}
	c.tell(e.after)
	c.tell(e.before)
}

// audit records that the call was refused, unless its action has been recorded already.
// The number of recorded refusals is limited per key and per workspace.
func (c *call) audit(status int) {
	if c.recorded {
		return
	}
	c.recorded = true
	if storage.Rehearsed(c) { // nobody asked for it
		return
	}
	if c.stranger != "" {
		c.api.Trail.Unknown()
		c.api.strangers.refused("", c.stranger, true)
		return
	}
	c.record.Status = status
	record, last := c.api.refusals.refused(c.caller.WorkspaceID, c.caller.KeyID, status == http.StatusForbidden)
	if !record {
		return
	}
	if last {
		c.api.Logger.Warn("an API key is refused so often that not every refusal is recorded",
			zap.String("key_id", c.caller.KeyID), zap.Int("per_second", refusalsPerSecond))
	}
	c.identifyRefused()
	if !c.mayRecord(&c.record) {
		return
	}
	if err := c.api.Trail.Refused(context.WithoutCancel(c), &c.record); err != nil {
		c.api.Logger.Error("recording a refused administrative action", zap.String("action", c.record.Scope), zap.Error(err))
	}
}

// identifyRefused tells the record of a refused request what it is about: whatever its path names, and the id and the name of that
// if the caller may see it.
func (c *call) identifyRefused() {
	c.record.ResourceID, c.record.ResourceName = "", ""
	if c.identify != nil {
		c.identify(c)
	}
	if id, err := uuid.Parse(c.record.Resource); err == nil && c.record.ResourceID == "" {
		c.record.ResourceID = id.String()
	}
}

// identify tells the record which row the request is about, if there is one that the caller sees.
func (r *resource[Row]) identify(c *call) {
	row, err := r.find(c, c.item.key)
	if err != nil || !r.maySee(c, "", row, "read") {
		return
	}
	if r.param == "" {
		c.record.Resource = r.name(row)
	}
	r.concerns(c, row)
	if c.item.query[r.inner] != "" {
		c.record.ResourceID, c.record.ResourceName = r.identity(c, row)
		return
	}
	c.tell(r.show(c, row))
}

// tell tells the record the id and the name of what is shown of a row.
func (c *call) tell(shown map[string]any) {
	if id, ok := shown["id"].(string); ok && c.record.ResourceID == "" {
		c.record.ResourceID = id
	}
	if name, ok := shown["name"].(string); ok && c.record.ResourceName == "" {
		c.record.ResourceName = audit.Shorten(name, 255)
	}
}

// concerns makes the record one of the workspace of a row.
func (r *resource[Row]) concerns(c *call, row *Row) {
	if r.workspace == nil || row == nil {
		return
	}
	if w := r.workspace(row); w != "" {
		c.record.WorkspaceID = w
	}
}
