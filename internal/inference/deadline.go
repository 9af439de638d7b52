package inference

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

var (
	errAttemptTimeout = errors.New("the answer did not begin in time")
	errHeadersLate    = errors.New("the headers of the answer did not come in time")
)

// A deadline bounds the time until an answer begins, or until its headers come: it ends the
// context of the request. The methods of a nil deadline do nothing.
type deadline struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	after  time.Duration
	lifted atomic.Bool
	next   atomic.Pointer[stallGuard] // what the timer is for, once the deadline is lifted
}

// limit sets the deadline, and returns the context that it ends.
func (t *timing) limit(parent context.Context) context.Context {
	d, why := &t.deadlineRoom, errAttemptTimeout
	d.after = t.limits.answer
	if d.after == 0 {
		d.after, why = t.limits.headers, errHeadersLate
	}
	if d.after == 0 {
		t.deadline = nil
		return parent
	}
	d.ctx, d.cancel = context.WithCancelCause(parent)
	d.timer = time.AfterFunc(d.after, func() {
		if !d.lifted.Load() {
			d.cancel(why)
		} else if s := d.next.Load(); s != nil {
			s.stall()
		}
	})
	t.deadline = d
	return d.ctx
}

// passed returns why the deadline ended the context, or nil if it did not.
func (d *deadline) passed() error {
	if d == nil {
		return nil
	}
	if why := context.Cause(d.ctx); errors.Is(why, errAttemptTimeout) || errors.Is(why, errHeadersLate) {
		return why
	}
	return nil
}

// lift removes the deadline: the answer has begun.
func (d *deadline) lift() {
	if d != nil {
		d.lifted.Store(true)
		d.timer.Stop()
	}
}

// pass lifts the deadline, and passes its timer on. It returns nil if the timer has fired or may
// do so yet, as it may for a deadline that was lifted before.
func (d *deadline) pass(to *stallGuard) *time.Timer {
	if d == nil || d.lifted.Swap(true) || !d.timer.Stop() {
		return nil
	}
	d.next.Store(to)
	return d.timer
}

// end ends the context: the rest of the answer is not read.
func (d *deadline) end() {
	if d != nil {
		d.cancel(context.Canceled)
	}
}

// headerDeadline returns the deadline that starts over while a request body is being sent, and with
// each of several requests; nil: there is none. A timeout set by a request or a config does not
// start over.
func (t *timing) headerDeadline() *deadline {
	if t.limits.answer > 0 {
		return nil
	}
	return t.deadline
}

// restart starts the time over.
func (d *deadline) restart() {
	if d != nil && !d.lifted.Load() {
		d.timer.Reset(d.after)
	}
}

// A bodyWithDeadline ends the context of its attempt when it is closed.
type bodyWithDeadline struct {
	io.ReadCloser
	deadline *deadline
}

func (b *bodyWithDeadline) Close() error {
	err := b.ReadCloser.Close()
	b.deadline.end()
	return err
}

// An uploading body passes through. While it is being read, the time until the headers of the
// answer starts over.
type uploading struct {
	io.ReadCloser
	headers *deadline
}

func (u *uploading) Read(p []byte) (int, error) {
	u.headers.restart()
	n, err := u.ReadCloser.Read(p)
	u.headers.restart()
	return n, err
}
