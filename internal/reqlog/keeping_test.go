package reqlog

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

// plenty are settings with which nothing is dropped.
var plenty = Settings{
	Retention: 365 * 24 * time.Hour, Size: 1 << 40, Queue: 1 << 30,
	Bodies: true, MaxBody: 64 << 10, BodyRetention: 365 * 24 * time.Hour, BodySize: 1 << 40,
}

func with(change func(*Settings)) Settings {
	s := plenty
	change(&s)
	return s
}

// stored returns the size of the stored rows and segments including keys, in bytes.
func stored(t *testing.T, l *Log) (records, bodies int64) {
	t.Helper()
	err := l.blocks.db.View(t.Context(), func(tx storage.Tx) error {
		for _, table := range []string{"0.log", "~log"} {
			for item, err := range tx.Scan([]byte(table), nil, false) {
				if err != nil {
					return err
				}
				if size := int64(len(item.Key) + len(item.Value)); strings.HasPrefix(string(item.Key), table+"_bodies") {
					bodies += size
				} else {
					records += size
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records, bodies
}

func wait(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within twenty seconds: %s", what)
		}
	}
}

func withBodies(i, size int) *Record {
	r := record(i)
	noise := make([]byte, size) // does not compress
	_, _ = mathrand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(noise)
	r.Request = &Body{Size: int64(size), Bytes: noise}
	r.Response = &Body{Size: int64(size) * 2, Bytes: fmt.Appendf(nil, "answer %d", i)}
	return r
}

// While the writer hangs, bodies are dropped before records, and everything that is
// lost is counted.
func TestAddNeverWaitsAndCountsWhatFindsNoRoom(t *testing.T) {
	l, store := openLog(t, zap.NewNop())
	const limit = MinQueue
	l.Configure(with(func(s *Settings) { s.Queue = limit }))
	writing, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	store.hook(func() error {
		once.Do(func() { close(writing) })
		<-proceed
		return nil
	})
	fillBlock(l)
	<-writing // the writer has taken a block and hangs
	added, lost, bodies := blockRecords, 0, 0
	for ; l.Lost() == 0; added++ {
		if !l.Add(withBodies(added, 8<<10)) {
			lost++
		}
		if l.Lost() > 0 && l.LostBodies() == 0 {
			t.Fatal("a record was lost before a body")
		}
	}
	l.queue.mu.Lock()
	if held, most := l.queue.calls.bytes, limit-customShare(limit); held > most || held < most-16<<10 {
		t.Errorf("%d bytes wait, of %d", held, most)
	}
	l.queue.mu.Unlock()
	for range 10 {
		if l.Add(record(0)) {
			t.Error("there was room after all")
		}
		added, lost = added+1, lost+1
	}
	if l.Lost() != int64(lost) || l.LostBodies() < 10 {
		t.Errorf("%d records and %d bodies were lost, want %d records", l.Lost(), l.LostBodies(), lost)
	}
	close(proceed)
	l.Close()
	list, err := l.List(t.Context(), &Filter{}, Page{Limit: added})
	if err != nil || list.Total != added-lost {
		t.Fatalf("%d of %d, %v", list.Total, added, err)
	}
	for _, r := range list.Records {
		if r.Request == nil {
			bodies++
		}
	}
	if withoutAny := blockRecords; bodies-withoutAny != int(l.LostBodies())-1 { // the lost record had bodies, too
		t.Errorf("%d records are without bodies, %d were lost", bodies-withoutAny, l.LostBodies())
	}
}

func TestBodiesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	l, store := openLog(t, zap.NewNop())
	l.Configure(plenty)
	const n = 700
	for i := range n {
		r := withBodies(i, i*7%2000)
		if i%5 == 0 {
			r.Request = nil
		}
		l.Add(r)
	}
	l.Close()
	list, err := l.List(t.Context(), &Filter{}, Page{Limit: n})
	if err != nil || len(list.Records) != n {
		t.Fatal(len(list.Records), err)
	}
	for j, r := range list.Records {
		i := n - 1 - j
		if err := l.Bodies(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if (r.Request == nil) != (i%5 == 0) || r.Request != nil && (len(r.Request.Bytes) != i*7%2000 || r.Request.Size != int64(len(r.Request.Bytes))) ||
			string(r.Response.Bytes) != fmt.Sprintf("answer %d", i) || r.Response.Size != int64(i*7%2000*2) {
			t.Fatalf("record %d: %+v %+v", i, r.Request, r.Response)
		}
	}
	_ = store
}

// Records that arrive a few at a time end up in as few rows as many records at once,
// and none are lost.
func TestSmallRowsAreMerged(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, zap.NewNop())
	l.Configure(plenty)
	byHand(l)
	const n = 2000
	for i := range n {
		l.write([]*Record{withBodies(i, 200)})
	}
	mustHold(t, l, n)
	if rows := len(l.blocks.list); rows > n/blockRecords+mergeParts {
		t.Errorf("%d rows of records", rows)
	}
	if rows := len(l.bodies.list); rows > 2*mergeParts {
		t.Errorf("%d rows of bodies", rows)
	}
	for _, i := range []int{0, 1, 255, 256, 257, 1000, n - 1} {
		r, err := l.Find(t.Context(), fmt.Sprint(i), &Filter{})
		if err == nil && r != nil {
			err = l.Bodies(t.Context(), r)
		}
		if err != nil || r == nil || string(r.Response.Bytes) != fmt.Sprintf("answer %d", i) {
			t.Errorf("record %d: %+v, %v", i, r, err)
		}
	}
	records, bodies := stored(t, l)
	if knownRecords, knownBodies := l.Size(); records > knownRecords || bodies > knownBodies || records < knownRecords/2 || bodies < knownBodies/2 {
		t.Errorf("%d and %d bytes are stored, %d and %d are known", records, bodies, knownRecords, knownBodies)
	}
}

// The store stays within its sizes while records are written and read, and bodies are
// removed before their records.
func TestTheStoreStaysWithinItsSizeUnderLoad(t *testing.T) {
	l, _ := openLog(t, zap.NewNop())
	l.Configure(with(func(s *Settings) { s.Size, s.BodySize = 2*MinSize, MinSize }))
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				list, err := l.List(ctx, &Filter{}, Page{Limit: 10})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				if err == nil && len(list.Records) > 0 {
					if r, err := l.Find(ctx, list.Records[len(list.Records)-1].ID, &Filter{}); err == nil && r != nil {
						_ = l.Bodies(ctx, r)
					}
				}
			}
		})
	}
	const n = 20_000
	for i := range n {
		l.Add(withBodies(i, 300))
		if i%1000 == 0 {
			records, bodies := stored(t, l)
			if records > 2*MinSize || bodies > MinSize {
				t.Fatalf("%d and %d bytes are stored", records, bodies)
			}
		}
	}
	stop()
	readers.Wait()
	l.Close()
	records, bodies := stored(t, l)
	if records > 2*MinSize || bodies > MinSize || records < MinSize/2 || bodies < MinSize/4 {
		t.Errorf("%d and %d bytes are stored", records, bodies)
	}
	list, err := l.List(t.Context(), &Filter{}, Page{Limit: n})
	if err != nil || l.Lost() != 0 {
		t.Fatal(err, l.Lost())
	}
	for i, r := range list.Records { // the remaining records are the latest, without gaps
		if r.TraceID != fmt.Sprint(n-1-i) {
			t.Fatalf("record %d is %s", i, r.TraceID)
		}
	}
	oldest := list.Records[len(list.Records)-1]
	if err := l.Bodies(t.Context(), oldest); err != nil || oldest.Request != nil || oldest.Response != nil {
		t.Errorf("the oldest record still has bodies: %v", err)
	}
}

// Expired rows are removed in bounded transactions, bodies first, while calls are
// served.
func TestRetentionRunsWhileServing(t *testing.T) {
	var now atomic.Int64
	now.Store(epoch.UnixNano())
	clock := func() time.Time { return time.Unix(0, now.Load()) }
	l, err := Open(t.Context(), storetest.OpenDB(t), Options{Now: clock, Random: rand.Reader, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	week := with(func(s *Settings) { s.Retention, s.BodyRetention = 7*24*time.Hour, 24*time.Hour })
	l.Configure(week)
	const n = 300 * smallBlock
	add := func(i int) {
		r := withBodies(i, 10)
		r.At = clock()
		l.Add(r)
	}
	for i := range n {
		add(i)
		if i%smallBlock == 0 {
			signal(l.queue.full)
		}
	}
	wait(t, "all are written", func() bool { list, _ := l.List(t.Context(), &Filter{}, Page{}); return list.Total == n })

	now.Add(int64(25 * time.Hour))
	l.Configure(week)
	add(n)
	wait(t, "the bodies are gone", func() bool { _, bodies := l.Size(); return bodies < 2000 })
	mustTotal := func(want int) {
		t.Helper()
		wait(t, fmt.Sprintf("%d records", want), func() bool { list, _ := l.List(t.Context(), &Filter{}, Page{}); return list.Total == want })
	}
	mustTotal(n + 1)
	r, err := l.Find(t.Context(), "5", &Filter{})
	if err != nil || r == nil || r.Request == nil || l.Bodies(t.Context(), r) != nil || r.Request != nil {
		t.Errorf("%+v, %v", r, err)
	}
	now.Add(int64(6*24*time.Hour - time.Minute))
	l.Configure(week)
	mustTotal(1)
	if l.Lost() != 0 || l.LostBodies() != 0 {
		t.Errorf("%d and %d were lost", l.Lost(), l.LostBodies())
	}
}

func TestRecordsAndTheirSizesSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var size, bodySize int64
	for round := range 3 {
		b, err := badger.Open(dir, badger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), storage.NewDB(b), Options{Now: time.Now, Random: rand.Reader, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := l.Size(); a != size || b != bodySize {
			t.Errorf("round %d: %d and %d bytes, had %d and %d", round, a, b, size, bodySize)
		}
		mustHold(t, l, 400*round)
		for i := range 400 { // nothing is dropped without settings
			l.Add(withBodies(400*round+i, 50))
		}
		l.Close()
		for i := range 400 * (round + 1) {
			r, err := l.Find(t.Context(), fmt.Sprint(i), &Filter{})
			if err != nil || r == nil || l.Bodies(t.Context(), r) != nil || r.Response == nil {
				t.Fatalf("round %d: record %d is %+v, %v", round, i, r, err)
			}
		}
		size, bodySize = l.Size()
		b.Close()
	}
}

// Lists, filters and lookups take a few milliseconds, regardless of the number of
// records. GW_MILLION=1 tests with a million of them.
func TestAMillionRecords(t *testing.T) {
	n := 100_000
	if os.Getenv("GW_MILLION") != "" {
		n = 1_000_000
	}
	if testing.Short() {
		n = 20_000
	}
	l := benchLog(t)
	l.Configure(plenty)
	begun := time.Now()
	for i := range n {
		l.Add(sample(i, epoch.Add(time.Duration(i)*time.Second)))
		if i%1024 == 0 {
			waitFor(l, 16<<20)
		}
	}
	waitFor(l, 1)
	size, _ := l.Size()
	t.Logf("%d records in %d rows and %d MiB, written in %v", n, len(l.blocks.list), size>>20, time.Since(begun).Round(time.Millisecond))
	first, err := l.List(t.Context(), &Filter{}, Page{Skip: n / 2, Limit: 1})
	if err != nil || first.Total != n {
		t.Fatal(first, err)
	}
	middle := first.Records[0].ID
	for _, c := range []struct {
		name string
		f    Filter
		p    Page
		want int // number of records; -1: some
	}{
		{"the first page", Filter{}, Page{Limit: 100}, 100},
		{"a page in the middle", Filter{}, Page{Skip: n / 2, Limit: 100}, 100},
		{"from a cursor on", Filter{}, Page{Before: middle, Limit: 100}, 100},
		{"a workspace", Filter{Workspaces: []string{"workspace-1"}}, Page{Limit: 100}, 100},
		{"deep in a workspace", Filter{Workspaces: []string{"workspace-1"}}, Page{Skip: n / 8, Limit: 100}, 100},
		{"a trace", Filter{TraceIDs: []string{sample(n/3, epoch).TraceID}}, Page{Limit: 100}, 1},
		{"a user", Filter{Metadata: map[string]string{"_user": sampleUser(n)}}, Page{Limit: 10}, -1},
		{"a key and a model", Filter{KeyIDs: []string{"key-7"}, Models: []string{"model-3"}}, Page{Limit: 100}, 0},
		{"failures", Filter{Statuses: []string{"5xx"}}, Page{Limit: 100}, 100},
		{"an hour", Filter{From: epoch.Add(time.Duration(n/2) * time.Second), To: epoch.Add(time.Duration(n/2)*time.Second + time.Hour)}, Page{Limit: 100}, 100},
		{"nothing", Filter{Models: []string{"no such model"}}, Page{Limit: 100}, 0},
	} {
		const rounds = 11
		var took []time.Duration
		var list *List
		for range rounds {
			begun := time.Now()
			if list, err = l.List(t.Context(), &c.f, c.p); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(begun))
		}
		t.Logf("%-22s %8v  %d records of %d", c.name, median(took), len(list.Records), list.Total)
		if c.name != "a key and a model" && c.want >= 0 && len(list.Records) != c.want || c.want < 0 && len(list.Records) == 0 {
			t.Errorf("%s: %d records", c.name, len(list.Records))
		}
	}
	var took []time.Duration
	for range 11 {
		begun := time.Now()
		if r, err := l.Find(t.Context(), middle, &Filter{}); err != nil || r == nil {
			t.Fatal(r, err)
		}
		took = append(took, time.Since(begun))
	}
	t.Logf("%-22s %8v", "one by its id", median(took))
}

// Only one of the processes that share a store drops expired rows. If it loses the lock
// meanwhile, it drops nothing more.
func TestRetentionRunsInOneProcess(t *testing.T) {
	l, store := openLog(t, zap.NewNop())
	l = byHand(l)
	other := storage.NewDB(struct{ storage.Store }{store}).Job("request-log")
	for i := range 3 {
		l.write([]*Record{record(i)})
	}
	old := with(func(s *Settings) { s.Retention = time.Hour })
	l.settings.Store(&old)
	now := time.Now().Add(2 * time.Hour)
	l.Now = func() time.Time { return now }

	if err := other.Do(t.Context(), func(context.Context, storage.Step) error { return nil }); err != nil {
		t.Fatal(err)
	}
	l.trim()
	mustHold(t, l, 3)
	if err := other.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.trimming = storage.NewJob(lost{storage.NewLocks(store, time.Now)}, "another job", "owner", time.Now)
	l.trim()
	mustHold(t, l, 3)
	l.trimming = storage.NewDB(store).Job("request-log")
	l.trim()
	mustHold(t, l, 0)
}

// lost is a locker whose locks are lost while they are held.
type lost struct{ storage.Locker }

func (lost) Fence(storage.Tx, storage.Lease) error { return storage.ErrLeaseLost }
