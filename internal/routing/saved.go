package routing

import (
	"context"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

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

// A Version is one text of a saved config.
type Version struct {
	ID        string    `json:"id"`
	Number    int       `json:"number"` // counted from 1
	Sealed    []byte    `json:"sealed"` // the config's JSON, which may hold credentials
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty"`
}

// MaxVersions is how many versions of a config are kept.
const MaxVersions = 100

// Current is the version in force.
func (s *Saved) Current() *Version { return &s.Versions[len(s.Versions)-1] }

// Version returns a version by its id or its number, counted from 1; "" is the current one.
func (s *Saved) Version(which string) (*Version, bool) {
	if which == "" {
		return s.Current(), true
	}
	for i := range s.Versions {
		if s.Versions[i].ID == which || strconv.Itoa(s.Versions[i].Number) == which {
			return &s.Versions[i], true
		}
	}
	return nil, false
}

// A Sealer encrypts values for storage. A sealed value can only be opened with the id that
// it was sealed for.
type Sealer interface {
	SealText(id, text string) ([]byte, error)
	UnsealText(id string, sealed []byte) (string, error)
}

// A ConfigStore holds the saved configs. It reads from memory and writes through to the
// store. It is safe for concurrent use.
type ConfigStore struct {
	rows   *storage.Cached[Saved]
	sealer Sealer
	parsed *sync.Map // by version id: *Config
	now    func() time.Time
	random io.Reader
}

const bySlug = "slug"

// MaxConfigs is how many configs a workspace has at most, because all are in memory.
const MaxConfigs = 10_000

// OpenConfigStore loads the configs of a store.
func OpenConfigStore(ctx context.Context, db *storage.DB, sealer Sealer, now func() time.Time, random io.Reader) (*ConfigStore, error) {
	s := &ConfigStore{
		rows: storage.NewCached(db, storage.NewCollection("config", func(c *Saved) string { return c.ID },
			storage.Index[Saved]{Name: bySlug, Unique: true, Keys: func(c *Saved) []string { return []string{c.Slug} }},
			storage.Index[Saved]{Name: byWorkspace, Counted: true, Max: MaxConfigs, Rows: "configs of a workspace", Keys: func(c *Saved) []string { return []string{c.WorkspaceID} }})),
		sealer: sealer, parsed: new(sync.Map), now: now, random: random,
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
func (s *ConfigStore) Text(v *Version) (string, error) { return s.sealer.UnsealText(v.ID, v.Sealed) }

// Config returns a version, parsed with o. It is parsed once. A version that was valid when
// it was saved can be invalid if the options have changed since.
func (s *ConfigStore) Config(v *Version, o Options) (*Config, error) {
	if c, ok := s.parsed.Load(v.ID); ok {
		return c.(*Config), nil
	}
	text, err := s.Text(v)
	if err != nil {
		return nil, err
	}
	c, faults := Parse([]byte(text), o)
	if len(faults) > 0 {
		return nil, faults.Err()
	}
	s.parsed.Store(v.ID, c)
	return c, nil
}

// All returns all configs in the order of their creation.
func (s *ConfigStore) All() []*Saved { return s.rows.All() }

// DefaultOf returns the default config of a workspace, or nil.
func (s *ConfigStore) DefaultOf(workspace string) *Saved {
	for _, c := range s.rows.All() {
		if c.Default && !c.Archived && c.WorkspaceID == workspace {
			return c
		}
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
	now := s.now().UTC()
	if c.ID == "" {
		c.ID, c.CreatedAt = storage.NewID(s.random), now
	}
	c.UpdatedAt, c.UpdatedBy = now, by
	if text != "" {
		number := 1
		if len(c.Versions) > 0 {
			number = c.Current().Number + 1
		}
		v := Version{ID: storage.NewID(s.random), Number: number, CreatedAt: now, CreatedBy: by}
		var err error
		if v.Sealed, err = s.sealer.SealText(v.ID, text); err != nil {
			return err
		}
		versions := append(slices.Clone(c.Versions), v)
		kept := max(0, len(versions)-MaxVersions)
		s.forget(versions[:kept])
		c.Versions = versions[kept:]
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
		s.forget(c.Versions)
	}
	return s.rows.Delete(tx, id)
}

// forget drops what was parsed of versions.
func (s *ConfigStore) forget(versions []Version) {
	for i := range versions {
		s.parsed.Delete(versions[i].ID)
	}
}
