package rotation

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

// A Friday.
var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

type fixture struct {
	t       *testing.T
	db      *storage.DB
	keyring *credentials.Keyring
	trail   *audit.Trail
	auth    *credentials.Authenticator
	rotator *Rotator
	clock   atomic.Int64

	required required
}

// required are the days after which all user keys are rotated.
type required struct{ days int }

func (r *required) RotationDays(string) int { return r.days }

func (f *fixture) now() time.Time { return time.Unix(0, f.clock.Load()) }

func (f *fixture) at(at time.Time) {
	f.t.Helper()
	f.clock.Store(at.UnixNano())
	if err := f.rotator.Step(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t}
	f.clock.Store(noon.UnixNano())
	f.db = storetest.OpenDB(t)
	key, err := audit.NewKey("key")
	if err != nil {
		t.Fatal(err)
	}
	if f.trail, err = audit.Open(t.Context(), f.db, audit.Options{Key: key, Now: f.now, Random: rand.Reader, Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	f.reload()
	return f
}

// reload reopens the keyring, as after a restart.
func (f *fixture) reload() {
	f.t.Helper()
	var err error
	if f.keyring, err = credentials.OpenKeyring(f.t.Context(), f.db, credentials.NewSecret(strings.Repeat("m", 32)), f.now, rand.Reader); err != nil {
		f.t.Fatal(err)
	}
	f.auth = &credentials.Authenticator{Keyring: f.keyring, OrganisationID: "org"}
	f.rotator = New(f.db, f.keyring, &f.required, f.trail, f.now, zap.NewNop())
	f.rotator.Configure(Settings{KeyPrefix: "gw-"})
}

func (f *fixture) update(fn func(*storage.Txn) error) {
	f.t.Helper()
	if err := f.db.Update(f.t.Context(), fn); err != nil {
		f.t.Fatal(err)
	}
}

// key makes a key and returns its secret.
func (f *fixture) key(k *credentials.APIKey) (secret string) {
	f.t.Helper()
	k.Kind, k.Scopes = credentials.WorkspaceService, []string{"completions.write"}
	if k.Rotation != nil {
		if err := k.Rotation.Begin(f.now()); err != nil {
			f.t.Fatal(err)
		}
	}
	f.update(func(tx *storage.Txn) error {
		s, err := f.keyring.Issue(tx, storage.NewID(rand.Reader), "gw-", k)
		secret = s.Reveal()
		return err
	})
	return secret
}

func (f *fixture) stored(id string) *credentials.APIKey {
	f.t.Helper()
	k, ok := f.keyring.APIKey(id)
	if !ok {
		f.t.Fatal("the key is gone")
	}
	return k
}

// events returns the names of the events that were queued.
func (f *fixture) events() (names []string) {
	for {
		select {
		case e := <-f.rotator.events:
			names = append(names, e.name)
		default:
			return names
		}
	}
}

func (f *fixture) expect(events ...string) {
	f.t.Helper()
	if got := f.events(); !slices.Equal(got, events) {
		f.t.Errorf("events %q at %s, want %q", got, f.now().UTC(), events)
	}
}

func (f *fixture) works(secret string, want bool) {
	f.t.Helper()
	if _, refusal := f.auth.Authenticate(secret); (refusal == nil) != want {
		f.t.Errorf("at %s: refused: %v", f.now().UTC(), refusal)
	}
	if !f.auth.Knows(secret) {
		f.t.Error("the secret is taken for a provider's")
	}
}

func TestAKeyIsRotatedWhenItIsDue(t *testing.T) {
	f := newFixture(t)
	k := &credentials.APIKey{Name: "k", WorkspaceID: "ws", Rotation: &credentials.Rotation{Period: credentials.RotateWeekly, TransitionMs: (2 * time.Hour).Milliseconds()}}
	old := f.key(k)
	monday := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	f.at(monday.Add(-25 * time.Hour))
	f.expect()
	f.at(monday.Add(-24 * time.Hour))
	f.at(monday.Add(-time.Second))
	f.expect(EventRotating)
	f.at(monday)
	f.at(monday.Add(time.Minute))
	f.expect(EventRotated)
	rotated := f.stored(k.ID)
	if rotated.Rotation.NextAt == nil || !rotated.Rotation.NextAt.Equal(monday.AddDate(0, 0, 7)) || rotated.Hint == k.Hint {
		t.Errorf("%+v", rotated.Rotation)
	}
	f.works(old, true)
	rows, err := f.trail.List(t.Context(), &audit.Filter{Resource: string(audit.APIKeys), Action: "rotate", WorkspaceID: "ws", Actor: audit.ActorSystem}, 0, 10)
	if err != nil || rows.Total != 1 || rows.Records[0].ResourceID != k.ID {
		t.Errorf("%+v, %v", rows, err)
	}

	// Whoever asks gets the new secret, once; after a restart, too.
	f.reload()
	claim := func() (secret string) {
		t.Helper()
		f.update(func(tx *storage.Txn) error {
			k := *f.stored(k.ID)
			s, err := f.keyring.Claim(tx, &k)
			secret = s.Reveal()
			return err
		})
		return secret
	}
	secret := claim()
	if secret == "" || claim() != "" {
		t.Error("the secret is not given once")
	}
	f.works(secret, true)
	f.at(monday.Add(2*time.Hour - time.Nanosecond))
	f.works(old, true)
	f.at(monday.Add(2 * time.Hour))
	f.works(old, false)
	f.works(secret, true)
	f.expect()
}

func TestEventsTellOfAnExpiryOnce(t *testing.T) {
	f := newFixture(t)
	ends := noon.Add(48 * time.Hour)
	k := &credentials.APIKey{Name: "k", ExpiresAt: &ends, Rotation: &credentials.Rotation{Days: 2}}
	f.key(k)
	f.at(ends.Add(-25 * time.Hour))
	f.events() // of the rotation
	f.at(ends.Add(-24 * time.Hour))
	f.reload()
	f.at(ends.Add(-23 * time.Hour))
	f.expect()
	later := ends.Add(72 * time.Hour)
	f.update(func(tx *storage.Txn) error {
		changed := *f.stored(k.ID)
		changed.ExpiresAt, changed.Rotation = &later, nil
		return f.keyring.ReplaceAPIKey(tx, &changed)
	})
	f.at(later.Add(-time.Hour))
	f.expect(EventExpiring)
	f.at(later)
	f.at(later.Add(time.Hour))
	f.expect(EventExpired)
}

func TestAnExpiredKeyIsNotRotated(t *testing.T) {
	f := newFixture(t)
	ends := noon.Add(time.Hour)
	k := &credentials.APIKey{Name: "k", ExpiresAt: &ends, Rotation: &credentials.Rotation{Days: 1}}
	f.key(k)
	f.at(noon.Add(48 * time.Hour))
	f.expect(EventExpired)
	if f.stored(k.ID).Previous != nil {
		t.Error("it was rotated")
	}
}

// Of two processes with a store, one rotates.
func TestAKeyIsRotatedOnce(t *testing.T) {
	f := newFixture(t)
	k := &credentials.APIKey{Name: "k", Rotation: &credentials.Rotation{Days: 2}}
	f.key(k)
	other := &fixture{t: t, db: f.db, trail: f.trail}
	other.clock.Store(noon.UnixNano())
	other.reload()
	f.at(noon.Add(48 * time.Hour))
	other.at(noon.Add(48 * time.Hour))
	if all := append(f.events(), other.events()...); !slices.Equal(all, []string{EventRotated}) {
		t.Errorf("%q", all)
	}
}

func TestLastUseIsWrittenLater(t *testing.T) {
	f := newFixture(t)
	k := &credentials.APIKey{Name: "k"}
	secret := f.key(k)
	used := func(want string) {
		t.Helper()
		at, err := f.keyring.LastUse(t.Context(), k.ID)
		got := fmt.Sprint(at)
		if at != nil {
			got = at.Format("15:04:05")
		}
		if err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	flush := func() {
		t.Helper()
		if err := f.keyring.FlushUses(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	used("<nil>")
	f.clock.Store(noon.Add(90 * time.Second).UnixNano())
	f.works(secret, true)
	used("12:01:00")
	flush()
	f.reload()
	used("12:01:00")
	f.clock.Store(noon.UnixNano()) // the clock steps back
	f.works(secret, true)
	used("12:01:00")
	flush()
	used("12:01:00")
	f.update(func(tx *storage.Txn) error { return f.keyring.Revoke(tx, k.ID) })
	used("12:00:00") // until the next flush, in memory only
	flush()
	used("<nil>")
}

// Keys that are there when their workspace begins to say how often they are rotated obey, too.
func TestKeysObeyACadenceThatCameLater(t *testing.T) {
	f := newFixture(t)
	issue := func(kind credentials.Kind, r *credentials.Rotation) string {
		t.Helper()
		id := storage.NewID(rand.Reader)
		err := f.db.Update(t.Context(), func(tx *storage.Txn) error {
			k := &credentials.APIKey{Name: "k", Kind: kind, WorkspaceID: "w", Rotation: r}
			if r != nil {
				if err := r.Begin(noon); err != nil {
					return err
				}
			}
			_, err := f.keyring.Issue(tx, id, "", k)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	bare := issue(credentials.WorkspaceUser, nil)
	often := issue(credentials.WorkspaceUser, &credentials.Rotation{Days: 3})
	seldom := issue(credentials.WorkspaceUser, &credentials.Rotation{Days: 300, TransitionMs: (100 * 24 * time.Hour).Milliseconds()})
	right := issue(credentials.WorkspaceUser, &credentials.Rotation{Period: credentials.RotateWeekly})
	service := issue(credentials.WorkspaceService, nil)
	f.at(noon)
	if k, _ := f.keyring.APIKey(bare); k.Rotation != nil {
		t.Fatalf("%+v", k.Rotation)
	}
	f.required.days = 7
	f.at(noon.Add(time.Minute))
	week := time.Date(2026, 12, 4, 0, 0, 0, 0, time.UTC)
	for id, want := range map[string]struct {
		days int
		next time.Time
	}{bare: {7, week}, often: {7, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}, seldom: {7, week}, right: {0, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}} {
		k, _ := f.keyring.APIKey(id)
		if k.Rotation == nil || k.Rotation.Days != want.days || !k.Rotation.NextAt.Equal(want.next) || k.Rotation.Transition() >= 7*24*time.Hour {
			t.Errorf("got %+v, want %+v", k.Rotation, want)
		}
	}
	if k, _ := f.keyring.APIKey(service); k.Rotation != nil {
		t.Errorf("a service key got %+v", k.Rotation)
	}
	digest := func() credentials.Digest { k, _ := f.keyring.APIKey(bare); return k.Digest }
	before := digest()
	f.at(week.Add(-time.Hour))
	if digest() != before {
		t.Error("the key was rotated too early")
	}
	f.at(week)
	if digest() == before {
		t.Error("the key was not rotated")
	}
	rows, err := f.trail.List(t.Context(), &audit.Filter{}, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	updates := 0
	for _, r := range rows.Records {
		if r.Scope == "workspace_user_api_keys.update" {
			updates++
		}
	}
	if updates != 3 {
		t.Errorf("%d rows say that a key has to obey, want 3", updates)
	}
}
