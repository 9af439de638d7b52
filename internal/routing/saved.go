package routing

import (
	"context"
	"io"
	"time"

	"github.com/caddy-gw/gateway/internal/versions"
	"github.com/caddy-gw/gateway/storage"
)

// A Saved is a config that is stored under a slug, with all its versions.
type Saved struct {
	ID             string    `json:"id"`
	Slug           string    `json:"slug"`
	Name           string    `json:"name"`
	WorkspaceID    string    `json:"workspace_id"`
	OrganisationID string    `json:"organisation_id"`
	Default        bool      `json:"default,omitempty"` // of its workspace
	Archived       bool      `json:"archived,omitempty"`
	OwnerID        string    `json:"owner_id,omitempty"`
	UpdatedBy      string    `json:"updated_by,omitempty"`
	Versions       []Version `json:"versions"` // oldest first; the last one is the current one
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// A Version is the JSON that a saved config has or had.
type Version = versions.Version

// Current is the version in force.
func (s *Saved) Current() *Version { return &s.Versions[len(s.Versions)-1] }

// Version returns a version by its id or its number, counted from 1; "" is the current one.
func (s *Saved) Version(which string) (*Version, bool) { return versions.Find(s.Versions, which) }

// A ConfigStore holds the saved configs. It reads from memory and writes through to the
// store. It is safe for concurrent use.
type ConfigStore struct {
	rows    *storage.Cached[*Saved]
	history *versions.History[*Config]
}

const (
	bySlug    = "slug"
	byDefault = "default" // by the workspace whose default it is
	listed    = "listed"  // those that are not archived, by workspace; "": all
)

// listedIn returns the lists that the config is in.
func (s *Saved) listedIn() []string {
	if s.Archived {
		return nil
	}
	return []string{s.WorkspaceID, ""}
}

// defaultOf returns the workspace whose default the config is.
func (s *Saved) defaultOf() []string {
	if s.Default && !s.Archived {
		return []string{s.WorkspaceID}
	}
	return nil
}

// MaxConfigs is how many configs a workspace has at most, because all are in memory.
const MaxConfigs = 10_000

// MaxConfigSize bounds the versions of all configs of a workspace together, in bytes.
const MaxConfigSize = 64 << 20

// OpenConfigStore loads the configs of a store.
func OpenConfigStore(ctx context.Context, db *storage.DB, sealer versions.Sealer, now func() time.Time, random io.Reader) (*ConfigStore, error) {
	s := &ConfigStore{
		rows: storage.NewCached(db, storage.NewCollection("config", func(c *Saved) string { return c.ID },
			storage.Index[*Saved]{Name: bySlug, Unique: true, Keys: func(c *Saved) []string { return []string{c.Slug} }},
			storage.Index[*Saved]{Name: byWorkspace, Counted: true, Max: MaxConfigs, Rows: "configs of a workspace", Keys: func(c *Saved) []string { return []string{c.WorkspaceID} }},
			storage.Index[*Saved]{Name: "size", Counted: true, Weigh: func(c *Saved) int { return versions.Size(c.Versions) }, Max: MaxConfigSize, Rows: "bytes of configs of a workspace, with their versions", Keys: func(c *Saved) []string { return []string{c.WorkspaceID} }},
			storage.Index[*Saved]{Name: byDefault, Counted: true, Keys: (*Saved).defaultOf},
			storage.Index[*Saved]{Name: listed, Memory: true, Keys: (*Saved).listedIn})),
		history: &versions.History[*Config]{Sealer: sealer, Now: now, NewID: func() string { return storage.NewID(random) }},
	}
	return s, s.rows.Load(ctx)
}

// In returns the configs as tx sees them.
func (s *ConfigStore) In(tx *storage.Txn) *ConfigStore {
	in := *s
	in.rows = s.rows.In(tx)
	return &in
}

// Get returns a config by its id or slug.
func (s *ConfigStore) Get(idOrSlug string) (*Saved, bool) {
	if c, ok := s.rows.Get(idOrSlug); ok {
		return c, true
	}
	return s.rows.Find(bySlug, idOrSlug)
}

// Text returns the JSON of a version.
func (s *ConfigStore) Text(v *Version) (string, error) { return s.history.Text(v) }

// Config returns a version, parsed with o. It is parsed once. A version that was valid when
// it was saved can be invalid if the options have changed since. Its checks may be gone: see
// [Options.BrokenChecks].
func (s *ConfigStore) Config(v *Version, o Options) (*Config, error) {
	o.BrokenChecks = true
	return s.history.Parsed(v, func(text string) (*Config, error) {
		c, faults := Parse([]byte(text), o)
		if len(faults) > 0 {
			return nil, faults.Err()
		}
		return c, nil
	})
}

// All returns all configs in the order of their creation.
func (s *ConfigStore) All() []*Saved { return s.rows.All() }

// Listed returns the configs of a workspace that are not archived, in the order of their creation;
// of "", those of all workspaces.
func (s *ConfigStore) Listed(workspace string) []*Saved { return s.rows.Where(listed, workspace) }

// DefaultOf returns the default config of a workspace, or nil.
func (s *ConfigStore) DefaultOf(workspace string) *Saved {
	if found := s.rows.Where(byDefault, workspace); len(found) > 0 {
		return found[0]
	}
	return nil
}

func (s *ConfigStore) isDefault(id string) bool {
	c, ok := s.rows.Get(id)
	return ok && c.Default && !c.Archived
}

// Put stores a config. If text is not empty, it becomes the newest version, created by by.
// A config that becomes its workspace's default replaces the previous default.
func (s *ConfigStore) Put(tx *storage.Txn, c *Saved, text, by string) error {
	now := s.history.Now().UTC()
	if c.ID == "" {
		c.ID, c.CreatedAt = s.history.NewID(), now
	}
	c.UpdatedAt, c.UpdatedBy = now, by
	if text != "" {
		var err error
		if c.Versions, err = s.history.Add(c.Versions, text, by); err != nil {
			return err
		}
	}
	if stored := s.In(tx); c.Default && !stored.isDefault(c.ID) {
		if old := stored.DefaultOf(c.WorkspaceID); old != nil && old.ID != c.ID {
			demoted := *old
			demoted.Default = false
			if err := s.rows.Put(tx, &demoted); err != nil {
				return err
			}
		}
	}
	return s.rows.Put(tx, c)
}

// Delete removes a config with all its versions.
func (s *ConfigStore) Delete(tx *storage.Txn, id string) error {
	if c, ok := s.In(tx).Get(id); ok {
		s.history.Forget(c.Versions)
	}
	return s.rows.Delete(tx, id)
}
