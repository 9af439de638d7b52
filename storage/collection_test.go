package storage_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

// A pet is a row of the tests.
type pet struct {
	ID    string   `json:"id"`
	Chip  string   `json:"chip,omitempty"` // unique where there is one
	Owner string   `json:"owner"`
	Tags  []string `json:"tags,omitempty"`

	note string // is not stored
}

func pets(name string) *storage.Collection[*pet] {
	return storage.NewCollection(name, func(p *pet) string { return p.ID },
		storage.Index[*pet]{Name: "chip", Unique: true, Keys: func(p *pet) []string {
			if p.Chip == "" {
				return nil
			}
			return []string{p.Chip}
		}},
		storage.Index[*pet]{Name: "owner", Keys: func(p *pet) []string { return []string{p.Owner} }},
		storage.Index[*pet]{Name: "tag", Keys: func(p *pet) []string { return p.Tags }},
		storage.Index[*pet]{Name: "owners", Counted: true, Keys: func(p *pet) []string { return []string{p.Owner} }},
		storage.Index[*pet]{Name: "tags", Counted: true, Keys: func(p *pet) []string { return p.Tags }},
		storage.Index[*pet]{Name: "of an owner", Memory: true, Keys: func(p *pet) []string { return []string{p.Owner} }},
	)
}

func open(t testing.TB) storage.Store {
	t.Helper()
	s := storetest.Open(t)
	return s
}

// in runs fn in a transaction that must succeed.
func in(t testing.TB, s storage.Store, fn func(storage.Tx) error) {
	t.Helper()
	if err := s.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func ids(rows iter.Seq2[*pet, error]) (string, error) {
	var ids []string
	for row, err := range rows {
		if err != nil {
			return "", err
		}
		ids = append(ids, row.ID)
	}
	return strings.Join(ids, " "), nil
}

func TestCollection(t *testing.T) {
	s, c := open(t), pets("pets")
	in(t, s, func(tx storage.Tx) error {
		return errors.Join(
			c.Put(tx, &pet{ID: "b", Chip: "1", Owner: "ann", Tags: []string{"cat", "old", "cat"}}),
			c.Put(tx, &pet{ID: "a", Chip: "2", Owner: "bob", Tags: []string{"cat"}}),
			c.Put(tx, &pet{ID: "c", Owner: "ann"}),
			c.Put(tx, &pet{ID: "bb", Owner: "ann"}),
			c.Put(tx, &pet{ID: "b", Chip: "3", Owner: "ann", Tags: []string{"cat", "big"}}), // replaces
		)
	})
	wants := []struct {
		name string
		rows func(storage.Tx) iter.Seq2[*pet, error]
		want string
	}{
		{"All", c.All, "a b bb c"},
		{"reverse", func(tx storage.Tx) iter.Seq2[*pet, error] { return c.Scan(tx, storage.Range{Reverse: true}) }, "c bb b a"},
		{"start", func(tx storage.Tx) iter.Seq2[*pet, error] { return c.Scan(tx, storage.Range{Start: "b"}) }, "b bb c"},
		{"reverse from", func(tx storage.Tx) iter.Seq2[*pet, error] {
			return c.Scan(tx, storage.Range{Start: "ba", Reverse: true})
		}, "b a"},
		{"prefix", func(tx storage.Tx) iter.Seq2[*pet, error] { return c.Scan(tx, storage.Range{Prefix: "b"}) }, "b bb"},
		{"owner ann", func(tx storage.Tx) iter.Seq2[*pet, error] { return c.Where(tx, "owner", "ann") }, "b bb c"},
		{"owner an", func(tx storage.Tx) iter.Seq2[*pet, error] { return c.Where(tx, "owner", "an") }, ""},
		{"tag cat", func(tx storage.Tx) iter.Seq2[*pet, error] { return c.Where(tx, "tag", "cat") }, "a b"},
		{"tag old", func(tx storage.Tx) iter.Seq2[*pet, error] { return c.Where(tx, "tag", "old") }, ""},
		{"tag big", func(tx storage.Tx) iter.Seq2[*pet, error] { return c.Where(tx, "tag", "big") }, "b"},
		{"chip 3", func(tx storage.Tx) iter.Seq2[*pet, error] { return c.Where(tx, "chip", "3") }, "b"},
		{"chip 1", func(tx storage.Tx) iter.Seq2[*pet, error] { return c.Where(tx, "chip", "1") }, ""},
	}
	in(t, s, func(tx storage.Tx) error {
		for _, test := range wants {
			if got, err := ids(test.rows(tx)); err != nil || got != test.want {
				t.Errorf("%s: got %q, %v; want %q", test.name, got, err, test.want)
			}
		}
		if p, err := c.Find(tx, "chip", "3"); err != nil || p.ID != "b" {
			t.Errorf("Find: %v, %v", p, err)
		}
		for _, miss := range []error{
			second(c.Find(tx, "chip", "1")), second(c.Get(tx, "x")), c.Delete(tx, "x"),
		} {
			if !errors.Is(miss, storage.ErrNotFound) {
				t.Errorf("got %v, want ErrNotFound", miss)
			}
		}
		for _, mistake := range []error{
			second(c.Find(tx, "owner", "ann")), // not unique
			second(c.Find(tx, "none", "")),
			second(ids(c.Where(tx, "none", ""))),
			second(ids(c.Where(tx, "owners", "ann"))), // only counts
			second(c.Count(tx, "owner", "ann")),
			second(c.Count(tx, "none", "")),
			c.Put(tx, &pet{}),
			c.PutTTL(tx, &pet{ID: "x"}, time.Hour),
			c.Put(tx, &pet{ID: "\xff"}), // JSON cannot say it
		} {
			if mistake == nil || errors.Is(mistake, storage.ErrNotFound) {
				t.Errorf("a mistake returned %v", mistake)
			}
		}
		return nil
	})
}

func second[T any](_ T, err error) error { return err }

func TestUniqueIndex(t *testing.T) {
	s, c := open(t), pets("pets")
	in(t, s, func(tx storage.Tx) error {
		if err := c.Put(tx, &pet{ID: "a", Chip: "1", Owner: "ann"}); err != nil {
			return err
		}
		if err := c.Put(tx, &pet{ID: "b", Chip: "2", Owner: "ann"}); err != nil {
			return err
		}
		// Nothing of a refused row is written, though fn goes on.
		for _, refused := range []*pet{
			{ID: "c", Chip: "1", Owner: "bob", Tags: []string{"x"}},
			{ID: "b", Chip: "1", Owner: "bob", Tags: []string{"x"}},
		} {
			err := c.Put(tx, refused)
			if !errors.Is(err, storage.ErrExists) || !strings.Contains(err.Error(), "chip") {
				t.Errorf("Put of a taken chip: %v", err)
			}
		}
		return nil
	})
	in(t, s, func(tx storage.Tx) error {
		all, err := ids(c.All(tx))
		owned, err2 := ids(c.Where(tx, "owner", "ann"))
		tagged, err3 := ids(c.Where(tx, "tag", "x"))
		if all != "a b" || owned != "a b" || tagged != "" {
			t.Errorf("all %q, ann's %q, tagged %q", all, owned, tagged)
		}
		return errors.Join(err, err2, err3)
	})
	// A value is free again when its row has given it up, or is gone.
	in(t, s, func(tx storage.Tx) error {
		return errors.Join(
			c.Put(tx, &pet{ID: "a", Chip: "3"}),
			c.Put(tx, &pet{ID: "c", Chip: "1"}),
			c.Delete(tx, "b"),
			c.Put(tx, &pet{ID: "d", Chip: "2"}),
		)
	})
}

func TestPutTTL(t *testing.T) {
	s := open(t)
	c := storage.NewCollection("notes", func(p *pet) string { return p.ID })
	in(t, s, func(tx storage.Tx) error {
		return errors.Join(
			c.PutTTL(tx, &pet{ID: "a", Owner: "ann"}, time.Hour),
			c.Put(tx, &pet{ID: "b"}),
			c.Delete(tx, "b"),
		)
	})
	in(t, s, func(tx storage.Tx) error {
		p, err := c.Get(tx, "a")
		if err == nil && p.Owner != "ann" {
			t.Errorf("got %v", p)
		}
		return err
	})
}

func TestDecodingErrorsNameTheRow(t *testing.T) {
	s := open(t)
	in(t, s, func(tx storage.Tx) error {
		return storage.NewCollection("things", func(*map[string]int) string { return "t1" }).
			Put(tx, &map[string]int{"id": 1})
	})
	c := pets("things")
	in(t, s, func(tx storage.Tx) error {
		for _, err := range []error{second(c.Get(tx, "t1")), second(ids(c.All(tx))), c.Delete(tx, "t1")} {
			if err == nil || !strings.Contains(err.Error(), `things "t1"`) {
				t.Errorf("got %v", err)
			}
		}
		return nil
	})
}

// TestIndexesAgreeWithRows puts and deletes rows at random in two collections
// whose names, ids and values are hard to tell apart, and compares every answer
// with a map of the rows.
func TestIndexesAgreeWithRows(t *testing.T) {
	s := open(t)
	text := rapid.SampledFrom([]string{"a", "b", "a\x00", "\x00", "\x00\x01", "a\x00\x01", "ab"})
	maybe := rapid.SampledFrom([]string{"", "", "a", "b", "a\x00", "\x00\x01b"})
	names := []string{"a", "a\x00\x01r"}
	rapid.Check(t, func(t *rapid.T) {
		models := map[string]map[string]*pet{}
		in := func(fn func(storage.Tx) error) {
			if err := s.Write(t.Context(), fn); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			models[name] = map[string]*pet{}
			in(func(tx storage.Tx) error { return deleteAll(tx, pets(name)) })
		}
		in(func(tx storage.Tx) error {
			for item, err := range tx.Scan(nil, nil, false) {
				if err == nil && string(item.Value) == "all" {
					continue // that rows are counted
				}
				return fmt.Errorf("left over: %q, %w", item.Key, err)
			}
			return nil
		})
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "collection")
			c, model := pets(name), models[name]
			row := &pet{
				ID: text.Draw(t, "id"), Chip: maybe.Draw(t, "chip"), Owner: text.Draw(t, "owner"),
				Tags: rapid.SliceOfN(text, 0, 3).Draw(t, "tags"),
			}
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				in(func(tx storage.Tx) error {
					err := c.Delete(tx, row.ID)
					if _, ok := model[row.ID]; ok == errors.Is(err, storage.ErrNotFound) {
						return fmt.Errorf("Delete(%q): %w", row.ID, err)
					}
					return nil
				})
				delete(model, row.ID)
				continue
			}
			taken := false
			for id, other := range model {
				taken = taken || id != row.ID && row.Chip != "" && other.Chip == row.Chip
			}
			in(func(tx storage.Tx) error {
				if err := c.Put(tx, row); taken != errors.Is(err, storage.ErrExists) || err != nil && !taken {
					return fmt.Errorf("Put(%+v): %w, taken: %t", row, err, taken)
				}
				return nil
			})
			if !taken {
				model[row.ID] = row
			}
		}
		in(func(tx storage.Tx) error {
			for _, name := range names {
				if err := agrees(tx, pets(name), models[name]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func deleteAll(tx storage.Tx, c *storage.Collection[*pet]) error {
	for row, err := range c.All(tx) {
		if err != nil {
			return err
		}
		if err := c.Delete(tx, row.ID); err != nil {
			return err
		}
	}
	return nil
}

// agrees asks c every question that the rows of model can answer.
func agrees(tx storage.Tx, c *storage.Collection[*pet], model map[string]*pet) error {
	where := func(has func(*pet) bool) string {
		var want []string
		for _, id := range slices.Sorted(maps.Keys(model)) {
			if has(model[id]) {
				want = append(want, id)
			}
		}
		return strings.Join(want, " ")
	}
	all := func(*pet) bool { return true }
	if got, err := ids(c.All(tx)); err != nil || got != where(all) {
		return fmt.Errorf("All: %q, %w; want %q", got, err, where(all))
	}
	values := []string{"a", "b", "a\x00", "\x00", "\x00\x01", "a\x00\x01", "ab", "\x00\x01b", "none", ""}
	for _, v := range values {
		owned := where(func(p *pet) bool { return p.Owner == v })
		if got, err := ids(c.Where(tx, "owner", v)); err != nil || got != owned {
			return fmt.Errorf("owner %q: %q, %w; want %q", v, got, err, owned)
		}
		tagged := where(func(p *pet) bool { return slices.Contains(p.Tags, v) })
		if got, err := ids(c.Where(tx, "tag", v)); err != nil || got != tagged {
			return fmt.Errorf("tag %q: %q, %w; want %q", v, got, err, tagged)
		}
		for index, rows := range map[string]string{"owners": owned, "tags": tagged} {
			if n, err := c.Count(tx, index, v); err != nil || n != len(strings.Fields(rows)) {
				return fmt.Errorf("%s with %q: %d, %w; want those of %q", index, v, n, err, rows)
			}
		}
		chipped := where(func(p *pet) bool { return v != "" && p.Chip == v })
		if got, err := ids(c.Where(tx, "chip", v)); err != nil || got != chipped {
			return fmt.Errorf("chip %q: %q, %w; want %q", v, got, err, chipped)
		}
	}
	return nil
}

// An id or a value that is longer than any key is one that there is none of.
func TestWhatIsLongerThanAnyKeyIsNotFound(t *testing.T) {
	db, all, long := storage.NewDB(storetest.Open(t)), pets("pet"), strings.Repeat("x", 3000)
	cached := storage.NewCached(db, all)
	if err := cached.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		if _, err := all.Get(tx, long); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("by id: %v", err)
		}
		if _, err := all.Find(tx, "chip", long); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("by an index: %v", err)
		}
		in := cached.In(tx)
		if _, ok := in.Get(long); ok || len(in.Where("owner", long)) > 0 {
			t.Error("it is found")
		}
		return nil
	})
	if err != nil {
		t.Errorf("the transaction: %v", err)
	}
}
