package reqlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
)

// noisy returns a record of about 16 KB that does not compress, with bodies of the same
// size.
func noisy(i int, own bool) *Record {
	r := withBodies(i, 16<<10)
	r.Custom, r.Metadata = own, json.RawMessage(fmt.Sprintf(`{"x":"%x"}`, r.Request.Bytes[:15<<9]))
	return r
}

// Custom records do not affect which records of calls are kept, and the store stays
// within its size.
func TestOwnRecordsCostNoCallItsRecord(t *testing.T) {
	t.Parallel()
	const size = MinSize / 2
	rapid.Check(t, func(rt *rapid.T) {
		opened := func(size int64) *Log {
			l, err := Open(t.Context(), storage.NewDB(memory{}), Options{Now: time.Now, Random: rand.Reader, Logger: zap.NewNop()})
			if err != nil {
				rt.Fatal(err)
			}
			l.Configure(with(func(s *Settings) { s.Size, s.BodySize = size, size }))
			return byHand(l)
		}
		// Ids are random, so the size of a row varies by a few bytes.
		both, alone := opened(size), opened(size-size/64)
		n := 0
		for range rapid.IntRange(1, 10).Draw(rt, "batches") {
			own := rapid.Bool().Draw(rt, "own")
			var records, again []*Record
			for range rapid.IntRange(1, 12).Draw(rt, "records") {
				records, again = append(records, noisy(n, own)), append(again, noisy(n, own))
				n++
			}
			both.write(records)
			if !own {
				alone.write(again)
			}
			if blocks, bodies := both.Size(); blocks > size || bodies > size {
				rt.Fatalf("%d and %d bytes are kept", blocks, bodies)
			}
		}
		kept := map[string]bool{} // whether the bodies are kept, too
		all, err := both.Records(t.Context(), n)
		if err != nil {
			rt.Fatal(err)
		}
		for _, r := range all {
			if err := both.Bodies(t.Context(), r); err != nil {
				rt.Fatal(err)
			}
			if !r.Custom {
				kept[r.TraceID] = r.Request != nil
			}
		}
		want, err := alone.Records(t.Context(), n)
		if err != nil {
			rt.Fatal(err)
		}
		for _, r := range want {
			if err := alone.Bodies(t.Context(), r); err != nil {
				rt.Fatal(err)
			}
			if bodies, ok := kept[r.TraceID]; !ok || r.Request != nil && !bodies {
				rt.Fatalf("the record %s of a call is lost (found: %v) with own ones in between", r.TraceID, ok)
			}
		}
	})
}

// memory is a store for a single goroutine, whose transactions do not fail.
type memory map[string][]byte

func (m memory) View(_ context.Context, fn func(storage.Tx) error) error   { return fn(m) }
func (m memory) Update(_ context.Context, fn func(storage.Tx) error) error { return fn(m) }
func (m memory) Write(_ context.Context, fn func(storage.Tx) error) error  { return fn(m) }
func (m memory) Close() error                                              { return nil }

func (m memory) Get(key []byte) ([]byte, error) {
	value, ok := m[string(key)]
	if !ok {
		return nil, storage.ErrNotFound
	}
	return bytes.Clone(value), nil
}

func (m memory) Set(key, value []byte) error {
	m[string(key)] = bytes.Clone(value)
	return nil
}

func (m memory) SetTTL(key, value []byte, _ time.Duration) error { return m.Set(key, value) }

func (m memory) Delete(key []byte) error {
	delete(m, string(key))
	return nil
}

func (m memory) Scan(prefix, start []byte, reverse bool) iter.Seq2[storage.Item, error] {
	if start != nil {
		panic("not needed here")
	}
	return func(yield func(storage.Item, error) bool) {
		keys := slices.Sorted(maps.Keys(m))
		if reverse {
			slices.Reverse(keys)
		}
		for _, key := range keys {
			if strings.HasPrefix(key, string(prefix)) && !yield(storage.Item{Key: []byte(key), Value: bytes.Clone(m[key])}, nil) {
				return
			}
		}
	}
}

// While the writer hangs, custom records are dropped and calls are queued. The records
// of calls are written before most of the custom ones.
func TestAFloodOfOwnRecordsLeavesTheQueueToCalls(t *testing.T) {
	l, store := openLog(t, zap.NewNop())
	l.Configure(with(func(s *Settings) { s.Queue = 4 * MinQueue }))
	writing, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	store.hook(func() error {
		once.Do(func() { close(writing) })
		<-proceed
		return nil
	})
	fillBlock(l)
	<-writing
	flood := 0
	for l.Add(&Record{TraceID: "own", At: time.Now(), Custom: true, Request: &Body{Bytes: make([]byte, 100)}}) {
		flood++
	}
	if flood < 100 || flood > 4*MinQueue/8/baseSize {
		t.Errorf("%d custom records found room", flood)
	}
	for i := range blockRecords {
		if !l.Add(withBodies(i, 1<<10)) {
			t.Fatal("a call's record finds no room behind own ones")
		}
	}
	close(proceed)
	l.Close()
	if l.Lost() != 0 {
		t.Errorf("%d records are said to be lost: callers were told", l.Lost())
	}
	list, err := l.List(t.Context(), &Filter{}, Page{Limit: flood + 3*blockRecords})
	if err != nil || len(list.Records) != flood+2*blockRecords {
		t.Fatalf("%d records, want %d; %v", len(list.Records), flood+2*blockRecords, err)
	}
	later := 0 // custom records that were written after those of calls
	for _, r := range list.Records {
		if !r.Custom {
			break
		}
		later++
	}
	if later < flood-blockRecords {
		t.Errorf("%d of %d custom records were written after those of calls", later, flood)
	}
}
