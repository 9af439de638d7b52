// Package inference is the data plane: it makes the attempts of a call, forwards
// them through Caddy's reverse proxy and watches the answers as they pass.
package inference

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/telemetry"
)

// A roundTrip is a request on its way to a provider, and the answer on its way back: what the
// gateway does for one attempt. It travels in the context of the request that reverse_proxy
// forwards.
type roundTrip struct {
	request
	watcher
	timing    timing
	untraced  untraced      // the context of the request under way
	timed     timedAnswer   // room for the answer's body as the client takes it
	masked    masked        // room for the answer's body without credentials
	passes    http.Response // the answer without its trailers
	maxHeader int64         // most bytes of an answer's headers

	// held is the answer of a tentative attempt that failed. If nothing follows, it is sent to
	// the client: the round trip is then made again, and returns it.
	held      *http.Response
	visits    []Visit // of the hooks, at the target
	followers []any   // of the hooks that look at requests
	hooked    Request // as these hooks see it

	end int // of the object that is the answer, before its bracket; 0: it is not in one piece

	session *exchange.Session // counts what a WebSocket uses; nil: nothing does
	paced   *paced            // the WebSocket; nil: it is none

	span *telemetry.Attempt // nil: Caddy's tracing is off

	// tentative: another attempt may follow, so that a failure is returned and not sent to the
	// client.
	tentative   bool
	translated  bool // the whole answer was; the request's body is not needed any more
	overflowed  bool // the conversation is too long for the model
	storesLater bool // a hook stores the response itself
	bare        bool // the object that is the answer has no members
	over        bool // the attempt has ended, and was counted
}

// timing is how long the gateway waits for a provider, and what ends that.
type timing struct {
	limits       timeouts
	deadline     *deadline    // of the request under way; nil: there is none
	stallGuard   *stallGuard  // of the answer's body; nil: there is none, or no limit
	timeoutBody  *timeoutBody // what a stream is read from; nil: it is none, or is read up to its output anyway
	deadlineRoom deadline
	stallRoom    stallGuard
	timeoutRoom  timeoutBody
}

// timeouts are how long a provider may take; 0: no limit.
type timeouts struct {
	answer  time.Duration // until the answer begins
	headers time.Duration // until its headers come, if there is no limit for the answer
	idle    time.Duration // that a stream may be silent after that
}

type roundTripKey struct{}

func withRoundTrip(ctx context.Context, rt *roundTrip) context.Context {
	return context.WithValue(ctx, roundTripKey{}, rt)
}

var errNoRoundTrip = errors.New("no attempt in this request: the gw transport and upstreams work only below gw_inference")

func roundTripOf(ctx context.Context) (*roundTrip, error) {
	if rt, ok := ctx.Value(roundTripKey{}).(*roundTrip); ok {
		return rt, nil
	}
	return nil, errNoRoundTrip
}

// eventHooks are the hooks that look at the events of the answer's stream.
func (rt *roundTrip) eventHooks() (hooks []EventHook) {
	for _, v := range rt.followers {
		if hook, ok := v.(EventHook); ok {
			hooks = append(hooks, hook)
		}
	}
	for _, v := range rt.visits {
		if hook, ok := v.(EventHook); ok {
			hooks = append(hooks, hook)
		}
	}
	return hooks
}

// close releases what the round trip holds.
func (rt *roundTrip) close() {
	if rt.held != nil {
		// After a little is read, the connection can often be used again.
		_, _ = io.CopyN(io.Discard, rt.held.Body, maxDrained)
		rt.held.Body.Close()
		rt.held = nil
	}
	rt.request.close()
}

// commit releases what only another attempt would need.
func (rt *roundTrip) commit() {
	// The translation of a stream may still use parts of the body.
	rt.x.Commit((rt.rewritten || rt.answer != nil) && !rt.translated)
	if rt.body != nil {
		rt.body.Release()
		rt.body = nil
	}
}

const maxDrained = 64 << 10
