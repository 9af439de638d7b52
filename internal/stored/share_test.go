package stored

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
)

// Whatever workspaces store, remember, claim and delete, also across restarts, none has more than its share, and
// only the oldest of a workspace that had more make room.
func TestResponsesOfAWorkspaceAreBounded(t *testing.T) {
	db := open(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		now := time.Unix(1_800_000_000, 0)
		limit := total{20 * entrySize, 12}
		start := func() *Responses {
			r := NewResponses(db, func() time.Time { now = now.Add(time.Second); return now })
			r.shares.limit = limit
			return r
		}
		r := start()
		type entry struct {
			id   string
			size int64
		}
		made := map[string][]entry{} // by workspace, the oldest first, including those that made room
		check := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		n := 0
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				ws := fmt.Sprint(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "workspace"), run)
				n++
				id := fmt.Sprint("r", n)
				size := rapid.IntRange(2, 8*entrySize).Draw(rt, "size")
				object := json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
				check(r.Put(t.Context(), ws, id, &Response{Object: object}))
				made[ws] = append(made[ws], entry{id, int64(entrySize + size)})
			},
			"remember": func(rt *rapid.T) {
				ws := fmt.Sprint(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "workspace"), run)
				n++
				id := fmt.Sprint("r", n)
				if rapid.Bool().Draw(rt, "claim") {
					check(r.Claim(t.Context(), ws, "p", []string{id}))
				} else {
					check(r.Remember(t.Context(), ws, id, "p"))
				}
				made[ws] = append(made[ws], entry{id, entrySize})
			},
			"delete": func(rt *rapid.T) {
				ws := fmt.Sprint(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "workspace"), run)
				if len(made[ws]) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(made[ws])-1).Draw(rt, "entry")
				_ = r.Delete(t.Context(), ws, made[ws][i].id) // it may have made room
				made[ws] = slices.Delete(made[ws], i, i+1)
			},
			"restart": func(*rapid.T) { r = start() },
			"": func(rt *rapid.T) {
				for ws, entries := range made {
					var has total
					gone := true
					for _, e := range entries {
						slug, held, err := r.Recall(t.Context(), ws, e.id)
						check(err)
						switch kept := slug != "" || held != nil; {
						case kept:
							gone = false
							has = has.plus(total{e.size, 1})
						case !gone:
							rt.Fatalf("%s of %s made room before an older one", e.id, ws)
						}
					}
					if !has.within(limit, 100) {
						rt.Fatalf("%s has %+v", ws, has)
					}
					if newest := entries[max(0, len(entries)-1):]; len(newest) == 1 && newest[0].size < limit.bytes/2 {
						if slug, held, _ := r.Recall(t.Context(), ws, newest[0].id); slug == "" && held == nil && has.entries == 0 {
							rt.Fatalf("everything of %s made room", ws)
						}
					}
				}
			},
		})
	})
}

// Everything of a removed workspace goes, also what has no size, or whose size alone is left.
func TestAllResponsesOfARemovedWorkspaceGo(t *testing.T) {
	t.Parallel()
	db := open(t)
	r := NewResponses(db, time.Now)
	ctx := t.Context()
	for i := range 3 * removedAtOnce / 2 {
		if err := r.Remember(ctx, "ws", fmt.Sprint("r", i), "p"); err != nil {
			t.Fatal(err)
		}
	}
	err := db.Write(ctx, func(tx storage.Tx) error {
		return errors.Join(
			r.rows.Put(tx, &remembered{ID: "old", WorkspaceID: "ws", Slug: "p"}),
			r.sizes.Put(tx, &sized{WorkspaceID: "ws", ID: "gone", At: time.Now()}),
			r.rows.Put(tx, &remembered{ID: "other", WorkspaceID: "ws2", Slug: "p"}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = r.room.Wait(ctx, func(ctx context.Context, step storage.Step) error {
		for range 10 {
			if more, err := r.RemoveSome(ctx, step, "ws"); err != nil || !more {
				return err
			}
		}
		return errors.New("it does not end")
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"r0": "", "old": "", "r149": ""} {
		if slug, _, err := r.Recall(ctx, "ws", id); slug != want || err != nil {
			t.Errorf("%s: %q, %v", id, slug, err)
		}
	}
	if slug, _, err := r.Recall(ctx, "ws2", "other"); slug != "p" || err != nil {
		t.Errorf("another workspace's: %q, %v", slug, err)
	}
}
