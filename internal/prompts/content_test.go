package prompts_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

// counted counts the rows that are looked for and scanned.
type counted struct {
	storage.Store

	gets, scanned int
}

func (s *counted) View(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.View(ctx, func(tx storage.Tx) error { return fn(countedTx{tx, s}) })
}

type countedTx struct {
	storage.Tx

	s *counted
}

func (t countedTx) Get(key []byte) ([]byte, error) {
	t.s.gets++
	return t.Tx.Get(key)
}

func (t countedTx) Scan(prefix, start []byte, reverse bool) iter.Seq2[storage.Item, error] {
	return func(yield func(storage.Item, error) bool) {
		for item, err := range t.Tx.Scan(prefix, start, reverse) {
			t.s.scanned++
			if !yield(item, err) {
				return
			}
		}
	}
}

// A page of versions is read as what lies next to each other, also if others were made between them; what an earlier release
// stored is where that had it.
func TestAPageOfVersionsIsReadAsOne(t *testing.T) {
	store := &counted{Store: storetest.Open(t)}
	db := storage.NewDB(store)
	s, err := prompts.Open(t.Context(), db, time.Now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	update := func(do func(tx *storage.Txn) error) {
		t.Helper()
		if err := db.Update(t.Context(), do); err != nil {
			t.Fatal(err)
		}
	}
	const versions = 20
	saved := []*prompts.Prompt{{Slug: "a", WorkspaceID: "w"}, {Slug: "b", WorkspaceID: "w"}}
	for n := range versions {
		for _, p := range saved {
			update(func(tx *storage.Txn) error {
				c := &prompts.Content{String: fmt.Sprint(p.Slug, " ", n)}
				if n == 0 {
					return s.Add(tx, p, c)
				}
				return s.Put(tx, p, c)
			})
		}
	}
	p, _ := s.Get("a")
	page := func(first, end int) {
		t.Helper()
		size := 0
		contents, err := s.Contents(t.Context(), p, p.Versions[first:end], func(n int) error { size += n; return nil })
		if err != nil || len(contents) != end-first {
			t.Fatalf("%d, %v", len(contents), err)
		}
		for i, c := range contents {
			if want := fmt.Sprint("a ", first+i); c.String != want || c.ID != p.Versions[first+i].ID {
				t.Errorf("version %d is %q, want %q", first+i, c.String, want)
			}
			one, err := s.Content(t.Context(), p, &p.Versions[first+i])
			if err != nil || one.String != c.String {
				t.Errorf("%v, %v", one, err)
			}
			size -= c.Size()
		}
		if size != 0 {
			t.Errorf("%d bytes more were reserved than read", size)
		}
	}
	for _, at := range [][2]int{{0, versions}, {5, 10}, {0, 1}, {versions - 1, versions}, {3, 3}} {
		page(at[0], at[1])
	}
	store.gets, store.scanned = 0, 0
	if _, err := s.Contents(t.Context(), p, p.Versions[5:10], func(int) error { return nil }); err != nil || store.gets != 0 || store.scanned != 5 {
		t.Errorf("%d rows were looked for, and %d scanned: %v", store.gets, store.scanned, err)
	}
	full := errors.New("full")
	if _, err := s.Contents(t.Context(), p, p.Versions, func(int) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}

	// Some versions are as an earlier release stored them.
	earlier := storage.NewCollection("prompt-version", func(c *prompts.Content) string { return c.ID })
	later := storage.NewCollection("prompt-version", func(c *prompts.Content) string { return c.PromptID + "/" + c.ID })
	for _, v := range p.Versions[:7] {
		update(func(tx *storage.Txn) error {
			c, err := later.Get(tx, p.ID+"/"+v.ID)
			if err != nil {
				return err
			}
			c.PromptID = ""
			return errors.Join(later.Delete(tx, p.ID+"/"+v.ID), earlier.Put(tx, c))
		})
	}
	for _, at := range [][2]int{{0, versions}, {5, 10}, {0, 1}} {
		page(at[0], at[1])
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	update(func(tx *storage.Txn) error { return s.Delete(tx, p) })
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.Content(t.Context(), p, &p.Versions[0]); !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
}
