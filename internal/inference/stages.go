package inference

import (
	"context"
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
)

// A Hook is a stage that looks at calls before they are sent to a provider, and at the answers: a
// guardrail, a cache. For each target of a call, the engine asks the hooks in their order, then
// the limits of the call, then the visits that are a [CountedHook], then the limits of the
// target, then the visits that are a [PathHook]; then it forwards. A hook that is a
// [RequestHook] sees each request that is made for the target.
type Hook interface {
	// Before is called for each target, before the call is sent there. It may answer the call, or
	// refuse this target. The visit, which may be nil, is notified of what happens at the target.
	Before(ctx context.Context, c *Candidate) (Visit, *Reply, *exchange.Error)
}

// A Visit is what a hook has to do with a call at one target. It is ended like every hold. It may
// implement any of the interfaces below.
type Visit = exchange.Hold

// A CountedHook looks at a call after its limits have counted it, because looking is costly.
type CountedHook interface {
	// Counted may answer the call.
	Counted(ctx context.Context) (*Reply, *exchange.Error)
}

// A PathHook chooses what is requested from the provider.
type PathHook interface {
	// Path returns the path of the request, in place of the call's own. It is called after the
	// limits have counted the call, because it may cost another request.
	Path(ctx context.Context) (string, *exchange.Error)
}

// A RequestHook is a hook that looks at every request to a provider, of which there may be
// several for a target.
type RequestHook interface {
	// Request is called before a request is translated. It may refuse it, and must not keep it. What it returns, which
	// may be nil, follows the attempt, and may be a [ResponseHook] and an [EventHook].
	Request(ctx context.Context, r *Request) (follower any, refusal *exchange.Error)
}

// A ResponseHook looks at answers before their commit point, whatever they are. Those of a
// [RequestHook] come before all other hooks.
type ResponseHook interface {
	// Response may replace the answer's body. After an error, for which it has closed the body,
	// another attempt may follow.
	Response(ctx context.Context, res *http.Response) error
}

// A Request is a request to a provider, in the client's dialect.
type Request struct {
	Attempt *exchange.Attempt // the target that was chosen
	Target  *routing.Target
	Path    string
	Body    []byte // as it is sent; nil: there is none, or it is streamed

	rt *roundTrip
}

// An AnswerHook looks at answers in one piece before the client gets any of them.
type AnswerHook interface {
	// Complete may change the body of an answer. An error makes the attempt fail, so that
	// another one may follow.
	Complete(ctx context.Context, answer *Answer) *exchange.Error
}

// An InspectHook looks at answers that are no failures before the client gets any of them, whatever
// their form. Complete answers in JSON are shown to the [AnswerHook]s after that.
type InspectHook interface {
	// Inspect may replace the answer's body and status. After an error, for which it has closed the
	// body, another attempt may follow.
	Inspect(ctx context.Context, res *Response) error
}

// A WithholdHook may keep an answer from being stored before it was looked at.
type WithholdHook interface {
	// Withholds reports whether a response that the gateway stores is stored only when the answer
	// was inspected and completed.
	Withholds() bool
}

// An AnnotateHook adds something to the answers that clients get. Other hooks do not see it.
type AnnotateHook interface {
	// Annotate is called when an answer with a success status is about to go to the client.
	Annotate(stream bool) Annotation
}

// An Annotation is what is added to an answer.
type Annotation struct {
	Status int    // 0: it stays
	Member []byte // of the object, for an answer in JSON: its name, a colon and its value; may be nil
	Event  []byte // in front of a stream; may be nil
}

// An AnsweredHook is notified of answers that it does not follow to the client.
type AnsweredHook interface {
	// Answered is called when a hook has answered the call, or when the answer of a provider (sent)
	// is held because of its status, since another attempt may follow.
	Answered(attempt *exchange.Attempt, sent bool)
}

// An EventHook looks at the events of a stream as they pass.
type EventHook interface {
	// Event is called with the data of an event, which is JSON, before the client gets it. An
	// error ends the stream before the event.
	Event(data []byte) error
}

// A DeliveryHook follows an answer on its way to the client.
type DeliveryHook interface {
	// Deliver is called when the client begins to get an answer, whose body it may wrap.
	Deliver(res *http.Response, attempt *exchange.Attempt)
	// Delivered is called when the client has all that there is of the answer.
	Delivered(ctx context.Context, attempt *exchange.Attempt)
}

// A Candidate is a target that a call is about to be sent to.
type Candidate struct {
	*exchange.Exchange
	Target *routing.Target

	// Timeout is how long the call may wait for an answer; 0: no limit. Waited is the part of it
	// that a hook has used.
	Timeout, Waited time.Duration

	// Vary is what answers depend on besides the request: calls share an answer only if it is the
	// same.
	Vary []string

	f        *Forwarder
	path     string     // that is requested from the provider
	prepared *roundTrip // the first round trip, if a hook has asked for it
}

// first returns the first round trip to the target. Its request may lack the token of a login.
func (c *Candidate) first(ctx context.Context) (_ *roundTrip, refusal *exchange.Error) {
	if c.prepared == nil {
		c.prepared, refusal = c.f.newRoundTrip(ctx, c.Exchange, c.Target, c.path, 0, false)
	}
	return c.prepared, refusal
}

// take returns the first round trip if its request can be sent, and closes it otherwise.
func (c *Candidate) take() *roundTrip {
	rt := c.prepared
	c.prepared = nil
	if rt != nil && rt.unsigned {
		rt.close()
		return nil
	}
	return rt
}

// drop closes the first round trip if it was not taken.
func (c *Candidate) drop() {
	if c.prepared != nil {
		c.prepared.close()
		c.prepared = nil
	}
}

// An Answer is a provider's answer in one piece, in the caller's dialect.
type Answer struct {
	Attempt *exchange.Attempt
	Status  int // that the client gets
	Body    []byte
}

// A Reply is an answer that a hook gives to a call.
type Reply struct {
	Type        string // the media type
	Body        []byte
	CacheStatus string // x-gw-cache-status; "": the cache was not asked
}
