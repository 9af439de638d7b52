package storage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
)

// everything returns what a DB has, as it is read in every way.
func everything(t *rapid.T, ctx context.Context, db *storage.DB, prefix, start string, reverse bool) (all string) {
	err := db.View(ctx, func(tx storage.Tx) error {
		var from []byte
		if start != "" {
			from = []byte(start)
		}
		for item, err := range tx.Scan([]byte(prefix), from, reverse) {
			if err != nil {
				return err
			}
			all += fmt.Sprintf("%s=%s ", item.Key, item.Value)
		}
		for _, key := range []string{"a", "ab", "b", "c"} {
			value, err := tx.Get([]byte(key))
			all += fmt.Sprintf("%s %v ", value, errors.Is(err, storage.ErrNotFound))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What is written in a rehearsal is read in it as if it were written, and afterwards nothing of it is there.
func TestARehearsalReadsWhatItWouldWrite(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	key := rapid.SampledFrom([]string{"a", "ab", "abc", "b", "c"})
	store, other := open(t), open(t)
	rehearsed, real := storage.NewDB(store), storage.NewDB(other)
	rapid.Check(t, func(t *rapid.T) {
		background := context.Background()
		// step draws an update, and returns what does it.
		step := func() func(ctx context.Context, db *storage.DB) {
			type op struct{ key, value string }
			var ops []op
			for range rapid.IntRange(1, 4).Draw(t, "operations") {
				ops = append(ops, op{key.Draw(t, "key"), rapid.SampledFrom([]string{"", "1", "2", "gone"}).Draw(t, "value")})
			}
			fails, durable := rapid.IntRange(0, 3).Draw(t, "fails") == 0, rapid.Bool().Draw(t, "durable")
			return func(ctx context.Context, db *storage.DB) {
				do := func(tx storage.Tx) error {
					for _, o := range ops {
						err := tx.Set([]byte(o.key), []byte(o.value))
						if o.value == "gone" {
							err = tx.Delete([]byte(o.key))
						}
						if err != nil {
							return err
						}
					}
					if fails {
						return failed
					}
					return nil
				}
				var err error
				if durable {
					err = db.Update(ctx, func(tx *storage.Txn) error {
						tx.OnCommit(func() {
							if db == rehearsed && ctx != background {
								t.Error("what follows a commit was done")
							}
						})
						return do(tx)
					})
				} else {
					err = db.Write(ctx, do)
				}
				if fails != errors.Is(err, failed) || !fails && err != nil {
					t.Fatal(err)
				}
			}
		}
		before := step()
		for _, db := range []*storage.DB{rehearsed, real} {
			before(background, db)
		}
		was := everything(t, background, rehearsed, "", "", false)
		err := rehearsed.Rehearse(background, func(ctx context.Context) error {
			for range rapid.IntRange(1, 5).Draw(t, "steps") {
				do := step()
				do(ctx, rehearsed)
				do(background, real)
				prefix, start, reverse := rapid.SampledFrom([]string{"", "a", "ab"}).Draw(t, "prefix"), rapid.SampledFrom([]string{"", "a", "ab", "abc"}).Draw(t, "start"), rapid.Bool().Draw(t, "reverse")
				if start < prefix {
					start = ""
				}
				if got, want := everything(t, ctx, rehearsed, prefix, start, reverse), everything(t, background, real, prefix, start, reverse); got != want {
					t.Fatalf("%q from %q: %s, want %s", prefix, start, got, want)
				}
			}
			return failed
		})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
		if got := everything(t, background, rehearsed, "", "", false); got != was {
			t.Fatalf("afterwards %s, before %s", got, was)
		}
		// Both begin the next time with the same.
		for _, db := range []*storage.DB{rehearsed, real} {
			err := db.Update(background, func(tx *storage.Txn) error {
				for _, key := range []string{"a", "ab", "abc", "b", "c"} {
					if err := tx.Delete([]byte(key)); err != nil {
						return err
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
