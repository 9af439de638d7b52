// Package calltest sets up what tests of calls need: a store with a keyring and saved configs, and a
// clock that stands still.
package calltest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

// Stores are empty stores, which share a database. They are closed when the test ends.
type Stores struct {
	DB      *storage.DB
	Keyring *credentials.Keyring
	Configs *routing.ConfigStore
}

// Open returns empty stores whose clock is [Now].
func Open(t testing.TB) *Stores {
	t.Helper()
	s := &Stores{DB: storetest.OpenDB(t)}
	var err error
	if s.Keyring, err = credentials.OpenKeyring(t.Context(), s.DB, credentials.NewSecret("master"), Now, rand.Reader); err != nil {
		t.Fatal(err)
	}
	if s.Configs, err = routing.OpenConfigStore(t.Context(), s.DB, s.Keyring, Now, rand.Reader); err != nil {
		t.Fatal(err)
	}
	return s
}

// Authenticator returns an authenticator for the organisation "org", with an operator's key.
func (s *Stores) Authenticator(operatorKey, defaultWorkspace string) *credentials.Authenticator {
	admin := credentials.DigestOf(operatorKey)
	return &credentials.Authenticator{Keyring: s.Keyring, OrganisationID: "org", DefaultWorkspace: defaultWorkspace, AdminKey: &admin}
}

// Now is noon of July 1st, 2026.
func Now() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }
