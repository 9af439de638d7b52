package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/versions"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/storage"
)

// A Guardrail is a hook that is stored under a slug, with all its versions.
type Guardrail struct {
	ID             string    `json:"id"`
	Slug           string    `json:"slug"`
	Name           string    `json:"name"`
	WorkspaceID    string    `json:"workspace_id,omitempty"` // "": it is the organisation's, whose workspaces may use it
	OrganisationID string    `json:"organisation_id"`
	OwnerID        string    `json:"owner_id,omitempty"`
	UpdatedBy      string    `json:"updated_by,omitempty"`
	Versions       []Version `json:"versions"` // oldest first; the last one is the current one
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// A Version is the checks and actions that a saved guardrail has or had: a [Text], whose parameters
// may have credentials.
type Version = versions.Version

// A Text is what a version says, as JSON: a list and an object.
type Text struct{ Checks, Actions json.RawMessage }

// MaxGuardrails bounds the guardrails of a workspace, and of the organisation itself, because all are
// in memory.
const MaxGuardrails = 1000

// MaxGuardrailSize bounds the versions of all guardrails of a workspace together, in bytes.
const MaxGuardrailSize = 32 << 20

// Current is the version in force.
func (g *Guardrail) Current() *Version { return &g.Versions[len(g.Versions)-1] }

// Version returns a version by its id or its number, counted from 1; "" is the current one.
func (g *Guardrail) Version(which string) (*Version, bool) { return versions.Find(g.Versions, which) }

// A Store holds the saved guardrails. It reads from memory and writes through to the store. It is
// safe for concurrent use.
type Store struct {
	rows    *storage.Cached[*Guardrail]
	history *versions.History[*Hook]
}

const (
	bySlug      = "slug"
	byWorkspace = "workspace"
	byList      = "list" // see [Guardrail.lists]
)

// OpenStore loads the guardrails of a store.
func OpenStore(ctx context.Context, db *storage.DB, sealer versions.Sealer, now func() time.Time, random io.Reader) (*Store, error) {
	s := &Store{
		rows: storage.NewCached(db, storage.NewCollection("guardrail", func(g *Guardrail) string { return g.ID },
			storage.Index[*Guardrail]{Name: bySlug, Unique: true, Keys: func(g *Guardrail) []string { return []string{g.Slug} }},
			storage.Index[*Guardrail]{Name: byWorkspace, Counted: true, Max: MaxGuardrails, Rows: "guardrails of a workspace", Keys: func(g *Guardrail) []string { return []string{g.WorkspaceID} }},
			storage.Index[*Guardrail]{Name: "size", Counted: true, Weigh: func(g *Guardrail) int { return versions.Size(g.Versions) }, Max: MaxGuardrailSize, Rows: "bytes of guardrails of a workspace, with their versions", Keys: func(g *Guardrail) []string { return []string{g.WorkspaceID} }},
			storage.Index[*Guardrail]{Name: byList, Memory: true, Keys: (*Guardrail).lists})),
		history: &versions.History[*Hook]{Sealer: sealer, Now: now, NewID: func() string { return storage.NewID(random) }},
	}
	return s, s.rows.Load(ctx)
}

// In returns the guardrails as tx sees them.
func (s *Store) In(tx *storage.Txn) *Store {
	in := *s
	in.rows = s.rows.In(tx)
	return &in
}

// Get returns a guardrail by its id or slug.
func (s *Store) Get(idOrSlug string) (*Guardrail, bool) {
	if g, ok := s.rows.Get(idOrSlug); ok {
		return g, true
	}
	return s.rows.Find(bySlug, idOrSlug)
}

// Usable returns a guardrail that a workspace may use: its own, or one of the organisation.
func (s *Store) Usable(workspace, idOrSlug string) (*Guardrail, bool) {
	g, ok := s.Get(idOrSlug)
	if !ok || g.WorkspaceID != "" && g.WorkspaceID != workspace {
		return nil, false
	}
	return g, true
}

// ErrUnknown is the error of a guardrail that a workspace does not have, or of a version that the
// guardrail does not have.
var ErrUnknown = errors.New("there is no such guardrail")

// Hook returns a version of a guardrail that a workspace may use, as a hook that must not be changed.
func (s *Store) Hook(workspace, idOrSlug, version string) (*Hook, error) {
	g, ok := s.Usable(workspace, idOrSlug)
	if !ok {
		return nil, ErrUnknown
	}
	v, ok := g.Version(version)
	if !ok {
		return nil, ErrUnknown
	}
	return s.hook(g, v)
}

// HookOf returns the hook of a version of a guardrail, which need not be stored.
func (s *Store) HookOf(g *Guardrail, v *Version) (*Hook, error) { return s.hook(g, v) }

// hook parses a version, once. What was valid when it was saved may not be any more, if a check is
// gone: its hook then has a check that errors.
func (s *Store) hook(g *Guardrail, v *Version) (*Hook, error) {
	return s.history.Parsed(v, func(text string) (*Hook, error) {
		t := textOf(text)
		h := Saved(t.Checks, t.Actions, Options{Broken: true}, func(string, string) {})
		h.ID, h.VersionID, h.Concealed = g.Slug, v.ID, g.WorkspaceID == ""
		return h, nil
	})
}

// Text returns what a version says.
func (s *Store) Text(v *Version) (Text, error) {
	text, err := s.history.Text(v)
	if err != nil {
		return Text{}, err
	}
	return textOf(text), nil
}

func textOf(text string) Text {
	members := gjson.Parse(text)
	return Text{json.RawMessage(members.Get("checks").Raw), json.RawMessage(members.Get("actions").Raw)}
}

// All returns all guardrails in the order of their creation.
func (s *Store) All() []*Guardrail { return s.rows.All() }

// OfWorkspace returns the guardrails of a workspace in the order of their creation; of "", those of the
// organisation.
func (s *Store) OfWorkspace(workspace string) []*Guardrail {
	return s.rows.Where(byWorkspace, workspace)
}

// OfWorkspaces returns the guardrails of all workspaces, without those of the organisation, in the order of their
// creation.
func (s *Store) OfWorkspaces() []*Guardrail { return s.rows.Where(byList, ofWorkspaces) }

const ofWorkspaces = "workspaces"

func (g *Guardrail) lists() []string {
	if g.WorkspaceID == "" {
		return nil
	}
	return []string{ofWorkspaces}
}

// CountOf returns how many guardrails a workspace has, in a transaction (see [Store.In]).
func (s *Store) CountOf(workspace string) int { return s.rows.Count(byWorkspace, workspace) }

// Of returns the ids of at most limit guardrails of a workspace.
func (s *Store) Of(workspace string, limit int) []string {
	return storage.Some(s.rows.Where(byWorkspace, workspace), limit, func(g *Guardrail) string { return g.ID })
}

// Put stores a guardrail. If text is not nil, it becomes the newest version, created by by.
func (s *Store) Put(tx *storage.Txn, g *Guardrail, text *Text, by string) error {
	now := s.history.Now().UTC()
	if g.ID == "" {
		g.ID, g.CreatedAt = s.history.NewID(), now
	}
	g.UpdatedAt, g.UpdatedBy = now, by
	if text != nil {
		var b jsonscan.Builder
		b.Open('{')
		b.Key("checks").Raw(text.Checks)
		b.Key("actions").Raw(text.Actions)
		b.Close('}')
		var err error
		if g.Versions, err = s.history.Add(g.Versions, string(b), by); err != nil {
			return err
		}
	}
	return s.rows.Put(tx, g)
}

// Delete removes a guardrail with all its versions.
func (s *Store) Delete(tx *storage.Txn, id string) error {
	if g, ok := s.In(tx).Get(id); ok {
		s.history.Forget(g.Versions)
	}
	return s.rows.Delete(tx, id)
}

// AsStart returns the hook as one that runs at the start of a call, which is not async and changes
// nothing.
func (h *Hook) AsStart() *Hook {
	if !h.Mutator && !h.Async {
		return h
	}
	other := *h
	other.Mutator, other.Async = false, false
	return &other
}

// As returns the hook as one of a list of mutators, if it is not one.
func (h *Hook) As(mutator bool) *Hook {
	if h.Mutator || !mutator {
		return h
	}
	other := *h
	other.Mutator, other.Key = true, key([]byte(h.Key), []byte("mutator"))
	return &other
}
