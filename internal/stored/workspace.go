package stored

import (
	"context"
	"errors"

	"github.com/caddy-gw/gateway/storage"
)

// RemoveSome removes some responses of a workspace in a step, and reports whether
// there may be more.
func (r *Responses) RemoveSome(ctx context.Context, step storage.Step, workspace string) (more bool, err error) {
	var entries []*sized
	err = r.each(ctx, workspace, func(entry *sized) bool {
		entries = append(entries, entry)
		return len(entries) < removedAtOnce
	})
	if err == nil && len(entries) == 0 { // an earlier version stored them without their sizes
		err = r.db.View(ctx, func(tx storage.Tx) error {
			entries = nil
			for row, err := range r.rows.Scan(tx, storage.Range{Prefix: workspace + "/"}) {
				if err != nil {
					return err
				}
				if entries = append(entries, sizedOf(row)); len(entries) == removedAtOnce {
					break
				}
			}
			return nil
		})
	}
	if err != nil || len(entries) == 0 {
		r.shares.forget(workspace)
		return false, err
	}
	return true, r.db.Write(ctx, func(tx storage.Tx) error {
		if err := step.Fence(tx); err != nil {
			return err
		}
		for _, entry := range entries {
			if err := r.drop(tx, entry); err != nil {
				return err
			}
		}
		return nil
	})
}

// RemoveSome forgets at most atOnce objects of a workspace in a step, and reports whether
// there may be more. Nobody has them from then on. Its models are not forgotten: they would be
// everybody's.
func (o *Owners) RemoveSome(ctx context.Context, step storage.Step, workspace string) (more bool, err error) {
	if n, err := o.removePlaces(ctx, step, workspace); n == atOnce || err != nil {
		return n == atOnce, err
	}
	var keys []string
	err = o.db.View(ctx, func(tx storage.Tx) error {
		keys = nil
		for row, err := range o.rows.Where(tx, "workspace", workspace) {
			if err != nil {
				return err
			}
			if keys = append(keys, row.key()); len(keys) == atOnce {
				break
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	return len(keys) == atOnce, o.db.Write(ctx, func(tx storage.Tx) error {
		if err := step.Fence(tx); err != nil {
			return err
		}
		for _, key := range keys {
			if err := o.rows.Delete(tx, key); err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
		}
		if len(keys) == atOnce {
			return nil
		}
		if err := o.counts.Delete(tx, workspace); !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		return nil
	})
}
