package stored

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
)

func next(t testing.TB, o *Owners, s Stretch, n int) (ids []string, more bool) {
	t.Helper()
	listed, more, err := o.Next(t.Context(), "ws", "p", s, n, func(*Listed) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range listed {
		ids = append(ids, l.ID)
	}
	return ids, more
}

// Stretches of a list are those of a sorted slice, whatever is learned about the objects.
func TestStretchesOfAList(t *testing.T) {
	o := owners(t, open(t))
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		list := fmt.Sprint("list", run)
		type object struct {
			id      string
			created int64
		}
		var all []object
		for n := range rapid.IntRange(0, 12).Draw(rt, "objects") {
			made := object{fmt.Sprint("o", run, "-", n), rapid.Int64Range(1, 5).Draw(rt, "created")}
			all = append(all, made)
			createdAt := made.created
			if rapid.Bool().Draw(rt, "unknown") {
				createdAt = 0
			}
			listed := []Listed{{ID: made.id, List: list, Created: createdAt}}
			if err := o.Claim(t.Context(), "ws", "p", listed, time.Unix(int64(100+n), 0), false); err != nil {
				rt.Fatal(err)
			}
			unsure, err := o.Unsure(t.Context(), "ws", "p", list, 2)
			if err != nil || len(unsure) != len(listed) && createdAt == 0 || len(unsure) > 0 && createdAt != 0 {
				rt.Fatalf("%d is known of an object, and unsure are %v, %v", createdAt, unsure, err)
			}
			if got, _ := next(t, o, Stretch{List: list}, 100); slices.Contains(got, made.id) != (createdAt != 0) {
				rt.Fatalf("%d is known of an object, and the list has %v", createdAt, got)
			}
			listed[0].Created = made.created
			if moved, err := o.Learn(t.Context(), "ws", "p", listed, nil, time.Unix(1000, 0)); err != nil || moved != (createdAt == 0) {
				rt.Fatalf("%d is learned instead of %d: moved %v, %v", made.created, createdAt, moved, err)
			}
		}
		if len(all) > 0 && rapid.Bool().Draw(rt, "one is gone") {
			i := rapid.IntRange(0, len(all)-1).Draw(rt, "gone")
			if moved, err := o.Learn(t.Context(), "ws", "p", nil, []string{all[i].id}, time.Unix(1000, 0)); !moved || err != nil {
				rt.Fatal(moved, err)
			}
			all = slices.Delete(all, i, i+1)
		}
		slices.SortStableFunc(all, func(a, b object) int { return int(a.created - b.created) })
		s := Stretch{List: list, Newest: rapid.Bool().Draw(rt, "newest")}
		if s.Newest {
			slices.Reverse(all)
		}
		from, until := 0, len(all)
		if len(all) > 0 && rapid.Bool().Draw(rt, "from") {
			i := rapid.IntRange(0, len(all)-1).Draw(rt, "from")
			s.From, from = all[i].id, i+1
		}
		if from < len(all) && rapid.Bool().Draw(rt, "until") {
			until = rapid.IntRange(from, len(all)-1).Draw(rt, "until")
			s.Until = all[until].id
		}
		n := rapid.IntRange(1, 5).Draw(rt, "n")
		end := min(from+n, until)
		for end > from && end < until && all[end].created == all[end-1].created {
			end++ // a second is returned as a whole
		}
		var want []string
		for _, o := range all[from:end] {
			want = append(want, o.id)
		}
		got, more := next(t, o, s, n)
		if !slices.Equal(got, want) || more != (until > end) {
			rt.Fatalf("%+v has %v and more: %v, want %v of %v", s, got, more, want, all)
		}
	})
}

func TestAStretchBehindAnObjectWithoutAPlaceBeginsWhereItWasMade(t *testing.T) {
	o := owners(t, open(t))
	for i, id := range []string{"a", "b", "c", "d"} {
		if err := o.Claim(t.Context(), "ws", "p", []Listed{{ID: id, List: "files", Created: int64(10*i + 10)}}, time.Unix(100, 0), false); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		newest bool
		want   []string
	}{{true, []string{"c", "b", "a"}}, {false, []string{"c", "d"}}} {
		if got, _ := next(t, o, Stretch{List: "files", Newest: c.newest, From: "unknown", Created: 30}, 10); !slices.Equal(got, c.want) {
			t.Errorf("newest first %v: %v, want %v", c.newest, got, c.want)
		}
	}
}

// A store of an earlier version has objects without places.
func TestObjectsOfAnEarlierVersionGetPlaces(t *testing.T) {
	db := open(t)
	o := owners(t, db)
	for i, id := range []string{"file-b", "file-a", "vs_1", "resp_1"} {
		err := db.Write(t.Context(), func(tx storage.Tx) error {
			return o.rows.Put(tx, &owned{Account: "p", ID: id, WorkspaceID: "ws", At: time.Unix(int64(10+i), 0)})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Claim(t.Context(), "ws", "p", []Listed{{ID: "new", List: "files", Created: 5}}, time.Unix(20, 0), false); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, nothing is to do
		if got, _ := next(t, o, Stretch{List: "files", Newest: true}, 10); !slices.Equal(got, []string{"file-a", "file-b", "new"}) {
			t.Errorf("files: %v", got)
		}
		if got, _ := next(t, o, Stretch{List: "vector_stores"}, 10); !slices.Equal(got, []string{"vs_1"}) {
			t.Errorf("vector stores: %v", got)
		}
		o = owners(t, db)
	}
	if err := o.Release(t.Context(), "ws", "p", "file-a"); err != nil {
		t.Fatal(err)
	}
	if got, _ := next(t, o, Stretch{List: "files"}, 10); !slices.Equal(got, []string{"new", "file-b"}) {
		t.Errorf("files after one was deleted: %v", got)
	}
}

func TestARemovedWorkspaceLeavesNoPlaces(t *testing.T) {
	db := open(t)
	o := owners(t, db)
	for _, w := range []string{"ws", "ws2"} {
		if err := o.Claim(t.Context(), w, "p", files(w+"1", w+"2"), time.Unix(1, 0), false); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := next(t, o, Stretch{List: "files"}, 10); len(got) != 2 {
		t.Fatal(got)
	}
	err := o.room.Wait(t.Context(), func(ctx context.Context, step storage.Step) error {
		for {
			if more, err := o.RemoveSome(ctx, step, "ws"); err != nil || !more {
				return err
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	left := make(map[string]int)
	err = db.View(t.Context(), func(tx storage.Tx) error {
		for _, rows := range []*storage.Collection[*place]{o.places.rows, o.places.order} {
			for p, err := range rows.All(tx) {
				if err != nil {
					return err
				}
				left[p.WorkspaceID]++
			}
		}
		_, err := o.places.whole.Get(tx, "ws")
		if !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("it is still said to have places: %v", err)
		}
		return nil
	})
	if err != nil || left["ws"] != 0 || left["ws2"] != 4 {
		t.Errorf("left are %v, %v", left, err)
	}
}
