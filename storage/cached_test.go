package storage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
)

// cached returns rows that follow db.
func cached(t testing.TB, db *storage.DB) *storage.Cached[*pet] {
	t.Helper()
	rows := storage.NewCached(db, pets("pets"))
	if err := rows.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestAChangeIsToldToWhatIsMadeOfAllRows(t *testing.T) {
	store := open(t)
	one, two := storage.NewDB(store), storage.NewDB(store)
	rows := storage.NewCached(one, pets("pets"))
	var seen []int
	rows.OnChange(func() { seen = append(seen, len(rows.All())) })
	if err := rows.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	others, elsewhere := storage.NewCached(one, pets("others")), cached(t, two)
	update := func(db *storage.DB, fn func(*storage.Txn) error) {
		t.Helper()
		if err := db.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	update(two, func(tx *storage.Txn) error { return elsewhere.Put(tx, &pet{ID: "a"}) })
	update(one, func(tx *storage.Txn) error { return others.Put(tx, &pet{ID: "b"}) }) // not its rows
	update(one, func(tx *storage.Txn) error { return rows.Delete(tx, "a") })
	if want := []int{0, 1, 0}; !slices.Equal(seen, want) {
		t.Errorf("the hook saw %v rows, want %v", seen, want)
	}
}

// Rows are decoded together, and are all there, in their order.
func TestManyRowsAreLoaded(t *testing.T) {
	store := open(t)
	db := storage.NewDB(store)
	rows := cached(t, db)
	const many = 2500
	for from := 0; from < many; from += 500 {
		err := db.Update(t.Context(), func(tx *storage.Txn) error {
			for n := from; n < from+500; n++ {
				if err := rows.Put(tx, &pet{ID: fmt.Sprintf("%05d", n), Owner: fmt.Sprint(n)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := cached(t, storage.NewDB(store)).All()
	if len(all) != many {
		t.Fatalf("%d rows", len(all))
	}
	for n, row := range all {
		if row.ID != fmt.Sprintf("%05d", n) || row.Owner != fmt.Sprint(n) {
			t.Fatalf("row %d is %+v", n, row)
		}
	}
	// One that cannot be decoded is an error, and then memory is empty.
	unlike := storage.NewCollection("pets", func(*struct{ ID any }) string { return "01777" })
	if err := db.Write(t.Context(), func(tx storage.Tx) error { return unlike.Put(tx, &struct{ ID any }{1}) }); err != nil {
		t.Fatal(err)
	}
	fresh := storage.NewCached(storage.NewDB(store), pets("pets"))
	if err := fresh.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "01777") || len(fresh.All()) != 0 {
		t.Errorf("%v, %d rows", err, len(fresh.All()))
	}
}

// A row that cannot be read is not taken for what it was before: it may have been a key
// that is revoked now.
func TestARowThatCannotBeReadIsNotInMemory(t *testing.T) {
	db := storage.NewDB(open(t))
	rows := cached(t, db)
	unlike := storage.NewCached(db, storage.NewCollection("pets", func(*struct{ ID any }) string { return "a" }))
	for _, put := range []func(*storage.Txn) error{
		func(tx *storage.Txn) error { return rows.Put(tx, &pet{ID: "a"}) },
		func(tx *storage.Txn) error { return unlike.Put(tx, &struct{ ID any }{1}) },
	} {
		if err := db.Update(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	if row, ok := rows.Get("a"); ok {
		t.Errorf("memory has %+v", row)
	}
}

func TestUpdatesTakeTurns(t *testing.T) {
	db := storage.NewDB(open(t))
	err := db.Update(t.Context(), func(*storage.Txn) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := db.Update(ctx, func(*storage.Txn) error { t.Error("two updates at a time"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("an Update that cannot wait: %v", err)
		}
		return db.Write(t.Context(), func(tx storage.Tx) error { return tx.Set([]byte("k"), nil) })
	})
	if err != nil {
		t.Error(err)
	}

	// Memory follows the commits: the last hook is that of the last commit.
	rows := cached(t, db)
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			err := db.Update(t.Context(), func(tx *storage.Txn) error {
				return rows.Put(tx, &pet{ID: "p", Owner: fmt.Sprint(n)})
			})
			if err != nil {
				t.Error(err)
			}
			rows.All()
		})
	}
	group.Wait()
	err = db.View(t.Context(), func(tx storage.Tx) error {
		stored, err := pets("pets").Get(tx, "p")
		if kept, ok := rows.Get("p"); err == nil && (!ok || kept.Owner != stored.Owner) {
			t.Errorf("memory has %v, the store %v", kept, stored)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCachedKeepsItsOwnRows(t *testing.T) {
	db := storage.NewDB(open(t))
	rows := cached(t, db)
	mine := &pet{ID: "a", Owner: "ann", Tags: []string{"cat"}, note: "not stored"}
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		err := rows.Put(tx, mine)
		mine.Owner, mine.Tags[0] = "changed", "changed"
		if _, ok := rows.Get("a"); ok {
			t.Error("memory has what is not committed")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	kept, ok := rows.Get("a")
	if !ok || kept.Owner != "ann" || kept.Tags[0] != "cat" || kept.note != "" {
		t.Errorf("memory has %+v", kept)
	}
	all := rows.All()
	err = db.Update(t.Context(), func(tx *storage.Txn) error { return rows.Delete(tx, "a") })
	if err != nil || len(all) != 1 || len(rows.All()) != 0 {
		t.Errorf("after Delete: %v, then %d rows, now %d", err, len(all), len(rows.All()))
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Find by an index that is not unique did not panic")
			}
		}()
		rows.Find("owner", "ann")
	}()
}

// TestCachesAgreeWithTheStore makes random changes through two DBs over one store, some
// of which fail, and compares the memory of both with what Load reads.
func TestCachesAgreeWithTheStore(t *testing.T) {
	store := unsynced{open(t)}
	shared := struct {
		storage.Store
		storage.Feed
	}{store, storage.NewFeed(store)}
	dbs := []*storage.DB{storage.NewDB(shared), storage.NewDB(shared)}
	text := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	chip := rapid.SampledFrom([]string{"", "1", "2", "3"})
	mine := errors.New("mine")
	caches := []*storage.Cached[*pet]{cached(t, dbs[0]), cached(t, dbs[1])}
	rapid.Check(t, func(t *rapid.T) {
		err := dbs[0].Update(t.Context(), func(tx *storage.Txn) error {
			for _, row := range caches[0].All() {
				if err := caches[0].Delete(tx, row.ID); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			n := rapid.IntRange(0, 1).Draw(t, "DB")
			db, rows := dbs[n], caches[n]
			var ops []func(*storage.Txn) error
			for range rapid.IntRange(1, 4).Draw(t, "operations") {
				row := &pet{ID: text.Draw(t, "id"), Chip: chip.Draw(t, "chip"), Owner: chip.Draw(t, "owner"), Tags: []string{chip.Draw(t, "tag"), "1"}}
				if rapid.Bool().Draw(t, "put") {
					ops = append(ops, func(tx *storage.Txn) error { return rows.Put(tx, row) })
				} else {
					ops = append(ops, func(tx *storage.Txn) error { return rows.Delete(tx, row.ID) })
				}
			}
			fail := rapid.IntRange(0, 3).Draw(t, "fail") == 0
			err := db.Update(t.Context(), func(tx *storage.Txn) error {
				for _, op := range ops {
					err := op(tx)
					if err != nil && !errors.Is(err, storage.ErrExists) && !errors.Is(err, storage.ErrNotFound) {
						return err
					}
				}
				if fail {
					return mine
				}
				return nil
			})
			if err != nil && !errors.Is(err, mine) {
				t.Fatal(err)
			}
		}
		loaded := storage.NewCached(storage.NewDB(store), pets("pets"))
		if err := loaded.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n, rows := range caches {
			if got, want := describe(rows), describe(loaded); got != want {
				t.Fatalf("memory of DB %d has\n%s\nthe store\n%s", n, got, want)
			}
		}
	})
}

// What a reader has of the rows does not change, and Where finds what a naive search does, in
// memory and in a transaction.
func TestRowsOfAnIndexInMemory(t *testing.T) {
	t.Parallel()
	db := storage.NewDB(open(t))
	c := cached(t, db)
	id, owner := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.SampledFrom([]string{"ann", "bob", ""})
	ids := func(rows []*pet) (all []string) {
		for _, p := range rows {
			all = append(all, p.ID+p.Owner)
		}
		return all
	}
	rapid.Check(t, func(t *rapid.T) {
		type view struct {
			rows []*pet
			was  []string
		}
		var views []view
		for range rapid.IntRange(1, 12).Draw(t, "writes") {
			row, remove := &pet{ID: id.Draw(t, "id"), Owner: owner.Draw(t, "owner"), Tags: []string{"x", "x"}}, rapid.Bool().Draw(t, "remove")
			err := db.Update(t.Context(), func(tx *storage.Txn) error {
				if remove {
					if err := c.Delete(tx, row.ID); !errors.Is(err, storage.ErrNotFound) {
						return err
					}
					return nil
				}
				return c.Put(tx, row)
			})
			if err != nil {
				t.Fatal(err)
			}
			all := c.All()
			if !slices.IsSortedFunc(all, func(a, b *pet) int { return strings.Compare(a.ID, b.ID) }) {
				t.Fatalf("not in order: %v", ids(all))
			}
			views = append(views, view{all, ids(all)})
			for _, of := range []string{"ann", "bob", ""} {
				var naive []string
				for _, p := range all {
					if p.Owner == of {
						naive = append(naive, p.ID+p.Owner)
					}
				}
				for _, index := range []string{"owner", "owners", "of an owner"} {
					rows := c.Where(index, of)
					views = append(views, view{rows, ids(rows)})
					if !slices.Equal(ids(rows), naive) || c.Len(index, of) != len(naive) {
						t.Fatalf("%s %q: %v (%d), expected %v", index, of, ids(rows), c.Len(index, of), naive)
					}
					if err := db.Update(t.Context(), func(tx *storage.Txn) error {
						if got := ids(c.In(tx).Where(index, of)); !slices.Equal(got, naive) {
							t.Fatalf("in a transaction %s %q: %v, expected %v", index, of, got, naive)
						}
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := ids(c.Where("tag", "x")); !slices.Equal(got, ids(all)) {
				t.Fatalf("a value twice: %v, expected %v", got, ids(all))
			}
			for _, v := range views {
				if got := ids(v.rows); !slices.Equal(got, v.was) {
					t.Fatalf("a reader had %v, and now has %v", v.was, got)
				}
			}
		}
	})
}

// unsynced spares a test the waiting for the disk.
type unsynced struct{ storage.Store }

func (u unsynced) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return u.Write(ctx, fn)
}

// describe returns everything that a Cached can.
func describe(c *storage.Cached[*pet]) string {
	var b strings.Builder
	for _, row := range c.All() {
		got, ok := c.Get(row.ID)
		fmt.Fprintln(&b, row.ID, row.Chip, got == row, ok)
	}
	for _, chip := range []string{"", "1", "2", "3"} {
		if row, ok := c.Find("chip", chip); ok {
			fmt.Fprintln(&b, "chip", chip, row.ID)
		}
		for _, index := range []string{"owner", "tag", "owners", "tags", "of an owner"} {
			for _, row := range c.Where(index, chip) {
				fmt.Fprintln(&b, index, chip, row.ID)
			}
		}
	}
	return b.String()
}

// Inside a transaction rows are as the store has them, whoever wrote them there, and as
// the transaction itself does.
func TestATransactionReadsTheStoreAndNotMemory(t *testing.T) {
	store := unsynced{open(t)} // no feed
	one, two := storage.NewDB(store), storage.NewDB(store)
	mine, theirs := cached(t, one), cached(t, two)
	put := func(db *storage.DB, rows *storage.Cached[*pet], p pet) {
		t.Helper()
		if err := db.Update(t.Context(), func(tx *storage.Txn) error { return rows.Put(tx, &p) }); err != nil {
			t.Fatal(err)
		}
	}
	put(one, mine, pet{ID: "1", Chip: "old"})
	put(two, theirs, pet{ID: "1", Chip: "new"})
	put(two, theirs, pet{ID: "2", Chip: "other"})

	names := func(rows []*pet) (names []string) {
		for _, p := range rows {
			names = append(names, p.Chip)
		}
		return names
	}
	err := one.Update(t.Context(), func(tx *storage.Txn) error {
		in := mine.In(tx)
		if p, ok := in.Get("1"); !ok || p.Chip != "new" {
			t.Errorf("got %v, %v", p, ok)
		}
		if p, ok := in.Find("chip", "other"); !ok || p.ID != "2" {
			t.Errorf("found %v, %v", p, ok)
		}
		if p, ok := in.Get("3"); ok {
			t.Errorf("got %v", p)
		}
		for _, step := range []struct {
			do   func() error
			want []string
		}{
			{func() error { return nil }, []string{"new", "other"}},
			{func() error { return in.Put(tx, &pet{ID: "3", Chip: "third"}) }, []string{"new", "other", "third"}},
			{func() error { return in.Delete(tx, "1") }, []string{"other", "third"}},
		} {
			if err := step.do(); err != nil {
				return err
			}
			if got := names(in.In(tx).All()); !slices.Equal(got, step.want) {
				t.Errorf("all are %q, want %q", got, step.want)
			}
			if got := names(in.All()); !slices.Equal(got, step.want) {
				t.Errorf("all are %q, want %q", got, step.want)
			}
		}
		if got := names(in.Memory().All()); !slices.Equal(got, []string{"old"}) {
			t.Errorf("memory has %q before the commit", got)
		}
		return nil
	})
	if got := names(mine.All()); err != nil || !slices.Equal(got, []string{"third"}) {
		t.Errorf("memory has %q, %v", got, err)
	}
}

// A row that cannot be read is not taken for one that is not there.
func TestAReadThatFailsFailsTheTransaction(t *testing.T) {
	db := storage.NewDB(open(t))
	rows := storage.NewCached(db, pets("pets"))
	other := storage.NewCollection("pets", func(n *struct{ ID int }) string { return "1" })
	if err := db.Update(t.Context(), func(tx *storage.Txn) error { return other.Put(tx, &struct{ ID int }{1}) }); err != nil {
		t.Fatal(err)
	}
	mine := errors.New("not there")
	for name, read := range map[string]func(*storage.Cached[*pet]) bool{
		"Get": func(in *storage.Cached[*pet]) bool { _, ok := in.Get("1"); return ok },
		"All": func(in *storage.Cached[*pet]) bool { return len(in.All()) > 0 },
	} {
		err := db.Update(t.Context(), func(tx *storage.Txn) error {
			if read(rows.In(tx)) {
				t.Errorf("%s: the row was read", name)
			}
			return mine
		})
		if err == nil || errors.Is(err, mine) || !strings.Contains(err.Error(), "decoding") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where finds in a transaction what a naive search of the store does, however far memory is behind it.
func TestWhereInATransactionDoesNotDependOnMemory(t *testing.T) {
	t.Parallel()
	store := unsynced{open(t)} // no feed
	one, two := storage.NewDB(store), storage.NewDB(store)
	mine, theirs := cached(t, one), cached(t, two)
	id, owner := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}), rapid.SampledFrom([]string{"ann", "bob", "cat", "dot"})
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 12).Draw(t, "writes") {
			db, rows := one, mine
			if rapid.Bool().Draw(t, "elsewhere") {
				db, rows = two, theirs
			}
			err := db.Update(t.Context(), func(tx *storage.Txn) error {
				for range rapid.IntRange(1, 3).Draw(t, "together") {
					row := &pet{ID: id.Draw(t, "id"), Owner: owner.Draw(t, "owner")}
					if !rapid.Bool().Draw(t, "remove") {
						if err := rows.Put(tx, row); err != nil {
							return err
						}
					} else if err := rows.Delete(tx, row.ID); err != nil && !errors.Is(err, storage.ErrNotFound) {
						return err
					}
					for _, of := range []string{"ann", "bob", "cat", "dot"} {
						var got, want []string
						for _, p := range rows.In(tx).Where("owners", of) {
							got = append(got, p.ID)
						}
						for _, p := range rows.In(tx).All() {
							if p.Owner == of {
								want = append(want, p.ID)
							}
						}
						if !slices.Equal(got, want) {
							t.Fatalf("%s: got %v, expected %v", of, got, want)
						}
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
