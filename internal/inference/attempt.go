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
type attempt struct {
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

type attemptKey struct{}

func withAttempt(ctx context.Context, a *attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

var errNoAttempt = errors.New("no attempt in this request: the gw transport and upstreams work only below gw_inference")

func attemptOf(ctx context.Context) (*attempt, error) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a, nil
	}
	return nil, errNoAttempt
}

// eventHooks are those who look at the events of the attempt's stream.
func (a *attempt) eventHooks() (hooks []EventHook) {
	if a.claims != nil {
		hooks = append(hooks, a.claims)
	}
	for _, v := range a.visits {
		if hook, ok := v.(EventHook); ok {
			hooks = append(hooks, hook)
		}
	}
	return hooks
}

// close gives back what the attempt holds.
func (a *attempt) close() {
	if a.held != nil {
		// A little is read, so that the connection can be used again.
		_, _ = io.CopyN(io.Discard, a.held.Body, maxDrained)
		a.held.Body.Close()
		a.held = nil
	}
	a.request.close()
}

// commit lets go of what only another attempt would need.
func (a *attempt) commit() {
	// Of a body in a provider's words, a translation may still hold parts.
	a.x.Commit(a.rewritten || a.answer != nil)
	if a.body != nil {
		a.body.Release()
		a.body = nil
	}
}

const maxDrained = 64 << 10
