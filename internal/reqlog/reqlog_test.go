package reqlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

// A hookedStore runs a hook before each write, which may wait or fail.
type hookedStore struct {
	storage.Store
	before atomic.Pointer[func() error]
}

func (s *hookedStore) Write(ctx context.Context, fn func(storage.Tx) error) error {
	if before := s.before.Load(); before != nil {
		if err := (*before)(); err != nil {
			return err
		}
	}
	return s.Store.Write(ctx, fn)
}

func (s *hookedStore) hook(before func() error) { s.before.Store(&before) }

func openLog(t *testing.T, logger *zap.Logger) (*Log, *hookedStore) {
	t.Helper()
	store := &hookedStore{Store: storetest.Open(t)}
	l, err := Open(t.Context(), storage.NewDB(store), Options{Now: time.Now, Random: rand.Reader, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, store
}

// byHand stops the log's own writer, so that a test can write at a time of its choice.
func byHand(l *Log) *Log {
	l.Close()
	return l
}

func record(i int) *Record { return &Record{TraceID: fmt.Sprint(i), At: time.Now()} }

// fillBlock adds a full block of records, which the writer takes without waiting for
// more.
func fillBlock(l *Log) {
	for i := range blockRecords {
		l.Add(record(i))
	}
}

func mustHold(t *testing.T, l *Log, want int) {
	t.Helper()
	all, err := l.Records(t.Context(), want+1)
	if err != nil || len(all) != want {
		t.Errorf("the log holds %d records, want %d; %v", len(all), want, err)
	}
}

func TestCloseWritesEverythingThatWasAdded(t *testing.T) {
	l, _ := openLog(t, zap.NewNop())
	const n = 3*blockRecords + 7
	for i := range n {
		l.Add(record(i))
	}
	l.Close()
	mustHold(t, l, n)
	if l.Lost() != 0 {
		t.Errorf("%d were lost", l.Lost())
	}
}

func TestWhatWasAddedIsFoundAtOnce(t *testing.T) {
	l, store := openLog(t, zap.NewNop())
	var writes atomic.Int64
	store.hook(func() error { writes.Add(1); return nil })
	custom := 0
	for i := range 50 {
		r := record(i)
		l.Add(r)
		for range 7 * i { // up to more than a block
			c := record(custom)
			c.TraceID, c.Custom = "custom", true
			if !l.Add(c) {
				t.Fatal("there is no room")
			}
			custom++
		}
		list, err := l.List(t.Context(), &Filter{}, Page{Limit: 1})
		if err != nil || list.Total != i+1+custom {
			t.Fatalf("%d of %d, %v", list.Total, i+1+custom, err)
		}
		if found, err := l.Find(t.Context(), fmt.Sprint(i), &Filter{}); err != nil || found == nil {
			t.Fatalf("record %d is not found, %v", i, err)
		}
	}
	before := writes.Load()
	if _, err := l.List(t.Context(), &Filter{}, Page{Limit: 1}); err != nil || writes.Load() != before {
		t.Errorf("a list wrote something although nothing waited, %v", err)
	}
}

// A reader does not wait for ever for a store that hangs, nor longer than it wants.
func TestReadersDoNotWaitForAStoreThatHangs(t *testing.T) {
	l, store := openLog(t, zap.NewNop())
	writing, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	store.hook(func() error {
		once.Do(func() { close(writing) })
		<-proceed
		return nil
	})
	defer close(proceed)
	fillBlock(l)
	<-writing
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begun := time.Now()
	if l.catchUp(ctx); time.Since(begun) >= readAfter {
		t.Error("the context was not regarded")
	}
	for range 2 {
		l.catchUp(t.Context())
	}
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	if l.queue.read == nil {
		t.Error("nobody waits for the writer")
	}
}

func TestRecordComesBackWhole(t *testing.T) {
	l, _ := openLog(t, zap.NewNop())
	want := Record{
		TraceID: "trace", At: time.Date(2026, 7, 1, 12, 0, 0, 5000, time.UTC), DurationMS: 12.345, FirstByteMS: 1.5, OrganisationID: "org", WorkspaceID: "ws", KeyID: "key",
		Endpoint: "chatComplete", Provider: "openai", VirtualKey: "own", Model: "m", Stream: true, Status: 200, Attempts: 1, UsageKnown: true, PromptTokens: 1 << 40, CompletionTokens: 7, Failure: "why",
	}
	added := want
	l.Add(&added)
	l.Close()
	all, err := l.Records(t.Context(), 1)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %d records, %v", len(all), err)
	}
	got := *all[0]
	if uuid.Validate(got.ID) != nil {
		t.Errorf("the id is %q", got.ID)
	}
	if got.ID = ""; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestRecordsListsTheNewestFirstUpToTheLimit(t *testing.T) {
	l, _ := openLog(t, zap.NewNop())
	const n = 2*blockRecords + 88
	for i := range n {
		l.Add(record(i))
	}
	l.Close()
	for _, c := range []struct{ limit, want int }{{1, 1}, {blockRecords - 1, blockRecords - 1}, {blockRecords, blockRecords}, {blockRecords + 1, blockRecords + 1}, {n, n}, {n + 1, n}, {0, 0}} {
		all, err := l.Records(t.Context(), c.limit)
		if err != nil || len(all) != c.want {
			t.Errorf("limit %d: got %d records, %v", c.limit, len(all), err)
		}
		for i, r := range all {
			if r.TraceID != fmt.Sprint(n-1-i) || i > 0 && r.ID >= all[i-1].ID {
				t.Fatalf("limit %d: record %d is out of order", c.limit, i)
			}
		}
	}
}

func TestRecordsThatCannotBeWrittenAreLostAndLogged(t *testing.T) {
	core, logs := observer.New(zapcore.ErrorLevel)
	l, store := openLog(t, zap.New(core))
	full := errors.New("disk full")
	failed := make(chan struct{}, 1)
	store.hook(func() error {
		select {
		case failed <- struct{}{}:
		default:
		}
		return full
	})
	fillBlock(l)
	<-failed
	fillBlock(l)
	l.Add(record(0))
	l.Close()
	const n = 2*blockRecords + 1
	if l.Lost() != n {
		t.Errorf("%d were lost, want %d", l.Lost(), n)
	}
	mustHold(t, l, 0)
	var logged int64
	for _, entry := range logs.All() {
		fields := entry.ContextMap()
		logged += fields["lost"].(int64)
		if fields["error"] != full.Error() {
			t.Errorf("logged without the cause: %v", fields)
		}
	}
	if logged != n {
		t.Errorf("the log speaks of %d lost records", logged)
	}
}

func TestTheWriterGoesOnAfterAFailure(t *testing.T) {
	l, store := openLog(t, zap.NewNop())
	failed := make(chan struct{})
	var once sync.Once
	store.hook(func() (err error) {
		once.Do(func() { err = errors.New("for a moment"); close(failed) })
		return err
	})
	fillBlock(l)
	<-failed
	l.Add(record(0))
	l.Close()
	mustHold(t, l, 1)
	if l.Lost() != blockRecords {
		t.Errorf("%d were lost", l.Lost())
	}
}

func TestARecordAddedAfterCloseIsLost(t *testing.T) {
	l, _ := openLog(t, zap.NewNop())
	l.Close()
	l.Add(record(1))
	l.Close() // a second Close has no effect
	if l.Lost() != 1 {
		t.Errorf("%d were lost", l.Lost())
	}
	mustHold(t, l, 0)
}

func TestAddAndCloseTogetherLoseNothingUncounted(t *testing.T) {
	l, _ := openLog(t, zap.NewNop())
	const adders, each = 8, 200
	var all sync.WaitGroup
	for a := range adders {
		all.Go(func() {
			for i := range each {
				l.Add(record(a*each + i))
				if a == 0 && i == each/2 {
					l.Close()
				}
			}
		})
	}
	all.Wait()
	l.Close()
	mustHold(t, l, adders*each-int(l.Lost()))
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	db := storetest.OpenDB(t)
	ignored := goleak.IgnoreCurrent()
	l, err := Open(t.Context(), db, Options{Now: time.Now, Random: rand.Reader, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	l.Add(record(1))
	l.Close()
	goleak.VerifyNone(t, ignored)
}
