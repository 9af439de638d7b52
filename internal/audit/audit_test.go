package audit

import (
	"crypto/rand"
	"errors"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func newKey(t testing.TB, secret string) Key {
	t.Helper()
	k, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func openDB(t testing.TB) *storage.DB {
	t.Helper()
	db := storetest.OpenDB(t)
	return db
}

// A clock stands still until it is set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func openTrail(t testing.TB) (*Trail, *storage.DB, *clock) {
	t.Helper()
	db, c := openDB(t), &clock{at: noon}
	return reopen(t, db, c, "the key"), db, c
}

func reopen(t testing.TB, db *storage.DB, c *clock, key string) *Trail {
	t.Helper()
	trail, err := Open(t.Context(), db, Options{Key: newKey(t, key), Now: c.now, Random: rand.Reader, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	return trail
}

func (t *Trail) must(tb testing.TB, r *Record) {
	tb.Helper()
	if err := t.db.Update(tb.Context(), func(tx *storage.Txn) error { return t.Add(tx, r) }); err != nil {
		tb.Fatal(err)
	}
}

func (t *Trail) all(tb testing.TB, f *Filter) []*Record {
	tb.Helper()
	list, err := t.List(tb.Context(), f, 0, 1<<20)
	if err != nil {
		tb.Fatal(err)
	}
	if list.Total != len(list.Records) {
		tb.Fatalf("total %d, %d records", list.Total, len(list.Records))
	}
	return list.Records
}

func TestTrailKeepsTheWholeRecord(t *testing.T) {
	trail, db, c := openTrail(t)
	c.set(noon.In(time.FixedZone("east", 3600)))
	want := Record{
		OrganisationID: "org", WorkspaceID: "ws", KeyID: "key", KeyName: "ci", UserID: "u", UserName: "Ada", Scope: "virtual_keys.create",
		Resource: "own", ResourceID: "id", ResourceName: "Own", Method: "POST", Path: "/v1/virtual-keys", Query: "a=b", Fields: []string{"key", "name"},
		Changes: []Change{{Field: "name", To: `"Own"`}}, Status: 200, IP: "192.0.2.1", Country: "NZ", UserAgent: "curl", RequestID: "r",
	}
	r := want
	trail.must(t, &r)
	got := reopen(t, db, c, "the key").all(t, new(Filter))
	if len(got) != 1 {
		t.Fatalf("%d records", len(got))
	}
	if got[0].ID == "" || got[0].Number != 1 || !got[0].At.Equal(noon) {
		t.Errorf("%+v", got[0])
	}
	want.ID, want.At, want.Number = got[0].ID, got[0].At, 1
	if !reflect.DeepEqual(*got[0], want) {
		t.Errorf("got %+v", got[0])
	}
}

func TestTrailSharesTheFateOfItsAction(t *testing.T) {
	trail, db, _ := openTrail(t)
	failed := errors.New("failed")
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		if err := trail.Add(tx, &Record{Scope: "workspaces.create"}); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if got := trail.all(t, new(Filter)); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestNoRowIsOlderThanTheOneBefore(t *testing.T) {
	trail, _, c := openTrail(t)
	trail.must(t, &Record{Scope: "a.b"})
	c.set(noon.Add(-time.Hour))
	trail.must(t, &Record{Scope: "a.b"})
	if got := trail.all(t, new(Filter)); !got[0].At.Equal(noon) {
		t.Errorf("the second row is of %s", got[0].At)
	}
}

func TestRowsOfSeveralWritersAreOneChain(t *testing.T) {
	trail, db, c := openTrail(t)
	other := reopen(t, db, c, "the key")
	var wg sync.WaitGroup
	const each = 25
	for _, tr := range []*Trail{trail, other} {
		wg.Go(func() {
			for range each {
				if err := tr.Refused(t.Context(), &Record{Scope: "a.b", Status: 403}); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range each {
				if err := db.Update(t.Context(), func(tx *storage.Txn) error { return tr.Add(tx, &Record{Scope: "a.c"}) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	verified(t, trail, nil, "")
	if n := len(trail.all(t, &Filter{Action: "b"})); n != 2*each {
		t.Errorf("%d refused", n)
	}
}

func TestRowsOfEarlierVersionsAreSealed(t *testing.T) {
	db := openDB(t)
	old := storage.NewCollection("audit", func(r *unsealed) string { return r.ID })
	const n = 450
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		for i := range n {
			r := &unsealed{At: noon.Add(time.Duration(i) * time.Second), Action: "configs.create", Resource: strconv.Itoa(i)}
			r.ID = "id-" + strconv.Itoa(1000+i)
			r.KeyID, r.Status = "key", 200
			if err := old.Put(tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	trail := reopen(t, db, &clock{at: noon.Add(time.Hour)}, "the key")
	got := trail.all(t, &Filter{Resource: "configs", Action: "create"})
	if len(got) != n {
		t.Fatalf("%d rows", len(got))
	}
	for i, r := range got {
		if r.Resource != strconv.Itoa(n-1-i) || !r.At.Equal(noon.Add(time.Duration(n-1-i)*time.Second)) || r.KeyID != "key" || r.Status != 200 {
			t.Fatalf("%d: %+v", i, r)
		}
	}
	verified(t, trail, nil, "")
	if again := reopen(t, db, &clock{at: noon}, "the key"); len(again.all(t, new(Filter))) != n {
		t.Error("they are moved twice")
	}
}

func TestAnotherKeyLeavesARow(t *testing.T) {
	trail, db, c := openTrail(t)
	trail.must(t, &Record{Scope: "a.b"})
	next := reopen(t, db, c, "another key")
	if rows := next.all(t, new(Filter)); len(rows) != 1 {
		t.Fatalf("opening it wrote %+v", rows)
	}
	verified(t, reopen(t, db, c, "the key"), nil, "") // so that one can come back
	next.must(t, &Record{Scope: "a.c"})
	rows := next.all(t, new(Filter))
	if len(rows) != 3 || rows[1].Scope != "audit_logs.manage" || rows[1].Actor() != ActorSystem {
		t.Fatalf("%+v", rows)
	}
	verified(t, next, nil, "row 1 was sealed with key "+newKey(t, "the key").String()+", which was not given")
	verified(t, next, nil, "", newKey(t, "the key"))
}

func TestAUserWithoutAKeyIsAUser(t *testing.T) {
	for _, c := range []struct {
		key, user string
		want      Actor
	}{{"key", "user", ActorKey}, {"key", "", ActorKey}, {"user", "user", ActorUser}, {"", "user", ActorUser}, {"", "", ActorSystem}} {
		if got := (&Record{KeyID: c.key, UserID: c.user}).Actor(); got != c.want {
			t.Errorf("%+v is a %s", c, got)
		}
	}
}
