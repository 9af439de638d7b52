package exchange

import (
	"errors"
	"io"
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/internal/coding"
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
func (c *Call) takeBody(limits Limits) *Error {
	c.stallTimeout = limits.StallTimeout
	contentType, length := c.request.Header.Get("Content-Type"), c.request.ContentLength
	if length != 0 && c.request.Body != nil {
		c.codings = coding.Of(c.request.Header)
	}
	if unknown := coding.Unknown(c.codings); unknown != "" {
		return unsupportedCoding(unknown)
	}
	isJSON := jsonContent(contentType, c.Endpoint.Body == JSON)
	switch {
	case c.Endpoint.Body == JSON && isJSON:
		return c.readBody(limits.Body)
	case c.Endpoint.Body == JSON:
		return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected application/json, in UTF-8")
	case c.Endpoint.Body != Stream && isJSON && length != 0:
		return c.readBody(limits.Body)
	}
	media, params, err := mime.ParseMediaType(contentType)
	badForm := err != nil && strings.Contains(strings.ToLower(contentType), formData) // a provider might read it nevertheless
	if err != nil {
		media = ""
	}
	if c.Endpoint.Body == Stream && media != formData && !strings.HasPrefix(media, "audio/") || media == formData && params["boundary"] == "" || badForm {
		return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected multipart/form-data with a boundary")
	}
	if c.request.Body == nil || length == 0 {
		return nil
	}
	if length > limits.Upload {
		return tooLarge(limits.Upload)
	}
	var src io.Reader = &limited{c.incoming(limits.Upload), limits.Upload}
	if media == formData && c.Gateway.Several != nil && c.Gateway.Several() {
		c.formNames = newFormNames(src, params["boundary"])
		if c.Endpoint.Objects.ScansLines {
			c.formNames.lines = &fileLines{lease: &c.lease}
		}
		src = c.formNames
	}
	c.spool = NewSpool(src, limits.Replay, &c.lease)
	switch {
	case c.Endpoint.NoModel && media == formData:
		c.upload = true
	case media == formData && utf8Charset(params["charset"]):
		return c.readForm(params["boundary"])
	case c.Query != "" && binaryMedia(media):
		return c.peek(func(head []byte) bool {
			var begun bool
			c.binary, begun = binary(head)
			return begun
		})
	}
	return nil
}

// timedBody returns the request's body, which has to come in time.
func (c *Call) timedBody() *timedBody {
	c.timed.src, c.timed.to, c.timed.timeout = c.request.Body, c.writer, c.stallTimeout
	return &c.timed
}

// incoming returns the request's body, decoded. As it was sent, it has at most limit bytes.
func (c *Call) incoming(limit int64) io.Reader {
	if c.codings == nil {
		return c.timedBody()
	}
	c.decoder = coding.NewReader(&limited{c.timedBody(), limit}, c.codings, c)
	return c.decoder
}

// bodyLength is the length of the body that [Call.incoming] returns; -1 if it is unknown.
func (c *Call) bodyLength() int64 {
	if c.codings != nil {
		return -1
	}
	return c.request.ContentLength
}

const formData = "multipart/form-data"

func (c *Call) readBody(limit int64) *Error {
	if budget := c.Gateway.InFlight; budget != nil {
		// There will never be more memory than that, so that it is of no use to wait.
		limit = min(limit, inflight.Most(budget.Limit()))
	}
	if c.request.ContentLength > limit {
		return tooLarge(limit)
	}
	buffer, err := readBody(c.incoming(limit), c.bodyLength(), limit, &c.lease)
	if c.decoder != nil {
		c.decoder.Release()
	}
	refusal := c.undecoded(err)
	switch {
	case refusal != nil:
		return refusal
	case errors.Is(err, errBodyStalled):
		return bodyTooSlow(c.stallTimeout)
	case errors.Is(err, errBodyTooLarge):
		return tooLarge(limit)
	case inflight.Refused(err):
		return Overloaded(err)
	case err != nil:
		e := badRequest("", "body_unreadable", "The request body could not be read to its end")
		e.Err = err
		return e
	}
	c.buffer = buffer
	return c.checkBody()
}

// checkBody holds the body against the table of its endpoint.
func (c *Call) checkBody() *Error {
	buffer := c.buffer
	table := c.Endpoint.Table
	if table == nil {
		table = validation.Unlisted
	}
	var err error
	c.report, err = validation.Check(table, buffer.b)
	if errors.As(err, &c.invalid) && table != validation.Unlisted {
		c.report, err = validation.Check(validation.Unlisted, buffer.b)
	}
	if err == nil {
		c.Stream = c.report.Stream
		return c.readModel()
	}
	var syntax *jsonscan.SyntaxError
	switch {
	case c.invalid != nil:
		return badRequest(c.invalid.Param, c.invalid.Code, c.invalid.Message)
	case errors.As(err, &syntax) && c.Endpoint.Body != JSON:
		c.opaque = len(buffer.b) > 0
		return nil // the provider judges it
	}
	return badRequest("", "invalid_json", "Invalid request body: "+err.Error())
}

const maxModel = 512 // bytes, including the quotes

func (c *Call) readModel() *Error {
	span := c.report.Span("model")
	value := c.buffer.b[span.Start:span.End]
	if len(value) > maxModel {
		return badRequest("model", validation.StringAboveMax, "Invalid value for 'model': longer than "+strconv.Itoa(maxModel)+" bytes.")
	}
	if len(value) > 0 && value[0] == '"' {
		c.model = span
		c.Model = jsonscan.Unquote(value)
	}
	return nil
}
