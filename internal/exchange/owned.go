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

// RecordsOwners reports whether objects that the call creates are noted as its workspace's, because
// workspaces share the credential, even if there is only one workspace now.
func (a *Attempt) RecordsOwners() bool {
	return a.Route.Account != "" && a.call.Gateway.Owners != nil && a.call.Gateway.Responses != nil
}

// Guarded reports whether the objects that the call names must be its workspace's own, because
// workspaces share the credential.
func (a *Attempt) Guarded() bool {
	return a.RecordsOwners() && !a.Route.Alone && a.call.Gateway.Several != nil && a.call.Gateway.Several()
}

// CheckObject refuses a call about an object that another workspace made, or that is not known.
// The caller sees 404 in either case.
func (a *Attempt) CheckObject() *Error {
	if !a.Guarded() {
		return nil
	}
	var ids, params []string
	if id, _ := a.call.object(); id != "" {
		ids, params = append(ids, id), append(params, "id")
	}
	if id := a.call.attached(); id != "" {
		ids, params = append(ids, id), append(params, "file_id")
	}
	if a.Model != "" {
		ids, params = append(ids, a.Model), append(params, "model")
	}
	for pair := range strings.FieldsFuncSeq(a.call.Query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		name, _ = url.QueryUnescape(name)
		value, err := url.QueryUnescape(value)
		name = strings.ToLower(name)
		cursor := a.call.Endpoint.Objects.List && (name == "after" || name == "before")
		field, how := namingOf(name)
		switch {
		case !cursor && field != "call_id" && how == 0 || err == nil && value == "":
		case err != nil || len(ids) == maxNamed:
			return badRequest(field, "invalid_value", "Invalid value for '"+field+"' in the query.")
		default:
			ids, params = append(ids, value), append(params, field)
		}
	}
	return a.mustOwn(ids, params)
}

// Hides reports whether a model is not for the call's workspace: a job made it, and none of the
// workspace's. Other models are everybody's.
func (a *Attempt) Hides(model string) bool {
	if !a.Guarded() {
		return false
	}
	switch owner := a.call.Gateway.Owners.ModelOwner(a.Route.Account, model); {
	case owner != "":
		return owner != a.call.Caller.WorkspaceID
	case a.Route.Lists(model): // an administrator has named it
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

// mustOwn refuses a call that names objects of others; params are where they are named.
func (a *Attempt) mustOwn(ids, params []string) *Error {
	var objects, named []string
	for i, id := range ids {
		if params[i] != "model" || a.Hides(id) {
			objects, named = append(objects, id), append(named, params[i])
		}
	}
	if ids, params = objects, named; len(ids) == 0 {
		return nil
	}
	owns, err := a.Owns(ids)
	if err != nil {
		return err
	}
	i := slices.Index(owns, false)
	if i < 0 {
		return nil
	}
	if params[i] == "id" && ids[i] == a.call.responseID() {
		return unknownResponse(ids[i])
	}
	return a.unknownObject(ids[i], params[i])
}

// Owns returns which objects of the call's provider its workspace made.
func (a *Attempt) Owns(ids []string) ([]bool, *Error) {
	ctx, workspace, slug := a.call.request.Context(), a.call.Caller.WorkspaceID, saved(a.Route)
	owns, err := a.call.Gateway.Owners.Owns(ctx, workspace, a.Route.Account, ids)
	if err == nil && slices.Contains(owns, false) {
		err = a.call.Gateway.Responses.Owns(ctx, workspace, slug, ids, owns)
	}
	if err != nil {
		return nil, Unavailable("Whose the object is cannot be looked up for now", err)
	}
	return owns, nil
}

func (a *Attempt) unknownObject(id, param string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: typeInvalidRequest, Param: param, Code: "object_not_found", Caller: true,
		Message: "No object with id '" + credentials.Clip(id) + "' was made by this workspace with provider " + a.Route.Provider + ", whose credential it shares",
	}
}

// CheckNamed refuses a call whose body names objects that its workspace did not make, or whose
// body is not read and might. body is what is forwarded; nil: it passes through, or there is
// none. With adapted, the responses that it names are stored by the gateway itself.
func (a *Attempt) CheckNamed(body []byte, adapted bool) *Error {
	if !a.Guarded() {
		if a.call.formNames != nil {
			return a.call.formNames.must(nil)
		}
		return nil
	}
	switch {
	case a.call.formNames != nil:
		return a.call.formNames.must(a.mustOwn)
	case a.call.opaque, a.call.spool != nil && a.call.Endpoint.Body != Stream && !a.call.offers():
		return a.unreadObjects()
	case body == nil:
		return nil
	}
	n := namedIn(body, a.call.Endpoint, adapted, a.Hides)
	switch {
	case n.over:
		return tooManyNamed()
	case n.shared != "":
		return a.sharedWith(n)
	}
	if refusal := a.mustOwn(n.ids, n.params); refusal != nil {
		return refusal
	}
	return a.mustBeRead(n)
}

func tooManyNamed() *Error {
	return badRequest("", "too_many_objects", "The body names more than "+strconv.Itoa(maxNamed)+" objects")
}

// sharedWith refuses a call that is about what workspaces share beside objects.
func (a *Attempt) sharedWith(n *names) *Error {
	why := "Integrations of fine-tuning jobs write to accounts of the organisation of provider "
	if evalData[n.shared] != nil {
		why = "Evals that are not of type " + strings.Join(evalData[n.shared], " or ") + " (it is '" + credentials.Clip(n.kind) + "') may read what all workspaces stored with provider "
	}
	e := badRequest(n.shared, "shared_credential", why+a.Route.Provider+", whose credential they share: use a virtual key of the workspace")
	e.Caller = true
	return e
}

// mustBeRead refuses a call that has a file's lines made into calls, if what they name was not
// looked at.
func (a *Attempt) mustBeRead(n *names) *Error {
	linesOf := a.call.Endpoint.Objects.LinesOf
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
	read, err := a.call.Gateway.Owners.Read(a.call.request.Context(), a.call.Caller.WorkspaceID, a.Route.Account, files)
	if err != nil {
		return Unavailable("What the file names cannot be looked up for now", err)
	}
	i := slices.Index(read, false)
	if i < 0 {
		return nil
	}
	e := badRequest(linesOf, "file_unread", "The lines of file '"+credentials.Clip(files[i])+"' were not read, or name objects that this workspace did not make with provider "+a.Route.Provider+
		", whose credential it shares: upload it to /v1/files as JSON lines in UTF-8, each of at most 4 MiB, or use a virtual key of the workspace")
	e.Caller = true
	return e
}

// offers reports whether the body is a session description of WebRTC, which names no objects.
func (c *Call) offers() bool {
	return c.Endpoint.Objects.Location && c.request.Header.Get("Content-Type") == "application/sdp"
}

// unreadObjects refuses a call whose body is not read and may name any object.
func (a *Attempt) unreadObjects() *Error {
	e := badRequest("content-type", "body_unread", "The body is not read, and could name objects of other workspaces, which share the credential of provider "+a.Route.Provider+
		": send JSON as application/json or a form as multipart/form-data, uncompressed, or use a virtual key of the workspace")
	e.Caller = true
	return e
}

// Claim notes that the call's workspace made objects. It has to be called before the caller gets
// their ids. With lenient, objects of other workspaces are left alone. The error is for the
// caller.
func (a *Attempt) Claim(objects []stored.Listed, lenient bool) *Error {
	if len(objects) == 0 {
		return nil
	}
	ctx, workspace, slug := context.WithoutCancel(a.call.request.Context()), a.call.Caller.WorkspaceID, saved(a.Route)
	ids := make([]string, len(objects))
	for i := range objects {
		ids[i] = objects[i].ID
	}
	var err error
	if o := &a.call.Endpoint.Objects; o.ShortLived {
		err = a.call.Gateway.Responses.Claim(ctx, workspace, slug, ids)
		if err == nil && o.In != "" {
			err = a.call.Gateway.Owners.NoteListed(ctx, workspace, a.Route.Account, objects, a.call.Gateway.Now())
		}
	} else {
		err = a.call.Gateway.Owners.Claim(ctx, workspace, a.Route.Account, objects, a.call.Gateway.Now(), lenient)
		if f := a.call.formNames; err == nil && !lenient && f != nil && f.linesRead() {
			err = a.call.Gateway.Owners.NoteRead(ctx, workspace, a.Route.Account, ids)
		}
	}
	return a.notNoted(err)
}

// ListedObject is an object that an answer names, as lists have it: its id is in a member of the answer, or of
// an event. With created, the call has created it.
func (a *Attempt) ListedObject(answer []byte, member, id string, created bool) stored.Listed {
	if !created {
		related := stored.Listed{ID: id, List: shownIn(member)}
		if related.List != "" {
			related.Created = finished(answer)
		}
		return related
	}
	o := &a.call.Endpoint.Objects
	made := stored.Listed{ID: id, List: o.In}
	if o.In != "" {
		object := gjson.ParseBytes(answer)
		if outer, inside := strings.CutSuffix(member, ".id"); inside {
			object = object.Get(outer)
		}
		SeenIn(object, &made)
	}
	if o.ShortLived {
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
func (a *Attempt) Next(s stored.Stretch, n int, want func(*stored.Listed) bool) ([]stored.Listed, bool, *Error) {
	s.List = a.call.Endpoint.Objects.In
	next, more, err := a.call.Gateway.Owners.Next(a.call.request.Context(), a.call.Caller.WorkspaceID, a.Route.Account, s, n, want)
	if err != nil {
		return nil, false, Unavailable("What the workspace made cannot be looked up for now", err)
	}
	return next, more, nil
}

// CreatedAt returns when an object of the call's workspace was created, see [stored.Owners.CreatedAt].
func (a *Attempt) CreatedAt(id string) (int64, *Error) {
	made, err := a.call.Gateway.Owners.CreatedAt(a.call.request.Context(), a.call.Caller.WorkspaceID, a.Route.Account, id)
	if err != nil {
		return 0, Unavailable("What the workspace made cannot be looked up for now", err)
	}
	return made, nil
}

// Unsure returns objects of the call's workspace of which it is not known where the list has them, see
// [stored.Owners.Unsure].
func (a *Attempt) Unsure(n int) ([]string, *Error) {
	ids, err := a.call.Gateway.Owners.Unsure(a.call.request.Context(), a.call.Caller.WorkspaceID, a.Route.Account, a.call.Endpoint.Objects.In, n)
	if err != nil {
		return nil, Unavailable("What the workspace made cannot be looked up for now", err)
	}
	return ids, nil
}

// Learn notes where objects of the call's workspace are in the list that it asks for, and which the
// provider does not have any more. It reports whether that changes what Next returns.
func (a *Attempt) Learn(seen []stored.Listed, gone []string) (moved bool, refusal *Error) {
	for i := range seen {
		seen[i].List = a.call.Endpoint.Objects.In
		if rows := exactRows[a.call.Endpoint.Path]; slices.ContainsFunc(rows, func(e *Endpoint) bool { return e.Objects.Creates() && e.Objects.ShortLived }) {
			seen[i].Kept = stored.Retention
		}
	}
	moved, err := a.call.Gateway.Owners.Learn(context.WithoutCancel(a.call.request.Context()), a.call.Caller.WorkspaceID, a.Route.Account, seen, gone, a.call.Gateway.Now())
	if err != nil {
		return false, Unavailable("What the workspace made cannot be noted for now", err)
	}
	return moved, nil
}

func (a *Attempt) notNoted(err error) *Error {
	if err == nil {
		return nil
	}
	return &Error{
		Status: http.StatusInternalServerError, Type: "server_error", Code: "object_not_stored", Gateway: true, Err: err,
		Message: "Provider " + a.Route.Provider + " did as it was asked, but whose object that is could not be stored, so that nobody could have it",
	}
}

// ClaimModels notes that a job of the call's workspace made models, as Claim does.
func (a *Attempt) ClaimModels(models []string) *Error {
	if len(models) == 0 {
		return nil
	}
	return a.notNoted(a.call.Gateway.Owners.ClaimModels(context.WithoutCancel(a.call.request.Context()), a.call.Caller.WorkspaceID, a.Route.Account, models, a.call.Gateway.Now()))
}

// Deleted notes that the object that the call was about was deleted. A failure, for the call's
// record, is not fatal.
func (a *Attempt) Deleted() (failure string) {
	id, whole := a.call.object()
	if id == "" && a.call.located.inPath {
		id, whole = a.Model, true
	}
	if !whole || id == "" {
		return ""
	}
	ctx, workspace := context.WithoutCancel(a.call.request.Context()), a.call.Caller.WorkspaceID
	err := a.call.Gateway.Owners.Release(ctx, workspace, a.Route.Account, id)
	if err == nil {
		err = a.call.Gateway.Responses.Delete(ctx, workspace, id)
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "that the object is gone could not be stored: " + err.Error()
	}
	return ""
}
