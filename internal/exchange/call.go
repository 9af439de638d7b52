package exchange

import (
	"encoding/hex"
	"io"
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
)

// A Call is what a client asked for. Begin and Prepare make it; once it is prepared,
// nothing writes to its fields (TestACallIsFrozen). What becomes of it is in its Exchange.
type Call struct {
	Gateway  *Gateway
	Endpoint *Endpoint
	Trace    Trace
	Start    time.Time

	// Path and Query are those of the URL below a provider's base URL; Path is escaped.
	Path, Query string

	// Set by Prepare, when it succeeds.
	Caller *credentials.Caller
	Model  string // that the body asks for, without @slug/
	Stream bool

	// Catalogue is the list of models of several providers that the call asks for, which has no route; nil: it
	// asks for none.
	Catalogue *Catalogue

	// StoredResponse is the response that the call is about, if the gateway itself stores it; the
	// call has no route then.
	StoredResponse *stored.Response

	// Prompt is the saved prompt that the call's body was rendered from. Rendered: the body is all
	// that the call asks for; it has no route.
	Prompt   PromptVersion
	Rendered bool

	Config       *routing.Config // nil: the call has one target
	ConfigSource ConfigSource
	Started      []hooks.Result // what hooks returned at the start of the call
	StartHeader  http.Header    // that they set on the requests to providers, see [guardrails.HeaderSetter]
	Options      Options
	Metadata     Metadata

	request   *http.Request
	selection credentials.Selection
	located   located // the model in the URL
	unread    unread  // why the model may be one that was not read

	slot inflight.Lease // among the calls under way, until it is closed

	// What the call holds and uses up is not frozen.
	Body   RequestBody
	Client Client
	Memory Memory
}

// attach sets the request that the call is made from, and the writer of its answer.
func (c *Call) attach(w http.ResponseWriter, r *http.Request) {
	c.request, c.Client.request, c.Client.writer = r, r, w
	c.Body.request, c.Body.client, c.Body.memory = r, &c.Client, &c.Memory
}

// Proxied reports whether the call is passed on to a path that the table of endpoints does not have.
func (c *Call) Proxied() bool { return c.Endpoint == &passThrough }

// Method is the request's method.
func (c *Call) Method() string { return c.request.Method }

// URLPath is the path that was called, escaped.
func (c *Call) URLPath() string { return c.request.URL.EscapedPath() }

// Header returns the client's request headers.
func (c *Call) Header() http.Header { return c.request.Header }

// NewID returns a new id of 32 hexadecimal digits, for answers without one.
func (c *Call) NewID() string {
	var id [16]byte
	if _, err := io.ReadFull(c.Gateway.Random, id[:]); err != nil {
		return c.Trace.ID
	}
	return hex.EncodeToString(id[:])
}
