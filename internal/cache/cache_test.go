package cache

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

// A clock is set by the test. The store has its own clock, which only removes what
// expired long ago.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func open(t *testing.T, dir string, now func() time.Time) (*Cache, func()) {
	t.Helper()
	store, err := badger.Open(dir, badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db := storage.NewDB(store)
	c, err := Open(context.Background(), db, now)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func key(i int) (k Key) {
	copy(k[:], fmt.Sprint("key", i))
	return k
}

func put(t *testing.T, c *Cache, i int, body string, maxAge time.Duration) {
	t.Helper()
	if err := c.Put(t.Context(), key(i), &Entry{At: c.now(), Type: "application/json", Body: []byte(body)}, nil, maxAge); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, c *Cache, i int, maxAge time.Duration) string {
	t.Helper()
	e, err := c.Get(t.Context(), key(i), maxAge)
	if err != nil {
		t.Fatal(err)
	}
	if e == nil {
		return ""
	}
	return string(e.Body)
}

func TestAnswersAreKeptForTheirTime(t *testing.T) {
	k := &clock{time.Now()}
	dir := t.TempDir()
	c, closeIt := open(t, dir, k.now)
	put(t, c, 1, "{\"a\":\n1}", time.Hour)
	put(t, c, 2, "{}", 2*time.Hour)
	if got := get(t, c, 1, time.Hour); got != "{\"a\":\n1}" {
		t.Errorf("got %q", got)
	}
	if got := get(t, c, 3, time.Hour); got != "" {
		t.Errorf("what was never kept is %q", got)
	}
	k.t = k.t.Add(30 * time.Minute)
	if got := get(t, c, 1, 10*time.Minute); got != "" {
		t.Errorf("too old for who asks, and got %q", got)
	}
	closeIt()
	c, closeIt = open(t, dir, k.now) // a restart loses nothing
	defer closeIt()
	if got := get(t, c, 1, time.Hour); got != "{\"a\":\n1}" {
		t.Errorf("after a restart: %q", got)
	}
	k.t = k.t.Add(31 * time.Minute)
	if got := get(t, c, 1, 90*24*time.Hour); got != "" {
		t.Errorf("over, and got %q", got)
	}
	if got := get(t, c, 2, 90*24*time.Hour); got != "{}" {
		t.Errorf("the other: %q", got)
	}
}

func TestTheOldestMakeRoom(t *testing.T) {
	k := &clock{time.Now()}
	dir := t.TempDir()
	c, closeIt := open(t, dir, k.now)
	big := make([]byte, 10_000)
	for i := range big {
		big[i] = 'x'
	}
	c.Resize(55_000)
	for i := range 20 {
		k.t = k.t.Add(time.Second)
		put(t, c, i, string(big), time.Hour)
		put(t, c, i, string(big), time.Hour) // replacing an entry does not count its size twice
		if used := c.Used(); used > 55_000 {
			t.Fatalf("%d bytes after %d answers", used, i+1)
		}
	}
	kept := 0
	for i := range 20 {
		if get(t, c, i, time.Hour) != "" {
			kept++
			if i < 15 {
				t.Errorf("answer %d is still there", i)
			}
		}
	}
	if kept != 5 {
		t.Errorf("%d answers are kept", kept)
	}
	used := c.Used()
	closeIt()
	c, closeIt = open(t, dir, k.now)
	defer closeIt()
	if c.Used() != used {
		t.Errorf("%d bytes, and after a restart %d", used, c.Used())
	}
	put(t, c, 99, string(make([]byte, MaxEntry+1)), time.Hour)
	if get(t, c, 99, time.Hour) != "" {
		t.Error("an answer that is too large was kept")
	}
}

func TestAFlightEndsOnceForAll(t *testing.T) {
	k := &clock{time.Now()}
	c, closeIt := open(t, t.TempDir(), k.now)
	defer closeIt()
	f, leads := c.Join(key(1))
	if g, also := c.Join(key(1)); !leads || also || g != f {
		t.Fatal("two lead")
	}
	if _, leads := c.Join(key(2)); !leads {
		t.Error("another key waits")
	}
	entry := new(Entry)
	f.Complete(entry)
	f.Abandon()
	<-f.Done()
	if e, failed := f.Result(); e != entry || failed {
		t.Errorf("got %v, %v", e, failed)
	}
	g, leads := c.Join(key(1))
	if !leads || g == f {
		t.Fatal("nobody leads after it")
	}
	g.Fail()
	if e, failed := g.Result(); e != nil || !failed {
		t.Errorf("got %v, %v", e, failed)
	}
}
