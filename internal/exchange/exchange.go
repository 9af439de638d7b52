// Package exchange is one inference call, from its first byte to its record:
// caller, endpoint, body, route, attempts, usage. Every gw handler of a request
// shares the one in its context; whoever asks first does the work.
package exchange

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/telemetry"
	"github.com/caddy-gw/gateway/internal/validation"
)

// A Gateway is what every exchange of a configuration shares.
type Gateway struct {
	Authenticator *credentials.Authenticator
	Router        *credentials.Router
	Headers       *Headers
	Now           func() time.Time
	Random        io.Reader
	// ID is what a call carries to a host that a caller or a tenant chose, by which it is
	// refused when that host leads back; "": none does.
	ID string
	// Acquire holds the gateway's state open until the release function is
	// called, so that a stream that outlives its configuration ends well.
	Acquire func() (release func())
	Configs *Configs
	// WorkspaceMetadata returns the metadata that the calls of a workspace have, an object;
	// nil: none do.
	WorkspaceMetadata func(workspaceID string) json.RawMessage
	// Responses are the stored responses: which provider holds one; nil: none are known.
	Responses *stored.Responses
	// Owners knows which workspace made an object with a credential that several share; nil:
	// nobody does.
	Owners *stored.Owners
	// Several reports whether the organisation has more than one workspace; nil: it has not.
	Several func() bool
	// Metrics counts what becomes of the calls; nil: nobody does.
	Metrics *telemetry.Metrics
	// InFlight bounds the memory of the calls that are under way; nil: nothing does.
	InFlight *inflight.Budget
	// Prices knows what models cost; nil: nothing has a price.
	Prices *prices.Table
}

// An Exchange is one inference call.
type Exchange struct {
	Gateway  *Gateway
	Endpoint *Endpoint
	TraceID  string
	Span     Span
	Start    time.Time

	// Set by Prepare, when it succeeds.
	Caller *credentials.Caller
	Model  string // that the body asks for, without @slug/
	Stream bool

	// ErrorType is why the latest attempt failed, in one word; "": it did not, or nobody watches.
	ErrorType string

	// Whole: the answer came to its end, and the client was sent all of it.
	Whole bool

	// Catalogue: the call asks for the models of every saved provider; it has no route.
	Catalogue bool

	// Held is the stored response that the call is about, where the gateway holds it; the
	// call has no route then.
	Held *stored.Turn
	// Adapted: the attempt makes a response of a conversation.
	Adapted bool

	Config         *routing.Config // nil: the call goes to Route
	ConfigID       string          // slug of a saved config
	ConfigVersion  string          // id
	InlineConfig   bool
	RequestTimeout time.Duration // x-gw-request-timeout, which beats a config's; 0: not given
	ForwardHeaders []string      // x-gw-forward-headers, canonical
	Caching        Caching

	// What became of it.
	Attempts    []*Attempt // that were sent, in order
	Admitted    bool       // to the target that was chosen
	Status      int        // of the answer; 0: none was sent
	FirstByte   time.Time
	Malformed   int    // events of a stream that were taken out
	Cut         string // why the gateway itself ended a stream, in one word; empty: it did not
	Failure     string // why a stream or an attempt failed; empty: it did not
	CacheStatus string // as x-gw-cache-status has it; empty: the endpoint's answers are not kept

	// Path is where the call goes below a provider's base URL, escaped, and Query its
	// query.
	Path, Query string

	// Limiter counts the call before it is forwarded; nil: nothing limits it.
	Limiter Limiter

	// Trace is the call's span, and starts those of its attempts; nil: Caddy's tracing
	// is off.
	Trace *telemetry.Span

	// AnswerHeader is set on every answer, in the place of the provider's own.
	AnswerHeader []HeaderField

	request   *http.Request
	writer    http.ResponseWriter // of the client's, which is not written to
	patience  time.Duration       // with the body
	arrival   arrival             // of the body
	metadata  string              // x-gw-metadata
	baggage   string              // of which an object was made
	selection credentials.Selection
	lease     inflight.Lease  // of what the call holds until it is closed
	buffer    *Buffer         // of a body that was read whole
	spool     *Spool          // of a body that passes through
	form      *form           // what was read of it, where it is one
	formNames *formNames      // the objects that it names; nil: that is not read
	opaque    bool            // the body that was read is not JSON
	binary    bool            // the body that passes through is media, and cannot be text
	upload    bool            // the body that passes through is a form without parameters of a model
	located   located         // what the URL says of the model
	unread    unread          // why the model may be one that was not read
	model     validation.Span // where the body's model stands
	chosen    *Attempt        // the target that the next attempts are for
	report    validation.Report
	fault     *validation.Fault // that the endpoint's tables find, and a config may let pass
	prepared  bool
	err       *Error
	release   func()
	said      excerpt // of the answer's body

	committed    bool
	callAdmitted bool
	holds        []held
}

// A HeaderField is one line of a header; Name is in canonical form.
type HeaderField struct{ Name, Value string }

// Usage is what a provider said a call used. The prompt includes what came from caches
// and what was written to them, the completion includes reasoning.
type Usage struct {
	Known bool
	prices.Usage
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
		Gateway: g, Endpoint: endpoint, Start: g.Now(), request: r, writer: w, release: g.Acquire(),
		Path: strings.TrimPrefix(r.URL.EscapedPath(), "/v1"), Query: r.URL.RawQuery,
	}
	x.readTrace(r.Header)
	g.Headers.Set(w.Header(), HeaderTraceID, x.TraceID)
	caddyhttp.SetVar(r.Context(), contextVar, x)
	x.publish()
	return x
}

// Close ends the exchange: it settles what its limits hold, counts it, and gives back what
// it has.
func (x *Exchange) Close() {
	x.EndHolds(0)
	x.committed = true
	x.count()
	x.endSpan()
	if x.buffer != nil {
		x.buffer.Release()
		x.buffer = nil
	}
	x.lease.Close()
	x.release()
}

// Commit lets go of the request's body: an answer goes to the client, and no other attempt
// follows. What a transport still reads of it stays until it was read. With aliased, parts
// of the body may be in use elsewhere, so that its buffer is not used again.
func (x *Exchange) Commit(aliased bool) {
	if x.spool != nil {
		x.spool.commit()
	}
	if x.buffer == nil {
		return
	}
	x.committed = true
	if x.Listens() {
		x.said.request, x.said.requestSize = x.said.head(x.buffer.b), int64(len(x.buffer.b))
	}
	if aliased {
		x.buffer.Forget()
	} else {
		x.buffer.Release()
	}
	x.buffer = nil
}

// Hold takes n bytes of memory for the call, until [Exchange.Drop] gives them back, or at
// most until the call is closed. The error is of package inflight; [Overloaded] is what the
// caller sees.
func (x *Exchange) Hold(n int) error { return x.lease.Grow(n) }

// Drop gives n bytes of memory back.
func (x *Exchange) Drop(n int) { x.lease.Shrink(n) }

// PassesThrough reports whether the call has a body that [Exchange.Upload] returns.
func (x *Exchange) PassesThrough() bool { return x.spool != nil }

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

// Body returns the body to forward, with a reference for the caller to release: the
// client's bytes with the edit of a config's target made, which may be nil, and with
// another model where that is not "". It is nil where there is none, or where it
// passes through. unasked tells that it is for a stream whose usage the client does not
// ask for; with usage, the body that is returned asks for it. An *Error says what is
// still missing in it.
func (x *Exchange) Body(edit *routing.Edit, model string, usage bool) (body *Buffer, unasked bool, err error) {
	if err := x.unchangeable(edit); err != nil {
		return nil, false, err
	}
	switch {
	case x.buffer == nil:
		return nil, false, nil
	case x.opaque:
		x.buffer.refs.Add(1)
		return x.buffer, false, nil
	}
	if fault := x.missing(edit); fault != nil {
		return nil, false, badRequest(fault.Param, fault.Code, fault.Message)
	}
	unasked = x.WithoutUsage(edit)
	usage = usage && unasked
	edit = x.completed(edit, usage)
	b := x.buffer.b
	appends := usage && x.onlyAppends(edit)
	switch {
	case edit.Empty() && !appends && (model == "" || x.model.End == 0):
		x.buffer.refs.Add(1)
		return x.buffer, unasked, nil
	case edit.Empty():
		// The scan said where the model stands, so that nothing looks for it: sjson in place takes
		// two to five times as long, and fifteen where a longer model needs another buffer.
		out, err := newBuffer(len(b)+len(model)+2+len(usageOption), &x.lease)
		if err != nil {
			return nil, false, Overloaded(err)
		}
		if model == "" || x.model.End == 0 {
			out.b = append(out.b, b...)
		} else {
			out.b = append(out.b, b[:x.model.Start]...)
			out.b = jsonscan.AppendQuoted(out.b, model)
			out.b = append(out.b, b[x.model.End:]...)
		}
		if appends {
			end := bytes.LastIndexByte(out.b, '}')
			out.b = append(append(out.b[:end], usageOption...), '}')
		}
		if out, err = out.charged(); err != nil { // quoting may have made it longer
			return nil, false, Overloaded(err)
		}
		return out, unasked, nil
	}
	if model != "" {
		edit = edit.With("model", jsonscan.AppendQuoted(nil, model))
	}
	out, err := newBuffer(len(b)+1024, &x.lease)
	if err != nil {
		return nil, false, Overloaded(err)
	}
	if out.b, err = routing.Append(out.b, b, edit); err != nil {
		out.Release()
		return nil, false, badRequest("", "invalid_config", "The config's parameters cannot be put into the body: "+err.Error())
	}
	if out, err = out.charged(); err != nil {
		return nil, false, Overloaded(err)
	}
	return out, unasked, nil
}

// usageOption asks for the usage of a stream, after the last member of a body, which sjson
// would look through.
const usageOption = `,"stream_options":{"include_usage":true}`

// onlyAppends reports whether asking for the usage of a stream is one more member, after
// all that the body has.
func (x *Exchange) onlyAppends(edit *routing.Edit) bool {
	return edit.Empty() && !x.report.Has("stream_options")
}

// completed is a config's edit with what the gateway itself adds: a text completion's
// default prompt, and where the edit has to be made anyway, the option for usage.
func (x *Exchange) completed(edit *routing.Edit, usage bool) *routing.Edit {
	if x.Endpoint.Table == validation.Completion && !x.passthrough() && !x.report.Has("prompt") && !given(edit.Result("prompt", nil)) {
		edit = edit.With("prompt", jsonscan.AppendQuoted(nil, validation.DefaultPrompt))
	}
	switch options := edit.Result("stream_options", x.member("stream_options")); {
	case !usage || x.onlyAppends(edit):
	case len(options) > 0 && options[0] == '{':
		edit = edit.With("stream_options.include_usage", json.RawMessage("true"))
	default:
		edit = edit.With("stream_options", json.RawMessage(`{"include_usage":true}`))
	}
	return edit
}

// streams reports whether a stream is asked for, once a config's edit is made.
func (x *Exchange) streams(edit *routing.Edit) bool {
	if edit.Empty() {
		return x.Stream
	}
	return string(edit.Result("stream", x.member("stream"))) == "true"
}

func asksUsage(options json.RawMessage) bool {
	return gjson.GetBytes(options, "include_usage").Type == gjson.True
}

// Thinks reports whether the call asks for thinking, once a config's edit is made.
func (x *Exchange) Thinks(edit *routing.Edit) bool {
	if x.buffer == nil {
		return false
	}
	v := edit.Result("thinking", x.member("thinking"))
	return given(v) && gjson.GetBytes(v, "type").Str != "disabled"
}

// NewID is a new id, for an answer to which its provider gives none: 32 hexadecimal digits.
func (x *Exchange) NewID() string {
	var id [16]byte
	if _, err := io.ReadFull(x.Gateway.Random, id[:]); err != nil {
		return x.TraceID
	}
	return hex.EncodeToString(id[:])
}

// missing is the first field that the body lacks once the config's edit is made.
func (x *Exchange) missing(edit *routing.Edit) *validation.Fault {
	if x.Endpoint.Table == nil || x.passthrough() {
		return nil
	}
	return x.Endpoint.Table.Missing(func(name string) bool { return given(edit.Result(name, x.member(name))) })
}

// member is the body's value of a field that its table lists; nil: it has none.
func (x *Exchange) member(name string) json.RawMessage {
	if x.buffer == nil || !x.report.Has(name) {
		return nil
	}
	span := x.report.Span(name)
	return x.buffer.b[span.Start:span.End]
}

// given reports whether a field has a value. Null is absent.
func given(value json.RawMessage) bool { return value != nil && string(value) != "null" }

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

// MetadataHeader is the call's own metadata as it came, or nil.
func (x *Exchange) MetadataHeader() []byte {
	if x.metadata == "" {
		return nil
	}
	return []byte(x.metadata)
}

// WithoutUsage reports whether the call asks for a stream and not for its usage, once a
// config's edit is made.
func (x *Exchange) WithoutUsage(edit *routing.Edit) bool {
	return x.buffer != nil && x.Endpoint.Done && !x.passthrough() && x.streams(edit) && !asksUsage(edit.Result("stream_options", x.member("stream_options")))
}

// Streams reports whether the body asks for a stream once a config's edit is made.
func (x *Exchange) Streams(edit *routing.Edit) bool { return x.buffer != nil && x.streams(edit) }

// Header returns the client's request headers.
func (x *Exchange) Header() http.Header { return x.request.Header }

// Fail answers with an error of the gateway's own.
func (x *Exchange) Fail(w http.ResponseWriter, e *Error) {
	x.Status, x.Failure = e.Status, e.Message
	x.SetHeader(w.Header())
	if x.Listens() {
		x.Hear(e.JSON())
	}
	linger := x.lingers(w)
	e.Write(w, x.Gateway.Headers)
	if linger {
		x.linger(w)
	}
}

// SetHeader sets what the gateway says of the call on an answer.
func (x *Exchange) SetHeader(h http.Header) {
	values := make([]string, len(x.AnswerHeader))
	for i, f := range x.AnswerHeader {
		values[i] = f.Value
		h[f.Name] = values[i : i+1 : i+1]
	}
	if provider := x.Provider(); provider != "" {
		x.Gateway.Headers.Set(h, HeaderProvider, provider)
	}
	if x.CacheStatus != "" {
		x.Gateway.Headers.Set(h, HeaderCacheStatus, x.CacheStatus)
	}
	if target := x.LastUsed(); target != "" {
		x.Gateway.Headers.Set(h, HeaderLastUsed, target)
		x.Gateway.Headers.Set(h, HeaderRetryCount, strconv.Itoa(x.Retries()))
	}
}
