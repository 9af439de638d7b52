package stored

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

func open(t *testing.T) *storage.DB {
	t.Helper()
	store := storetest.Open(t)
	return storage.NewDB(store)
}

func owners(t *testing.T, db *storage.DB) *Owners {
	t.Helper()
	o, err := OpenOwners(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// files are objects that the list of files shows.
func files(ids ...string) (objects []Listed) {
	for _, id := range ids {
		objects = append(objects, Listed{ID: id, List: "files", Created: 1})
	}
	return objects
}

type noted struct {
	workspace string
	at        int
}

// Whatever workspaces make, delete and are shown, an object is that of the first who was
// given it, until it is deleted or the oldest that a full table has.
func TestAnObjectHasOneWorkspace(t *testing.T) {
	db := open(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		o := owners(t, db)
		o.limit = 5
		model := make(map[string]noted) // by provider and id
		slug := func() string { return fmt.Sprint(rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "provider"), run) }
		workspace := func() string {
			return fmt.Sprint(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "workspace"), run)
		}
		some := rapid.SliceOfNDistinct(rapid.IntRange(0, 11), 1, 3, rapid.ID[int])
		for step := range 25 {
			w, p := workspace(), slug()
			var ids []string
			for _, n := range some.Draw(rt, "ids") {
				ids = append(ids, fmt.Sprint("o", n))
			}
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0, 1:
				lenient := rapid.Bool().Draw(rt, "lenient")
				err := o.Claim(t.Context(), w, p, files(ids...), time.Unix(int64(step), 0), lenient)
				fresh, others := 0, false
				for _, id := range ids {
					switch have, ok := model[p+"/"+id]; {
					case !ok:
						fresh++
					case have.workspace != w:
						others = true
					}
				}
				if others && !lenient {
					// Room may have been made before another's was found.
					if !errors.Is(err, ErrOthersObject) {
						rt.Fatalf("got %v for another's object", err)
					}
					break
				}
				if err != nil {
					rt.Fatal(err)
				}
				var mine []string
				for key, have := range model {
					if have.workspace == w {
						mine = append(mine, key)
					}
				}
				if len(mine)+fresh > o.limit {
					slices.SortFunc(mine, func(a, b string) int { return cmp.Or(model[a].at-model[b].at, cmp.Compare(a, b)) })
					for _, key := range mine[:min(len(ids), len(mine))] {
						delete(model, key)
					}
				}
				for _, id := range ids {
					if _, ok := model[p+"/"+id]; !ok {
						model[p+"/"+id] = noted{w, step}
					}
				}
			case 2:
				if err := o.Release(t.Context(), w, p, ids[0]); err != nil {
					rt.Fatal(err)
				}
				if model[p+"/"+ids[0]].workspace == w {
					delete(model, p+"/"+ids[0])
				}
			}
			var shown, mine []string
			listed, more, err := o.Next(t.Context(), w, p, Stretch{List: "files"}, 100, func(*Listed) bool { return true })
			if err != nil || more {
				rt.Fatal(more, err)
			}
			for _, l := range listed {
				shown = append(shown, l.ID)
			}
			for key, have := range model {
				if id, ok := strings.CutPrefix(key, p+"/"); ok && have.workspace == w {
					mine = append(mine, id)
				}
			}
			slices.SortFunc(mine, func(a, b string) int { return cmp.Or(model[p+"/"+a].at-model[p+"/"+b].at, cmp.Compare(a, b)) })
			if !slices.Equal(shown, mine) {
				rt.Fatalf("the list of %s has %v, want %v", w, shown, mine)
			}
			owns, err := o.Owns(t.Context(), w, p, ids)
			if err != nil {
				rt.Fatal(err)
			}
			for i, id := range ids {
				if want := model[p+"/"+id].workspace == w; owns[i] != want {
					rt.Fatalf("%s has %s of %s: %v, want %v", w, id, p, owns[i], want)
				}
			}
		}
	})
}

// What a list names may be more than one transaction takes.
func TestManyObjectsAreClaimed(t *testing.T) {
	db := open(t)
	ids := make([]string, 4096)
	for i := range ids {
		ids[i] = "file-" + strconv.Itoa(i)
	}
	if err := owners(t, db).Claim(t.Context(), "ws", "openai", files(ids...), time.Now(), true); err != nil {
		t.Error(err)
	}
	if err := NewResponses(db, time.Now).Claim(t.Context(), "ws", "openai", ids); err != nil {
		t.Error(err)
	}
}

func TestAFineTunedModelIsTheWorkspacesWhoseJobMadeIt(t *testing.T) {
	db := open(t)
	o := owners(t, db)
	claim := func(workspace string, models ...string) {
		t.Helper()
		if err := o.ClaimModels(t.Context(), workspace, "p", models, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	claim("a", "ft:m:1", "tuned")
	claim("b", "ft:m:2:ckpt-step-7", "tuned")
	for _, o := range []*Owners{o, owners(t, db)} { // as after a restart
		for model, want := range map[string]string{"ft:m:1": "a", "ft:m:1:ckpt-step-9": "a", "ft:m:2": "b", "tuned": "a", "other": ""} {
			if got := o.ModelOwner("p", model); got != want {
				t.Errorf("%s is %q's, want %q's", model, got, want)
			}
		}
		if o.ModelOwner("q", "tuned") != "" {
			t.Error("a model of another provider")
		}
		if owns, err := o.Owns(t.Context(), "b", "p", []string{"tuned", "ft:m:2"}); err != nil || owns[0] || !owns[1] {
			t.Errorf("b owns %v, %v", owns, err)
		}
	}
	if err := o.Release(t.Context(), "b", "p", "tuned"); err != nil || o.ModelOwner("p", "tuned") != "a" {
		t.Errorf("another workspace released it: %v", err)
	}
	if err := o.Release(t.Context(), "a", "p", "tuned"); err != nil || o.ModelOwner("p", "tuned") != "" {
		t.Errorf("what was deleted is still somebody's: %v", err)
	}
	many := make([]string, MaxModels)
	for i := range many {
		many[i] = "m" + strconv.Itoa(i)
	}
	claim("a", many...)
	if o.ModelOwner("p", "ft:m:1") != "" || o.ModelOwner("p", "m0") != "a" || o.ModelOwner("p", "ft:m:2") != "b" {
		t.Error("the oldest did not make room")
	}
}

// While another process makes room, a claim waits for that, and forgets nothing of its own.
func TestRoomIsMadeByOneProcess(t *testing.T) {
	db := open(t)
	one, other := owners(t, db), owners(t, storage.NewDB(secondStore{db}))
	one.limit, other.limit = 4, 4
	claim := func(o *Owners, ids ...string) error {
		return o.Claim(t.Context(), "ws", "p", files(ids...), time.Unix(int64(len(ids[0])), 0), false)
	}
	if err := claim(one, "a", "bb", "ccc", "dddd"); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan error, 1)
	err := other.room.Do(t.Context(), func(ctx context.Context, step storage.Step) error {
		go func() { claimed <- claim(one, "fffff") }()
		waited, cancel := context.WithCancel(ctx)
		cancel()
		if err := one.room.Wait(waited, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("another process makes room at the same time: %v", err)
		}
		return other.makeRoom(ctx, step, "ws", 1)
	})
	if err := errors.Join(err, other.room.Release(t.Context()), <-claimed); err != nil {
		t.Fatal(err)
	}
	owns, err := one.Owns(t.Context(), "ws", "p", []string{"a", "bb", "ccc", "dddd", "fffff"})
	if want := []bool{false, true, true, true, true}; err != nil || !slices.Equal(owns, want) {
		t.Errorf("left are %v, want %v; %v", owns, want, err)
	}
}

// secondStore is the store of a DB, for another DB.
type secondStore struct{ *storage.DB }

func (b secondStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return b.Write(ctx, fn)
}
