package storage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
)

// Whatever is written through a collection, its indexes are right.
func TestIndexesOfRowsThatAreWrittenAreRight(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		c := pets(fmt.Sprint("pets", n))
		few := rapid.SampledFrom([]string{"a", "b", "a\x00", ""})
		for range rapid.IntRange(1, 20).Draw(r, "writes") {
			p := &pet{ID: "p" + few.Draw(r, "id"), Chip: few.Draw(r, "chip"), Owner: few.Draw(r, "owner"), Tags: rapid.SliceOfN(few, 0, 3).Draw(r, "tags")}
			deleteFirst := rapid.Bool().Draw(r, "delete before")
			err := s.Write(t.Context(), func(tx storage.Tx) error {
				if deleteFirst {
					if err := c.Delete(tx, p.ID); !errors.Is(err, storage.ErrNotFound) {
						return err
					}
				}
				return c.Put(tx, p)
			})
			if err != nil && !errors.Is(err, storage.ErrExists) {
				r.Fatal(err)
			}
		}
		if err := s.View(t.Context(), c.Check); err != nil {
			r.Fatal(err)
		}
	})
}

// Check reports each way in which indexes can be wrong.
func TestWrongIndexesAreFound(t *testing.T) {
	t.Parallel()
	const (
		row, unique, count, entry = "pets\x00\x01r", "pets\x00\x01uchip\x00\x01", "pets\x00\x01cowners\x00\x01", "pets\x00\x01iowner\x00\x01"
	)
	for name, c := range map[string]struct {
		set, value string
		remove     string
		want       string
	}{
		"as written":               {},
		"of an index that is gone": {set: "pets\x00\x01ucolour\x00\x01red", value: "a"},
		"a row that is not JSON":   {set: row + "b", value: "{", want: `decoding pets "b"`},
		"a row with another id":    {set: row + "b", value: `{"id":"c","owner":"bob"}`, want: `the row "b" has the id "c"`},
		"no unique entry":          {remove: unique + "1", want: "index chip: the entry"},
		"a unique entry of none":   {set: unique + "2", value: "a", want: "index chip: the entry"},
		"of another row":           {set: unique + "1", value: "b", want: `is for "b", and the row is "a"`},
		"two with a unique value":  {set: row + "b", value: `{"id":"b","owner":"ann","chip":"1"}`, want: `the rows "a" and "b" have the same value "1"`},
		"no entry":                 {remove: entry + "ann\x00\x01a", want: "index owner: the entry"},
		"an entry of no row":       {set: entry + "ann\x00\x01b", want: "index owner: the entry"},
		"a wrong count":            {set: count + "ann", value: "2", want: "counts 2 rows, and there are 1"},
		"a count of none":          {set: count + "bob", value: "1", want: "counts 1 rows, and there are 0"},
		"no count":                 {remove: count + "ann", want: "index owners: the count"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, pets := open(t), pets("pets")
			in(t, s, func(tx storage.Tx) error {
				return pets.Put(tx, &pet{ID: "a", Owner: "ann", Chip: "1", Tags: []string{"cat"}})
			})
			in(t, s, func(tx storage.Tx) error {
				if c.remove != "" {
					return tx.Delete([]byte(c.remove))
				}
				if c.set != "" {
					return tx.Set([]byte(c.set), []byte(c.value))
				}
				return nil
			})
			err := s.View(t.Context(), pets.Check)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
}
