package inference

import (
	"github.com/caddy-gw/gateway/internal/exchange"
)

// A watcher is what the readers of an answer report to as it passes.
type watcher struct {
	x       *exchange.Exchange
	attempt *exchange.Attempt // whose answer it is; nil: nothing was sent yet

	// out is the outcome of the attempt. If an attempt failed and its answer is given to the
	// client after all, because nothing follows, it is the outcome of the call: the attempt has
	// ended.
	out *exchange.Outcome

	// remembers: the answer is a stored response, whose provider has to be noted.
	remembers bool
}

// of has the watcher report to an attempt.
func (w *watcher) of(try *exchange.Attempt) { w.attempt, w.out = try, &try.Outcome }

// fail notes that an answer has failed that is passed on nevertheless.
func (w *watcher) fail(why string) {
	if w.out != nil {
		w.out.Failure = why
	}
}

// addText counts bytes of an answer's text, for when the provider does not report its usage.
func (w *watcher) addText(n int) {
	if w.attempt != nil {
		w.attempt.TextBytes += int64(n)
	}
}

// addBody counts bytes of an answer that is not a stream, and how many of these are text.
func (w *watcher) addBody(all, text int) {
	if w.attempt != nil {
		w.attempt.BodyBytes += int64(all)
		w.attempt.TextBytes += int64(text)
	}
}

// erred notes that the answer is an error, as far as no text came before it.
func (w *watcher) erred() {
	if w.attempt != nil {
		w.attempt.Errored = true
	}
}

// noteFirstByte notes the time of the first byte, once.
func (w *watcher) noteFirstByte() {
	if w.out.FirstByte.IsZero() {
		w.out.FirstByte = w.x.Gateway.Now()
	}
}
