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

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A call names its model in its JSON body, in its form, in its query (?model=) or in its path
// (models/<id>:verb, deployments/<id>/…, endpoints/<id>/…). If it may be for a model that was not read, it is
// unread: limits on the model refuse it, and so do edits that cannot be made.
type unread uint8

const (
	read          unread = iota // or there is no model to read
	unreadForm                  // the part of the form that was read has no model
	unreadBody                  // the body is not JSON, or not declared as such
	unreadSocket                // messages of a WebSocket
	unnamed                     // the call needs a model and names none: the provider chooses
	unreadFile                  // the models of a batch are in its file
	nested                      // models are deeper in the body
	alternative                 // the body names other models, of which one may answer
	contradictory               // two places have different models
)

// located is the model in the URL of a call.
type located struct {
	model  string
	inPath bool
	spans  []validation.Span // of the query: positions of its fields
}

// fixed reports whether setting the model would not change those that were not read.
func (u unread) fixed() bool {
	return u == contradictory || u == unreadFile || u == nested || u == alternative
}

// jsonContent reports whether a body of this content type is JSON in UTF-8; none is the result
// for no content type.
func jsonContent(contentType string, none bool) bool {
	switch contentType {
	case "":
		return none
	case "application/json":
		return true
	}
	// Of a parameter and its extended or continued spelling (RFC 2231), parsers take one or the other.
	media, params, err := mime.ParseMediaType(contentType)
	return err == nil && !strings.Contains(contentType, "*") && utf8Charset(params["charset"]) &&
		(media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// utf8Charset reports whether text in this charset is UTF-8. In other charsets the bytes that are
// scanned could mean something else to a provider.
func utf8Charset(charset string) bool {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return true
	}
	return false
}

// binaryMedia reports whether a media type is not text.
func binaryMedia(media string) bool {
	kind, _, _ := strings.Cut(media, "/")
	return kind == "audio" || kind == "video" || kind == "image" || media == "application/octet-stream"
}

// binary reports whether a body cannot be the text of JSON or of a form in any encoding, and
// whether enough of it was read to decide.
func binary(head []byte) (is, decided bool) {
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

// locate reads the model in the URL, and notes whether the call is unread.
func (p *preparation) locate() *Error {
	if p.Query != "" {
		p.locateInQuery()
	}
	if p.Endpoint.Passes {
		model, ambiguous := modelInPath(p.Path, p.request.Method)
		p.located.inPath = p.located.inPath || model != "" || ambiguous
		if ambiguous || model != "" && p.located.model != "" && model != p.located.model {
			p.unread = contradictory
		}
		if model != "" {
			p.located.model = model
		}
	}
	if len(p.located.model) > maxModel {
		return badRequest("model", validation.StringAboveMax, "Invalid value for 'model': longer than "+strconv.Itoa(maxModel)+" bytes.")
	}
	body := p.unreadBody()
	switch model := p.located.model; {
	case p.unread == contradictory:
	case model == "", body.fixed():
		p.unread = body
	case p.Model != "" && p.Model != model, p.Model == "" && (body == unreadForm || body == unreadBody && !p.Body.binary):
		p.unread = contradictory // a provider might use the other one
	}
	if p.Model == "" {
		p.Model = p.located.model
	}
	return nil
}

// unreadBody is why the body, or an endpoint without one, may have a model that was not read.
func (p *preparation) unreadBody() unread {
	switch {
	case p.Endpoint.Name == CreateBatch:
		return unreadFile
	case p.modelsIn() != "":
		return nested
	case p.otherModels() != "":
		return alternative
	case p.Model != "" || p.Endpoint.NoModel:
		return read
	case p.Body.form != nil && (!p.Body.form.over || p.Endpoint.Passes):
		return unreadForm
	case p.Body.form == nil && p.Body.spool != nil, p.Body.opaque:
		return unreadBody
	case UpgradesToWebSocket(p.request.Header):
		return unreadSocket
	case (p.Endpoint.Passes || p.Body.buffer != nil && p.Endpoint.Body != None) && !onlyReads(p.request.Method):
		return unnamed
	}
	return read
}

// modelsIn returns the member of the body that contains models that are not read; "" if there is
// none. Letter case is ignored, as some servers do. Forms are not searched.
func (c *Call) modelsIn() (member string) {
	body := c.Body.Params()
	switch {
	case body != nil && c.Body.report.Has("models"):
		return "models"
	case len(c.Endpoint.Models) == 0:
		return ""
	case c.Body.form != nil:
		if c.Endpoint != &passThrough && !c.Endpoint.NoModel {
			return strings.Join(c.Endpoint.Models, ", ")
		}
		return ""
	case body == nil:
		return ""
	}
	deeper := false
	for _, one := range c.Endpoint.Models {
		switch one {
		case "tools", "method": // which the tables list
			if c.Body.report.Has(one) && hasModel(one, gjson.ParseBytes(c.Body.member(one))) {
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
		for _, one := range c.Endpoint.Models {
			if strings.EqualFold(one, name.Str) && one != "tools" && one != "method" {
				member = one
			}
		}
		return member == ""
	})
	return member
}

// hasModel reports whether tools, or a method of fine-tuning, may contain a model. A tool has it
// at its top level: its parameters may be called model, too. A method has it in its graders.
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

// mayNameModel reports whether JSON may have a member model, in any letter case or with escapes.
// It searches for the ends of such names, which are rare.
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

// locateInQuery finds the model in the query. It ignores letter case and accepts semicolons as
// separators, as some servers do. A model in a list (model[]), or in a field with another name for it, is
// not read.
func (p *preparation) locateInQuery() {
	q, found := p.Query, false
	for start := 0; start <= len(q); {
		end := start + strings.IndexAny(q[start:], "&;")
		if end < start {
			end = len(q)
		}
		name, value, _ := strings.Cut(q[start:end], "=")
		decoded, err := url.QueryUnescape(name)
		// In Azure's API a deployment is a model.
		deployment := strings.EqualFold(decoded, "deployment")
		switch {
		case err != nil:
		case !deployment && !strings.EqualFold(decoded, "model"):
			if mayBeModel(decoded) {
				p.unread = contradictory
			}
		default:
			model, err := url.QueryUnescape(value)
			if err != nil || found && model != p.located.model {
				p.unread = contradictory
			}
			p.located.model, found = model, true
			if deployment {
				p.located.inPath = true
			} else {
				p.located.spans = append(p.located.spans, validation.Span{Start: start, End: end})
			}
		}
		start = end + 1
	}
}

// mayBeModel reports whether some server may read a model in the field of a query with this name, besides
// model and deployment.
func mayBeModel(name string) bool {
	name, _, _ = strings.Cut(strings.TrimSpace(name), "[")
	return strings.EqualFold(name, "model") || strings.EqualFold(name, "models") || strings.EqualFold(name, "deployment") || validation.NamesModels(name)
}

// modelInPath returns the model in a path below a base URL, as in APIs other than OpenAI's; "" if
// it names none. It is ambiguous if several could be meant.
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
		case "endpoints": // of SageMaker and Vertex AI
			if i+2 < len(segments) && segments[i+1] == "openapi" && segments[i+2] == "chat" {
				continue // Vertex AI's model is in the body
			}
			end = i + 2
		default:
			continue
		}
		id := strings.Join(segments[i+1:end], "/")
		if !onlyReads(method) {
			if colon := strings.LastIndexByte(id, ':'); colon > 0 { // the operation
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

// RefuseUnread refuses a call whose model was not read but has to be known; why completes the
// message.
func (c *Call) RefuseUnread(why string) *Error {
	var message string
	code := "model_unread"
	switch c.unread {
	case unreadForm:
		code = "model_after_file"
		message = "The form has no field model in its first " + strconv.Itoa(c.Body.spool.limit) + " bytes, and " + why + ": send the field model before the file"
	case unreadSocket:
		message = "The WebSocket was opened without ?model=, and " + why
	case unnamed:
		message = "The call names no model, and " + why + ": send it in the field model of a JSON body"
	case unreadFile:
		message = "The models of a batch stand in its input file, which is not read, and " + why + ": send the calls one by one"
	case nested:
		message = "Models stand inside of " + c.modelsIn() + ", where they are not read, and " + why
	case alternative:
		message = "The call names other models in " + credentials.Clip(c.otherModels()) + ", of which the provider may choose one, and " + why
	case contradictory:
		message = "The call names its model in more than one place, or in one that cannot be read, and " + why + ": send it once"
	default:
		message = "The body is not read, and so its model is not known, and " + why + ": send JSON in UTF-8 with content-type: application/json"
	}
	e := badRequest("model", code, message)
	e.Caller = true
	return e
}

// closedBody returns why the fields of the call's body cannot be changed; "": they can, or there
// is not a body.
func (c *Call) closedBody() string {
	switch {
	case c.Body.spool != nil, c.Body.opaque:
		return "its body is not JSON in UTF-8 with content-type: application/json"
	case c.Body.buffer != nil:
		return ""
	case UpgradesToWebSocket(c.request.Header):
		return "the messages of a WebSocket pass as they are"
	case c.Endpoint.Passes && !onlyReads(c.request.Method):
		return "it has no JSON body"
	}
	return ""
}

// NamedModel is the model that the call names, in its body or elsewhere, as JSON; nil: it names
// none, or it was not read.
func (c *Call) NamedModel() []byte {
	if c.unread != read {
		return nil
	}
	return c.ownModel()
}

// onlyReads reports whether calls of this method without a body have no model, because they are
// about something that exists already.
func onlyReads(method string) bool { return method == http.MethodGet || method == http.MethodDelete }

// cannot refuses a call whose field cannot be changed.
func cannot(field, why string) *Error {
	return badRequest(field, "field_not_changeable", "The config changes '"+field+"', which is not possible in this call, since "+why)
}

// ownModel is the call's own model as JSON, or nil.
func (c *Call) ownModel() json.RawMessage {
	switch {
	case c.Body.form != nil && c.Body.form.found:
		return jsonscan.AppendQuoted(nil, c.Body.form.model)
	case c.Body.buffer != nil && !c.Body.opaque && c.Body.report.Has("model"):
		return c.Body.member("model")
	case c.located.model != "":
		return jsonscan.AppendQuoted(nil, c.located.model)
	}
	return nil
}
