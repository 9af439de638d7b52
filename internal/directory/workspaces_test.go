package directory

import (
	"errors"
	"strconv"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

func TestWorkspacesAreBoundedInNumber(t *testing.T) {
	db := openDB(t)
	d := open(t, db)
	for n := 0; n < MaxWorkspaces; n += 1000 {
		err := db.Update(t.Context(), func(tx *storage.Txn) error {
			for i := n; i < n+1000; i++ {
				if err := d.AddWorkspace(tx, &Workspace{ID: "id-" + strconv.Itoa(i), Slug: "slug-" + strconv.Itoa(i)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(id, slug string) error {
		return db.Update(t.Context(), func(tx *storage.Txn) error { return d.AddWorkspace(tx, &Workspace{ID: id, Slug: slug}) })
	}
	var full *storage.FullError
	if err := add("one", "more"); !errors.As(err, &full) || full.Max != MaxWorkspaces {
		t.Errorf("one more: %v", err)
	}
	if n := len(d.Workspaces()); n != MaxWorkspaces {
		t.Errorf("%d workspaces", n)
	}
}

func TestASlugBelongsToOneWorkspace(t *testing.T) {
	db := openDB(t)
	d := open(t, db)
	add := func(id, slug string) error {
		return db.Update(t.Context(), func(tx *storage.Txn) error { return d.AddWorkspace(tx, &Workspace{ID: id, Slug: slug}) })
	}
	if err := add("a", "red"); err != nil {
		t.Fatal(err)
	}
	if err := add("b", "red"); !errors.Is(err, storage.ErrExists) {
		t.Errorf("the same slug: %v", err)
	}
	if w, ok := d.Workspace("red"); !ok || w.ID != "a" || !w.CreatedAt.Equal(founded) || !w.UpdatedAt.Equal(founded) || w.Default {
		t.Errorf("got %+v", w)
	}
}
