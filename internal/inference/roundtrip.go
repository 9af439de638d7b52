// Package inference is the data plane: it makes the attempts of a call, forwards
// them through Caddy's reverse proxy and watches the answers as they pass.
package inference

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/internal/telemetry"
)

// An attempt is a request on its way to a provider, and its answer on the way back. It
// travels in the context of the request that reverse_proxy forwards.
type roundTrip struct {
	request
	watcher
	patience  patience
	late      *deadline // of the request under way
	steady    *steady   // the answer's body; nil: there is none, or it may be silent
	maxHeader int64     // bytes of an answer's headers that are read

	// tentative: another attempt may follow, so a failure comes back instead of
	// going to the client.
	tentative bool
	// held is the answer of a tentative attempt that failed. It goes to the client
	// when nothing follows: the attempt is then run again, and answers with it.
	held       *http.Response
	visits     []Visit // of the hooks, at the target
	overflowed bool    // the conversation is too long for the model

	over bool               // it is over, and counted
	span *telemetry.Attempt // nil: Caddy's tracing is off
}

// A patience is how long a provider may take; 0: for ever.
type patience struct {
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
	if rt.claims != nil {
		hooks = append(hooks, rt.claims)
	}
	for _, v := range rt.visits {
		if hook, ok := v.(EventHook); ok {
			hooks = append(hooks, hook)
		}
	}
	return hooks
}

// close gives back what the attempt holds.
func (rt *roundTrip) close() {
	if rt.held != nil {
		// A little is read, so that the connection can be used again.
		_, _ = io.CopyN(io.Discard, rt.held.Body, maxDrained)
		rt.held.Body.Close()
		rt.held = nil
	}
	rt.request.close()
}

// commit lets go of what only another attempt would need.
func (rt *roundTrip) commit() {
	// Of a body in a provider's words, a translation may still hold parts.
	rt.x.Commit(rt.rewritten || rt.answer != nil)
	if rt.body != nil {
		rt.body.Release()
		rt.body = nil
	}
}

const maxDrained = 64 << 10
