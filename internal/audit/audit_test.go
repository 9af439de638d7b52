package audit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func openTrail(t *testing.T) (*Trail, *storage.DB) {
	t.Helper()
	store, err := badger.Open(t.TempDir(), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db := storage.NewDB(store)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return Open(db, func() time.Time { return noon.In(time.FixedZone("east", 3600)) }, rand.Reader), db
}

func TestTrailKeepsTheWholeRecord(t *testing.T) {
	trail, db := openTrail(t)
	want := Record{
		OrganisationID: "org", WorkspaceID: "ws", KeyID: "key", KeyName: "ci", UserID: "u", Action: "virtual_keys.create", Resource: "own",
		Method: "POST", Path: "/v1/virtual-keys", Fields: []string{"name", "key"}, Status: 200, IP: "192.0.2.1", UserAgent: "curl", RequestID: "r",
	}
	r := want
	if err := db.Update(t.Context(), func(tx *storage.Txn) error { return trail.Add(tx, &r) }); err != nil {
		t.Fatal(err)
	}
	got, err := Open(db, time.Now, rand.Reader).Records(t.Context(), 10)
	if err != nil || len(got) != 1 {
		t.Fatalf("got %d records, %v", len(got), err)
	}
	if got[0].ID == "" || !got[0].At.Equal(noon) {
		t.Errorf("id %q, at %s", got[0].ID, got[0].At)
	}
	want.ID, want.At = got[0].ID, got[0].At
	if !reflect.DeepEqual(*got[0], want) {
		t.Errorf("got %+v", got[0])
	}
}

func TestTrailSharesTheFateOfItsAction(t *testing.T) {
	trail, db := openTrail(t)
	failed := errors.New("failed")
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		if err := trail.Add(tx, &Record{Action: "workspaces.create"}); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if got, err := trail.Records(t.Context(), 10); len(got) != 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestTrailListsTheNewestFirstUpToTheLimit(t *testing.T) {
	trail, _ := openTrail(t)
	const n = 20
	for i := range n {
		if err := trail.Refused(t.Context(), &Record{Resource: fmt.Sprint(i), Status: 403}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ limit, want int }{{1, 1}, {7, 7}, {n, n}, {n + 1, n}, {0, 0}} {
		got, err := trail.Records(t.Context(), c.limit)
		if err != nil || len(got) != c.want {
			t.Errorf("limit %d: got %d records, %v", c.limit, len(got), err)
		}
		for i, r := range got {
			if r.Resource != fmt.Sprint(n-1-i) {
				t.Fatalf("limit %d: record %d is of %s", c.limit, i, r.Resource)
			}
		}
	}
}
