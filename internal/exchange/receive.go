package exchange

import (
	"errors"
	"io"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/internal/coding"
	"github.com/caddy-gw/gateway/internal/forms"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Limits bounds the bodies of calls, in bytes.
type Limits struct {
	Body   int64 // of those that are read whole
	Upload int64 // of those that pass through
	Replay int   // of what is kept of the latter, for another attempt

	// StallTimeout is how long the client may stall while it sends the body; 0: no limit.
	StallTimeout time.Duration
}

// takeBody reads the body, or makes ready to pass it through, depending on the endpoint. Content
// codings are decoded on the way.
func (p *preparation) takeBody(limits Limits) *Error {
	p.Client.stallTimeout = limits.StallTimeout
	contentType, length := p.request.Header.Get("Content-Type"), p.request.ContentLength
	if length != 0 && p.request.Body != nil {
		p.Body.codings = coding.Of(p.request.Header)
	}
	if unknown := coding.Unknown(p.Body.codings); unknown != "" {
		return unsupportedCoding(unknown)
	}
	isJSON := jsonContent(contentType, p.Endpoint.Body == JSON)
	switch {
	case p.Endpoint.Body == JSON && isJSON:
		return p.readBody(limits.Body)
	case p.Endpoint.Body == JSON:
		return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected application/json, in UTF-8")
	case p.Endpoint.Body != Stream && isJSON && length != 0:
		return p.readBody(limits.Body)
	}
	boundary, refusal := p.boundary()
	if refusal != nil {
		return refusal
	}
	isForm, media := boundary != "", ""
	if !isForm {
		media, _, _ = mime.ParseMediaType(contentType) // "" if it cannot be read
	}
	if p.Endpoint.Body == Stream && !isForm && !strings.HasPrefix(media, "audio/") {
		return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected multipart/form-data with a boundary")
	}
	if p.request.Body == nil || length == 0 {
		return nil
	}
	if length > limits.Upload {
		return tooLarge(limits.Upload)
	}
	p.Body.maxUpload = limits.Upload
	var src io.Reader = &limited{p.Body.incoming(limits.Upload), limits.Upload}
	var f *form
	if isForm {
		src, f = p.checkedForm(src, boundary)
	}
	p.Body.spool = NewSpool(src, limits.Replay, &p.Memory.lease)
	if p.Endpoint.metering.audio && p.Body.length() < 0 {
		// A small one is read to its end, and so its size is known before a limit reserves what it may be.
		if refusal := p.Body.peek(func([]byte) bool { return false }); refusal != nil {
			return refusal
		}
	}
	switch {
	case p.Endpoint.NoModel && isForm:
		p.Body.upload = true
	case isForm:
		return p.readForm(f)
	case p.Query != "" && binaryMedia(media):
		return p.Body.peek(func(head []byte) bool {
			var begun bool
			p.Body.binary, begun = binary(head)
			return begun
		})
	}
	return nil
}

// boundary returns the boundary of a form, whose content type is forwarded in its one spelling; "": the body is not a form.
func (p *preparation) boundary() (string, *Error) {
	all := p.request.Header["Content-Type"]
	switch {
	case !slices.ContainsFunc(all, forms.Is):
		return "", nil
	case len(all) > 1:
		return "", badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected one")
	}
	boundary, err := forms.Boundary(all[0])
	if err != nil {
		return "", badRequest("content-type", "invalid_content_type", "Invalid content type passed: "+err.Error())
	}
	p.request.Header["Content-Type"] = []string{forms.ContentType(boundary)}
	return boundary, nil
}

// checkedForm returns a reader of the form that src has, which looks for its model and for the objects that it names.
func (p *preparation) checkedForm(src io.Reader, boundary string) (io.Reader, *form) {
	f := &form{boundary: boundary}
	visitors := make([]forms.Visitor, 0, 2)
	if !p.Endpoint.NoModel {
		visitors = append(visitors, f)
	}
	if p.Gateway.Several != nil && p.Gateway.Several() {
		p.Body.formNames = new(formNames)
		if p.Endpoint.Objects.ScansLines {
			p.Body.formNames.lines = &fileLines{lease: &p.Memory.lease}
		}
		visitors = append(visitors, p.Body.formNames)
	}
	return forms.NewReader(src, boundary, p.Body.length(), visitors...), f
}

func (p *preparation) readBody(limit int64) *Error {
	if budget := p.Gateway.InFlight; budget != nil {
		// There will never be more memory than that, so that it is of no use to wait.
		limit = min(limit, inflight.Most(budget.Limit()))
	}
	if p.request.ContentLength > limit {
		return tooLarge(limit)
	}
	buffer, err := readBody(p.Body.incoming(limit), p.Body.length(), limit, &p.Memory.lease)
	if p.Body.decoder != nil {
		p.Body.decoder.Release()
	}
	refusal := undecoded(err)
	switch {
	case refusal != nil:
		return refusal
	case errors.Is(err, errBodyStalled):
		return bodyTooSlow(p.Client.stallTimeout)
	case errors.Is(err, errBodyTooLarge):
		return tooLarge(limit)
	case inflight.Refused(err):
		return Overloaded(err)
	case err != nil:
		e := badRequest("", "body_unreadable", "The request body could not be read to its end")
		e.Err = err
		return e
	}
	p.Body.buffer, p.Body.whole = buffer, int64(len(buffer.b))
	return p.checkBody()
}

// checkBody holds the body against the table of its endpoint.
func (p *preparation) checkBody() *Error {
	buffer := p.Body.buffer
	table := p.Endpoint.Table
	if table == nil {
		table = validation.Unlisted
	}
	if !utf8.Valid(buffer.b) { // readers differ in what bytes that are not become, so that rules could read other texts than the provider
		if p.Endpoint.Body != JSON {
			p.Body.opaque = true
			return nil
		}
		return badRequest("", "invalid_json", "Invalid request body: expected UTF-8")
	}
	var err error
	p.Body.report, err = validation.Check(table, buffer.b)
	if invalid, ok := errors.AsType[*validation.Error](err); ok {
		p.invalid = invalid // p itself is not put on the heap
	}
	if p.invalid != nil && table != validation.Unlisted {
		p.Body.report, err = validation.Check(validation.Unlisted, buffer.b)
	}
	if err == nil {
		p.Stream = p.Body.report.Stream
		return p.readModel()
	}
	var syntax *jsonscan.SyntaxError
	switch {
	case p.invalid != nil:
		return badRequest(p.invalid.Param, p.invalid.Code, p.invalid.Message)
	case errors.As(err, &syntax) && p.Endpoint.Body != JSON:
		p.Body.opaque = len(buffer.b) > 0
		return nil // the provider judges it
	}
	return badRequest("", "invalid_json", "Invalid request body: "+err.Error())
}

const maxModel = 512 // bytes, including the quotes

func (p *preparation) readModel() *Error {
	span := p.Body.report.Span("model")
	value := p.Body.buffer.b[span.Start:span.End]
	if len(value) > maxModel {
		return badRequest("model", validation.StringAboveMax, "Invalid value for 'model': longer than "+strconv.Itoa(maxModel)+" bytes.")
	}
	if len(value) > 0 && value[0] == '"' {
		p.Body.model = span
		p.Model = jsonscan.Unquote(value)
	}
	return nil
}
