package exchange

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/validation"
)

// Where a call says its model: in its JSON body, in its form, in its query (?model=) or
// in its path (models/<id>:verb, deployments/<id>/…). A call that may have a model that
// was not read is unread: what depends on the model refuses it, and so does an edit that
// cannot be made.
type unread uint8

const (
	read          unread = iota // or there is no model to read
	unreadForm                  // the form has no model in what was read of it
	unreadBody                  // the body is not JSON, or is not said to be
	unreadSocket                // messages of a WebSocket
	unnamed                     // the call is for a model, and names none: the provider chooses
	unreadFile                  // the models of a batch stand in its file
	nested                      // models stand deeper in the body
	contradictory               // two places have different models
)

// located is what the URL of a call says of its model.
type located struct {
	model  string
	inPath bool
	spans  []validation.Span // of the query: where its fields stand
}

// fixed reports whether what would set the model leaves the ones that were not read.
func (u unread) fixed() bool { return u == contradictory || u == unreadFile || u == nested }

// jsonContent reports whether a body of this content type is JSON in UTF-8. none is what
// no content type means.
func jsonContent(contentType string, none bool) bool {
	switch contentType {
	case "":
		return none
	case "application/json":
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	return err == nil && utf8Charset(params["charset"]) &&
		(media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// utf8Charset reports whether text in this charset is UTF-8. In any other, the bytes
// that are scanned might be other text for a provider.
func utf8Charset(charset string) bool {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return true
	}
	return false
}

// encoded reports whether a body is compressed, or said to be.
func encoded(h http.Header) bool {
	values := h["Content-Encoding"]
	return len(values) > 1 || len(values) == 1 && values[0] != "" && !strings.EqualFold(values[0], "identity")
}

// binaryMedia reports whether a media type is not text.
func binaryMedia(media string) bool {
	kind, _, _ := strings.Cut(media, "/")
	return kind == "audio" || kind == "video" || kind == "image" || media == "application/octet-stream"
}

// binary reports whether a body cannot be text of JSON or a form, whatever its encoding,
// and whether enough of it was seen to tell.
func binary(head []byte) (is, told bool) {
	head = bytes.TrimLeft(head, " \t\r\n")
	if len(head) < 2 {
		return false, false
	}
	for _, text := range []string{"{", "[", "--", "\x00", "\xef\xbb", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(head, []byte(text)) {
			return false, true
		}
	}
	return true, true
}

// locate reads the model that the URL names, and notes whether the call is unread.
func (x *Exchange) locate() *Error {
	if x.Query != "" {
		x.locateInQuery()
	}
	if x.Endpoint.Passes {
		model, ambiguous := modelInPath(x.Path, x.request.Method)
		x.located.inPath = x.located.inPath || model != "" || ambiguous
		if ambiguous || model != "" && x.located.model != "" && model != x.located.model {
			x.unread = contradictory
		}
		if model != "" {
			x.located.model = model
		}
	}
	if len(x.located.model) > maxModel {
		return badRequest("model", validation.StringAboveMax, "Invalid value for 'model': longer than "+strconv.Itoa(maxModel)+" bytes.")
	}
	body := x.unreadBody()
	switch model := x.located.model; {
	case x.unread == contradictory:
	case model == "", body.fixed():
		x.unread = body
	case x.Model != "" && x.Model != model, x.Model == "" && (body == unreadForm || body == unreadBody && !x.binary):
		x.unread = contradictory // a provider might read the other
	}
	if x.Model == "" {
		x.Model = x.located.model
	}
	return nil
}

// unreadBody is why a model may be in what the body has, or the path means.
func (x *Exchange) unreadBody() unread {
	switch {
	case x.Endpoint.Name == CreateBatch:
		return unreadFile
	case x.modelsIn() != "":
		return nested
	case x.Model != "" || x.Endpoint.NoModel:
		return read
	case x.form != nil && (!x.form.over || x.Endpoint.Passes):
		return unreadForm
	case x.form == nil && x.spool != nil, x.opaque:
		return unreadBody
	case UpgradesToWebSocket(x.request.Header):
		return unreadSocket
	case (x.Endpoint.Passes || x.buffer != nil && x.Endpoint.Body != None) && !onlyReads(x.request.Method):
		return unnamed
	}
	return read
}

// modelsIn is where models stand in the body that are not read; "" if there are none.
// Names are compared as servers do that ignore their case. A form is not searched for them.
func (x *Exchange) modelsIn() (member string) {
	body := x.Params()
	switch {
	case body != nil && x.report.Has("models"):
		return "models"
	case len(x.Endpoint.Models) == 0:
		return ""
	case x.form != nil:
		if x.Endpoint != &passThrough && !x.Endpoint.NoModel {
			return strings.Join(x.Endpoint.Models, ", ")
		}
		return ""
	case body == nil:
		return ""
	}
	deeper := false
	for _, one := range x.Endpoint.Models {
		switch one {
		case "tools", "method": // which tables list
			if x.report.Has(one) && hasModel(one, gjson.ParseBytes(x.member(one))) {
				return one
			}
		default:
			deeper = true
		}
	}
	if !deeper {
		return ""
	}
	gjson.ParseBytes(body).ForEach(func(name, value gjson.Result) bool {
		for _, one := range x.Endpoint.Models {
			if strings.EqualFold(one, name.Str) && one != "tools" && one != "method" {
				member = one
			}
		}
		return member == ""
	})
	return member
}

// hasModel reports whether a model may stand in tools, or in a method of fine-tuning, of
// which one has graders. A tool has its own at its top: its parameters may have one of any
// meaning.
func hasModel(member string, value gjson.Result) (has bool) {
	if may := mayNameModel(value.Raw); !may || member == "method" {
		return may
	}
	value.ForEach(func(_, tool gjson.Result) bool {
		tool.ForEach(func(name, _ gjson.Result) bool {
			has = strings.EqualFold(name.Str, "model")
			return !has
		})
		return !has
	})
	return has
}

// mayNameModel reports whether there may be a member model in JSON, in whatever letter case,
// or escaped. It looks for the ends of such names, which are few.
func mayNameModel(text string) bool {
	const name = "model"
	for _, end := range [...]string{`l"`, `L"`} {
		for at := 0; ; {
			i := strings.Index(text[at:], end)
			if i < 0 {
				break
			}
			at += i + 1
			if at > len(name) && text[at-len(name)-1] == '"' && strings.EqualFold(text[at-len(name):at], name) {
				return true
			}
		}
	}
	return strings.Contains(text, `\u`)
}

// locateInQuery finds the model in the query. Names are compared as servers do that
// ignore their case, or take a semicolon for an ampersand.
func (x *Exchange) locateInQuery() {
	q := x.Query
	for start := 0; start <= len(q); {
		end := start + strings.IndexAny(q[start:], "&;")
		if end < start {
			end = len(q)
		}
		name, value, _ := strings.Cut(q[start:end], "=")
		decoded, err := url.QueryUnescape(name)
		// Azure's name of a model is its deployment's.
		deployment := strings.EqualFold(decoded, "deployment")
		if err == nil && (deployment || strings.EqualFold(decoded, "model")) {
			model, err := url.QueryUnescape(value)
			if err != nil || x.located.model != "" && model != x.located.model {
				x.unread = contradictory
			}
			x.located.model = model
			if deployment {
				x.located.inPath = true
			} else {
				x.located.spans = append(x.located.spans, validation.Span{Start: start, End: end})
			}
		}
		start = end + 1
	}
}

// modelInPath is the model that a path below a base URL names, as providers do whose API
// is not OpenAI's; "" if it names none. It is ambiguous where more than one could be
// meant.
func modelInPath(path, method string) (model string, ambiguous bool) {
	segments := strings.Split(path[1:], "/")
	for i := 0; i+1 < len(segments); i++ {
		var end int
		switch strings.ToLower(segments[i]) {
		case "models", "foundation-models":
			end = len(segments)
			if !onlyReads(method) && end > i+2 {
				return "", true
			}
		case "deployments", "engines", "model":
			end = i + 2
		default:
			continue
		}
		id := strings.Join(segments[i+1:end], "/")
		if !onlyReads(method) {
			if colon := strings.LastIndexByte(id, ':'); colon > 0 { // what is done with it
				id = id[:colon]
			}
		}
		name, err := url.PathUnescape(id)
		if err != nil || model != "" && model != name {
			return "", true
		}
		model = name
		i = end - 1
	}
	return model, false
}

// UpstreamQuery is the query with the model that the call's target gets.
func (x *Exchange) UpstreamQuery() string {
	if len(x.located.spans) == 0 {
		return x.Query
	}
	model := x.SentModel()
	if model == x.located.model || model == "" {
		return x.Query
	}
	var out []byte
	from := 0
	for _, s := range x.located.spans {
		out = append(append(append(out, x.Query[from:s.Start]...), "model="...), url.QueryEscape(model)...)
		from = s.End
	}
	return string(append(out, x.Query[from:]...))
}

// Unseen reports that the call may have a model that nobody has seen, and nothing else
// sets one. alias is how the model's other name would begin.
func (x *Exchange) Unseen() (alias string, unseen bool) {
	if x.unread == read || !x.unread.fixed() && x.SentModel() != "" {
		return "", false
	}
	if route := x.Route(); route != nil {
		alias = "@" + saved(route) + "/"
	}
	return alias, true
}

// UnseenModel refuses a call for which its model has to be known, and was not read.
func (x *Exchange) UnseenModel(why string) *Error {
	var message string
	code := "model_unread"
	switch x.unread {
	case unreadForm:
		code = "model_after_file"
		message = "The form has no field model in its first " + strconv.Itoa(x.spool.limit) + " bytes, and " + why + ": send the field model before the file"
	case unreadSocket:
		message = "The WebSocket was opened without ?model=, and " + why
	case unnamed:
		message = "The call names no model, and " + why + ": send it in the field model of a JSON body"
	case unreadFile:
		message = "The models of a batch stand in its input file, which is not read, and " + why + ": send the calls one by one"
	case nested:
		message = "Models stand inside of " + x.modelsIn() + ", where they are not read, and " + why
	case contradictory:
		message = "The call names its model in more than one place, or in one that cannot be read, and " + why + ": send it once"
	default:
		message = "The body is not read, and so its model is not known, and " + why + ": send JSON in UTF-8 with content-type: application/json"
	}
	e := badRequest("model", code, message)
	e.Caller = true
	return e
}

// unchangeable refuses a call that should get what an edit, or its route, says, and
// cannot.
func (x *Exchange) unchangeable(edit *routing.Edit) *Error {
	model := x.SentModel()
	if x.unread == unreadFile && edit.Touches([]string{"model"}) != "" {
		return cannot("model", "the models of a batch stand in its input file")
	}
	if x.unread == nested && (model != x.Model || edit.Touches([]string{"model"}) != "") {
		return cannot("model", "models stand inside of "+x.modelsIn())
	}
	if x.located.inPath && model != x.Model || len(x.located.spans) > 0 && model == "" {
		return cannot("model", "its URL names the model")
	}
	if x.upload {
		if key := edit.Touches(x.Endpoint.Fields); key != "" {
			return cannot(key, "its body is an upload")
		}
		return nil
	}
	if x.form != nil {
		return x.unchangeableForm(model, edit)
	}
	why := x.closedBody()
	switch key := edit.Beside("model"); {
	case why == "":
		return nil
	case key != "":
		return cannot(key, why)
	case (x.located.model == "" || x.unread == contradictory) && (model != x.Model || !edit.Empty()):
		return cannot("model", why)
	}
	return nil
}

func (x *Exchange) unchangeableForm(model string, edit *routing.Edit) *Error {
	f := x.form
	switch {
	case model == f.model, f.found && model != "", f.over && x.Endpoint.Body == Stream, !f.found && model == x.located.model:
	case f.found:
		return badRequest("model", "missing_required_parameter", "Missing required parameter: 'model'.")
	default:
		return badRequest("model", "model_not_found", "The model cannot be set: the form has no field model in its first "+strconv.Itoa(x.spool.limit)+" bytes; send it before the file")
	}
	if key := edit.Beside("model"); key != "" {
		return cannot(key, "of a form only the model can be changed")
	}
	return nil
}

// closedBody says why no field of the call's body can be changed; "": they can, or it has
// no body.
func (x *Exchange) closedBody() string {
	switch {
	case x.spool != nil, x.opaque:
		return "its body is not JSON in UTF-8 with content-type: application/json"
	case x.buffer != nil:
		return ""
	case UpgradesToWebSocket(x.request.Header):
		return "the messages of a WebSocket pass as they are"
	case x.Endpoint.Passes && !onlyReads(x.request.Method):
		return "it has no JSON body"
	}
	return ""
}

// Params is the body of a call that was read as JSON, or nil.
func (x *Exchange) Params() []byte {
	if x.opaque {
		return nil
	}
	return x.JSON()
}

// ParamsUnread reports whether the call has parameters that were not read.
func (x *Exchange) ParamsUnread() bool {
	return x.spool != nil || x.opaque || UpgradesToWebSocket(x.request.Header)
}

// NamedModel is the JSON of the model that the call names, in its body or elsewhere; nil:
// it names none, or that is not known.
func (x *Exchange) NamedModel() []byte {
	if x.unread != read {
		return nil
	}
	return x.ownModel()
}

// onlyReads reports whether a call of this method without a body has no model: what it is
// about was made before.
func onlyReads(method string) bool { return method == http.MethodGet || method == http.MethodDelete }

// cannot refuses a call in which a field cannot be set.
func cannot(field, why string) *Error {
	return badRequest(field, "field_not_changeable", "The config changes '"+field+"', which is not possible in this call, since "+why)
}

// ownModel is the model that the call itself has, as JSON; nil: none.
func (x *Exchange) ownModel() json.RawMessage {
	switch {
	case x.form != nil && x.form.found:
		return jsonscan.AppendQuoted(nil, x.form.model)
	case x.buffer != nil && !x.opaque && x.report.Has("model"):
		return x.member("model")
	case x.located.model != "":
		return jsonscan.AppendQuoted(nil, x.located.model)
	}
	return nil
}
