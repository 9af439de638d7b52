package stored

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// MaxModels is how many fine-tuned models of a workspace the table has at most. The oldest make
// room.
const MaxModels = 1000

// checkpoint is between the name of a fine-tuned model and the number of one of its checkpoints.
const checkpoint = ":ckpt-step-"

// ClaimModels notes that jobs of a workspace made models. What is another's stays so. They are
// kept in memory, since every call names a model.
func (o *Owners) ClaimModels(ctx context.Context, workspace, account string, models []string, at time.Time) error {
	fresh := func(model string) bool { return o.ModelOwner(account, model) == "" }
	if !slices.ContainsFunc(models, fresh) {
		return nil
	}
	for models := range slices.Chunk(models, atOnce/2) {
		err := o.db.Update(ctx, func(tx *storage.Txn) error {
			rows := o.models.In(tx)
			for _, model := range models {
				model, _, _ = strings.Cut(model, checkpoint)
				if len(model) > MaxID {
					return ErrLongID
				}
				row := &owned{Account: account, ID: model, WorkspaceID: workspace, At: at.UTC()}
				if _, ok := rows.Get(row.key()); ok {
					continue
				}
				if err := rows.Put(tx, row); err != nil {
					return err
				}
			}
			var own []*owned
			for _, row := range rows.All() {
				if row.WorkspaceID == workspace {
					own = append(own, row)
				}
			}
			slices.SortFunc(own, func(a, b *owned) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.key(), b.key())) })
			for _, old := range own[:max(0, len(own)-MaxModels)] {
				if err := rows.Delete(tx, old.key()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ModelOwner returns the workspace whose job made a model of a provider; "": none is known to.
// That of a checkpoint is its model's. It reads memory alone.
func (o *Owners) ModelOwner(account, model string) string {
	model, _, _ = strings.Cut(model, checkpoint)
	if row, ok := o.models.Get(account + "/" + model); ok {
		return row.WorkspaceID
	}
	return ""
}

func (o *Owners) releaseModel(ctx context.Context, workspace, account, model string) error {
	return o.db.Update(ctx, func(tx *storage.Txn) error {
		rows := o.models.In(tx)
		row, ok := rows.Get(account + "/" + model)
		if !ok || row.WorkspaceID != workspace {
			return nil
		}
		if err := rows.Delete(tx, row.key()); !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		return nil
	})
}
