package external

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"pgregory.net/rapid"
)

func anySet(*jose.JSONWebKeySet) bool { return true }

var errNoKeys = errors.New("no keys")

// Many calls that need a set ask for it once, and a request that failed is not made again at once.
func TestKeySetsAreAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keptKeys{of: make(map[keySource]*keptSet)}
		var asks atomic.Int64
		var failing atomic.Bool
		failing.Store(true)
		get := func(ctx context.Context, workspace string) (*jose.JSONWebKeySet, error) {
			return k.get(ctx, keySource{workspace, "u"}, time.Hour, time.Now, anySet, func(ctx context.Context) (*jose.JSONWebKeySet, error) {
				asks.Add(1)
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				if failing.Load() {
					return nil, errNoKeys
				}
				return new(jose.JSONWebKeySet), nil
			})
		}
		all := func(workspace string, want error) {
			t.Helper()
			var calls sync.WaitGroup
			for range 50 {
				calls.Go(func() {
					if set, err := get(t.Context(), workspace); !errors.Is(err, want) || (set == nil) != (want != nil) {
						t.Errorf("%v, %v; want %v", set, err, want)
					}
				})
			}
			calls.Wait()
		}
		expect := func(n int64) {
			t.Helper()
			if got := asks.Swap(0); got != n {
				t.Errorf("%d requests, want %d", got, n)
			}
		}
		all("a", errNoKeys)
		all("a", errNoKeys)
		expect(1)
		all("b", errNoKeys) // another workspace is not told what the first found
		expect(1)
		failing.Store(false)
		all("a", errNoKeys) // at once, and still an error
		expect(0)
		time.Sleep(keysInterval)

		// The call that asks may end before the answer: the next one asks.
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error)
		go func() { _, err := get(ctx, "a"); first <- err }()
		synctest.Wait()
		second := make(chan error)
		go func() { _, err := get(t.Context(), "a"); second <- err }()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-second; err != nil {
			t.Error(err)
		}
		expect(2)
		all("a", nil)
		expect(0)

		// A set that cannot be fetched again is used until it is too old.
		failing.Store(true)
		time.Sleep(time.Hour)
		all("a", errNoKeys)
		expect(1)
	})
}

// Whatever is asked for, the sources are bounded, of each workspace and of all.
func TestKeySourcesAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := &keptKeys{of: make(map[keySource]*keptSet)}
		first := k.source(keySource{"quiet", "u"})
		first.set = new(jose.JSONWebKeySet)
		for n := range rapid.IntRange(0, 2000).Draw(rt, "sources") {
			workspace := fmt.Sprint(rapid.IntRange(0, 12).Draw(rt, "workspace"))
			k.source(keySource{workspace, fmt.Sprint(n)})
		}
		count := make(map[string]int)
		for from := range k.of {
			if count[from.workspace]++; count[from.workspace] > maxKeySetsOfWorkspace {
				rt.Fatalf("%s has %d", from.workspace, count[from.workspace])
			}
		}
		if len(k.of) > maxKeySets {
			rt.Fatalf("%d sources", len(k.of))
		}
		if k.source(keySource{"quiet", "u"}) != first {
			rt.Fatal("others have displaced the source of a workspace that has one")
		}
	})
}
