package credentials

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

func TestVirtualKeySlugsAreUniqueInAWorkspace(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	add := func(id, workspace string) error {
		return db.Update(t.Context(), func(tx *storage.Txn) error {
			return k.AddVirtualKey(tx, &VirtualKey{Credential: Credential{ID: id}, Slug: "own", WorkspaceID: workspace}, NewSecret("secret of "+id))
		})
	}
	for _, v := range []struct {
		id, workspace string
		want          error
	}{{"vk-1", "ws-1", nil}, {"vk-2", "ws-2", nil}, {"vk-3", "ws-1", storage.ErrExists}, {"vk-3", "ws-2", storage.ErrExists}} {
		if err := add(v.id, v.workspace); !errors.Is(err, v.want) {
			t.Errorf("%s in %s: got %v", v.id, v.workspace, err)
		}
	}
	for range 2 { // before and after a restart
		for _, find := range []struct{ workspace, name, want string }{
			{"ws-1", "own", "vk-1"},
			{"ws-2", "own", "vk-2"},
			{"ws-2", "vk-2", "vk-2"},
			{"ws-2", "vk-1", ""},
			{"ws-2", "ws-1/own", ""},
			{"ws-3", "own", ""},
			{"", "own", ""},
			{"", "ws-1/own", ""},
		} {
			v, ok := k.VirtualKey(find.workspace, find.name)
			if ok != (find.want != "") || ok && v.ID != find.want {
				t.Errorf("%q in %q: got %+v", find.name, find.workspace, v)
			}
		}
		k = openKeyring(t, db, c)
	}
}

// Earlier versions stored slugs that were unique among all workspaces.
func TestVirtualKeysOfEarlierVersionsKeepTheirSlugs(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	rows := storage.NewCollection("virtual-key", func(v *VirtualKey) string { return v.ID },
		storage.Index[*VirtualKey]{Name: bySlug, Unique: true, Keys: func(v *VirtualKey) []string { return []string{v.Slug} }})
	const many = 250
	update(t, db, func(tx *storage.Txn) error {
		for i := range many {
			v := VirtualKey{Credential: Credential{ID: fmt.Sprint("vk-", i)}, Slug: fmt.Sprint("own-", i), WorkspaceID: "ws-1", UpdatedAt: c.Now()}
			var err error
			if v.Sealed, err = k.box.Seal(NewSecret(canary), v.ID); err != nil {
				return err
			}
			if err := rows.Put(tx, &v); err != nil {
				return err
			}
		}
		return nil
	})
	c.add(time.Hour)
	for range 2 {
		k = openKeyring(t, db, c)
		for i := range many {
			v, ok := k.VirtualKey("ws-1", fmt.Sprint("own-", i))
			if !ok || v.ID != fmt.Sprint("vk-", i) || !v.UpdatedAt.Equal(c.Now().Add(-time.Hour)) {
				t.Fatalf("own-%d: got %+v", i, v)
			}
			if secret, err := k.OpenKey(&v.Credential); err != nil || secret.Reveal() != canary {
				t.Fatalf("own-%d: its credential: %v", i, err)
			}
		}
		if _, ok := k.VirtualKey("ws-2", "own-0"); ok {
			t.Error("another workspace finds it")
		}
	}
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: "new"}, Slug: "own-0", WorkspaceID: "ws-2"}, "secret")
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		return k.AddVirtualKey(tx, &VirtualKey{Credential: Credential{ID: "twin"}, Slug: "own-0", WorkspaceID: "ws-1"}, NewSecret("secret"))
	})
	if !errors.Is(err, storage.ErrExists) {
		t.Errorf("its own workspace makes a second one: %v", err)
	}
}

func TestVirtualKeyIsFoundBySlugAndByID(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: "vk-1"}, Slug: "own", WorkspaceID: "ws-1"}, "secret")
	for _, name := range []string{"own", "vk-1"} {
		if v, ok := k.VirtualKey("ws-1", name); !ok || v.ID != "vk-1" {
			t.Errorf("%q: got %v", name, v)
		}
	}
	for _, name := range []string{"", "OWN", "ow", "vk-2"} {
		if v, ok := k.VirtualKey("ws-1", name); ok {
			t.Errorf("%q: got %v", name, v)
		}
	}
}

// Who may write virtual keys in one workspace must not be able to take the place of
// another workspace's, whose id is not a secret.
func TestVirtualKeyOfAnIDIsNotHiddenByAnotherSlug(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	const id = "01900000-0000-7000-8000-000000000001"
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: id}, Slug: "own", WorkspaceID: "ws-1"}, "secret")
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		return k.AddVirtualKey(tx, &VirtualKey{Credential: Credential{ID: "vk-2"}, Slug: id, WorkspaceID: "ws-2"}, NewSecret("secret"))
	})
	if v, ok := k.VirtualKey("ws-1", id); !ok || v.ID != id {
		t.Errorf("after another's slug was set to its id (error: %v), the key is found as %+v", err, v)
	}
}

func TestReplaceVirtualKeyKeepsTheSecretUnlessGivenAnother(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: "vk-1"}, Slug: "own", WorkspaceID: "ws-1", Name: "before"}, "first secret")
	created := c.Now()
	for _, step := range []struct{ secret, want, hint string }{
		{"", "first secret", "fi" + Masked + "ret"},
		{"another secret", "another secret", "an" + Masked + "ret"},
		{"short", "short", Masked},
	} {
		c.add(time.Second)
		old, _ := k.VirtualKey("ws-1", "vk-1")
		v := *old
		v.Name = "after"
		update(t, db, func(tx *storage.Txn) error { return k.ReplaceVirtualKey(tx, &v, NewSecret(step.secret)) })
		got, _ := k.VirtualKey("ws-1", "vk-1")
		secret, err := k.OpenKey(&got.Credential)
		if err != nil || secret.Reveal() != step.want || got.Hint != step.hint || got.Name != "after" {
			t.Errorf("%q: got %q, hint %q, %v", step.secret, secret.Reveal(), got.Hint, err)
		}
		if !got.CreatedAt.Equal(created) || !got.UpdatedAt.Equal(c.Now()) {
			t.Errorf("created %s, updated %s", got.CreatedAt, got.UpdatedAt)
		}
	}
	update(t, db, func(tx *storage.Txn) error { return k.RemoveVirtualKey(tx, "vk-1") })
	if _, ok := k.VirtualKey("ws-1", "own"); ok {
		t.Error("the removed key is still found")
	}
}

func TestSealedSecretDoesNotOpenUnderAnotherVirtualKey(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: "vk-1"}, Slug: "own", WorkspaceID: "ws-1"}, canary)
	v, _ := k.VirtualKey("ws-1", "vk-1")
	moved := *v
	moved.ID = "vk-2"
	if secret, err := k.OpenKey(&moved.Credential); !errors.Is(err, ErrWrongKey) || !secret.Empty() {
		t.Errorf("got %v", err)
	}
}

// Rows of earlier versions are moved by one of the processes that start; the others wait.
func TestEarlierSlugsAreMovedByOneProcess(t *testing.T) {
	store := storetest.Open(t)
	db := storage.NewDB(store)
	k := openKeyring(t, db, newClock())
	update(t, db, func(tx *storage.Txn) error {
		return k.virtualKeys.Put(tx, &VirtualKey{Credential: Credential{ID: "id"}, Slug: "slug", WorkspaceID: "ws"})
	})
	other := db.Job("virtual-key-slugs")
	if err := other.Do(t.Context(), func(context.Context, storage.Step) error { return nil }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := &overtaken{Store: store, other: cancel} // from when the job is asked for
	if _, err := OpenKeyring(ctx, storage.NewDB(waiting), NewSecret(masterKey), time.Now, rand.Reader); !errors.Is(err, context.Canceled) {
		t.Errorf("it does not wait for the other process: %v", err)
	}
	if err := other.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, ok := openKeyring(t, storage.NewDB(store), newClock()).VirtualKey("ws", "slug"); !ok || !v.OwnSlug {
		t.Errorf("not moved: %+v", v)
	}
}
