package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A Keyring holds the API keys and virtual keys of a store. It reads from memory and writes
// through to the store. A committed change is seen by the next request. It is safe for
// concurrent use.
type Keyring struct {
	db           *storage.DB
	apiKeyRows   *storage.Collection[*APIKey]
	apiKeys      *storage.Cached[*APIKey]
	uses         *uses
	virtualKeys  *storage.Cached[*VirtualKey]
	integrations *storage.Cached[*Integration]
	references   *storage.Cached[*SecretReference]
	dataKeys     *storage.Collection[*dataKey]
	box          *Box // of provider secrets

	now    func() time.Time
	random io.Reader
}

// A dataKey is a data key of the secret box, sealed under the master key.
type dataKey struct {
	Purpose string `json:"purpose"`
	Sealed  []byte `json:"sealed"`
}

const (
	byDigest    = "digest"
	bySlug      = "slug"
	byWorkspace = "workspace" // counts
	bySize      = "size"      // weighs

	byUser        = "user"        // counts API keys
	byIntegration = "integration" // providers
	asProvider    = "provider"    // providers by workspace; "": all
	byAccess      = "access"      // integrations, see [Integration.lists]
	byManager     = "manager"     // secret references

	providerSecrets = "provider-secrets"
)

// Bounds of what a workspace has, because all of it is in memory. One more is a
// [storage.FullError].
const (
	MaxAPIKeys      = 100_000
	MaxVirtualKeys  = 100_000 // providers included
	MaxIntegrations = 10_000

	MaxSize = 64 << 20 // bytes of what may be long in the rows of each of these kinds, together
)

// OpenKeyring loads the keys of a store. The provider secrets are sealed with master; an
// error that wraps ErrWrongKey means that they were sealed with another key.
func OpenKeyring(ctx context.Context, db *storage.DB, master Secret, now func() time.Time, random io.Reader) (*Keyring, error) {
	rows := storage.NewCollection("api-key", func(k *APIKey) string { return k.ID },
		storage.Index[*APIKey]{Name: byDigest, Unique: true, Keys: (*APIKey).digests},
		storage.Index[*APIKey]{Name: byWorkspace, Counted: true, Max: MaxAPIKeys, Rows: "API keys of a workspace, or of the organisation", Keys: func(k *APIKey) []string { return []string{k.WorkspaceID} }},
		storage.Index[*APIKey]{Name: bySize, Counted: true, Weigh: (*APIKey).size, Max: MaxSize, Rows: "bytes of API keys of a workspace, or of the organisation", Keys: func(k *APIKey) []string { return []string{k.WorkspaceID} }},
		storage.Index[*APIKey]{Name: byUser, Counted: true, Keys: (*APIKey).users})
	k := &Keyring{
		db: db, uses: newUses(), apiKeyRows: rows, apiKeys: storage.NewCached(db, rows),
		virtualKeys: storage.NewCached(db, storage.NewCollection("virtual-key", func(v *VirtualKey) string { return v.ID },
			storage.Index[*VirtualKey]{Name: bySlug, Unique: true, Keys: (*VirtualKey).slugs},
			storage.Index[*VirtualKey]{Name: byWorkspace, Counted: true, Max: MaxVirtualKeys, Rows: "virtual keys and providers of a workspace", Keys: func(v *VirtualKey) []string { return []string{v.WorkspaceID} }},
			storage.Index[*VirtualKey]{Name: bySize, Counted: true, Weigh: (*VirtualKey).size, Max: MaxSize, Rows: "bytes of virtual keys and providers of a workspace", Keys: func(v *VirtualKey) []string { return []string{v.WorkspaceID} }},
			storage.Index[*VirtualKey]{Name: byIntegration, Memory: true, Keys: (*VirtualKey).integrations},
			storage.Index[*VirtualKey]{Name: asProvider, Memory: true, Keys: (*VirtualKey).providerOf})),
		integrations: storage.NewCached(db, storage.NewCollection("integration", func(i *Integration) string { return i.ID },
			storage.Index[*Integration]{Name: bySlug, Unique: true, Keys: func(i *Integration) []string { return []string{slugIn(i.WorkspaceID, i.Slug)} }},
			storage.Index[*Integration]{Name: byWorkspace, Counted: true, Max: MaxIntegrations, Rows: "integrations of a workspace, or of the organisation", Keys: func(i *Integration) []string { return []string{i.WorkspaceID} }},
			storage.Index[*Integration]{Name: bySize, Counted: true, Weigh: (*Integration).size, Max: MaxSize, Rows: "bytes of integrations of a workspace, or of the organisation", Keys: func(i *Integration) []string { return []string{i.WorkspaceID} }},
			storage.Index[*Integration]{Name: byAccess, Memory: true, Keys: (*Integration).lists},
			storage.Index[*Integration]{Name: byNamed, Memory: true, Keys: (*Integration).names})),
		references: storage.NewCached(db, storage.NewCollection("secret-reference", func(r *SecretReference) string { return r.ID },
			storage.Index[*SecretReference]{Name: bySlug, Unique: true, Keys: func(r *SecretReference) []string { return []string{r.Slug} }},
			storage.Index[*SecretReference]{Name: byWorkspace, Counted: true, Max: MaxSecretReferences, Rows: "secret references", Keys: func(r *SecretReference) []string { return []string{""} }},
			storage.Index[*SecretReference]{Name: byManager, Memory: true, Keys: func(r *SecretReference) []string { return []string{r.Manager} }},
			storage.Index[*SecretReference]{Name: byNamed, Memory: true, Keys: func(r *SecretReference) []string { return r.Workspaces }})),
		dataKeys: storage.NewCollection("data-key", func(d *dataKey) string { return d.Purpose }),
		now:      now,
		random:   random,
	}
	if err := k.openBox(ctx, db, master); err != nil {
		return nil, err
	}
	if err := k.apiKeys.Load(ctx); err != nil {
		return nil, err
	}
	if err := k.virtualKeys.Load(ctx); err != nil {
		return nil, err
	}
	if err := k.integrations.Load(ctx); err != nil {
		return nil, err
	}
	if err := k.references.Load(ctx); err != nil {
		return nil, err
	}
	return k, k.ownSlugs(ctx, db)
}

// ownSlugs converts the slugs stored by earlier versions to slugs that are unique within a
// workspace. Of several processes that start, one does it, and the others wait for that.
func (k *Keyring) ownSlugs(ctx context.Context, db *storage.DB) error {
	const batch = 20 // bounds a transaction
	for rows := range slices.Chunk(k.virtualKeys.All(), batch) {
		if !slices.ContainsFunc(rows, func(v *VirtualKey) bool { return !v.OwnSlug }) {
			continue
		}
		err := db.Job("virtual-key-slugs").Wait(ctx, func(ctx context.Context, step storage.Step) error {
			return db.Update(ctx, func(tx *storage.Txn) error {
				if err := step.Fence(tx); err != nil {
					return err
				}
				return k.moveSlugs(tx, rows)
			})
		})
		if err != nil {
			return fmt.Errorf("moving the slugs of virtual keys into their workspaces: %w", err)
		}
	}
	return nil
}

func (k *Keyring) moveSlugs(tx *storage.Txn, rows []*VirtualKey) error {
	keys := k.virtualKeys.In(tx)
	for _, v := range rows {
		v, ok := keys.Get(v.ID)
		if !ok || v.OwnSlug {
			continue // deleted or moved meanwhile
		}
		moved := *v
		moved.OwnSlug = true
		if err := keys.Put(tx, &moved); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keyring) openBox(ctx context.Context, db *storage.DB, master Secret) error {
	outer, err := NewMasterBox(k.random, master)
	if err != nil {
		return err
	}
	var sealed []byte
	err = db.View(ctx, func(tx storage.Tx) error {
		d, err := k.dataKeys.Get(tx, providerSecrets)
		if err == nil {
			sealed = d.Sealed
		}
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		if sealed, err = outer.NewDataKey(providerSecrets); err != nil {
			return err
		}
		err = db.Update(ctx, func(tx *storage.Txn) error {
			d, err := k.dataKeys.Get(tx, providerSecrets)
			switch {
			case errors.Is(err, storage.ErrNotFound):
				return k.dataKeys.Put(tx, &dataKey{providerSecrets, sealed})
			case err == nil:
				sealed = d.Sealed // another process was faster
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	if k.box, err = outer.Open(providerSecrets, sealed); err != nil {
		return fmt.Errorf("opening the store's provider secrets: %w; set encryption_key to the key that this store was made with", err)
	}
	return nil
}

// In returns the keyring as tx sees it.
func (k *Keyring) In(tx *storage.Txn) *Keyring {
	in := *k
	in.apiKeys, in.virtualKeys, in.integrations, in.references = k.apiKeys.In(tx), k.virtualKeys.In(tx), k.integrations.In(tx), k.references.In(tx)
	return &in
}

// APIKey returns an API key by its id.
func (k *Keyring) APIKey(id string) (*APIKey, bool) { return k.apiKeys.Get(id) }

// APIKeys returns all API keys in the order of their creation.
func (k *Keyring) APIKeys() []*APIKey { return k.apiKeys.All() }

// APIKeysIn returns the API keys of a workspace in the order of their creation; of "", the
// organisation's own.
func (k *Keyring) APIKeysIn(workspace string) []*APIKey {
	return k.apiKeys.Where(byWorkspace, workspace)
}

// APIKeysOfUser returns the keys of a user in a workspace, or in "", all of the user's.
func (k *Keyring) APIKeysOfUser(user, workspace string) []*APIKey {
	return k.apiKeys.Where(byUser, storage.Combined(user, workspace))
}

// CountAPIKeysOfUser returns how many keys a user has in a workspace, in a transaction (see [Keyring.In]).
func (k *Keyring) CountAPIKeysOfUser(user, workspace string) int {
	return k.apiKeys.Count(byUser, storage.Combined(user, workspace))
}

// users returns by whom the key of a user is found.
func (a *APIKey) users() []string {
	if a.Kind != WorkspaceUser || a.UserID == "" {
		return nil
	}
	return []string{storage.Combined(a.UserID, ""), storage.Combined(a.UserID, a.WorkspaceID)}
}

// HasOwner reports whether a key made at a first start is still there.
func (k *Keyring) HasOwner() bool {
	return slices.ContainsFunc(k.apiKeys.All(), func(a *APIKey) bool { return a.Owner })
}

// Issue stores a as a new API key and returns the key itself, which cannot be retrieved
// later. It fills in ID, Digest, Hint and the times.
func (k *Keyring) Issue(tx *storage.Txn, id, prefix string, a *APIKey) (Secret, error) {
	token, err := NewToken(k.random, prefix)
	if err != nil {
		return Secret{}, err
	}
	now := k.now().UTC()
	a.ID, a.Digest, a.Hint, a.CreatedAt, a.UpdatedAt = id, DigestOf(token.Reveal()), token.Hint(), now, now
	return token, k.apiKeys.Put(tx, a)
}

// ReplaceAPIKey stores a changed copy of an API key.
func (k *Keyring) ReplaceAPIKey(tx *storage.Txn, a *APIKey) error {
	a.UpdatedAt = k.now().UTC()
	return k.apiKeys.Put(tx, a)
}

// Revoke removes an API key. The next request with it is refused.
func (k *Keyring) Revoke(tx *storage.Txn, id string) error {
	if err := k.apiKeys.Delete(tx, id); err != nil {
		return err
	}
	return k.forgetUse(tx, id)
}

// VirtualKey returns a workspace's virtual key by its slug or id. Those of other workspaces
// are ignored.
func (k *Keyring) VirtualKey(workspace, slugOrID string) (*VirtualKey, bool) {
	if v, ok := k.virtualKeys.Get(slugOrID); ok && v.WorkspaceID == workspace {
		return v, true
	}
	return k.virtualKeys.Find(bySlug, slugIn(workspace, slugOrID))
}

// VirtualKeys returns all virtual keys in the order of their creation.
func (k *Keyring) VirtualKeys() []*VirtualKey { return k.virtualKeys.All() }

// VirtualKeysIn returns the virtual keys of a workspace in the order of their creation.
func (k *Keyring) VirtualKeysIn(workspace string) []*VirtualKey {
	return k.virtualKeys.Where(byWorkspace, workspace)
}

// Providers returns the virtual keys of a workspace that are providers of integrations, in the order
// of their creation; of "", those of all workspaces.
func (k *Keyring) Providers(workspace string) []*VirtualKey {
	return k.virtualKeys.Where(asProvider, workspace)
}

// AddVirtualKey stores v, whose ID is set, with secret sealed in it. An error that wraps
// storage.ErrExists means that its workspace already has one with this slug.
func (k *Keyring) AddVirtualKey(tx *storage.Txn, v *VirtualKey, secret Secret) error {
	v.CreatedAt = k.now().UTC()
	return k.ReplaceVirtualKey(tx, v, secret)
}

// ReplaceVirtualKey stores a changed copy of a virtual key. If secret is empty, the stored
// one is kept.
func (k *Keyring) ReplaceVirtualKey(tx *storage.Txn, v *VirtualKey, secret Secret) error {
	if v.IntegrationID == "" {
		if err := k.seal(&v.Credential, secret); err != nil {
			return err
		}
	}
	v.UpdatedAt, v.OwnSlug = k.now().UTC(), true
	return k.virtualKeys.Put(tx, v)
}

// seal seals secret into a credential; an empty one leaves what it has.
func (k *Keyring) seal(c *Credential, secret Secret) error {
	if c.Sealed != nil && secret.Empty() {
		return nil
	}
	sealed, err := k.box.Seal(secret, c.ID)
	if err == nil {
		c.Sealed, c.Hint = sealed, ""
		if !secret.Empty() {
			c.Hint = secret.Hint()
		}
	}
	return err
}

// RemoveVirtualKey removes a virtual key.
func (k *Keyring) RemoveVirtualKey(tx *storage.Txn, id string) error {
	return k.virtualKeys.Delete(tx, id)
}

// ClearKey seals an empty key into a credential.
func (k *Keyring) ClearKey(c *Credential) error { return k.SealKey(c, Secret{}) }

// SealKey seals a key into a credential instead of the one that it has; it may be empty.
func (k *Keyring) SealKey(c *Credential, secret Secret) error {
	c.Sealed = nil
	return k.seal(c, secret)
}

// SealText seals text that may contain credentials, to be stored under id.
func (k *Keyring) SealText(id, text string) ([]byte, error) {
	return k.box.Seal(NewSecret(text), "text/"+id)
}

// UnsealText returns what SealText sealed for id, or ErrWrongKey.
func (k *Keyring) UnsealText(id string, sealed []byte) (string, error) {
	text, err := k.box.Unseal(sealed, "text/"+id)
	return text.Reveal(), err
}

// SealSettings seals the settings of a credential's provider into it: an object of texts,
// and of JSON values.
func (k *Keyring) SealSettings(c *Credential, settings map[string]Secret) (err error) {
	if len(settings) == 0 {
		c.Settings = nil
		return nil
	}
	plain := make(map[string]string, len(settings))
	for name, s := range settings {
		plain[name] = s.Reveal()
	}
	text, err := json.Marshal(plain)
	if err == nil {
		c.Settings, err = k.SealText("settings/"+c.ID, string(text))
	}
	return err
}

// OpenSettings returns what SealSettings sealed.
func (k *Keyring) OpenSettings(c *Credential) (map[string]Secret, error) {
	if c.Settings == nil {
		return nil, nil
	}
	text, err := k.UnsealText("settings/"+c.ID, c.Settings)
	if err != nil {
		return nil, err
	}
	plain := make(map[string]string)
	if err := json.Unmarshal([]byte(text), &plain); err != nil {
		return nil, err
	}
	settings := make(map[string]Secret, len(plain))
	for name, s := range plain {
		settings[name] = NewSecret(s)
	}
	return settings, nil
}

// OpenKey opens a credential.
func (k *Keyring) OpenKey(c *Credential) (Secret, error) { return k.box.Unseal(c.Sealed, c.ID) }
