package stored

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A Listed is an object as the list of a provider shows it.
type Listed struct {
	ID string
	// List is which list shows the object, such as files; "": none does.
	List string
	// Created is when the provider made it, in seconds since 1970; 0: that is not known.
	Created int64
	// Purpose is that of a file; "": it has none, or that is not known.
	Purpose string
	// Kept is how long the provider keeps it; 0: as long as nobody deletes it.
	Kept time.Duration
}

// A Stretch is a part of a list: what it shows behind an object, in either direction.
type Stretch struct {
	List   string
	Newest bool // from the newest object to the oldest
	// From is the object that it begins behind, and Until the one that it ends before; "": it
	// begins, or ends, where the list does. If it is not known where From is, it begins with what
	// was made in the second Created, if that is not 0.
	From, Until string
	Created     int64
}

// A place is where an object of a workspace is in a list. There are two rows of it: one is found
// by the id, and the other one is in the order of the list.
type place struct {
	WorkspaceID string    `json:"workspace_id"`
	Account     string    `json:"account"`
	List        string    `json:"list"`
	Created     int64     `json:"created"`
	At          time.Time `json:"at"` // when it was noted, which is the order within a second
	ID          string    `json:"id"`
	Purpose     string    `json:"purpose,omitempty"`
	Until       time.Time `json:"until,omitzero"` // that the provider keeps it
	// Unsure: it is not known when it was created, which was some time before Created. It is not in the
	// order of the list, but of those of which that has to be asked.
	Unsure bool `json:"unsure,omitempty"`
}

// parts are ids that begin alike, whatever bytes the parts have.
func parts(s ...string) string { return strings.Join(s, "\x00") + "\x00" }

func (p *place) byID() string { return parts(p.WorkspaceID, p.Account) + p.ID }

func (p *place) inOrder() string {
	list := p.List
	if p.Unsure {
		list += unsure
	}
	return parts(p.WorkspaceID, p.Account, list) + moment(p.Created) + moment(p.At.UnixNano()) + p.ID
}

// unsure is behind the name of a list whose order is not known.
const unsure = "?"

// moment is a number whose strings have its order.
func moment(n int64) string { return fmt.Sprintf("%016x", uint64(n)^1<<63) }

// places are where objects are in lists. They are hints: whose an object is, and whether the
// provider still has it, is looked up by those who use them.
type places struct {
	rows  *storage.Collection[*place]
	order *storage.Collection[*place]
	whole *storage.Collection[*wholePlaces]
}

// wholePlaces says that all objects of a workspace have places. Earlier versions noted none.
type wholePlaces struct {
	WorkspaceID string `json:"workspace_id"`
}

func newPlaces() places {
	return places{
		rows:  storage.NewCollection("object_place", (*place).byID),
		order: storage.NewCollection("object_order", (*place).inOrder),
		whole: storage.NewCollection("object_places_whole", func(w *wholePlaces) string { return w.WorkspaceID }),
	}
}

// get returns the place of an object, or nil.
func (l *places) get(tx storage.Tx, workspace, account, id string) (*place, error) {
	p, err := l.rows.Get(tx, parts(workspace, account)+id)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	return p, err
}

// put notes a place instead of the one that the object had, which may be nil.
func (l *places) put(tx storage.Tx, old, p *place, now time.Time) error {
	if old != nil && old.inOrder() != p.inOrder() {
		if err := l.order.Delete(tx, old.inOrder()); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	for _, rows := range [...]*storage.Collection[*place]{l.rows, l.order} {
		var err error
		if p.Until.IsZero() {
			err = rows.Put(tx, p)
		} else {
			err = rows.PutTTL(tx, p, max(p.Until.Sub(now), time.Second))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// note notes where an object is that was not known before.
func (l *places) note(tx storage.Tx, workspace, account string, o Listed, at time.Time) error {
	if o.List == "" {
		return nil
	}
	p := &place{WorkspaceID: workspace, Account: account, List: o.List, Created: o.Created, At: at.UTC(), ID: o.ID, Purpose: o.Purpose}
	if p.Created == 0 {
		p.Created, p.Unsure = at.Unix(), true
	}
	if o.Kept > 0 {
		p.Until = at.Add(o.Kept).UTC()
	}
	return l.put(tx, nil, p, at)
}

// remove forgets where an object is.
func (l *places) remove(tx storage.Tx, workspace, account, id string) error {
	p, err := l.get(tx, workspace, account, id)
	if err != nil || p == nil {
		return err
	}
	if err := l.order.Delete(tx, p.inOrder()); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return l.rows.Delete(tx, p.byID())
}

// Next returns objects of a workspace in a stretch of a list: n of those that want accepts, in order, and all
// others that were made in the same second as the last one, up to maxInSecond. more: there are others behind them.
func (o *Owners) Next(ctx context.Context, workspace, account string, s Stretch, n int, want func(*Listed) bool) (listed []Listed, more bool, err error) {
	if err := o.placeAll(ctx, workspace); err != nil {
		return nil, false, err
	}
	all := parts(workspace, account, s.List)
	err = o.db.View(ctx, func(tx storage.Tx) error {
		listed, more = nil, false
		r := storage.Range{Prefix: all, Reverse: s.Newest}
		if s.From != "" || s.Created != 0 {
			from, err := o.places.get(tx, workspace, account, s.From)
			switch {
			case err != nil:
				return err
			case from != nil && from.List == s.List:
				r.Start = from.inOrder()
			case s.Newest:
				r.Start = all + moment(s.Created+1)
			default:
				r.Start = all + moment(s.Created)
			}
		}
		for p, err := range o.places.order.Scan(tx, r) {
			switch {
			case err != nil:
				return err
			case p.ID == s.From:
				continue
			case s.Until != "" && p.ID == s.Until:
				return nil
			}
			next := Listed{ID: p.ID, List: p.List, Created: p.Created, Purpose: p.Purpose}
			if !want(&next) {
				continue
			}
			if k := len(listed); k >= n && (p.Created != listed[k-1].Created || k >= n+maxInSecond) {
				more = true
				return nil
			}
			listed = append(listed, next)
		}
		return nil
	})
	return listed, more, err
}

// maxInSecond is how many objects more than asked for are returned because they were made in the same second.
const maxInSecond = 500

// CreatedAt returns when an object of a workspace was made, in seconds since 1970; 0: that is not known.
func (o *Owners) CreatedAt(ctx context.Context, workspace, account, id string) (made int64, err error) {
	err = o.db.View(ctx, func(tx storage.Tx) error {
		p, err := o.places.get(tx, workspace, account, id)
		if made = 0; err == nil && p != nil && !p.Unsure {
			made = p.Created
		}
		return err
	})
	return made, err
}

// Unsure returns at most n objects of a workspace whose place in a list is not known, until
// [Owners.Learn] is told. Next does not return them.
func (o *Owners) Unsure(ctx context.Context, workspace, account, list string, n int) (ids []string, err error) {
	err = o.db.View(ctx, func(tx storage.Tx) error {
		ids = nil
		for p, err := range o.places.order.Scan(tx, storage.Range{Prefix: parts(workspace, account, list+unsure)}) {
			if err != nil {
				return err
			}
			if ids = append(ids, p.ID); len(ids) == n {
				break
			}
		}
		return nil
	})
	return ids, err
}

// Learn notes what a provider says of objects of a workspace, and reports whether the order of the
// list is another one for it. Gone are those that the provider does not have any more: lists do
// without them.
func (o *Owners) Learn(ctx context.Context, workspace, account string, seen []Listed, gone []string, now time.Time) (moved bool, err error) {
	type change struct {
		old *place
		new *place // nil: it is gone
	}
	changes := func(tx storage.Tx) (all []change, err error) {
		for _, s := range seen {
			old, err := o.places.get(tx, workspace, account, s.ID)
			if err != nil {
				return nil, err
			}
			p := &place{WorkspaceID: workspace, Account: account, List: s.List, Created: s.Created, At: now.UTC(), ID: s.ID, Purpose: s.Purpose}
			switch {
			case s.ID == "" || len(s.ID) > MaxID || old != nil && old.List != s.List || s.Created == 0 && (old == nil || !old.Unsure):
				continue
			case old != nil && !old.Unsure && old.Created == s.Created && old.Purpose == s.Purpose:
				continue
			case old != nil:
				if p.At, p.Until = old.At, old.Until; p.Created == 0 { // the provider does not say it either
					p.Created = old.Created
				}
			case s.Kept > 0:
				p.Until = now.Add(s.Kept).UTC()
			}
			all = append(all, change{old, p})
		}
		for _, id := range gone {
			old, err := o.places.get(tx, workspace, account, id)
			if err != nil {
				return nil, err
			}
			if old != nil {
				all = append(all, change{old, nil})
			}
		}
		return all, nil
	}
	var all []change
	err = o.db.View(ctx, func(tx storage.Tx) (err error) {
		all, err = changes(tx)
		return err
	})
	if err != nil || len(all) == 0 {
		return false, err
	}
	err = o.db.Write(ctx, func(tx storage.Tx) error {
		moved = false
		all, err := changes(tx)
		for _, c := range all {
			if err != nil {
				return err
			}
			if c.new == nil {
				moved, err = true, o.places.remove(tx, workspace, account, c.old.ID)
				continue
			}
			moved = moved || c.old == nil || c.old.inOrder() != c.new.inOrder()
			err = o.places.put(tx, c.old, c.new, now)
		}
		return err
	})
	return moved, err
}

// placeAll notes the places of what a workspace made before there were any: by the beginnings of
// their ids, as OpenAI has them, and by when they were noted.
func (o *Owners) placeAll(ctx context.Context, workspace string) error {
	whole := func(ctx context.Context) (is bool, err error) {
		err = o.db.View(ctx, func(tx storage.Tx) error {
			_, err := o.places.whole.Get(tx, workspace)
			if is = err == nil; errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			return err
		})
		return is, err
	}
	if is, err := whole(ctx); is || err != nil {
		return err
	}
	return o.room.Wait(ctx, func(ctx context.Context, step storage.Step) error {
		if is, err := whole(ctx); is || err != nil {
			return err
		}
		var unplaced []*owned
		err := o.db.View(ctx, func(tx storage.Tx) error {
			unplaced = nil
			for row, err := range o.rows.Where(tx, "workspace", workspace) {
				if err != nil {
					return err
				}
				switch p, err := o.places.get(tx, workspace, row.Account, row.ID); {
				case err != nil:
					return err
				case p == nil && listOf(row.ID) != "":
					unplaced = append(unplaced, row)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(unplaced, func(a, b *owned) int { return cmp.Compare(a.key(), b.key()) })
		for some := range slices.Chunk(unplaced, atOnce) {
			err := o.db.Write(ctx, func(tx storage.Tx) error {
				if err := step.Fence(tx); err != nil {
					return err
				}
				for _, row := range some {
					switch _, err := o.rows.Get(tx, row.key()); {
					case errors.Is(err, storage.ErrNotFound): // it was deleted meanwhile
						continue
					case err != nil:
						return err
					}
					if err := o.places.note(tx, workspace, row.Account, Listed{ID: row.ID, List: listOf(row.ID), Created: row.At.Unix()}, row.At); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return o.db.Write(ctx, func(tx storage.Tx) error {
			if err := step.Fence(tx); err != nil {
				return err
			}
			return o.places.whole.Put(tx, &wholePlaces{workspace})
		})
	})
}

// listOf returns which list shows an object, by its id; "": none does, or it is not known.
func listOf(id string) string {
	for prefix, list := range listsOf {
		if strings.HasPrefix(id, prefix) {
			return list
		}
	}
	return ""
}

// listsOf are the lists by how the ids begin of what they show.
var listsOf = map[string]string{
	"file-":      "files",
	"assistant-": "files",
	"batch_":     "batches",
	"ftjob-":     "fine_tuning/jobs",
	"asst_":      "assistants",
	"vs_":        "vector_stores",
	"cntr_":      "containers",
	"eval_":      "evals",
	"video_":     "videos",
	"skill_":     "skills",
}

// removePlaces forgets where at most atOnce objects of a workspace are, and reports how many that
// were.
func (o *Owners) removePlaces(ctx context.Context, step storage.Step, workspace string) (n int, err error) {
	var some []*place
	err = o.db.View(ctx, func(tx storage.Tx) error {
		some = nil
		for p, err := range o.places.rows.Scan(tx, storage.Range{Prefix: parts(workspace)}) {
			if err != nil {
				return err
			}
			if some = append(some, p); len(some) == atOnce {
				break
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(some), o.db.Write(ctx, func(tx storage.Tx) error {
		if err := step.Fence(tx); err != nil {
			return err
		}
		for _, p := range some {
			if err := o.places.remove(tx, p.WorkspaceID, p.Account, p.ID); err != nil {
				return err
			}
		}
		if err := o.places.whole.Delete(tx, workspace); !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		return nil
	})
}
