// Package exchange is one inference call, from its first byte to its record:
// caller, endpoint, body, route, attempts, usage. Every gw handler of a request
// shares the one in its context; whoever asks first does the work.
package exchange

import (
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
)

// A Gateway is what every exchange of a configuration shares.
type Gateway struct {
	Authenticator *credentials.Authenticator
	Router        *credentials.Router
	Headers       *Headers
	Now           func() time.Time
	Random        io.Reader
	// Acquire holds the gateway's state open until the release function is
	// called, so that a stream that outlives its configuration ends well.
	Acquire func() (release func())
}

// An Exchange is one inference call.
type Exchange struct {
	Gateway  *Gateway
	Endpoint *Endpoint
	TraceID  string
	Start    time.Time

	// Set by Prepare, when it succeeds.
	Caller *credentials.Caller
	Route  *credentials.Route
	Model  string // that the body asks for, without @slug/
	Stream bool

	// What became of it.
	Attempts  int
	Status    int // of the answer; 0: none was sent
	FirstByte time.Time
	Usage     Usage
	Failure   string // why a stream or an attempt failed; empty: it did not

	// AnswerHeader is set on every answer, in the place of the provider's own.
	AnswerHeader []HeaderField

	request  *http.Request
	metadata string
	buffer   *Buffer
	model    Member // where the body's model stands
	prepared bool
	err      *Error
	release  func()
}

// A HeaderField is one line of a header; Name is in canonical form.
type HeaderField struct{ Name, Value string }

// Usage is what a provider said a call used, in tokens.
type Usage struct {
	Known                          bool
	PromptTokens, CompletionTokens int64
}

const contextVar = "gw.exchange"

// Of returns the exchange of a request, or nil.
func Of(r *http.Request) *Exchange {
	x, _ := caddyhttp.GetVar(r.Context(), contextVar).(*Exchange)
	return x
}

// Begin starts the exchange of a request for endpoint, with its trace id set on w.
// The caller of Begin calls Close when the request is done.
func (g *Gateway) Begin(w http.ResponseWriter, r *http.Request, endpoint *Endpoint) *Exchange {
	x := &Exchange{Gateway: g, Endpoint: endpoint, Start: g.Now(), request: r, release: g.Acquire()}
	x.TraceID = g.traceID(r.Header)
	g.Headers.Set(w.Header(), HeaderTraceID, x.TraceID)
	caddyhttp.SetVar(r.Context(), contextVar, x)
	return x
}

// Close gives back what the exchange holds.
func (x *Exchange) Close() {
	if x.buffer != nil {
		x.buffer.Release()
		x.buffer = nil
	}
	x.release()
}

const maxTraceID = 256

// traceID is the caller's, or the trace of a W3C traceparent, or a new one.
func (g *Gateway) traceID(h http.Header) string {
	if id, ok := g.Headers.Get(h, HeaderTraceID); ok && id != "" && len(id) <= maxTraceID && printable(id) {
		return id
	}
	if parts := strings.Split(h.Get("Traceparent"), "-"); len(parts) >= 4 && len(parts[1]) == 32 {
		if _, err := hex.DecodeString(parts[1]); err == nil {
			return parts[1]
		}
	}
	id, err := uuid.NewRandomFromReader(g.Random)
	if err != nil {
		return uuid.Nil.String()
	}
	return id.String()
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e })
}

// Prepare authenticates the caller, reads the body (at most limit bytes), scans it
// and resolves the route. It does so once; later calls return the same answer, but
// a limit that is lower than the first is still enforced.
func (x *Exchange) Prepare(limit int64) *Error {
	if !x.prepared {
		x.prepared = true
		x.err = x.prepare(limit)
	}
	if x.err == nil && int64(len(x.buffer.b)) > limit {
		return tooLarge(limit)
	}
	return x.err
}

func (x *Exchange) prepare(limit int64) *Error {
	r := x.request
	if r.Method != x.Endpoint.Method {
		return methodNotAllowed(r.Method, x.Endpoint.Method)
	}
	token, selection, refusal := x.Gateway.read(r.Header)
	if refusal != nil {
		return Refused(refusal)
	}
	if x.Caller, refusal = x.Gateway.Authenticator.AuthenticateCall(token, credentials.ScopeCompletions); refusal != nil {
		return Refused(refusal)
	}
	if err := x.readMetadata(r.Header); err != nil {
		return err
	}
	if !jsonContent(r.Header.Get("Content-Type")) {
		return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected application/json")
	}
	if err := x.readBody(limit); err != nil {
		return err
	}
	selection.Model = x.Model
	if x.Route, refusal = x.Gateway.Router.Route(x.Caller, selection); refusal != nil {
		return Refused(refusal)
	}
	if x.Route.Model != "" {
		x.Model = x.Route.Model
	}
	return nil
}

// read takes the credentials headers apart. The service key is x-gw-api-key, or
// the bearer where there is none; a bearer that repeats it is no provider
// credential, and neither is ever forwarded.
func (g *Gateway) read(h http.Header) (token string, s credentials.Selection, refusal *credentials.Refusal) {
	for _, f := range []struct {
		name string
		to   *string
	}{
		{HeaderAPIKey, &token},
		{HeaderVirtualKey, &s.VirtualKey},
		{HeaderProvider, &s.Provider},
		{HeaderConfig, &s.Config},
		{HeaderCustomHost, &s.CustomHost},
	} {
		var ok bool
		if *f.to, ok = g.Headers.Get(h, f.name); !ok {
			field := "x-gw-" + strings.ToLower(f.name)
			return "", s, &credentials.Refusal{Reason: credentials.AmbiguousHeader, Field: field, Message: field + " is given twice with different values"}
		}
	}
	bearer := Bearer(h)
	if token == "" {
		token, bearer = bearer, ""
	}
	if bearer != token {
		s.Bearer = credentials.NewSecret(bearer)
	}
	return token, s, nil
}

// Bearer returns the bearer token of a request, or "".
func Bearer(h http.Header) string {
	scheme, token, ok := strings.Cut(h.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// ServiceKey returns the service key of a request to the control plane, or "".
func (h *Headers) ServiceKey(header http.Header) string {
	if token, ok := h.Get(header, HeaderAPIKey); token != "" || !ok {
		if !ok {
			return ""
		}
		return token
	}
	return Bearer(header)
}

func jsonContent(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

func (x *Exchange) readMetadata(h http.Header) *Error {
	raw, ok := x.Gateway.Headers.Get(h, HeaderMetadata)
	if raw == "" {
		return nil
	}
	if !ok || ScanObject([]byte(raw), nil) != nil {
		return badRequest("x-gw-metadata", "invalid_metadata", "Invalid metadata passed: x-gw-metadata must be one JSON object")
	}
	x.metadata = raw
	return nil
}

// Metadata returns a value of the call's metadata as text: the request's own lose
// to the defaults of its key.
func (x *Exchange) Metadata(key string) (string, bool) {
	for _, source := range []string{string(x.Caller.Metadata), x.metadata} {
		if source == "" {
			continue
		}
		var found gjson.Result
		gjson.Parse(source).ForEach(func(k, v gjson.Result) bool {
			if k.Str == key {
				found = v
			}
			return true
		})
		if value := found.String(); value != "" { // null is absent
			return value, true
		}
	}
	return "", false
}

func (x *Exchange) readBody(limit int64) *Error {
	buffer, err := readBody(x.request, limit)
	switch {
	case errors.Is(err, errBodyTooLarge):
		return tooLarge(limit)
	case err != nil:
		e := badRequest("", "body_unreadable", "The request body could not be read to its end")
		e.Err = err
		return e
	}
	x.buffer = buffer
	if err := x.scan(buffer.b); err != nil {
		var refusal *Error
		if errors.As(err, &refusal) {
			return refusal
		}
		return badRequest("", "invalid_json", "Invalid request body: "+err.Error())
	}
	return nil
}

// scan finds the fields that the gateway reads. Two members that a provider might
// both read as one of them, be it the same key twice or another letter case, are
// refused: what is authorised must be what is used.
func (x *Exchange) scan(body []byte) error {
	var seen [len(fields)]bool
	return ScanObject(body, func(m Member) error {
		for i, f := range fields {
			if m.Key != f.key {
				if strings.EqualFold(m.Key, f.key) {
					return badRequest(credentials.Clip(m.Key), "duplicate_field", "Field "+credentials.Clip(m.Key)+" differs from "+f.key+" in letter case only; use "+f.key)
				}
				continue
			}
			if seen[i] {
				return badRequest(f.key, "duplicate_field", "Field "+f.key+" is given more than once")
			}
			seen[i] = true
			return f.read(x, m, body[m.Start:m.End])
		}
		return nil
	})
}

// fields are the members of a body that the gateway reads.
var fields = [...]struct {
	key  string
	read func(x *Exchange, m Member, value []byte) error
}{
	{"model", (*Exchange).readModel},
	{"stream", (*Exchange).readStream},
}

const maxModel = 512 // bytes of a model's name, quotes included

func (x *Exchange) readModel(m Member, value []byte) error {
	switch value[0] {
	case '"':
		if len(value) > maxModel {
			return badRequest("model", "invalid_value", "Invalid value for model: longer than "+strconv.Itoa(maxModel)+" bytes")
		}
		x.model = m
		x.Model = gjson.ParseBytes(value).Str
	case 'n': // null is absent
	default:
		return badRequest("model", "invalid_type", "Invalid type for model: expected a string")
	}
	return nil
}

func (x *Exchange) readStream(_ Member, value []byte) error {
	switch value[0] {
	case 't':
		x.Stream = true
	case 'f', 'n':
	default:
		return badRequest("stream", "invalid_type", "Invalid type for stream: expected true or false")
	}
	return nil
}

// Body returns the body to forward, with a reference for the caller to release: the
// client's bytes, save for the model where the route sends another.
func (x *Exchange) Body() *Buffer {
	if x.Route.Model == "" || x.model.End == 0 {
		x.buffer.refs.Add(1)
		return x.buffer
	}
	b := x.buffer.b
	out := newBuffer(len(b) + len(x.Route.Model) + 2)
	out.b = append(out.b, b[:x.model.Start]...)
	out.b = appendString(out.b, x.Route.Model)
	out.b = append(out.b, b[x.model.End:]...)
	return out
}

// Header returns the client's request headers.
func (x *Exchange) Header() http.Header { return x.request.Header }

// Fail answers with an error of the gateway's own.
func (x *Exchange) Fail(w http.ResponseWriter, e *Error) {
	x.Status, x.Failure = e.Status, e.Message
	x.SetHeader(w.Header())
	e.Write(w, x.Gateway.Headers)
}

// SetHeader sets what the gateway says of the call on an answer.
func (x *Exchange) SetHeader(h http.Header) {
	values := make([]string, len(x.AnswerHeader))
	for i, f := range x.AnswerHeader {
		values[i] = f.Value
		h[f.Name] = values[i : i+1 : i+1]
	}
	if x.Route != nil {
		x.Gateway.Headers.Set(h, HeaderProvider, x.Route.Provider)
	}
}
