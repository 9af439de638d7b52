package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// JobTerm is how long a process that stopped without releasing keeps others from its jobs.
const JobTerm = 15 * time.Second

// jobPoll is how often a [Job.Wait] asks whether another process is done.
const jobPoll = 50 * time.Millisecond

// A Job is work in the background, step by step, of which one process of those that share
// a store does a step at a time. The lock is taken with the first step, renewed by those
// that follow, and left to lapse where none does: a process at rest writes nothing for its
// jobs. It is safe for concurrent use; steps of a Job run one after the other.
type Job struct {
	locks Locker
	name  string
	owner string
	now   func() time.Time

	turn  chan struct{} // holds the token of who uses lease
	lease Lease         // no Token: none
}

// NewJob returns the job called name, for a process that says owner of itself and tells the
// time by now, as its Locker does. [DB.Job] is that of a DB.
func NewJob(locks Locker, name, owner string, now func() time.Time) *Job {
	return &Job{locks: locks, name: name, owner: owner, now: now, turn: make(chan struct{}, 1)}
}

// A Step is what a step of a [Job] is given.
type Step struct {
	Lease

	locks Locker
}

// Fence is called first in each transaction in which a step writes. It returns an error
// that wraps [ErrLeaseLost] if the step is no longer this process's to do: it must stop
// then, and return the error.
func (s Step) Fence(tx Tx) error { return s.locks.Fence(tx, s.Lease) }

// Do runs a step, whose context ends with the lease. It returns an error that wraps
// [ErrLockHeld] where another process does the job, and otherwise that of the step.
func (j *Job) Do(ctx context.Context, step func(ctx context.Context, s Step) error) error {
	select {
	case j.turn <- struct{}{}:
		defer func() { <-j.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := j.hold(ctx); err != nil {
		return fmt.Errorf("job %s: %w", j.name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, j.lease.Until.Sub(j.now()), ErrLeaseLost)
	defer cancel()
	err := step(ctx, Step{j.lease, j.locks})
	if err != nil && !errors.Is(err, ErrLeaseLost) && errors.Is(context.Cause(ctx), ErrLeaseLost) {
		err = fmt.Errorf("%w before the step was done: %w", ErrLeaseLost, err)
	}
	if errors.Is(err, ErrLeaseLost) {
		j.lease = Lease{}
		return fmt.Errorf("job %s: %w", j.name, err)
	}
	return err
}

// Wait is Do for work that has to be done before anything goes on. Where another process
// does the job, or takes it over, Wait waits for that to be done and then runs step, which
// must see for itself what is left to do. It gives the lock up afterwards.
func (j *Job) Wait(ctx context.Context, step func(ctx context.Context, s Step) error) error {
	tick := time.NewTicker(jobPoll)
	defer tick.Stop()
	for {
		err := j.Do(ctx, step)
		if !errors.Is(err, ErrLockHeld) && !errors.Is(err, ErrLeaseLost) {
			// Where that fails, the lease lapses.
			_ = j.Release(context.WithoutCancel(ctx))
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hold sees to it that there is a lease, and time for a step.
func (j *Job) hold(ctx context.Context) error {
	var err error
	held := j.lease
	if held.Token != 0 {
		// More is left than the term only where the clock stepped back.
		if left := held.Until.Sub(j.now()); left > JobTerm/2 && left <= JobTerm {
			return nil
		}
		held, err = j.locks.Renew(ctx, held)
	}
	if held.Token == 0 && (err == nil || errors.Is(err, ErrLeaseLost)) {
		j.lease = Lease{}
		held, err = j.locks.Acquire(ctx, j.name, j.owner, JobTerm)
	}
	if err == nil {
		j.lease = held
	}
	return err
}

// Release ends the lease, so that others need not wait for it to lapse.
func (j *Job) Release(ctx context.Context) error {
	select {
	case j.turn <- struct{}{}:
		defer func() { <-j.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if j.lease.Token == 0 {
		return nil
	}
	l := j.lease
	j.lease = Lease{}
	return j.locks.Release(ctx, l)
}
