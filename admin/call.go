package admin

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/storage"
)

// A route is an operation of a resource with the scopes that it requires. Every caller
// is refused if there are none.
type route struct {
	method    string
	path      string     // below /v1 and /v2
	onlyV2    bool       // it is not below /v1
	alias     string     // another full path of the same route
	kind      audit.Type // of what it is about, in the audit trail
	scopes    []string
	summary   string
	params    []*huma.Param             // of its item
	responses map[string]*huma.Response // in shapes of its own, by status
	audited   bool                      // its handler uses call.update, which writes the audit record
	data      bool                      // it writes data of callers, which is not part of the audit trail
	anyone    bool                      // it is for every known caller, whatever the scopes
	identify  func(c *call)             // tells the record what a refused request is about; may be nil
	inner     string                    // the parameter by which the record names it, where there is one
	open      bool                      // it needs no API key: the request itself has what proves that it may
	public    bool                      // it answers also callers without an API key, who are strangers
}

// systemResources are the resources that the data-service token may read, by the
// beginning of their paths. Its scopes alone would also include others.
var systemResources = []string{"configs", "prompts", "guardrails", "providers", "virtual-keys"}

// system reports whether the data-service token may use the route.
func (rt *route) system() bool {
	return rt.method == http.MethodGet && slices.Contains(systemResources, strings.Split(rt.path, "/")[1])
}

// A call is an authenticated request to a route.
type call struct {
	context.Context
	api      *API
	caller   *credentials.Caller
	record   audit.Record
	recorded bool
	charged  bool  // its row is taken from the quota of its workspace
	item     *item // the row that the request refers to, if it is a single one
	identify func(c *call)
	tx       *storage.Txn // of a change
	others   []edit       // see also
	stranger string       // address of the client of an open route; "": the caller is known
	lease    inflight.Lease
	header   http.Header // of the answer
	// elsewhere is a workspace that the query names although the body does; see strayWorkspace.
	elsewhere string
}

type callKey struct{}

// maxBody is the maximum size of request bodies, in bytes.
const maxBody = 1 << 20

// register adds a route below both prefixes, which the OpenAPI document lists once.
// Routes that change anything are added with [change], which writes the audit record.
func register[I, O any](a *API, rt route, handle func(c *call, in *I) (*O, error)) {
	if len(rt.scopes) == 0 {
		panic("route " + rt.method + " " + rt.path + " has no scope")
	}
	if rt.kind == "" {
		panic("route " + rt.method + " " + rt.path + " has no type of resource")
	}
	if rt.method != http.MethodGet && !rt.audited && !rt.data {
		panic("route " + rt.method + " " + rt.path + " leaves no audit record")
	}
	paths := []string{"/v1" + rt.path, "/v2" + rt.path}
	if rt.onlyV2 {
		paths = paths[1:]
	}
	if rt.alias != "" {
		paths = append(paths, rt.alias)
	}
	needs, security := "Needs the scope "+strings.Join(rt.scopes, " or ")+".", []map[string][]string(nil)
	middleware := a.authorise(rt)
	if rt.anyone {
		needs = "Needs no scope."
	}
	switch {
	case rt.open:
		needs, security, middleware = "Needs no API key.", []map[string][]string{{}}, a.admit(rt)
	case rt.public:
		needs = "Callers without an API key are told what everybody may know, and others what they may see. " + needs
		security, middleware = append([]map[string][]string{{}}, a.huma.OpenAPI().Security...), a.admitOrAuthorise(rt)
	}
	for i, p := range paths {
		operation := huma.Operation{
			OperationID:  strings.Trim(strings.NewReplacer("/", "-", "{", "", "}", "").Replace(rt.method+p), "-"),
			Method:       rt.method,
			Path:         p,
			Summary:      rt.summary,
			Description:  needs,
			Security:     security,
			Tags:         []string{strings.Split(rt.path, "/")[1]},
			Hidden:       i > 0,
			MaxBodyBytes: maxBody,
			Parameters:   slices.Clone(rt.params),
			Metadata:     map[string]any{ours: a.huma.OpenAPI().Components.Schemas, itemParams: rt.params},
			Middlewares:  huma.Middlewares{middleware},
			Responses:    map[string]*huma.Response{"default": a.refusal[showsFaults(p)]},
		}
		maps.Copy(operation.Responses, rt.responses)
		huma.Register(a.huma, operation, func(ctx context.Context, in *I) (*O, error) {
			c := ctx.Value(callKey{}).(*call)
			c.Context = ctx
			out, err := handle(c, in)
			var bare *bareError
			switch {
			case errors.As(err, &bare):
				return nil, bare
			case err != nil:
				return nil, c.refused(err).at(p)
			}
			return out, nil
		})
	}
}

// errorResponses describes errors, for all operations: those that are faults, and the others.
func errorResponses(document *huma.OpenAPI) map[bool]*huma.Response {
	refused := func(of reflect.Type, name string, example map[string]any) *huma.Response {
		schema := document.Components.Schemas.Schema(of, true, name)
		return &huma.Response{Description: "Refused", Content: map[string]*huma.MediaType{"application/json": {Schema: schema, Example: example}}}
	}
	const message = "name: required"
	return map[bool]*huma.Response{
		false: refused(reflect.TypeFor[Error](), "Error", map[string]any{"success": false, "data": map[string]any{"message": message, "errorCode": "AB01"}}),
		true:  refused(reflect.TypeFor[Fault](), "Fault", map[string]any{"error": map[string]any{"code": "AB01", "message": message, "param": "name", "type": "invalid_request_error"}}),
	}
}

// authorise checks that the caller has one of the route's scopes before it reads the
// rest of the request. Refused requests of known callers are recorded in the audit
// trail.
func (a *API) authorise(rt route) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		if len(r.Header["Authorization"]) > 1 {
			writeError(w, r, failure(http.StatusBadRequest, "authorization: given twice, expected once"))
			return
		}
		if name := a.Headers.KeyInQuery(r.URL.RawQuery, a.Authenticator); name != "" {
			writeError(w, r, failure(http.StatusBadRequest, "%s: a service key in the query, which URLs give away; send it as the header x-gw-api-key, and replace the key", name))
			return
		}
		caller, e := a.callerOf(r)
		if e != nil {
			writeError(w, r, e)
			return
		}
		if a.refusals.spent(caller.WorkspaceID, caller.KeyID) {
			w.Header().Set("Retry-After", "1")
			writeError(w, r, failure(http.StatusTooManyRequests, "Too many refused requests of this caller; wait a moment"))
			return
		}
		c := &call{Context: r.Context(), api: a, caller: caller, record: a.newRecord(&rt, caller, r), item: rt.item(r), identify: rt.identify}
		if caller.System && !rt.system() {
			e := forbidden("The data-service token reads %s, and nothing else", strings.Join(systemResources, ", "))
			c.audit(e.status)
			writeError(w, r, e)
			return
		}
		if !rt.anyone && !c.mayAny(rt.scopes) {
			e := c.lacks(rt.scopes...)
			c.audit(e.status)
			writeError(w, r, e)
			return
		}
		c.serve(ctx, next)
	}
}

// admit lets requests to an open route pass, unless their client was refused too often. Refusals
// are counted, but not recorded.
func (a *API) admit(rt route) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		client := clientIP(r)
		if a.strangers.spent("", client) {
			w.Header().Set("Retry-After", "1")
			writeError(w, r, failure(http.StatusTooManyRequests, "Too many refused requests of this client; wait a moment"))
			return
		}
		caller := &credentials.Caller{KeyID: rt.path, OrganisationID: a.Directory.Organisation().ID}
		c := &call{Context: r.Context(), api: a, caller: caller, record: a.newRecord(&rt, caller, r), item: rt.item(r), stranger: client}
		c.serve(ctx, next)
	}
}

// admitOrAuthorise admits whoever sends no API key, and authorises whoever does.
func (a *API) admitOrAuthorise(rt route) func(huma.Context, func(huma.Context)) {
	stranger, known := a.admit(rt), a.authorise(rt)
	return func(ctx huma.Context, next func(huma.Context)) {
		r, _ := humago.Unwrap(ctx)
		if r.Context().Value(operatorKey{}) == nil && a.Headers.ServiceKey(r.Header, a.Authenticator) == "" {
			stranger(ctx, next)
			return
		}
		known(ctx, next)
	}
}

// serve reads and answers the request of a caller who may use the route.
func (c *call) serve(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	c.header = w.Header()
	c.lease.Open(c.api.InFlight, c.caller.WorkspaceID, c.caller.KeyID)
	defer c.lease.Close()
	if err := c.lease.Grow(bodySize(r)); err != nil {
		e := c.noMemory(err)
		c.audit(e.status)
		writeError(w, r, e)
		return
	}
	if e := checkQuery(ctx.Operation(), r.URL.RawQuery); e != nil {
		c.audit(e.status)
		writeError(w, r, e)
		return
	}
	c.elsewhere = strayWorkspace(ctx.Operation(), r)
	inner := huma.WithValue(ctx, callKey{}, c)
	next(inner)
	if status := inner.Status(); status >= http.StatusBadRequest {
		c.audit(status)
	}
}

func (c *call) noMemory(err error) *Error {
	c.header.Set("Retry-After", "1")
	return failure(http.StatusServiceUnavailable, "The gateway has no memory for the request now: %v", err)
}

// copies is how often an answer has a text until it is sent: read, shown, encoded, and checked.
const copies = 4

// reserve reserves memory for what an answer says of a text with so many bytes.
func (c *call) reserve(size int) error {
	if err := c.lease.Grow(copies * size); err != nil {
		return c.noMemory(err)
	}
	return nil
}

type operatorKey struct{}

// AsOperator makes requests with the context those of the operator, who needs no API key: of
// whoever can use Caddy's admin endpoint, or open the store.
func AsOperator(ctx context.Context) context.Context {
	return context.WithValue(ctx, operatorKey{}, true)
}

// callerOf identifies the caller of a request.
func (a *API) callerOf(r *http.Request) (*credentials.Caller, *Error) {
	if r.Context().Value(operatorKey{}) != nil {
		return credentials.Operator(a.Directory.Organisation().ID), nil
	}
	token := a.Headers.ServiceKey(r.Header, a.Authenticator)
	caller, refusal := a.Authenticator.Authenticate(token)
	if refusal == nil {
		return caller, nil
	}
	a.Trail.Unknown()
	switch refusal.Reason {
	case credentials.MissingScope: // a valid JWT, of no user here
		return nil, forbidden("%s", refusal.Message)
	case credentials.KeysUnavailable:
		return nil, failure(http.StatusServiceUnavailable, "%s", refusal.Message)
	}
	message := "the API key is unknown or was deleted"
	switch {
	case a.Authenticator.Recognizes(token):
		message = refusal.Message
	case refusal.Reason == credentials.ExpiredKey:
		message = "the API key has expired, or was rotated and replaced by another"
	case token == "":
		message = "no API key was sent, expected one in x-gw-api-key, as Authorization: Bearer, or in x-api-key"
	}
	return nil, failure(http.StatusUnauthorized, "Unauthorised Request: %s", message)
}

// userAgent returns the User-Agent for the audit trail.
func userAgent(r *http.Request, own exchange.OperatorKeys) string {
	if exchange.KeyInHeader(r.Header["User-Agent"], own) {
		return "REDACTED"
	}
	return credentials.Clip(r.UserAgent())
}

// bodySize returns the maximum size of a request's body.
func bodySize(r *http.Request) int {
	if r.ContentLength < 0 {
		return maxBody
	}
	return int(min(r.ContentLength, maxBody))
}

func (c *call) mayAny(scopes []string) bool {
	for _, s := range scopes {
		if c.caller.May(s) {
			return true
		}
	}
	return false
}

// need returns an error if the caller lacks a scope that depends on the item, and not
// only on the route.
func (c *call) need(scope string) error {
	c.record.Scope = scope
	if !c.caller.May(scope) {
		return c.lacks(scope)
	}
	return nil
}

// credential is what the caller is known by.
func (c *call) credential() string {
	switch {
	case c.caller.Rights != nil:
		return "user"
	case c.caller.TokenExpires != nil:
		return "JWT"
	}
	return "API key"
}

// lacks refuses a caller who has none of the scopes. Of a user, it names the settings that would give one.
func (c *call) lacks(scopes ...string) *Error {
	named := strings.Join(scopes, " or ")
	rights := c.caller.Rights
	switch {
	case rights == nil:
		return forbidden("The %s lacks the scope %s", c.credential(), named)
	case rights.Only != nil && !slices.ContainsFunc(scopes, func(scope string) bool { return slices.Contains(rights.Only, scope) }):
		return forbidden("The JWT names scopes, and not %s", named)
	}
	var settings []string
	for _, scope := range scopes {
		settings = append(settings, roles.Gates(rights.Workspace, scope)...)
	}
	if len(settings) > 0 {
		return forbidden("The user's role does not give the scope %s; the setting %s of the workspace does", named, strings.Join(settings, " or "))
	}
	return forbidden("The user's role does not give the scope %s", named)
}

// refused converts a handler's error to the API's, and logs its cause.
func (c *call) refused(err error) *Error {
	e := asError(err)
	if e.cause != nil {
		c.api.Logger.Error("administrative action failed", zap.String("action", c.record.Scope), zap.Error(e.cause))
	}
	return e
}

// in returns the API with the services as tx sees them.
func (a *API) in(tx *storage.Txn) *API {
	in := *a
	in.Set = a.In(tx)
	return &in
}

// update runs a change and writes its audit record in one transaction. The change must read
// through the call. Functions passed to committed are called afterwards.
func (c *call) update(change func() error) error {
	api := c.api
	defer func() { c.api, c.tx = api, nil }()
	return api.DB.Update(c, func(tx *storage.Txn) error {
		c.api, c.tx = api.in(tx), tx
		c.others = nil
		c.record.ResourceID, c.record.ResourceName = "", "" // of an attempt before
		tx.OnCommit(func() { c.api, c.recorded = api, true })
		if err := change(); err != nil {
			return err
		}
		c.record.Status = http.StatusOK
		if err := c.mayAddRow(); err != nil {
			return err
		}
		return c.api.Trail.Add(tx, &c.record)
	})
}

// committed registers a function to be called after the change is committed, outside of its
// transaction.
func (c *call) committed(f func()) { c.tx.OnCommit(f) }

// fields records the names in a body for the audit trail.
func (c *call) fields(body []byte) {
	c.record.Fields = nil
	gjson.ParseBytes(body).ForEach(func(key, _ gjson.Result) bool {
		if c.record.Fields = append(c.record.Fields, credentials.Clip(key.Str)); len(c.record.Fields) == 64 {
			return false
		}
		return true
	})
	sort.Strings(c.record.Fields)
}

// lines are the members of bodies that are texts of one line.
var lines = []string{"name", "first_name", "last_name"}

// oneLine refuses control characters in names, which would mislead whoever reads a list or a log of
// them.
func oneLine(body []byte) error {
	for _, name := range lines {
		if strings.ContainsFunc(gjson.GetBytes(body, name).Str, unicode.IsControl) {
			return invalid(name, "expected no line breaks and no other control characters")
		}
	}
	return nil
}

// workspace returns the workspace of a call: the named one, by id or slug, or else the
// caller's own, or the default one for a key of the organisation. Workspace keys can
// only name their own.
func (c *call) workspace(named string) (*directory.Workspace, error) {
	d := c.api.Directory
	own := c.caller.WorkspaceID
	if named == "" {
		if own == "" {
			return d.DefaultWorkspace(), nil
		}
		named = own
	}
	w, ok := d.Workspace(named)
	if own != "" && (!ok || w.ID != own) {
		return nil, forbidden("workspace_id: the %s belongs to another workspace", c.credential())
	}
	if !ok {
		return nil, unknownReference("workspace_id", "there is no workspace %q", credentials.Clip(named))
	}
	return w, nil
}

// maySee reports whether the caller may see the resources of a workspace. Those of a deleted
// one are as if they were gone, too.
func (c *call) maySee(workspace string) bool {
	if c.caller.WorkspaceID != "" {
		return c.caller.WorkspaceID == workspace
	}
	return workspace == "" || c.api.Directory.HasWorkspace(workspace)
}

// inWorkspace returns the workspace that a list is limited to; "" means all.
func (c *call) inWorkspace(named string) (string, error) {
	if named == "" && c.caller.WorkspaceID == "" {
		return "", nil
	}
	w, err := c.workspace(named)
	if err != nil {
		return "", err
	}
	return w.ID, nil
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
