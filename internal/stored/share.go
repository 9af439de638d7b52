package stored

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// Bounds of what the gateway keeps about the responses of a workspace. The oldest make room: clients
// rarely delete theirs, and one workspace must not fill the disk of all.
const (
	MaxStored  = 1 << 30 // bytes
	MaxEntries = 100_000
)

// removedAtOnce is how many entries are removed in a transaction, which reads them.
const removedAtOnce = 100

// entrySize is about what an entry takes without its response, in bytes.
const entrySize = 512

func (row *remembered) size() int64 { return int64(entrySize + len(row.Object) + len(row.Input)) }

// sized is the size of an entry, in the order of their age.
type sized struct {
	WorkspaceID string    `json:"workspace_id"`
	At          time.Time `json:"at"`
	ID          string    `json:"id"`
	Size        int64     `json:"size"`
}

func (s *sized) key() string { return fmt.Sprintf("%s/%016x/%s", s.WorkspaceID, s.At.UnixNano(), s.ID) }

// sizedOf returns the size of an entry.
func sizedOf(row *remembered) *sized {
	return &sized{WorkspaceID: row.WorkspaceID, At: row.At, ID: row.ID, Size: row.size()}
}

// A total is the size of several entries.
type total struct {
	bytes   int64
	entries int
}

func (t total) plus(o total) total { return total{t.bytes + o.bytes, t.entries + o.entries} }

// within reports whether the total is at most a share of the limit, in percent.
func (t total) within(limit total, percent int64) bool {
	return t.bytes <= limit.bytes/100*percent && t.entries <= int(int64(limit.entries)*percent/100)
}

// shares counts what workspaces have. What expired is counted until their entries are counted again, which is
// when there seem to be too many.
type shares struct {
	mu    sync.Mutex
	known map[string]share
	limit total
}

type share struct {
	total
	since total // of what was added since the entries were last begun to be counted
}

// add adds to what a workspace has, and reports whether its entries must be counted.
func (s *shares) add(workspace string, more total) (count bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, known := s.known[workspace]
	has.total, has.since = has.plus(more), has.since.plus(more)
	if known {
		s.known[workspace] = has
	}
	return !known || !has.within(s.limit, 100)
}

// begin begins to count the entries of a workspace.
func (s *shares) begin(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[workspace] = share{total: s.known[workspace].total}
}

// counted sets what a workspace was found to have. What was added in the meantime may be in it.
func (s *shares) counted(workspace string, found total) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.known[workspace].since
	s.known[workspace] = share{total: found.plus(since), since: since}
}

func (s *shares) forget(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, workspace)
}

// put stores an entry with its size.
func (r *Responses) put(tx storage.Tx, row *remembered) error {
	row.At = r.now().UTC()
	if err := r.rows.PutTTL(tx, row, Retention); err != nil {
		return err
	}
	return r.sizes.PutTTL(tx, sizedOf(row), Retention)
}

// delete removes an entry with its size.
func (r *Responses) delete(tx storage.Tx, workspace, id string) (removed total, err error) {
	row, err := r.rows.Get(tx, workspace+"/"+id)
	if err != nil {
		return total{}, err
	}
	return total{row.size(), 1}, r.drop(tx, sizedOf(row))
}

// drop removes an entry and its size, of which either may have expired.
func (r *Responses) drop(tx storage.Tx, entry *sized) error {
	if err := r.rows.Delete(tx, entry.WorkspaceID+"/"+entry.ID); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if err := r.sizes.Delete(tx, entry.key()); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

// added counts what was added to a workspace, and removes its oldest entries if it has too many.
func (r *Responses) added(ctx context.Context, workspace string, more total) error {
	if more.entries == 0 || !r.shares.add(workspace, more) {
		return nil
	}
	// Two processes that did it at once would remove twice as many.
	return r.room.Wait(ctx, func(ctx context.Context, step storage.Step) error { return r.makeRoom(ctx, step, workspace) })
}

// makeRoom counts the entries of a workspace, and removes a tenth of what it may have if it has more.
func (r *Responses) makeRoom(ctx context.Context, step storage.Step, workspace string) error {
	r.shares.begin(workspace)
	var found total
	if err := r.each(ctx, workspace, func(s *sized) bool {
		found = found.plus(total{s.Size, 1})
		return true
	}); err != nil {
		return err
	}
	share := int64(100)
	if !found.within(r.shares.limit, share) {
		share = 90
	}
	for !found.within(r.shares.limit, share) {
		var oldest []*sized
		left := found
		if err := r.each(ctx, workspace, func(s *sized) bool {
			oldest = append(oldest, s)
			left = left.plus(total{-s.Size, -1})
			return len(oldest) < removedAtOnce && !left.within(r.shares.limit, share)
		}); err != nil {
			return err
		}
		if len(oldest) == 0 {
			break
		}
		err := r.db.Write(ctx, func(tx storage.Tx) error {
			if err := step.Fence(tx); err != nil {
				return err
			}
			for _, entry := range oldest {
				if err := r.drop(tx, entry); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		found = left
	}
	r.shares.counted(workspace, found)
	return nil
}

// each visits the sizes of the entries of a workspace, the oldest first, until visit returns false.
func (r *Responses) each(ctx context.Context, workspace string, visit func(*sized) bool) error {
	return r.db.View(ctx, func(tx storage.Tx) error {
		for s, err := range r.sizes.Scan(tx, storage.Range{Prefix: workspace + "/"}) {
			if err != nil {
				return err
			}
			if !visit(s) {
				break
			}
		}
		return nil
	})
}
