// Package prompts holds the saved prompts of a store, and their partials, labels and
// collections. A prompt is published in versions, which package template renders for
// calls.
package prompts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-gw/gateway/storage"
)

// A Prompt is a saved prompt, or a partial, which is a template that other templates
// include.
type Prompt struct {
	ID             string         `json:"id"`
	Slug           string         `json:"slug"`
	Name           string         `json:"name"`
	Partial        bool           `json:"partial,omitempty"`
	WorkspaceID    string         `json:"workspace_id"`
	OrganisationID string         `json:"organisation_id"`
	CollectionID   string         `json:"collection_id"`
	Archived       bool           `json:"archived,omitempty"`
	Versions       []Version      `json:"versions"`         // oldest first; at least one
	Published      int            `json:"published"`        // the number of a version
	Model          string         `json:"model,omitempty"`  // of the published version
	Labels         map[string]int `json:"labels,omitempty"` // numbers of versions by label id
	Share          *Share         `json:"share,omitempty"`  // nil: it is only its workspace's
	CreatedBy      string         `json:"created_by,omitempty"`
	CreatedAt      time.Time      `json:"created_at"`
	UpdatedAt      time.Time      `json:"updated_at"`

	// The prompt and the version that it is a copy of; "": it is none.
	ForkedFrom        string `json:"forked_from,omitempty"`
	ForkedFromVersion string `json:"forked_from_version,omitempty"`
}

// A Version is a version of a prompt. All versions are in memory, but without their
// [Content], because a workspace may have two million of them.
type Version struct {
	ID        string    `json:"id"`
	Number    int       `json:"number"` // starts at 1
	CreatedAt time.Time `json:"created_at"`
	Size      int       `json:"size,omitempty"` // of the content, in bytes; 0: of an earlier release
}

// A Label is a name for a version of each prompt of a workspace.
type Label struct {
	ID             string    `json:"id"`
	Name           string    `json:"name"`
	Description    string    `json:"description,omitempty"`
	Color          string    `json:"color,omitempty"`
	WorkspaceID    string    `json:"workspace_id"` // empty: of every workspace
	OrganisationID string    `json:"organisation_id"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// A Collection is a folder of prompts.
type Collection struct {
	ID          string    `json:"id"`
	Slug        string    `json:"slug"`
	Name        string    `json:"name"`
	WorkspaceID string    `json:"workspace_id"`
	ParentID    string    `json:"parent_id,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	Default     bool      `json:"-"` // of its workspace; not stored
}

// Bounds of a workspace, whose prompts are in memory except for their texts. Exceeding
// one is a [storage.FullError].
const (
	MaxPrompts     = 10_000  // including partials
	MaxVersions    = 200     // of a prompt; after that, the oldest one without a label is removed
	MaxSize        = 1 << 30 // bytes of the contents of all versions, which are on disk
	MaxLabels      = 200
	MaxCollections = 1_000
	MaxNesting     = 10 // of collections
)

// ErrVersions means that there is no version of the prompt that could be removed to
// make room for another one.
var ErrVersions = errors.New("every version of the prompt has a label or is published")

const (
	bySlug      = "slug"
	byName      = "name"
	byWorkspace = "workspace" // counted by workspace

	byParent     = "parent" // collections
	byCollection = "collection"
	byList       = "list"   // see [Prompt.lists]
	bySharer     = "sharer" // see [Store.SharedBy]
)

// A Store holds the prompts of a database. It reads from memory, except for texts, and
// writes through. It is safe for concurrent use.
type Store struct {
	db          *storage.DB
	tx          *storage.Txn // set by In
	prompts     *storage.Cached[*Prompt]
	labels      *storage.Cached[*Label]
	collections *storage.Cached[*Collection]
	contents    *storage.Collection[*Content]
	compiled    *compiled
	now         func() time.Time
	random      io.Reader
}

// Open loads the prompts of a database.
func Open(ctx context.Context, db *storage.DB, now func() time.Time, random io.Reader) (*Store, error) {
	s := &Store{
		db: db, compiled: new(compiled), now: now, random: random,
		prompts: storage.NewCached(db, storage.NewCollection("prompt", func(p *Prompt) string { return p.ID },
			storage.Index[*Prompt]{Name: bySlug, Unique: true, Keys: func(p *Prompt) []string { return []string{p.Slug} }},
			storage.Index[*Prompt]{Name: byWorkspace, Counted: true, Max: MaxPrompts, Rows: "prompts and partials of a workspace", Keys: func(p *Prompt) []string { return []string{p.WorkspaceID} }},
			storage.Index[*Prompt]{Name: "size", Counted: true, Weigh: (*Prompt).size, Max: MaxSize, Rows: "bytes of prompts and partials of a workspace, with their versions", Keys: func(p *Prompt) []string { return []string{p.WorkspaceID} }},
			storage.Index[*Prompt]{Name: byCollection, Memory: true, Keys: func(p *Prompt) []string { return []string{p.CollectionID} }},
			storage.Index[*Prompt]{Name: bySharer, Counted: true, Keys: (*Prompt).sharer},
			storage.Index[*Prompt]{Name: byList, Memory: true, Keys: (*Prompt).lists})),
		labels: storage.NewCached(db, storage.NewCollection("prompt-label", func(l *Label) string { return l.ID },
			storage.Index[*Label]{Name: byName, Unique: true, Keys: func(l *Label) []string { return []string{l.WorkspaceID + "/" + l.Name} }},
			storage.Index[*Label]{Name: byWorkspace, Counted: true, Max: MaxLabels, Rows: "labels of a workspace", Keys: func(l *Label) []string { return []string{l.WorkspaceID} }})),
		collections: storage.NewCached(db, storage.NewCollection("prompt-collection", func(c *Collection) string { return c.ID },
			storage.Index[*Collection]{Name: bySlug, Unique: true, Keys: func(c *Collection) []string { return []string{c.Slug} }},
			storage.Index[*Collection]{Name: byWorkspace, Counted: true, Max: MaxCollections, Rows: "collections of a workspace", Keys: func(c *Collection) []string { return []string{c.WorkspaceID} }},
			storage.Index[*Collection]{Name: byParent, Memory: true, Keys: (*Collection).parents})),
		contents: storage.NewCollection("prompt-version", (*Content).key),
	}
	db.OnCheck(s.check)
	return s, errors.Join(s.prompts.Load(ctx), s.labels.Load(ctx), s.collections.Load(ctx))
}

// check returns an error that lists the versions of stored prompts without a content, and the
// contents without a version.
func (s *Store) check(tx storage.Tx) error {
	var faults []error
	of := make(map[string]string)
	for _, p := range s.In(&storage.Txn{Tx: tx}).All() {
		for i := range p.Versions {
			of[p.Versions[i].ID] = p.Slug
		}
	}
	for c, err := range s.contents.All(tx) {
		if err != nil {
			return errors.Join(append(faults, err)...)
		}
		if of[c.ID] == "" {
			faults = append(faults, fmt.Errorf("the content %s belongs to no version of a prompt", c.ID))
		}
		delete(of, c.ID)
	}
	for id, slug := range of {
		faults = append(faults, fmt.Errorf("the version %s of the prompt %s has no content", id, slug))
	}
	return errors.Join(faults...)
}

// In returns the prompts as tx sees them.
func (s *Store) In(tx *storage.Txn) *Store {
	in := *s
	in.tx = tx
	in.prompts, in.labels, in.collections = s.prompts.In(tx), s.labels.In(tx), s.collections.In(tx)
	return &in
}

// All returns all prompts and partials in the order of their creation.
func (s *Store) All() []*Prompt { return s.prompts.All() }

// Get returns a prompt or a partial by its id or slug.
func (s *Store) Get(idOrSlug string) (*Prompt, bool) {
	if p, ok := s.prompts.Get(strings.ToLower(idOrSlug)); ok {
		return p, true
	}
	return s.prompts.Find(bySlug, idOrSlug)
}

// Find returns the prompt that a reference means in a workspace, which may be one that is
// shared with it: an id or slug, optionally followed by @ and a version, which is a number, latest or a label. The
// default is the published version.
func (s *Store) Find(workspace, reference string, partial bool) (*Prompt, *Version, bool) {
	name, which, named := strings.Cut(reference, "@")
	p, ok := s.Get(name)
	if !ok || named && which == "" || !p.VisibleIn(workspace) || p.Partial != partial || p.Archived {
		return nil, nil, false
	}
	v, ok := s.Version(p, which)
	return p, v, ok
}

// Version returns a version by its id, its number, latest, or the name of a label. The
// empty string means the published version.
func (s *Store) Version(p *Prompt, which string) (*Version, bool) {
	return p.Version(which, func(name string) (string, bool) {
		l, ok := s.labelNamed(p.WorkspaceID, name)
		if !ok {
			return "", false
		}
		return l.ID, true
	})
}

// Version is [Store.Version] where label returns the id of the label with a name in the prompt's workspace.
func (p *Prompt) Version(which string, label func(name string) (id string, ok bool)) (*Version, bool) {
	var number int
	switch which {
	case "", "default":
		number = p.Published
	case "latest":
		return p.Latest(), true
	default:
		var err error
		if number, err = strconv.Atoi(which); err != nil {
			if id, ok := label(which); ok {
				number = p.Labels[id]
			}
		}
	}
	for i := range p.Versions {
		if v := &p.Versions[i]; v.Number == number || v.ID == which {
			return v, true
		}
	}
	return nil, false
}

// size is what the contents of the versions take, in bytes.
func (p *Prompt) size() (size int) {
	for i := range p.Versions {
		size += p.Versions[i].Size
	}
	return size
}

// Latest returns the newest version.
func (p *Prompt) Latest() *Version { return &p.Versions[len(p.Versions)-1] }

// LabelsOf returns the labels of a version, ordered by id.
func (s *Store) LabelsOf(p *Prompt, v *Version) []*Label {
	var labels []*Label
	for id, number := range p.Labels {
		if l, ok := s.Label(id); ok && number == v.Number { // the label may have been deleted since
			labels = append(labels, l)
		}
	}
	slices.SortFunc(labels, func(a, b *Label) int { return cmp.Compare(a.ID, b.ID) })
	return labels
}

// Named returns the versions that a call can refer to other than by number: the
// published one, the newest one, and those with labels.
func (s *Store) Named(p *Prompt) (versions []*Version) {
	for i := range p.Versions {
		if v := &p.Versions[i]; i == len(p.Versions)-1 || v.Number == p.Published || len(s.LabelsOf(p, v)) > 0 {
			versions = append(versions, v)
		}
	}
	return versions
}

// Add stores a new prompt, whose slug is set, and publishes its first version.
func (s *Store) Add(tx *storage.Txn, p *Prompt, c *Content) error {
	p.ID, p.CreatedAt, p.Published = storage.NewID(s.random), s.now().UTC(), 1
	return s.Put(tx, p, c)
}

// Put stores a changed copy of a prompt. If content is not nil, it becomes the newest
// version.
func (s *Store) Put(tx *storage.Txn, p *Prompt, c *Content) error {
	p.UpdatedAt = s.now().UTC()
	if c != nil {
		v := Version{ID: storage.NewID(s.random), Number: 1, CreatedAt: p.UpdatedAt, Size: c.Size()}
		if len(p.Versions) > 0 {
			v.Number = p.Latest().Number + 1
		}
		if p.Versions = slices.Clone(p.Versions); len(p.Versions) >= MaxVersions {
			if err := s.drop(tx, p); err != nil {
				return err
			}
		}
		p.Versions = append(p.Versions, v)
		if v.Number == p.Published {
			p.Model = c.ModelName()
		}
		c.ID = v.ID
		if err := s.putContent(tx, p, c); err != nil {
			return err
		}
	}
	return s.prompts.Put(tx, p)
}

// Restore stores a prompt as it is, with the contents of those of its versions that are new.
func (s *Store) Restore(tx *storage.Txn, p *Prompt, added []*Content) error {
	for _, c := range added {
		if err := s.putContent(tx, p, c); err != nil {
			return err
		}
	}
	return s.prompts.Put(tx, p)
}

// Publish publishes a version of a changed copy of a prompt, and stores the prompt.
func (s *Store) Publish(ctx context.Context, tx *storage.Txn, p *Prompt, v *Version) error {
	c, err := s.In(tx).Content(ctx, p, v)
	if err != nil {
		return err
	}
	p.Published, p.Model = v.Number, c.ModelName()
	return s.Put(tx, p, nil)
}

// drop removes the oldest version that is neither published nor labelled.
func (s *Store) drop(tx *storage.Txn, p *Prompt) error {
	for i := range p.Versions {
		if v := &p.Versions[i]; v.Number != p.Published && len(s.LabelsOf(p, v)) == 0 {
			if err := s.dropContent(tx, p, v); err != nil {
				return err
			}
			p.Versions = slices.Delete(p.Versions, i, i+1)
			return nil
		}
	}
	return ErrVersions
}

// Delete removes a prompt with all its versions.
func (s *Store) Delete(tx *storage.Txn, p *Prompt) error {
	for i := range p.Versions {
		if err := s.dropContent(tx, p, &p.Versions[i]); err != nil {
			return err
		}
	}
	return s.prompts.Delete(tx, p.ID)
}

// universal are the labels of every workspace.
var universal = []*Label{
	{ID: "00000000-0000-4000-8000-000000000001", Name: "production"},
	{ID: "00000000-0000-4000-8000-000000000002", Name: "staging"},
	{ID: "00000000-0000-4000-8000-000000000003", Name: "development"},
}

// Universal reports whether the label belongs to every workspace.
func (l *Label) Universal() bool { return l.WorkspaceID == "" }

// UniversalLabels returns the labels of every workspace. The slice is shared and must not be modified.
func UniversalLabels() []*Label { return universal }

// Labels returns the labels that a workspace has itself, in the order of their creation; of "", those of all
// workspaces.
func (s *Store) Labels(workspace string) []*Label {
	if workspace == "" {
		return s.labels.All()
	}
	return s.labels.Where(byWorkspace, workspace)
}

// Label returns a label by its id.
func (s *Store) Label(id string) (*Label, bool) {
	id = strings.ToLower(id)
	for _, l := range universal {
		if l.ID == id {
			return l, true
		}
	}
	return s.labels.Get(id)
}

// labelNamed returns the label with this name in a workspace.
func (s *Store) labelNamed(workspace, name string) (*Label, bool) {
	for _, l := range universal {
		if l.Name == name {
			return l, true
		}
	}
	return s.labels.Find(byName, workspace+"/"+name)
}

// PutLabel stores a label, which is new if it has no id. The error wraps
// storage.ErrExists if the workspace already has a label with this name.
func (s *Store) PutLabel(tx *storage.Txn, l *Label) error {
	for _, u := range universal {
		if u.Name == l.Name {
			return storage.ErrExists
		}
	}
	l.UpdatedAt = s.now().UTC()
	if l.ID == "" {
		l.ID, l.CreatedAt = storage.NewID(s.random), l.UpdatedAt
	}
	return s.labels.Put(tx, l)
}

// DeleteLabel removes a label. Prompts that refer to it are not written, because there
// may be more of them than fit into a transaction; see LabelsOf.
func (s *Store) DeleteLabel(tx *storage.Txn, l *Label) error { return s.labels.Delete(tx, l.ID) }

// DefaultCollection returns the collection that every workspace has.
func DefaultCollection(workspace string, since time.Time) *Collection {
	id := uuid.NewSHA1(uuid.NameSpaceOID, []byte("collection of workspace "+workspace)).String()
	return &Collection{ID: id, Slug: "co-default-" + id[:6], Name: "Default", WorkspaceID: workspace, CreatedAt: since, UpdatedAt: since, Default: true}
}

// Collections returns the created collections of a workspace in the order of their creation; of "", those of all.
func (s *Store) Collections(workspace string) []*Collection {
	if workspace == "" {
		return s.collections.All()
	}
	return s.collections.Where(byWorkspace, workspace)
}

// CollectionsIn returns the collections in another one, in the order of their creation.
func (s *Store) CollectionsIn(id string) []*Collection { return s.collections.Where(byParent, id) }

// Collection returns a created collection by its id or slug.
func (s *Store) Collection(idOrSlug string) (*Collection, bool) {
	if c, ok := s.collections.Get(strings.ToLower(idOrSlug)); ok {
		return c, true
	}
	return s.collections.Find(bySlug, idOrSlug)
}

func (c *Collection) parents() []string {
	if c.ParentID == "" {
		return nil
	}
	return []string{c.ParentID}
}

// PutCollection stores a collection, which is new if it has no id.
func (s *Store) PutCollection(tx *storage.Txn, c *Collection) error {
	c.UpdatedAt = s.now().UTC()
	if c.ID == "" {
		c.ID, c.CreatedAt = storage.NewID(s.random), c.UpdatedAt
	}
	return s.collections.Put(tx, c)
}

// DeleteCollection removes a collection.
func (s *Store) DeleteCollection(tx *storage.Txn, id string) error {
	return s.collections.Delete(tx, id)
}
