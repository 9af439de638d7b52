package credentials

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

const masterKey = "a master key of more than 32 characters"

// A clock is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func openDB(t testing.TB) *storage.DB {
	t.Helper()
	db := storetest.OpenDB(t)
	return db
}

func openKeyring(t testing.TB, db *storage.DB, c *clock) *Keyring {
	t.Helper()
	k, err := OpenKeyring(t.Context(), db, NewSecret(masterKey), c.Now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func update(t testing.TB, db *storage.DB, fn func(tx *storage.Txn) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func issue(t *testing.T, db *storage.DB, k *Keyring, id string, a APIKey) string {
	t.Helper()
	var token Secret
	update(t, db, func(tx *storage.Txn) (err error) {
		token, err = k.Issue(tx, id, DefaultKeyPrefix, &a)
		return err
	})
	return token.Reveal()
}

func addVirtualKey(t testing.TB, db *storage.DB, k *Keyring, v VirtualKey, secret string) {
	t.Helper()
	update(t, db, func(tx *storage.Txn) error { return k.AddVirtualKey(tx, &v, NewSecret(secret)) })
}

func after(c *clock, d time.Duration) *time.Time {
	at := c.Now().Add(d)
	return &at
}

// stored returns everything in a store as one text.
func stored(t *testing.T, db *storage.DB) string {
	t.Helper()
	var all strings.Builder
	err := db.View(t.Context(), func(tx storage.Tx) error {
		for item, err := range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
			all.Write(item.Key)
			all.Write(item.Value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestKeyringStoresOfAKeyItsDigestOnly(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	token := issue(t, db, k, "key-1", APIKey{Name: "ci", Kind: WorkspaceService, WorkspaceID: "ws-1", Scopes: []string{ScopeCompletions}})
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: "vk-1", Provider: "openai"}, Slug: "own", WorkspaceID: "ws-1"}, canary)

	a, ok := k.APIKey("key-1")
	switch {
	case !ok:
		t.Fatal("the key is not there")
	case a.Digest != DigestOf(token):
		t.Error("the digest is another key's")
	case a.Hint != token[:2]+Masked+token[len(token)-3:]:
		t.Errorf("hint %q", a.Hint)
	case !a.CreatedAt.Equal(c.Now()) || !a.UpdatedAt.Equal(c.Now()):
		t.Errorf("created at %s, updated at %s", a.CreatedAt, a.UpdatedAt)
	}
	text := stored(t, db)
	mustHide(t, "the store", text)
	if strings.Contains(text, token) || strings.Contains(text, token[len(DefaultKeyPrefix):20]) {
		t.Error("the store holds a service key in the clear")
	}
	if strings.Contains(text, masterKey) {
		t.Error("the store holds the master key")
	}
}

func TestKeyringIsTheSameAfterARestart(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	token := issue(t, db, k, "key-1", APIKey{Kind: WorkspaceService, WorkspaceID: "ws-1", Scopes: []string{ScopeCompletions}, ExpiresAt: after(c, time.Hour), Metadata: json.RawMessage(`{"a":"b"}`)})
	issue(t, db, k, "key-2", APIKey{Kind: OrganisationService, Owner: true})
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: "vk-1", Provider: "openai"}, Slug: "own", WorkspaceID: "ws-1"}, canary)

	k = openKeyring(t, db, c)
	a := &Authenticator{Keyring: k}
	caller, refusal := a.AuthenticateCall(token, ScopeCompletions)
	if refusal != nil || caller.KeyID != "key-1" || caller.WorkspaceID != "ws-1" || string(caller.Metadata) != `{"a":"b"}` {
		t.Errorf("got %+v, %v", caller, refusal)
	}
	if !k.HasOwner() || len(k.APIKeys()) != 2 || len(k.VirtualKeys()) != 1 {
		t.Errorf("%d keys, %d virtual keys, owner %v", len(k.APIKeys()), len(k.VirtualKeys()), k.HasOwner())
	}
	v, _ := k.VirtualKey("ws-1", "own")
	if secret, err := k.OpenKey(&v.Credential); err != nil || secret.Reveal() != canary {
		t.Errorf("the provider's credential: %v", err)
	}
}

func TestKeyringRefusesAnotherMasterKey(t *testing.T) {
	db, c := openDB(t), newClock()
	openKeyring(t, db, c)
	_, err := OpenKeyring(t.Context(), db, NewSecret(masterKey+"2"), c.Now, rand.Reader)
	if !errors.Is(err, ErrWrongKey) || !strings.Contains(err.Error(), "encryption_key") {
		t.Errorf("got %v", err)
	}
	mustHide(t, "the error", err.Error())
}

func TestKeyringForgetsWhatATransactionTookBack(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	failed := errors.New("failed")
	var token Secret
	err := db.Update(t.Context(), func(tx *storage.Txn) (err error) {
		if token, err = k.Issue(tx, "key-1", "", &APIKey{Kind: WorkspaceService}); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if _, refusal := (&Authenticator{Keyring: k}).Authenticate(token.Reveal()); refusal == nil {
		t.Error("a key that was never stored authenticates")
	}
}

func TestKeyStatusFollowsTheClock(t *testing.T) {
	c := newClock()
	a, v := &APIKey{ExpiresAt: after(c, time.Minute)}, &VirtualKey{ExpiresAt: after(c, time.Minute)}
	for _, step := range []struct {
		pass time.Duration
		want string
	}{{0, "active"}, {time.Minute - 1, "active"}, {1, "expired"}, {time.Hour, "expired"}} {
		c.add(step.pass)
		if a.Status(c.Now()) != step.want || v.Status(c.Now()) != step.want {
			t.Errorf("%s later: %s, %s", step.pass, a.Status(c.Now()), v.Status(c.Now()))
		}
	}
	if (&APIKey{}).Expired(c.Now()) || (&VirtualKey{}).Expired(c.Now()) {
		t.Error("a key without an expiry expires")
	}
}

func TestKeyringServesRequestsWhileKeysChange(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	a := &Authenticator{Keyring: k}
	token := issue(t, db, k, "key", APIKey{Kind: WorkspaceService, WorkspaceID: "ws-1", Scopes: []string{ScopeCompletions}})
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, refusal := a.AuthenticateCall(token, ScopeCompletions); refusal != nil {
					t.Error(refusal)
					return
				}
				k.VirtualKey("ws-1", "own")
				k.APIKeys()
			}
		})
	}
	for range 10 {
		old, _ := k.APIKey("key")
		changed := *old
		changed.Name += "x"
		update(t, db, func(tx *storage.Txn) error { return k.ReplaceAPIKey(tx, &changed) })
	}
	stop()
	readers.Wait()
	if got, _ := k.APIKey("key"); got.Name != "xxxxxxxxxx" {
		t.Errorf("got the name %q", got.Name)
	}
}

// overtaken is a store to which another process commits before the first update.
type overtaken struct {
	storage.Store
	once  sync.Once
	other func()
}

func (o *overtaken) Update(ctx context.Context, fn func(storage.Tx) error) error {
	o.once.Do(o.other)
	return o.Store.Update(ctx, fn)
}

// Two processes that open one new store at once share its data key: each opens what the
// other sealed.
func TestANewStoreGetsOneDataKey(t *testing.T) {
	store := storetest.Open(t)
	var first *Keyring
	second := openKeyring(t, storage.NewDB(&overtaken{Store: store, other: func() { first = openKeyring(t, storage.NewDB(store), newClock()) }}), newClock())
	sealed, err := first.SealText("id", "secret")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := second.UnsealText("id", sealed); err != nil || got != "secret" {
		t.Errorf("got %q, %v", got, err)
	}
}
