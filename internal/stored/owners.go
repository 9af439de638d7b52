package stored

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// Owners is the table of who made which object with a credential that workspaces share, so
// that each sees, changes and deletes its own alone. A provider chooses the ids, but not
// whose they are: the first workspace that was given one has it.
type Owners struct {
	db     *storage.DB
	rows   *storage.Collection[*owned]
	counts *storage.Collection[*ownedCount]
	models *storage.Cached[*owned]
	places places
	room   *storage.Job
	limit  int
}

// owned is an object of a workspace.
type owned struct {
	Account     string    `json:"slug"` // see [credentials.Route.Account]
	ID          string    `json:"id"`
	WorkspaceID string    `json:"workspace_id"`
	At          time.Time `json:"at"`
	// Read: it is a file, whose lines name only objects of the workspace.
	Read bool `json:"read,omitempty"`
}

func (o *owned) key() string { return o.Account + "/" + o.ID }

// ownedCount is how many objects a workspace has.
type ownedCount struct {
	WorkspaceID string `json:"workspace_id"`
	Count       int    `json:"count"`
}

// MaxObjects is how many objects of a workspace the table has at most. The oldest make
// room: not all can be deleted, as batches cannot.
const MaxObjects = 100_000

// Why an object is not noted as a workspace's.
var (
	ErrOthersObject   = errors.New("the provider gave an id that is another workspace's")
	ErrTooManyObjects = errors.New("the workspace has too many objects")
	ErrLongID         = fmt.Errorf("an id of more than %d bytes", MaxID)
)

// OpenOwners opens the table of a store.
func OpenOwners(ctx context.Context, db *storage.DB) (*Owners, error) {
	o := &Owners{
		db: db,
		rows: storage.NewCollection("object", (*owned).key,
			storage.Index[*owned]{Name: "workspace", Keys: func(o *owned) []string { return []string{o.WorkspaceID} }}),
		counts: storage.NewCollection("object_count", func(c *ownedCount) string { return c.WorkspaceID }),
		models: storage.NewCached(db, storage.NewCollection("owned_model", (*owned).key)),
		places: newPlaces(),
		room:   db.Job("owned-objects"),
		limit:  MaxObjects,
	}
	if err := o.models.Load(ctx); err != nil {
		return nil, fmt.Errorf("loading whose models are: %w", err)
	}
	return o, nil
}

// atOnce is how many objects a transaction writes at most: the store bounds its keys.
const atOnce = 1000

// Claim notes that objects of a provider are a workspace's. With lenient, what is another's
// stays so, and is not an error.
func (o *Owners) Claim(ctx context.Context, workspace, account string, objects []Listed, at time.Time, lenient bool) error {
	for some := range slices.Chunk(objects, atOnce/2) { // each has two rows, one of them with two entries
		if err := o.claimSome(ctx, workspace, account, some, at, lenient); err != nil {
			return err
		}
	}
	return nil
}

// NoteListed notes where objects of a workspace are in a list, which others say whose they are.
func (o *Owners) NoteListed(ctx context.Context, workspace, account string, objects []Listed, at time.Time) error {
	for some := range slices.Chunk(objects, atOnce/2) {
		err := o.db.Write(ctx, func(tx storage.Tx) error {
			for _, object := range some {
				if len(object.ID) > MaxID {
					return ErrLongID
				}
				switch old, err := o.places.get(tx, workspace, account, object.ID); {
				case err != nil:
					return err
				case old != nil:
					continue
				}
				if err := o.places.note(tx, workspace, account, object, at); err != nil {
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

func (o *Owners) claimSome(ctx context.Context, workspace, account string, objects []Listed, at time.Time, lenient bool) error {
	err := o.claim(ctx, workspace, account, objects, at, lenient)
	if errors.Is(err, ErrTooManyObjects) {
		// Two processes that did it at once would forget twice as many.
		err = o.room.Wait(ctx, func(ctx context.Context, step storage.Step) error {
			return o.makeRoom(ctx, step, workspace, len(objects))
		})
		if err == nil {
			err = o.claim(ctx, workspace, account, objects, at, lenient)
		}
	}
	return err
}

func (o *Owners) claim(ctx context.Context, workspace, account string, objects []Listed, at time.Time, lenient bool) error {
	return o.db.Write(ctx, func(tx storage.Tx) error {
		added := 0
		for _, object := range objects {
			id := object.ID
			if len(id) > MaxID {
				return ErrLongID
			}
			row, err := o.rows.Get(tx, account+"/"+id)
			switch {
			case err == nil && row.WorkspaceID != workspace && !lenient:
				return ErrOthersObject
			case err == nil:
				continue
			case !errors.Is(err, storage.ErrNotFound):
				return err
			}
			if err := o.rows.Put(tx, &owned{Account: account, ID: id, WorkspaceID: workspace, At: at.UTC()}); err != nil {
				return err
			}
			if err := o.places.note(tx, workspace, account, object, at); err != nil {
				return err
			}
			added++
		}
		return o.count(tx, workspace, added)
	})
}

// count adds n to the objects of a workspace.
func (o *Owners) count(tx storage.Tx, workspace string, n int) error {
	if n == 0 {
		return nil
	}
	row, err := o.counts.Get(tx, workspace)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		row = &ownedCount{WorkspaceID: workspace}
	case err != nil:
		return err
	}
	if row.Count += n; n > 0 && row.Count > o.limit {
		return ErrTooManyObjects
	}
	return o.counts.Put(tx, row)
}

// makeRoom forgets the oldest objects of a workspace, n and a hundredth of all that there may
// be: nobody has them from then on. If there is room for n, nothing is to do.
func (o *Owners) makeRoom(ctx context.Context, step storage.Step, workspace string, n int) error {
	type aged struct {
		key, account, id string
		at               time.Time
	}
	var all []aged
	err := o.db.View(ctx, func(tx storage.Tx) error {
		for row, err := range o.rows.Where(tx, "workspace", workspace) {
			if err != nil {
				return err
			}
			all = append(all, aged{row.key(), row.Account, row.ID, row.At})
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.key, b.key)) })
	if len(all)+n <= o.limit {
		return nil
	}
	for some := range slices.Chunk(all[:min(n+o.limit/100, len(all))], atOnce/2) {
		err := o.db.Write(ctx, func(tx storage.Tx) error {
			if err := step.Fence(tx); err != nil {
				return err
			}
			gone := 0
			for _, old := range some {
				switch err := o.rows.Delete(tx, old.key); {
				case err == nil:
					gone++
				case !errors.Is(err, storage.ErrNotFound):
					return err
				}
				if err := o.places.remove(tx, workspace, old.account, old.id); err != nil {
					return err
				}
			}
			return o.count(tx, workspace, -gone)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Owns returns which objects of a provider are a workspace's.
func (o *Owners) Owns(ctx context.Context, workspace, account string, ids []string) (owns []bool, err error) {
	owns = make([]bool, len(ids))
	err = o.db.View(ctx, func(tx storage.Tx) error {
		for i, id := range ids {
			if id == "" || len(id) > MaxID {
				continue
			}
			row, err := o.rows.Get(tx, account+"/"+id)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			owns[i] = err == nil && row.WorkspaceID == workspace || o.ModelOwner(account, id) == workspace
		}
		return nil
	})
	return owns, err
}

// NoteRead notes that the lines of files of a workspace name only objects of its own.
func (o *Owners) NoteRead(ctx context.Context, workspace, account string, ids []string) error {
	return o.db.Write(ctx, func(tx storage.Tx) error {
		for _, id := range ids {
			row, err := o.rows.Get(tx, account+"/"+id)
			switch {
			case errors.Is(err, storage.ErrNotFound):
				continue
			case err != nil:
				return err
			case row.WorkspaceID != workspace:
				continue
			}
			row.Read = true
			if err := o.rows.Put(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// Read returns for which files of a workspace that was noted.
func (o *Owners) Read(ctx context.Context, workspace, account string, ids []string) (read []bool, err error) {
	read = make([]bool, len(ids))
	err = o.db.View(ctx, func(tx storage.Tx) error {
		for i, id := range ids {
			row, err := o.rows.Get(tx, account+"/"+id)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			read[i] = err == nil && row.WorkspaceID == workspace && row.Read
		}
		return nil
	})
	return read, err
}

// Release forgets an object of a workspace that is gone.
func (o *Owners) Release(ctx context.Context, workspace, account, id string) error {
	if o.ModelOwner(account, id) == workspace {
		return o.releaseModel(ctx, workspace, account, id)
	}
	return o.db.Write(ctx, func(tx storage.Tx) error {
		row, err := o.rows.Get(tx, account+"/"+id)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil
		case err != nil:
			return err
		case row.WorkspaceID != workspace:
			return nil
		}
		if err := o.rows.Delete(tx, account+"/"+id); err != nil {
			return err
		}
		if err := o.places.remove(tx, workspace, account, id); err != nil {
			return err
		}
		return o.count(tx, workspace, -1)
	})
}
