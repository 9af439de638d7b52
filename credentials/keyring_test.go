package credentials

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
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

func TestVirtualKeySlugsAreUniqueInAWorkspace(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	add := func(id, workspace string) error {
		return db.Update(t.Context(), func(tx *storage.Txn) error {
			return k.AddVirtualKey(tx, &VirtualKey{Credential: Credential{ID: id}, Slug: "own", WorkspaceID: workspace}, NewSecret("secret of "+id))
		})
	}
	for _, v := range []struct {
		id, workspace string
		want          error
	}{{"vk-1", "ws-1", nil}, {"vk-2", "ws-2", nil}, {"vk-3", "ws-1", storage.ErrExists}, {"vk-3", "ws-2", storage.ErrExists}} {
		if err := add(v.id, v.workspace); !errors.Is(err, v.want) {
			t.Errorf("%s in %s: got %v", v.id, v.workspace, err)
		}
	}
	for range 2 { // before and after a restart
		for _, find := range []struct{ workspace, name, want string }{
			{"ws-1", "own", "vk-1"},
			{"ws-2", "own", "vk-2"},
			{"ws-2", "vk-2", "vk-2"},
			{"ws-2", "vk-1", ""},
			{"ws-2", "ws-1/own", ""},
			{"ws-3", "own", ""},
			{"", "own", ""},
			{"", "ws-1/own", ""},
		} {
			v, ok := k.VirtualKey(find.workspace, find.name)
			if ok != (find.want != "") || ok && v.ID != find.want {
				t.Errorf("%q in %q: got %+v", find.name, find.workspace, v)
			}
		}
		k = openKeyring(t, db, c)
	}
}

// Earlier versions stored slugs that were unique among all workspaces.
func TestVirtualKeysOfEarlierVersionsKeepTheirSlugs(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	rows := storage.NewCollection("virtual-key", func(v *VirtualKey) string { return v.ID },
		storage.Index[VirtualKey]{Name: bySlug, Unique: true, Keys: func(v *VirtualKey) []string { return []string{v.Slug} }})
	const many = 250
	update(t, db, func(tx *storage.Txn) error {
		for i := range many {
			v := VirtualKey{Credential: Credential{ID: fmt.Sprint("vk-", i)}, Slug: fmt.Sprint("own-", i), WorkspaceID: "ws-1", UpdatedAt: c.Now()}
			var err error
			if v.Sealed, err = k.box.Seal(NewSecret(canary), v.ID); err != nil {
				return err
			}
			if err := rows.Put(tx, &v); err != nil {
				return err
			}
		}
		return nil
	})
	c.add(time.Hour)
	for range 2 {
		k = openKeyring(t, db, c)
		for i := range many {
			v, ok := k.VirtualKey("ws-1", fmt.Sprint("own-", i))
			if !ok || v.ID != fmt.Sprint("vk-", i) || !v.UpdatedAt.Equal(c.Now().Add(-time.Hour)) {
				t.Fatalf("own-%d: got %+v", i, v)
			}
			if secret, err := k.OpenKey(&v.Credential); err != nil || secret.Reveal() != canary {
				t.Fatalf("own-%d: its credential: %v", i, err)
			}
		}
		if _, ok := k.VirtualKey("ws-2", "own-0"); ok {
			t.Error("another workspace finds it")
		}
	}
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: "new"}, Slug: "own-0", WorkspaceID: "ws-2"}, "secret")
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		return k.AddVirtualKey(tx, &VirtualKey{Credential: Credential{ID: "twin"}, Slug: "own-0", WorkspaceID: "ws-1"}, NewSecret("secret"))
	})
	if !errors.Is(err, storage.ErrExists) {
		t.Errorf("its own workspace makes a second one: %v", err)
	}
}

func TestVirtualKeyIsFoundBySlugAndByID(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: "vk-1"}, Slug: "own", WorkspaceID: "ws-1"}, "secret")
	for _, name := range []string{"own", "vk-1"} {
		if v, ok := k.VirtualKey("ws-1", name); !ok || v.ID != "vk-1" {
			t.Errorf("%q: got %v", name, v)
		}
	}
	for _, name := range []string{"", "OWN", "ow", "vk-2"} {
		if v, ok := k.VirtualKey("ws-1", name); ok {
			t.Errorf("%q: got %v", name, v)
		}
	}
}

// Who may write virtual keys in one workspace must not be able to take the place of
// another workspace's, whose id is no secret.
func TestVirtualKeyOfAnIDIsNotHiddenByAnotherSlug(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	const id = "01900000-0000-7000-8000-000000000001"
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: id}, Slug: "own", WorkspaceID: "ws-1"}, "secret")
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		return k.AddVirtualKey(tx, &VirtualKey{Credential: Credential{ID: "vk-2"}, Slug: id, WorkspaceID: "ws-2"}, NewSecret("secret"))
	})
	if v, ok := k.VirtualKey("ws-1", id); !ok || v.ID != id {
		t.Errorf("after another's slug was set to its id (error: %v), the key is found as %+v", err, v)
	}
}

func TestReplaceVirtualKeyKeepsTheSecretUnlessGivenAnother(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: "vk-1"}, Slug: "own", WorkspaceID: "ws-1", Name: "before"}, "first secret")
	created := c.Now()
	for _, step := range []struct{ secret, want, hint string }{
		{"", "first secret", "fi" + Masked + "ret"},
		{"another secret", "another secret", "an" + Masked + "ret"},
		{"short", "short", Masked},
	} {
		c.add(time.Second)
		old, _ := k.VirtualKey("ws-1", "vk-1")
		v := *old
		v.Name = "after"
		update(t, db, func(tx *storage.Txn) error { return k.ReplaceVirtualKey(tx, &v, NewSecret(step.secret)) })
		got, _ := k.VirtualKey("ws-1", "vk-1")
		secret, err := k.OpenKey(&got.Credential)
		if err != nil || secret.Reveal() != step.want || got.Hint != step.hint || got.Name != "after" {
			t.Errorf("%q: got %q, hint %q, %v", step.secret, secret.Reveal(), got.Hint, err)
		}
		if !got.CreatedAt.Equal(created) || !got.UpdatedAt.Equal(c.Now()) {
			t.Errorf("created %s, updated %s", got.CreatedAt, got.UpdatedAt)
		}
	}
	update(t, db, func(tx *storage.Txn) error { return k.RemoveVirtualKey(tx, "vk-1") })
	if _, ok := k.VirtualKey("ws-1", "own"); ok {
		t.Error("the removed key is still found")
	}
}

func TestSealedSecretDoesNotOpenUnderAnotherVirtualKey(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	addVirtualKey(t, db, k, VirtualKey{Credential: Credential{ID: "vk-1"}, Slug: "own", WorkspaceID: "ws-1"}, canary)
	v, _ := k.VirtualKey("ws-1", "vk-1")
	moved := *v
	moved.ID = "vk-2"
	if secret, err := k.OpenKey(&moved.Credential); !errors.Is(err, ErrWrongKey) || !secret.Empty() {
		t.Errorf("got %v", err)
	}
}

// An authCase is a token and what becomes of it.
type authCase struct {
	token     string
	id, ws    string // of the caller
	anywhere  Reason // why Authenticate refuses it; 0: it does not
	inference Reason // why AuthenticateCall does
}

func TestAuthenticate(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	adminKey := strings.Repeat("admin-", 6)
	digest := DigestOf(adminKey)
	a := &Authenticator{Keyring: k, OrganisationID: "org", DefaultWorkspace: "ws-default", AdminKey: &digest}

	valid := issue(t, db, k, "valid", APIKey{Name: "ci", Kind: WorkspaceService, OrganisationID: "org", WorkspaceID: "ws-1", Scopes: []string{ScopeCompletions, "policies.list"}, Metadata: json.RawMessage(`{"env":"prod"}`)})
	user := issue(t, db, k, "user", APIKey{Kind: WorkspaceUser, OrganisationID: "org", WorkspaceID: "ws-2", UserID: "u-1", Scopes: []string{ScopeCompletions}})
	weak := issue(t, db, k, "weak", APIKey{Name: "weak", Kind: WorkspaceService, WorkspaceID: "ws-1", Scopes: []string{"policies.list"}})
	organisation := issue(t, db, k, "organisation", APIKey{Kind: OrganisationService, OrganisationID: "org", Scopes: OrganisationService.Scopes()})
	forged := issue(t, db, k, "forged", APIKey{Kind: OrganisationService, OrganisationID: "org", Scopes: []string{ScopeCompletions}})
	owner := issue(t, db, k, "owner", APIKey{Kind: OrganisationService, OrganisationID: "org", Owner: true})
	expiring := issue(t, db, k, "expiring", APIKey{Kind: WorkspaceService, WorkspaceID: "ws-1", Scopes: []string{ScopeCompletions}, ExpiresAt: after(c, time.Hour)})
	revoked := issue(t, db, k, "revoked", APIKey{Kind: WorkspaceService, WorkspaceID: "ws-1", Scopes: []string{ScopeCompletions}})
	update(t, db, func(tx *storage.Txn) error { return k.Revoke(tx, "revoked") })

	for _, when := range []struct {
		name  string
		pass  time.Duration
		cases map[string]authCase
	}{
		{"at first", 0, map[string]authCase{
			"a workspace key":                      {token: valid, id: "valid", ws: "ws-1"},
			"a user's key":                         {token: user, id: "user", ws: "ws-2"},
			"a key without the scope":              {token: weak, id: "weak", ws: "ws-1", inference: MissingScope},
			"an organisation key":                  {token: organisation, id: "organisation", inference: MissingScope},
			"an organisation key with every scope": {token: forged, id: "forged", inference: MissingScope},
			"the owner's stored key":               {token: owner, id: "owner", ws: "ws-default"},
			"the configured admin_key":             {token: adminKey, id: OwnerKeyID, ws: "ws-default"},
			"a key that has not expired":           {token: expiring, id: "expiring", ws: "ws-1"},
			"a revoked key":                        {token: revoked, anywhere: InvalidKey, inference: InvalidKey},
			"no key":                               {token: "", anywhere: InvalidKey, inference: InvalidKey},
			"an unknown key":                       {token: "gw-unknown", anywhere: InvalidKey, inference: InvalidKey},
			"half a key":                           {token: valid[:len(valid)-1], anywhere: InvalidKey, inference: InvalidKey},
			"a key and more":                       {token: valid + " ", anywhere: InvalidKey, inference: InvalidKey},
			"a key in capitals":                    {token: strings.ToUpper(valid), anywhere: InvalidKey, inference: InvalidKey},
			"a key's id":                           {token: "valid", anywhere: InvalidKey, inference: InvalidKey},
			"a key's digest":                       {token: string(func() []byte { d := DigestOf(valid); return d[:] }()), anywhere: InvalidKey, inference: InvalidKey},
			"the name of the admin_key":            {token: OwnerKeyID, anywhere: InvalidKey, inference: InvalidKey},
		}},
		{"a moment before the expiry", time.Hour - 1, map[string]authCase{"the key": {token: expiring, id: "expiring", ws: "ws-1"}}},
		{"at the expiry", 1, map[string]authCase{
			"the key":       {token: expiring, anywhere: ExpiredKey, inference: ExpiredKey},
			"the other key": {token: valid, id: "valid", ws: "ws-1"},
		}},
	} {
		c.add(when.pass)
		for name, want := range when.cases {
			check := func(kind string, caller *Caller, refusal *Error, reason Reason) {
				switch {
				case reason == 0 && refusal != nil:
					t.Errorf("%s, %s, %s: %v", when.name, name, kind, refusal)
				case reason == 0 && caller.KeyID != want.id:
					t.Errorf("%s, %s, %s: got the key %s", when.name, name, kind, caller.KeyID)
				case reason != 0 && (refusal == nil || caller != nil):
					t.Errorf("%s, %s, %s: admitted as %+v", when.name, name, kind, caller)
				case reason != 0 && (refusal.Reason != reason || refusal.Field != "x-gw-api-key" || refusal.Message == ""):
					t.Errorf("%s, %s, %s: got %+v", when.name, name, kind, refusal)
				case reason != 0 && len(want.token) > 12 && strings.Contains(refusal.Error(), want.token[:12]):
					t.Errorf("%s, %s, %s: the refusal shows the key", when.name, name, kind)
				}
			}
			caller, refusal := a.Authenticate(want.token)
			check("control plane", caller, refusal, want.anywhere)
			caller, refusal = a.AuthenticateCall(want.token, ScopeCompletions)
			check("inference", caller, refusal, want.inference)
			if refusal == nil && caller.WorkspaceID != want.ws {
				t.Errorf("%s, %s: in workspace %q, want %q", when.name, name, caller.WorkspaceID, want.ws)
			}
		}
	}

	caller, _ := a.AuthenticateCall(valid, ScopeCompletions)
	if caller.KeyName != "ci" || caller.OrganisationID != "org" || caller.Kind != WorkspaceService || string(caller.Metadata) != `{"env":"prod"}` || caller.Owner {
		t.Errorf("got %+v", caller)
	}
	if caller, _ = a.Authenticate(user); caller.UserID != "u-1" {
		t.Errorf("got %+v", caller)
	}
}

func TestCallerMayDoWhatItsScopesSay(t *testing.T) {
	c := &Caller{scopes: []string{"policies.list"}}
	if !c.May("policies.list") || c.May("policies.read") || c.May("") || c.May("policies") {
		t.Error("a caller's scopes are not what it may do")
	}
	if owner := (&Caller{Owner: true}); !owner.May("anything.at_all") {
		t.Error("the owner may not do everything")
	}
}

func TestAdminKeyIsNoKeyWhereNoneIsConfigured(t *testing.T) {
	a := &Authenticator{Keyring: openKeyring(t, openDB(t), newClock())}
	for _, token := range []string{"", OwnerKeyID, strings.Repeat("\x00", 32)} {
		if caller, refusal := a.Authenticate(token); refusal == nil {
			t.Errorf("%q: admitted as %+v", token, caller)
		}
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
	store, err := badger.Open(t.TempDir(), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
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

// Rows of earlier versions are moved by one of the processes that start; the others wait.
func TestEarlierSlugsAreMovedByOneProcess(t *testing.T) {
	store, err := badger.Open(t.TempDir(), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	db := storage.NewDB(store)
	k := openKeyring(t, db, newClock())
	update(t, db, func(tx *storage.Txn) error {
		return k.virtualKeys.Put(tx, &VirtualKey{Credential: Credential{ID: "id"}, Slug: "slug", WorkspaceID: "ws"})
	})
	other := db.Job("virtual-key-slugs")
	if err := other.Do(t.Context(), func(context.Context, storage.Step) error { return nil }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := &overtaken{Store: store, other: cancel} // from when the job is asked for
	if _, err := OpenKeyring(ctx, storage.NewDB(waiting), NewSecret(masterKey), time.Now, rand.Reader); !errors.Is(err, context.Canceled) {
		t.Errorf("it does not wait for the other process: %v", err)
	}
	if err := other.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, ok := openKeyring(t, storage.NewDB(store), newClock()).VirtualKey("ws", "slug"); !ok || !v.OwnSlug {
		t.Errorf("not moved: %+v", v)
	}
}
