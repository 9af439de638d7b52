package exchange

import (
	"encoding/hex"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/coding"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/telemetry"
	"github.com/caddy-gw/gateway/internal/validation"
)

// A Call is what a client asked for. Begin and Prepare make it; once it is prepared,
// nothing writes to its fields (TestACallIsFrozen). What becomes of it is in its Exchange.
type Call struct {
	Gateway  *Gateway
	Endpoint *Endpoint
	TraceID  string
	Span     Span
	Start    time.Time

	// Path and Query are those of the URL below a provider's base URL; Path is escaped.
	Path, Query string

	// Set by Prepare, when it succeeds.
	Caller *credentials.Caller
	Model  string // that the body asks for, without @slug/
	Stream bool

	// Catalogue: the call asks for the models of all saved providers; it has no route.
	Catalogue bool

	// StoredResponse is the response that the call is about, if the gateway itself stores it; the
	// call has no route then.
	StoredResponse *stored.Response

	// Prompt is the slug of the saved prompt that the call's body was rendered from, and
	// PromptVersion its version's number; "": it is of the client itself. Rendered: the body is
	// all that the call asks for; it has no route.
	Prompt        string
	PromptVersion int
	Rendered      bool

	Config         *routing.Config // nil: the call has one target
	ConfigID       string          // slug of a saved config
	ConfigVersion  string          // id
	InlineConfig   bool
	Started        []hooks.Result // what hooks said at the start of the call
	RequestTimeout time.Duration  // x-gw-request-timeout, which wins over a config's; 0: not given
	ForwardHeaders []string       // x-gw-forward-headers, canonical
	Caching        Caching

	// Trace is the call's span, and starts those of its attempts; nil: Caddy's tracing
	// is off.
	Trace *telemetry.Span

	request   *http.Request
	longest   int64  // body that the call may have, in bytes
	metadata  string // x-gw-metadata
	baggage   string // an object made of the header baggage
	selection credentials.Selection
	located   located           // the model in the URL
	unread    unread            // why the model may be one that was not read
	invalid   *validation.Error // found by the endpoint's tables, which a config may ignore

	softDenial string // why a hook refuses the call with an answer, once that can be made; "": none does

	slot  inflight.Lease // among the calls under way, until it is closed
	lease inflight.Lease // of the call's memory, until it is closed
	body
}

// A body is the body of a call, as far as it was read. It is not frozen: it is released once no
// attempt needs it any more.
type body struct {
	writer        http.ResponseWriter // to the client; only its deadlines are used
	stallTimeout  time.Duration       // with the client
	answerStalled atomic.Bool         // the client did not take the answer in time
	timed         timedBody
	buffer        *Buffer         // of a body that was read whole
	codings       []string        // of the body as it was sent
	decoder       *coding.Reader  // nil: nothing is decoded
	spool         *Spool          // of a body that passes through
	form          *form           // what was read of a form that passes through
	formNames     *formNames      // the objects that a form names; nil: they are not read
	opaque        bool            // buffer is not JSON
	binary        bool            // the body that passes through is media, and not text
	upload        bool            // the body that passes through is a form without parameters of a model
	model         validation.Span // of the model in buffer
	report        validation.Report
	committed     bool // buffer was released
}

// Reserve reserves n bytes of memory for the call, until [Call.Free] or the end of the call. The
// error is of package inflight; [Overloaded] makes the caller's of it.
func (c *Call) Reserve(n int) error { return c.lease.Grow(n) }

// Free gives back n bytes of memory.
func (c *Call) Free(n int) { c.lease.Shrink(n) }

// Later makes a lease of the memory for what goes on when the call has ended.
func (c *Call) Later(l *inflight.Lease) { l.Join(&c.lease) }

// PassesThrough reports whether the call has a body that [Attempt.Upload] returns.
func (c *Call) PassesThrough() bool { return c.spool != nil }

// JSON is the body of a call that has one in JSON, as the client sent it, or nil.
func (c *Call) JSON() []byte {
	if c.buffer == nil {
		return nil
	}
	return c.buffer.b
}

// Replayable returns nil if the body can be sent once more, and otherwise why it
// cannot; see [Spool.Replayable].
func (c *Call) Replayable() error {
	if c.spool == nil {
		return nil
	}
	return c.spool.Replayable()
}

// HasJSON reports whether the call has a JSON body.
func (c *Call) HasJSON() bool { return c.buffer != nil }

// Method is the request's method.
func (c *Call) Method() string { return c.request.Method }

// URLPath is the path that was called, escaped.
func (c *Call) URLPath() string { return c.request.URL.EscapedPath() }

// Header returns the client's request headers.
func (c *Call) Header() http.Header { return c.request.Header }

// MetadataHeader is the header x-gw-metadata, or nil.
func (c *Call) MetadataHeader() []byte {
	if c.metadata == "" {
		return nil
	}
	return []byte(c.metadata)
}

// NewID returns a new id of 32 hexadecimal digits, for answers without one.
func (c *Call) NewID() string {
	var id [16]byte
	if _, err := io.ReadFull(c.Gateway.Random, id[:]); err != nil {
		return c.TraceID
	}
	return hex.EncodeToString(id[:])
}
