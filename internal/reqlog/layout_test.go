package reqlog

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

// asBefore makes an archive store its rows as earlier versions did.
func asBefore(s *archive) { s.tables = s.earlier }

// Records of a store that an earlier version wrote are listed together with new ones,
// merged with them and dropped.
func TestRowsOfEarlierVersionsAreRead(t *testing.T) {
	b, err := badger.Open(t.TempDir(), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	db := storage.NewDB(b)
	open := func() *Log {
		l, err := Open(t.Context(), db, Options{Now: time.Now, Random: rand.Reader, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		l.Configure(plenty)
		return byHand(l)
	}
	old := open()
	for _, s := range old.all() {
		asBefore(s)
	}
	for i := range 10 {
		old.write([]*Record{withBodies(i, 200)})
	}

	const all = mergeParts + 10
	l := open()
	for i := 10; i < 20; i++ {
		l.write([]*Record{withBodies(i, 200)})
	}
	check := func(n int) {
		t.Helper()
		mustHold(t, l, n)
		for i := range n {
			r, err := l.Find(t.Context(), fmt.Sprint(i), &Filter{})
			if err == nil && r != nil {
				err = l.Bodies(t.Context(), r)
			}
			if err != nil || r == nil || string(r.Response.Bytes) != fmt.Sprintf("answer %d", i) {
				t.Fatalf("record %d: %+v, %v", i, r, err)
			}
		}
	}
	check(20)
	l = open()
	check(20)
	for i := 20; i < all; i++ {
		l.write([]*Record{withBodies(i, 200)})
	}
	if rows := len(l.blocks.list); rows > mergeParts {
		t.Errorf("%d rows, not merged", rows)
	}
	check(all)
	l = open()
	check(all)
	for _, s := range l.all() {
		for s.surplus(time.Now().Add(time.Hour), 0) {
			if err := s.drop(t.Context(), time.Now().Add(time.Hour), 0, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustHold(t, open(), 0)
}

func TestDescendingIDsAreInTheOppositeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		if strings.Compare(a, b) != strings.Compare(descending(b), descending(a)) || descending(descending(a)) != a {
			t.Fatalf("%s and %s become %s and %s", a, b, descending(a), descending(b))
		}
	})
}

// While counters before and after the rows change all the time, what the store writes in
// its background grows with what is new and not with what is there.
func TestCompactionsDoNotRewriteOldRows(t *testing.T) {
	const rows, size, table = 1000, 48 << 10, 512 << 10
	written := func(layout func(*archive)) (tables int) {
		dir := t.TempDir()
		b, err := badger.Open(dir, badger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		db := storage.NewDB(b)
		s := newArchive(db, "logs", 0, 0, nil)
		layout(s)
		counters := []*storage.Blobs{storage.NewBlobs("ledger"), storage.NewBlobs("policy")}
		ids := ids{now: time.Now, random: rand.Reader}
		row := make([]byte, size)
		for i := range rows {
			_, _ = rand.Read(row)
			id := ids.next(1)[0]
			if err := s.put(&segment{ID: id, Last: id, Count: 1}, row); err != nil {
				t.Fatal(err)
			}
			if err := db.Write(t.Context(), func(tx storage.Tx) error {
				for _, c := range counters {
					if err := c.Put(tx, strconv.Itoa(i%100), row[:100]); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
		if err != nil || len(files) == 0 {
			t.Fatal("no tables", err)
		}
		newest, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(slices.Max(files)), ".sst"))
		if err != nil {
			t.Fatal(err)
		}
		return newest
	}
	if os.Getenv("GW_EARLIER") != "" {
		t.Logf("earlier: %d tables of %d of data", written(asBefore), rows*size/table)
	}
	// Rows are written into a table of the first level, which is four times as large, and
	// then once into each of two levels.
	tables, data := written(func(*archive) {}), rows*size/table
	t.Logf("%d tables of %d of data", tables, data)
	if tables > 3*data {
		t.Errorf("%d tables were written of %d of data", tables, data)
	}
}
