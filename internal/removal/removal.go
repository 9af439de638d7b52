// Package removal removes what deleted workspaces have, in the background. The deletion itself
// only removes the workspace, so that its keys are refused and nothing finds its rows; those are
// removed afterwards, in bounded transactions, by one of the processes that share a store. What
// a crash interrupts goes on at the next start.
package removal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/storage"
)

// A Part is a kind of rows that workspaces have.
type Part struct {
	// Rows is what they are called, such as "API keys".
	Rows string

	// Count returns how many a workspace has, in a transaction. A workspace that has some is
	// only deleted by force. Nil: they do not stand in the way.
	Count func(tx *storage.Txn, workspace string) int

	// Step removes some of a deleted workspace's rows, and reports whether there may be more.
	// Each of its transactions begins with [storage.Step.Fence].
	Step func(ctx context.Context, step storage.Step, workspace string) (more bool, err error)
}

// again is how often a process looks for removals that another one did not finish.
const again = time.Minute

// A Remover removes the rows of deleted workspaces. It is safe for concurrent use.
type Remover struct {
	db        *storage.DB
	directory *directory.Directory
	parts     []Part
	job       *storage.Job
	logger    *zap.Logger

	wake   chan struct{}
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Open returns a remover, and continues the removals that a store has noted. It is closed
// before the services that it removes from.
func Open(db *storage.DB, d *directory.Directory, parts []Part, logger *zap.Logger) *Remover {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Remover{
		db: db, directory: d, parts: parts, job: db.Job("workspace-removal"), logger: logger,
		wake: make(chan struct{}, 1), cancel: cancel,
	}
	r.done.Go(func() { r.run(ctx) })
	return r
}

// Close stops removing, and waits for the transaction under way.
func (r *Remover) Close() {
	r.cancel()
	r.done.Wait()
}

// Wake says that a deletion was committed.
func (r *Remover) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look again anyway
	}
}

// Has describes what stands in the way of deleting a workspace, such as "API keys (2)".
func (r *Remover) Has(tx *storage.Txn, workspace string) (has []string) {
	for i := range r.parts {
		p := &r.parts[i]
		if p.Count == nil {
			continue
		}
		if n := p.Count(tx, workspace); n > 0 {
			has = append(has, fmt.Sprintf("%s (%d)", p.Rows, n))
		}
	}
	return has
}

func (r *Remover) run(ctx context.Context) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		for _, removal := range r.directory.Removals() {
			err := r.remove(ctx, removal.WorkspaceID)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, storage.ErrLockHeld), errors.Is(err, storage.ErrLeaseLost):
				// Another process does it.
			case err != nil:
				r.logger.Error("removing what a deleted workspace has; it will be tried again",
					zap.String("workspace_id", removal.WorkspaceID), zap.Error(err))
			}
		}
		select {
		case <-tick.C:
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// remove removes the rows of a workspace, and then the note that they have to be removed.
func (r *Remover) remove(ctx context.Context, workspace string) error {
	for i := range r.parts {
		for more := true; more; {
			err := r.job.Do(ctx, func(ctx context.Context, step storage.Step) (err error) {
				more, err = r.parts[i].Step(ctx, step, workspace)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", r.parts[i].Rows, err)
			}
		}
	}
	return r.job.Do(ctx, func(ctx context.Context, step storage.Step) error {
		return r.db.Update(ctx, func(tx *storage.Txn) error {
			if err := step.Fence(tx); err != nil {
				return err
			}
			if err := r.directory.Removed(tx, workspace); !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			return nil
		})
	})
}

// rows returns the step of a part whose rows are in memory: of returns the ids of at most limit
// of them, and each transaction removes as many.
func rows(db *storage.DB, limit int, of func(workspace string, limit int) []string, remove func(tx *storage.Txn, id, workspace string) error) func(context.Context, storage.Step, string) (bool, error) {
	return func(ctx context.Context, step storage.Step, workspace string) (bool, error) {
		ids := of(workspace, limit)
		if len(ids) == 0 {
			return false, nil
		}
		return true, db.Update(ctx, func(tx *storage.Txn) error {
			if err := step.Fence(tx); err != nil {
				return err
			}
			for _, id := range ids {
				if err := remove(tx, id, workspace); err != nil && !errors.Is(err, storage.ErrNotFound) {
					return err
				}
			}
			return nil
		})
	}
}
