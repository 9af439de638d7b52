package exchange

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/storage"
)

// An Ownership is whose the objects are that an attempt names, creates or lists, where workspaces share
// the credential that it is sent with.
type Ownership struct {
	call  *Call
	route *credentials.Route
	model string
}

// Ownership returns whose the objects of the attempt's provider are.
func (a *Attempt) Ownership() Ownership { return Ownership{a.call, a.Route, a.Model} }

// Recorded reports whether objects that the call creates are noted as its workspace's, because
// workspaces share the credential, even if there is only one workspace now.
func (o Ownership) Recorded() bool {
	return o.route.Account != "" && o.call.Gateway.Owners != nil && o.call.Gateway.Responses != nil
}

// Guarded reports whether the objects that the call names must be its workspace's own, because
// workspaces share the credential.
func (o Ownership) Guarded() bool {
	return o.Recorded() && !o.route.Alone && o.call.Gateway.Several != nil && o.call.Gateway.Several()
}

// CheckNamed refuses a call about an object that another workspace made, or that is not known.
// The caller sees 404 in either case.
func (o Ownership) CheckNamed() *Error {
	if !o.Guarded() {
		return nil
	}
	var ids, params []string
	if id, _ := o.object(); id != "" {
		ids, params = append(ids, id), append(params, "id")
	}
	if id := o.attached(); id != "" {
		ids, params = append(ids, id), append(params, "file_id")
	}
	if o.model != "" {
		ids, params = append(ids, o.model), append(params, "model")
	}
	for pair := range strings.FieldsFuncSeq(o.call.Query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		name, _ = url.QueryUnescape(name)
		value, err := url.QueryUnescape(value)
		name = strings.ToLower(name)
		cursor := o.call.Endpoint.Objects.List && (name == "after" || name == "before")
		field, how := namingOf(name)
		switch {
		case !cursor && field != "call_id" && how == 0 || err == nil && value == "":
		case err != nil || len(ids) == maxNamed:
			return badRequest(field, "invalid_value", "Invalid value for '"+field+"' in the query.")
		default:
			ids, params = append(ids, value), append(params, field)
		}
	}
	return o.check(ids, params)
}

// object returns the id of the object that the call's path names, as its provider reads it; "" if
// it names none. For a path that the operator passes through, the table is consulted for an
// endpoint of another method.
func (o Ownership) object() (id string, whole bool) {
	pattern := o.call.Endpoint.Path
	switch {
	case o.call.Endpoint.Objects.None:
		return "", false
	case o.call.Endpoint == &passThrough:
		rows := rowsOf("/v1" + o.call.Path)
		if len(rows) == 0 || rows[0].Objects.None {
			return "", false
		}
		pattern = rows[0].Path
	}
	id, whole = objectIn(strings.TrimPrefix(pattern, "/v1"), o.call.Path)
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	return id, whole
}

// attached returns the id of the file in the path of a call about a file of a vector store; "": it is
// about something else.
func (o Ownership) attached() string {
	parts := strings.Split(strings.TrimPrefix(o.call.Path, "/"), "/")
	if len(parts) < 4 || parts[0] != "vector_stores" || parts[2] != "files" {
		return ""
	}
	if plain, err := url.PathUnescape(parts[3]); err == nil {
		return plain
	}
	return parts[3]
}

// Hides reports whether a model is not for the call's workspace: a job made it, and none of the
// workspace's. Other models are everybody's.
func (o Ownership) Hides(model string) bool {
	if !o.Guarded() {
		return false
	}
	switch owner := o.call.Gateway.Owners.ModelOwner(o.route.Account, model); {
	case owner != "":
		return owner != o.call.Caller.WorkspaceID
	case o.route.Lists(model): // an administrator has named it
		return false
	default:
		return fineTuned(model)
	}
}

// fineTuned reports whether a model has a name as jobs give it: ft:gpt-4o:org::id, curie:ft-org, or
// gpt-4o.ft-id.
func fineTuned(model string) bool {
	lower := strings.ToLower(model)
	return strings.HasPrefix(lower, "ft:") || strings.Contains(lower, "/ft:") || strings.Contains(lower, ":ft-") || strings.Contains(lower, ".ft-")
}

// check refuses a call that names objects of others; params are where they are named.
func (o Ownership) check(ids, params []string) *Error {
	var objects, named []string
	for i, id := range ids {
		if params[i] != "model" || o.Hides(id) {
			objects, named = append(objects, id), append(named, params[i])
		}
	}
	if ids, params = objects, named; len(ids) == 0 {
		return nil
	}
	owns, err := o.Owns(ids)
	if err != nil {
		return err
	}
	i := slices.Index(owns, false)
	if i < 0 {
		return nil
	}
	if params[i] == "id" && ids[i] == o.call.Responses().id() {
		return unknownResponse(ids[i])
	}
	return o.unknown(ids[i], params[i])
}

// Owns returns which objects of the call's provider its workspace made.
func (o Ownership) Owns(ids []string) ([]bool, *Error) {
	ctx, workspace, slug := o.call.request.Context(), o.call.Caller.WorkspaceID, saved(o.route)
	owns, err := o.call.Gateway.Owners.Owns(ctx, workspace, o.route.Account, ids)
	if err == nil && slices.Contains(owns, false) {
		err = o.call.Gateway.Responses.Owns(ctx, workspace, slug, ids, owns)
	}
	if err != nil {
		return nil, Unavailable("Whose the object is cannot be looked up for now", err)
	}
	return owns, nil
}

func (o Ownership) unknown(id, param string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: typeInvalidRequest, Param: param, Code: "object_not_found", Caller: true,
		Message: "No object with id '" + credentials.Clip(id) + "' was made by this workspace with provider " + o.route.Provider + ", whose credential it shares",
	}
}

// CheckBody refuses a call whose body names objects that its workspace did not make, or whose
// body is not read and might. body is what is forwarded; nil: it passes through, or there is
// none. With adapted, the responses that it names are stored by the gateway itself.
func (o Ownership) CheckBody(body []byte, adapted bool) *Error {
	if !o.Guarded() {
		if o.call.Body.formNames != nil {
			return o.call.Body.formNames.must(nil)
		}
		return nil
	}
	switch {
	case o.call.Body.formNames != nil:
		return o.call.Body.formNames.must(o.check)
	case o.call.Body.opaque, o.call.Body.spool != nil && o.call.Endpoint.Body != Stream && !o.offers():
		return o.unread()
	case body == nil:
		return nil
	}
	n := namedIn(body, o.call.Endpoint, adapted, o.Hides)
	switch {
	case n.over:
		return tooManyNamed()
	case n.shared != "":
		return o.sharedWith(n)
	}
	if refusal := o.check(n.ids, n.params); refusal != nil {
		return refusal
	}
	return o.mustBeRead(n)
}

func tooManyNamed() *Error {
	return badRequest("", "too_many_objects", "The body names more than "+strconv.Itoa(maxNamed)+" objects")
}

// sharedWith refuses a call that is about what workspaces share apart from objects.
func (o Ownership) sharedWith(n *names) *Error {
	why := "Integrations of fine-tuning jobs write to accounts of the organisation of provider "
	if evalData[n.shared] != nil {
		why = "Evals that are not of type " + strings.Join(evalData[n.shared], " or ") + " (it is '" + credentials.Clip(n.kind) + "') may read what all workspaces stored with provider "
	}
	e := badRequest(n.shared, "shared_credential", why+o.route.Provider+", whose credential they share: use a virtual key of the workspace")
	e.Caller = true
	return e
}

// mustBeRead refuses a call that has a file's lines made into calls, if what they name was not
// looked at.
func (o Ownership) mustBeRead(n *names) *Error {
	linesOf := o.call.Endpoint.Objects.LinesOf
	if n.sent {
		linesOf = evalSource
	}
	var files []string
	for i, id := range n.ids {
		if linesOf != "" && n.params[i] == linesOf {
			files = append(files, id)
		}
	}
	if len(files) == 0 {
		return nil
	}
	read, err := o.call.Gateway.Owners.Read(o.call.request.Context(), o.call.Caller.WorkspaceID, o.route.Account, files)
	if err != nil {
		return Unavailable("What the file names cannot be looked up for now", err)
	}
	i := slices.Index(read, false)
	if i < 0 {
		return nil
	}
	e := badRequest(linesOf, "file_unread", "The lines of file '"+credentials.Clip(files[i])+"' were not read, or name objects that this workspace did not make with provider "+o.route.Provider+
		", whose credential it shares: upload it to /v1/files as JSON lines in UTF-8, each of at most 4 MiB, or use a virtual key of the workspace")
	e.Caller = true
	return e
}

// offers reports whether the body is a session description of WebRTC, which names no objects.
func (o Ownership) offers() bool {
	return o.call.Endpoint.Objects.Location && o.call.request.Header.Get("Content-Type") == "application/sdp"
}

// unread refuses a call whose body is not read and may name any object.
func (o Ownership) unread() *Error {
	e := badRequest("content-type", "body_unread", "The body is not read, and could name objects of other workspaces, which share the credential of provider "+o.route.Provider+
		": send JSON as application/json or a form as multipart/form-data, uncompressed, or use a virtual key of the workspace")
	e.Caller = true
	return e
}

// Claim notes that the call's workspace made objects. It has to be called before the caller gets
// their ids. With lenient, objects of other workspaces are left alone. The error is for the
// caller.
func (o Ownership) Claim(objects []stored.Listed, lenient bool) *Error {
	if len(objects) == 0 {
		return nil
	}
	ctx, workspace, slug := context.WithoutCancel(o.call.request.Context()), o.call.Caller.WorkspaceID, saved(o.route)
	ids := make([]string, len(objects))
	for i := range objects {
		ids[i] = objects[i].ID
	}
	var err error
	if row := &o.call.Endpoint.Objects; row.ShortLived {
		err = o.call.Gateway.Responses.Claim(ctx, workspace, slug, ids)
		if err == nil && row.In != "" {
			err = o.call.Gateway.Owners.NoteListed(ctx, workspace, o.route.Account, objects, o.call.Gateway.Now())
		}
	} else {
		err = o.call.Gateway.Owners.Claim(ctx, workspace, o.route.Account, objects, o.call.Gateway.Now(), lenient)
		if f := o.call.Body.formNames; err == nil && !lenient && f != nil && f.linesRead() {
			err = o.call.Gateway.Owners.NoteRead(ctx, workspace, o.route.Account, ids)
		}
	}
	return o.notNoted(err)
}

// Listed is an object that an answer names, as lists have it: its id is in a member of the answer, or of
// an event. With created, the call has created it.
func (o Ownership) Listed(answer []byte, member, id string, created bool) stored.Listed {
	if !created {
		related := stored.Listed{ID: id, List: shownIn(member)}
		if related.List != "" {
			related.Created = finished(answer)
		}
		return related
	}
	row := &o.call.Endpoint.Objects
	made := stored.Listed{ID: id, List: row.In}
	if row.In != "" {
		object := gjson.ParseBytes(answer)
		if outer, inside := strings.CutSuffix(member, ".id"); inside {
			object = object.Get(outer)
		}
		SeenIn(object, &made)
	}
	if row.ShortLived {
		made.Kept = stored.Retention
	}
	return made
}

// finished is when what an answer is about was done, in seconds since 1970; 0: that is not known. What
// came of it is a little older.
func finished(answer []byte) int64 {
	for _, name := range [...]string{"completed_at", "finished_at"} {
		if v := gjson.GetBytes(answer, name); v.Type == gjson.Number && v.Int() > 0 {
			return v.Int()
		}
	}
	return 0
}

// SeenIn notes what an object says of its place in a list.
func SeenIn(object gjson.Result, o *stored.Listed) {
	for _, name := range [...]string{"created_at", "created"} {
		if v := object.Get(name); v.Type == gjson.Number && v.Int() > 0 {
			o.Created = v.Int()
			break
		}
	}
	if v := object.Get("purpose"); o.List == "files" && v.Type == gjson.String && len(v.Str) <= maxPurpose {
		o.Purpose = v.Str
	}
}

const maxPurpose = 64 // bytes

// Next returns objects of the call's workspace in a stretch of the list that it asks for, see
// [stored.Owners.Next].
func (o Ownership) Next(s stored.Stretch, n int, want func(*stored.Listed) bool) ([]stored.Listed, bool, *Error) {
	s.List = o.call.Endpoint.Objects.In
	next, more, err := o.call.Gateway.Owners.Next(o.call.request.Context(), o.call.Caller.WorkspaceID, o.route.Account, s, n, want)
	if err != nil {
		return nil, false, Unavailable("What the workspace made cannot be looked up for now", err)
	}
	return next, more, nil
}

// CreatedAt returns when an object of the call's workspace was created, see [stored.Owners.CreatedAt].
func (o Ownership) CreatedAt(id string) (int64, *Error) {
	made, err := o.call.Gateway.Owners.CreatedAt(o.call.request.Context(), o.call.Caller.WorkspaceID, o.route.Account, id)
	if err != nil {
		return 0, Unavailable("What the workspace made cannot be looked up for now", err)
	}
	return made, nil
}

// Unsure returns objects of the call's workspace whose place in the list is not known, see
// [stored.Owners.Unsure].
func (o Ownership) Unsure(n int) ([]string, *Error) {
	ids, err := o.call.Gateway.Owners.Unsure(o.call.request.Context(), o.call.Caller.WorkspaceID, o.route.Account, o.call.Endpoint.Objects.In, n)
	if err != nil {
		return nil, Unavailable("What the workspace made cannot be looked up for now", err)
	}
	return ids, nil
}

// Learn notes where objects of the call's workspace are in the list that it asks for, and which the
// provider does not have any more. It reports whether that changes what Next returns.
func (o Ownership) Learn(seen []stored.Listed, gone []string) (moved bool, refusal *Error) {
	for i := range seen {
		seen[i].List = o.call.Endpoint.Objects.In
		if rows := exactRows[o.call.Endpoint.Path]; slices.ContainsFunc(rows, func(e *Endpoint) bool { return e.Objects.Creates() && e.Objects.ShortLived }) {
			seen[i].Kept = stored.Retention
		}
	}
	moved, err := o.call.Gateway.Owners.Learn(context.WithoutCancel(o.call.request.Context()), o.call.Caller.WorkspaceID, o.route.Account, seen, gone, o.call.Gateway.Now())
	if err != nil {
		return false, Unavailable("What the workspace made cannot be noted for now", err)
	}
	return moved, nil
}

func (o Ownership) notNoted(err error) *Error {
	if err == nil {
		return nil
	}
	return &Error{
		Status: http.StatusInternalServerError, Type: "server_error", Code: "object_not_stored", Gateway: true, Err: err,
		Message: "Provider " + o.route.Provider + " did as it was asked, but whose object that is could not be stored, so that nobody could have it",
	}
}

// ClaimModels notes that a job of the call's workspace made models, as Claim does.
func (o Ownership) ClaimModels(models []string) *Error {
	if len(models) == 0 {
		return nil
	}
	return o.notNoted(o.call.Gateway.Owners.ClaimModels(context.WithoutCancel(o.call.request.Context()), o.call.Caller.WorkspaceID, o.route.Account, models, o.call.Gateway.Now()))
}

// Deleted notes that the object that the call was about was deleted. A failure, for the call's
// record, is not fatal.
func (o Ownership) Deleted() (failure string) {
	id, whole := o.object()
	if id == "" && o.call.located.inPath {
		id, whole = o.model, true
	}
	if !whole || id == "" {
		return ""
	}
	ctx, workspace := context.WithoutCancel(o.call.request.Context()), o.call.Caller.WorkspaceID
	err := o.call.Gateway.Owners.Release(ctx, workspace, o.route.Account, id)
	if err == nil {
		err = o.call.Gateway.Responses.Delete(ctx, workspace, id)
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "that the object is gone could not be stored: " + err.Error()
	}
	return ""
}

// Remember notes which saved provider has stored a response that the attempt has created. It has
// to be called before the client gets the id. A failure, for the call's record, is not fatal:
// callers can still name the provider.
func (o Ownership) Remember(id string) (failure string) {
	c := o.call
	if id == "" || o.route.Inline || o.Recorded() || c.Gateway.Responses == nil {
		return ""
	}
	if err := c.Gateway.Responses.Remember(context.WithoutCancel(c.request.Context()), c.Caller.WorkspaceID, id, saved(o.route)); err != nil {
		return "the response's provider could not be remembered: " + err.Error()
	}
	return ""
}
