// Package exchange is one inference call, from its first byte to its record:
// caller, endpoint, body, route, attempts, usage. Every gw handler of a request
// shares the one in its context; whoever asks first does the work.
package exchange

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/jsonscan"
	"github.com/caddy-gw/gateway/routing"
	"github.com/caddy-gw/gateway/validation"
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
	Configs *Configs
	// Memory remembers which provider holds a stored response; nil: nothing does.
	Memory *Memory
}

// An Exchange is one inference call.
type Exchange struct {
	Gateway  *Gateway
	Endpoint *Endpoint
	TraceID  string
	Start    time.Time

	// Set by Prepare, when it succeeds.
	Caller *credentials.Caller
	Route  *credentials.Route // of the latest attempt; of a call with a config, nil before the first
	Model  string             // that the body asks for, without @slug/
	Stream bool

	// Catalogue: the call asks for the models of every saved provider; it has no route.
	Catalogue bool

	Config         *routing.Config // nil: the call goes to Route
	ConfigID       string          // slug of a saved config
	ConfigVersion  string          // id
	InlineConfig   bool
	RequestTimeout time.Duration // x-gw-request-timeout, which beats a config's; 0: not given
	ForwardHeaders []string      // x-gw-forward-headers, canonical

	// What became of it.
	Attempts  int
	LastUsed  string // JSON path of the target in the config
	Retries   int    // of that target; -1: they are exhausted
	Status    int    // of the answer; 0: none was sent
	FirstByte time.Time
	Usage     Usage
	Malformed int    // events of a stream that were taken out
	Failure   string // why a stream or an attempt failed; empty: it did not

	// Path is where the call goes below a provider's base URL, escaped, and Query its
	// query.
	Path, Query string

	// AdmitTarget admits the call to the target in Route by the policies that depend
	// on it; nil: nothing limits it.
	AdmitTarget func() *Error

	// AnswerHeader is set on every answer, in the place of the provider's own.
	AnswerHeader []HeaderField

	request   *http.Request
	metadata  string
	selection credentials.Selection
	buffer    *Buffer         // of a body that was read whole
	spool     *Spool          // of a body that passes through
	model     validation.Span // where the body's model stands
	report    validation.Report
	prepared  bool
	err       *Error
	release   func()
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
	x := &Exchange{
		Gateway: g, Endpoint: endpoint, Start: g.Now(), request: r, release: g.Acquire(),
		Path: strings.TrimPrefix(r.URL.EscapedPath(), "/v1"), Query: r.URL.RawQuery,
	}
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

// Limits bounds the bodies of calls, in bytes.
type Limits struct {
	Body   int64 // of one that is read whole
	Upload int64 // of one that passes through
	Replay int   // what is kept of one that passes through, for another attempt
}

// Prepare authenticates the caller, reads and scans the body, or makes ready to pass
// it through, and resolves the route. It does so once; later calls return the same
// answer, but a limit that is lower than the first is still enforced.
func (x *Exchange) Prepare(limits Limits) *Error {
	if !x.prepared {
		x.prepared = true
		x.err = x.prepare(limits)
	}
	if x.err == nil && x.buffer != nil && int64(len(x.buffer.b)) > limits.Body {
		return tooLarge(limits.Body)
	}
	return x.err
}

func (x *Exchange) prepare(limits Limits) *Error {
	r := x.request
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
	if err := x.takeBody(limits); err != nil {
		return err
	}
	if x.Endpoint.Query != nil {
		if fault := validation.CheckQuery(x.Endpoint.Query, r.URL.Query()); fault != nil {
			return badRequest(fault.Param, fault.Code, fault.Message)
		}
	}
	selection.Model = x.Model
	if selection.Model == "" {
		selection.Model = x.queryModel()
	}
	if refusal := x.Gateway.recall(x, &selection); refusal != nil {
		return Refused(refusal)
	}
	x.selection = selection
	if refusal := x.Gateway.Router.Inline(x.Caller.WorkspaceID, selection); refusal != nil {
		return Refused(refusal)
	}
	version, _ := x.Gateway.Headers.Get(r.Header, HeaderConfigVersion)
	var err *Error
	if x.Config, err = x.config(selection.Config, version); err != nil {
		return err
	}
	if err := x.readOptions(r.Header); err != nil {
		return err
	}
	if x.Config != nil {
		if x.Endpoint.Single && !x.Config.Root.Leaf() {
			return badRequest("x-gw-config", "invalid_config", "Invalid config provided. Maximum one target is allowed for batch/file/fine_tuning requests")
		}
		x.Catalogue = x.Endpoint.Name == Models && x.Config.FetchIntegratedModels
		return nil
	}
	if x.Endpoint.Name == Models && x.catalogue(r.Header, selection) {
		x.Catalogue = true
		return nil
	}
	if x.Route, refusal = x.Gateway.Router.Route(x.Caller, selection); refusal != nil {
		return Refused(refusal)
	}
	if x.Route.Model != "" {
		x.Model = x.Route.Model
	}
	return x.missingModel()
}

// catalogue reports whether a call for models is for the unified list: it names no
// provider, or says so.
func (x *Exchange) catalogue(h http.Header, s credentials.Selection) bool {
	for _, name := range []string{HeaderFetchIntegrated, HeaderModelsEndpoint} {
		if v, _ := x.Gateway.Headers.Get(h, name); v != "" && v != "false" {
			return true
		}
	}
	return s.Provider == "" && s.VirtualKey == "" && s.Model == ""
}

// Target resolves where a target of the call's config leads. What the target leaves
// open, the call itself says.
func (x *Exchange) Target(t *routing.Target) (*credentials.Route, *Error) {
	s := t.Selection()
	if s.VirtualKey == "" && s.Provider == "" && !strings.HasPrefix(s.Model, "@") {
		own := x.selection
		own.Config = ""
		if s.CustomHost != "" {
			own.CustomHost = s.CustomHost
		}
		if s.Model != "" {
			own.Model = s.Model
		}
		s = own
	}
	if s.Model == "" && (s.VirtualKey != "" || strings.HasPrefix(s.Provider, "@")) {
		s.Model = x.Model // so that @slug/ goes, where it is the same slug
	}
	route, refusal := x.Gateway.Router.Route(x.Caller, s)
	if refusal != nil {
		return nil, Refused(refusal)
	}
	return route, nil
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
	if values := h["Authorization"]; len(values) > 1 {
		return "", s, &credentials.Refusal{Reason: credentials.AmbiguousHeader, Field: "authorization", Message: "authorization is given twice"}
	}
	bearer := Bearer(h)
	if token == "" {
		token, bearer = bearer, ""
	}
	if token == "" {
		token = protocolKey(h)
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
	if !ok || jsonscan.Members([]byte(raw), nil) != nil {
		return badRequest("x-gw-metadata", "invalid_metadata", "Invalid metadata passed: x-gw-metadata must be one JSON object")
	}
	x.metadata = raw
	return nil
}

// MetadataJSON returns a value of the call's metadata, nil where there is none: the
// request's own lose to the defaults of its key.
func (x *Exchange) MetadataJSON(key string) json.RawMessage {
	if v := x.metadataValue(key); v.Exists() {
		return json.RawMessage(v.Raw)
	}
	return nil
}

// Metadata returns a value of the call's metadata as text. Null is absent.
func (x *Exchange) Metadata(key string) (string, bool) {
	value := x.metadataValue(key).String()
	return value, value != ""
}

func (x *Exchange) metadataValue(key string) gjson.Result {
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
		if found.Exists() && found.Type != gjson.Null {
			return found
		}
	}
	return gjson.Result{}
}

// takeBody takes the body as the endpoint has it.
func (x *Exchange) takeBody(limits Limits) *Error {
	contentType := x.request.Header.Get("Content-Type")
	switch x.Endpoint.Body {
	case JSON:
		if !jsonContent(contentType) {
			return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected application/json")
		}
		return x.readBody(limits.Body)
	case Stream:
		if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "multipart/form-data" && !strings.HasPrefix(media, "audio/") {
			return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected multipart/form-data")
		}
	case Any:
		if contentType != "" && jsonContent(contentType) {
			return x.readBody(limits.Body)
		}
	}
	if x.request.Body == nil || x.request.ContentLength == 0 {
		return nil
	}
	if x.request.ContentLength > limits.Upload {
		return tooLarge(limits.Upload)
	}
	x.spool = NewSpool(&limited{x.request.Body, limits.Upload}, limits.Replay)
	return nil
}

// queryModel is the model that a query names with @slug/; the provider gets what
// follows the slash.
func (x *Exchange) queryModel() string {
	if !strings.Contains(x.Query, "model=") {
		return ""
	}
	values, err := url.ParseQuery(x.Query)
	model := values.Get("model")
	if err != nil || !strings.HasPrefix(model, "@") {
		return ""
	}
	if _, name, ok := strings.Cut(model, "/"); ok {
		values.Set("model", name)
		x.Query = values.Encode()
	}
	return model
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
	table := x.Endpoint.Table
	if table == nil {
		table = validation.Unlisted
	}
	if x.report, err = validation.Check(table, buffer.b); err == nil {
		x.Stream = x.report.Stream
		return x.readModel()
	}
	var fault *validation.Fault
	var syntax *jsonscan.SyntaxError
	switch {
	case errors.As(err, &fault):
		return badRequest(fault.Param, fault.Code, fault.Message)
	case errors.As(err, &syntax) && x.Endpoint.Body == Any:
		return nil // the provider's own business
	}
	return badRequest("", "invalid_json", "Invalid request body: "+err.Error())
}

const maxModel = 512 // bytes of a model's name, quotes included

func (x *Exchange) readModel() *Error {
	span := x.report.Span("model")
	value := x.buffer.b[span.Start:span.End]
	if len(value) > maxModel {
		return badRequest("model", validation.StringAboveMax, "Invalid value for 'model': longer than "+strconv.Itoa(maxModel)+" bytes.")
	}
	if len(value) > 0 && value[0] == '"' {
		x.model = span
		x.Model = jsonscan.Unquote(value)
	}
	return nil
}

// Spool returns the body that passes through, or nil.
func (x *Exchange) Spool() *Spool { return x.spool }

// JSON is the body of a call that has one in JSON, as the client sent it, or nil.
func (x *Exchange) JSON() []byte {
	if x.buffer == nil {
		return nil
	}
	return x.buffer.b
}

// Replayable returns nil if the body can be sent once more, and otherwise why it
// cannot; see [Spool.Replayable].
func (x *Exchange) Replayable() error {
	if x.spool == nil {
		return nil
	}
	return x.spool.Replayable()
}

// HasJSON reports whether the call has a JSON body.
func (x *Exchange) HasJSON() bool { return x.buffer != nil }

// Method is the request's method.
func (x *Exchange) Method() string { return x.request.Method }

// ContentLength is the length of the body that passes through; -1 where unknown.
func (x *Exchange) ContentLength() int64 { return x.request.ContentLength }

// Body returns the body to forward, with a reference for the caller to release: the
// client's bytes with the edit of a config's target made, which may be nil, and with
// another model where that is not "". It is nil where there is none, or where it
// passes through. An *Error says what is still missing in it.
func (x *Exchange) Body(edit *routing.Edit, model string) (*Buffer, error) {
	if x.buffer == nil {
		return nil, nil
	}
	if fault := x.missing(edit); fault != nil {
		return nil, badRequest(fault.Param, fault.Code, fault.Message)
	}
	b := x.buffer.b
	defaulted := x.Endpoint.Table == validation.Completion && !x.report.Has("prompt")
	switch {
	case edit.Empty() && !defaulted && (model == "" || x.model.End == 0):
		x.buffer.refs.Add(1)
		return x.buffer, nil
	case edit.Empty() && !defaulted:
		out := newBuffer(len(b) + len(model) + 2)
		out.b = append(out.b, b[:x.model.Start]...)
		out.b = appendString(out.b, model)
		out.b = append(out.b, b[x.model.End:]...)
		return out, nil
	}
	if edit == nil {
		edit = new(routing.Edit)
	}
	if defaulted && !edit.Sets("prompt") {
		edit = edit.With("prompt", appendString(nil, validation.DefaultPrompt))
	}
	if model != "" {
		edit = edit.With("model", appendString(nil, model))
	}
	out := newBuffer(len(b) + 1024)
	var err error
	if out.b, err = routing.Append(out.b, b, edit); err != nil {
		out.Release()
		return nil, badRequest("", "invalid_config", "The config's parameters cannot be put into the body: "+err.Error())
	}
	return out, nil
}

// missing is the first field that the body lacks and the config does not add.
func (x *Exchange) missing(edit *routing.Edit) *validation.Fault {
	if x.Endpoint.Table == nil {
		return nil
	}
	return x.Endpoint.Table.Missing(func(name string) bool { return x.report.Has(name) || edit.Sets(name) })
}

// missingModel refuses a call without a config that lacks what a config could add.
func (x *Exchange) missingModel() *Error {
	if x.buffer == nil || x.Config != nil {
		return nil
	}
	if fault := x.missing(nil); fault != nil {
		return badRequest(fault.Param, fault.Code, fault.Message)
	}
	return nil
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always encode
	}
	return append(b, quoted...)
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
	if x.LastUsed != "" {
		x.Gateway.Headers.Set(h, HeaderLastUsed, x.LastUsed)
		x.Gateway.Headers.Set(h, HeaderRetryCount, strconv.Itoa(x.Retries))
	}
}
