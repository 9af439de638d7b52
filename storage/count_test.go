package storage_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

// Rows that were stored before a collection counted them count, too.
func TestRowsFromBeforeACountAreCounted(t *testing.T) {
	s := open(t)
	before := storage.NewCollection("pets", func(p *pet) string { return p.ID })
	in(t, s, func(tx storage.Tx) error {
		return errors.Join(before.Put(tx, &pet{ID: "a", Owner: "ann"}), before.Put(tx, &pet{ID: "b", Owner: "bob"}))
	})
	c := pets("pets")
	for _, step := range []struct {
		name     string
		do       func(storage.Tx) error
		ann, bob int
	}{
		{"reading", func(storage.Tx) error { return nil }, 1, 1},
		{"changing one", func(tx storage.Tx) error { return c.Put(tx, &pet{ID: "b", Owner: "ann"}) }, 2, 0},
		{"deleting one", func(tx storage.Tx) error { return c.Delete(tx, "a") }, 1, 0},
		{"a failing write", func(tx storage.Tx) error {
			if err := c.Put(tx, &pet{ID: "c", Owner: "ann", Chip: "1"}); err != nil {
				return err
			}
			if err := c.Put(tx, &pet{ID: "d", Owner: "ann", Chip: "1"}); !errors.Is(err, storage.ErrExists) {
				return fmt.Errorf("a taken chip: %w", err)
			}
			return nil
		}, 2, 0},
	} {
		in(t, s, step.do)
		in(t, s, func(tx storage.Tx) error {
			for owner, want := range map[string]int{"ann": step.ann, "bob": step.bob} {
				if n, err := c.Count(tx, "owners", owner); err != nil || n != want {
					t.Errorf("after %s, %s has %d, want %d; %v", step.name, owner, n, want, err)
				}
			}
			return nil
		})
	}
}

// There may be more values than a transaction could write numbers for.
func TestRowsOfManyValuesAreCountedAsTheyAreNeeded(t *testing.T) {
	s := open(t)
	before := storage.NewCollection("pets", func(p *pet) string { return p.ID })
	for batch := range 3 {
		in(t, s, func(tx storage.Tx) error {
			for i := range 200 {
				id := fmt.Sprint(batch, "-", i)
				if err := before.Put(tx, &pet{ID: id, Owner: id}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	c := pets("pets")
	for _, step := range []struct {
		name string
		do   func(storage.Tx) error
		want [3]int // of 0-0, of 0-1, and of ann
	}{
		{"adding one", func(tx storage.Tx) error { return c.Put(tx, &pet{ID: "a", Owner: "0-0"}) }, [3]int{2, 1, 0}},
		{"moving one", func(tx storage.Tx) error { return c.Put(tx, &pet{ID: "0-1", Owner: "ann"}) }, [3]int{2, 0, 1}},
		{"moving it back", func(tx storage.Tx) error { return c.Put(tx, &pet{ID: "0-1", Owner: "0-1"}) }, [3]int{2, 1, 0}},
		{"deleting one", func(tx storage.Tx) error { return c.Delete(tx, "0-0") }, [3]int{1, 1, 0}},
	} {
		in(t, s, step.do)
		in(t, s, func(tx storage.Tx) error {
			for i, owner := range []string{"0-0", "0-1", "ann"} {
				if n, err := c.Count(tx, "owners", owner); err != nil || n != step.want[i] {
					t.Errorf("after %s, %s has %d, want %d; %v", step.name, owner, n, step.want[i], err)
				}
			}
			return nil
		})
	}
}

// Two databases over one store, of which neither sees what the other writes, hold a bound
// together, whatever they do at once.
func TestABoundHoldsForAllDatabasesOfAStore(t *testing.T) {
	const limit, each = 10, 20
	s := open(t)
	var group sync.WaitGroup
	full := errors.New("full")
	for node := range 2 {
		db := storage.NewDB(unsynced{s})
		c := storage.NewCached(db, pets("pets"))
		if err := c.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for i := range each {
				err := db.Update(t.Context(), func(tx *storage.Txn) error {
					rows := c.In(tx)
					if rows.Count("owners", "ann") >= limit {
						return full
					}
					return rows.Put(tx, &pet{ID: fmt.Sprint(node, "-", i), Owner: "ann"})
				})
				if err != nil && !errors.Is(err, full) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	in(t, s, func(tx storage.Tx) error {
		n, all := 0, pets("pets").All(tx)
		for range all {
			n++
		}
		if n != limit {
			t.Errorf("there are %d rows, want %d", n, limit)
		}
		return nil
	})
}

// A counted index with a bound refuses the row that is one too many, and takes it once there is
// room: a row that is changed needs none, and one that moves needs it where it moves to.
func TestAnIndexKeepsToItsBound(t *testing.T) {
	s := open(t)
	db := storage.NewDB(unsynced{s})
	rows := storage.NewCollection("bounded", func(p *pet) string { return p.ID },
		storage.Index[*pet]{Name: "owners", Counted: true, Max: 2, Rows: "pets of an owner", Keys: func(p *pet) []string { return []string{p.Owner} }})
	for _, step := range []struct {
		do   string
		id   string
		to   string
		full bool
	}{
		{"put", "a", "ann", false},
		{"put", "b", "ann", false},
		{"put", "c", "ann", true},
		{"put", "c", "bob", false},
		{"put", "b", "ann", false},
		{"put", "c", "ann", true},
		{"put", "a", "bob", false},
		{"put", "c", "ann", false},
		{"put", "d", "ann", true},
		{"delete", "b", "", false},
		{"put", "d", "ann", false},
	} {
		err := db.Update(t.Context(), func(tx *storage.Txn) error {
			if step.do == "delete" {
				return rows.Delete(tx, step.id)
			}
			return rows.Put(tx, &pet{ID: step.id, Owner: step.to})
		})
		var full *storage.FullError
		if got := errors.As(err, &full); got != step.full || err != nil && !got {
			t.Errorf("%+v: %v", step, err)
		}
		if step.full && err.Error() != "storing bounded \""+step.id+"\": There may be at most 2 pets of an owner" {
			t.Error(err)
		}
	}
}

// An index that weighs rows counts what they come to: a row that becomes heavier needs room, and one that
// becomes lighter makes some.
func TestAnIndexKeepsToItsWeight(t *testing.T) {
	s := open(t)
	db := storage.NewDB(unsynced{s})
	rows := storage.NewCollection("weighed", func(p *pet) string { return p.ID },
		storage.Index[*pet]{Name: "weights", Counted: true, Weigh: func(p *pet) int { return len(p.Chip) }, Max: 10, Rows: "letters of an owner", Keys: func(p *pet) []string { return []string{p.Owner} }})
	for _, step := range []struct {
		id, name string
		to       string
		full     bool
		count    int
	}{
		{"a", "123456", "ann", false, 6},
		{"b", "12345", "ann", true, 6},
		{"b", "1234", "ann", false, 10},
		{"b", "12345", "ann", true, 10},
		{"b", "1234", "ann", false, 10},
		{"c", "", "ann", false, 10},
		{"a", "12", "ann", false, 6},
		{"b", "12345678", "ann", false, 10},
		{"b", "12345678", "bob", false, 2},
		{"c", "12345678", "ann", false, 10},
		{"a", "", "", false, 0},
		{"c", "", "", false, 0},
	} {
		err := db.Update(t.Context(), func(tx *storage.Txn) error {
			if step.to == "" {
				return rows.Delete(tx, step.id)
			}
			return rows.Put(tx, &pet{ID: step.id, Chip: step.name, Owner: step.to})
		})
		var full *storage.FullError
		if got := errors.As(err, &full); got != step.full || err != nil && !got {
			t.Errorf("%+v: %v", step, err)
		}
		if err := db.View(t.Context(), func(tx storage.Tx) error {
			if !step.full {
				if n, err := rows.Count(tx, "weights", "ann"); step.to != "" && (err != nil || n != step.count) {
					t.Errorf("%+v: %d, %v", step, n, err)
				}
			}
			return rows.Check(tx)
		}); err != nil {
			t.Errorf("%+v: %v", step, err)
		}
	}
}
