// Package plugins has what the organisation has saved for those that checks of guardrails ask:
// credentials and addresses, sealed. There is one plugin for a vendor, and there may be one for a
// check, which then counts instead of that of its vendor.
package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/versions"
	"github.com/caddy-gw/gateway/storage"
)

// A Plugin is what is saved for a vendor or a check.
type Plugin struct {
	ID             string    `json:"id"`
	For            string    `json:"for"` // the id of a vendor or a check, see [Name]
	OrganisationID string    `json:"organisation_id"`
	Settings       []byte    `json:"settings,omitempty"` // sealed; see [Store.Open]
	CreatedBy      string    `json:"created_by,omitempty"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// Max bounds the plugins of an organisation, because all are in memory.
const Max = 1000

// Name returns the vendor with an id, or that of the check with an id, and how the id is written.
// ok is false if there is none, or the check asks no service.
func Name(id string) (v *guardrails.Vendor, name string, ok bool) {
	v = guardrails.VendorOf(id)
	switch {
	case v == nil:
		return nil, "", false
	case strings.EqualFold(v.ID, id):
		return v, v.ID, true
	}
	return v, guardrails.Lookup(id).ID, true
}

// IsSecret reports whether a setting is a credential; of a vendor that is not there any more, each
// is.
func IsSecret(v *guardrails.Vendor, setting string) bool {
	if v == nil {
		return true
	}
	at := slices.IndexFunc(v.Settings, func(p guardrails.Parameter) bool { return p.Name == setting })
	return at < 0 || v.Settings[at].Secret
}

// Check checks the settings of a plugin, by its name, and returns those that are stored. A secret that was not
// sent again, or that is masked, is the stored one, if nothing changes that decides where it is sent:
// every setting that is none may. checkHost refuses hosts that checks may not ask. Fields of refused settings are their names behind at.
func Check(v *guardrails.Vendor, name, at string, stored, settings map[string]string, sent func(setting string) bool, checkHost func(string) error, refuse credentials.Refuse) (map[string]string, error) {
	field := func(name string) string { return at + credentials.Clip(name) }
	destination := func(settings map[string]string) credentials.Destination {
		to := credentials.Destination{"plugin_id": name}
		for name, value := range settings {
			if !IsSecret(v, name) {
				to[field(name)] = value
			}
		}
		return to
	}
	bound, to, all := new(credentials.Binding), destination(settings), maps.Clone(settings)
	for name, value := range stored {
		if IsSecret(v, name) {
			bound.Add(credentials.Bound{Field: field(name), Name: name, Secret: credentials.NewSecret(value), For: destination(stored)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !IsSecret(v, name) {
			continue
		}
		var err error
		if sent(name) {
			var secret credentials.Secret
			secret, err = bound.Take(field(name), name, all[name], to)
			all[name] = secret.Reveal()
		} else {
			err = bound.Keep(field(name), to)
		}
		if refused := new(credentials.BindingError); errors.As(err, &refused) {
			return nil, refuse(refused.Field, "%s", refused.Why)
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	checked, faults := v.Read(raw)
	if len(faults) > 0 {
		return nil, refuse(strings.TrimSuffix(field(faults[0].Name), "."), "%s", faults[0].Message)
	}
	for _, a := range v.Addresses(raw) {
		if err := checkHost(a.Host); err != nil {
			return nil, refuse(at+a.Name, "%s", err)
		}
	}
	return checked, nil
}

// A Store holds the plugins. It reads from memory and writes through to the store. It is safe for
// concurrent use.
type Store struct {
	rows   *storage.Cached[*Plugin]
	sealer versions.Sealer
	now    func() time.Time
	newID  func() string
}

const byName = "for"

// Open loads the plugins of a store.
func Open(ctx context.Context, db *storage.DB, sealer versions.Sealer, now func() time.Time, random io.Reader) (*Store, error) {
	all := func(*Plugin) []string { return []string{"all"} }
	s := &Store{
		rows: storage.NewCached(db, storage.NewCollection("plugin", func(p *Plugin) string { return p.ID },
			storage.Index[*Plugin]{Name: byName, Unique: true, Keys: func(p *Plugin) []string { return []string{p.For} }},
			storage.Index[*Plugin]{Name: "all", Counted: true, Max: Max, Rows: "plugins", Keys: all})),
		sealer: sealer, now: now, newID: func() string { return storage.NewID(random) },
	}
	return s, s.rows.Load(ctx)
}

// In returns the plugins as tx sees them.
func (s *Store) In(tx *storage.Txn) *Store {
	in := *s
	in.rows = s.rows.In(tx)
	return &in
}

// Get returns a plugin by its id, or by the id of its vendor or check.
func (s *Store) Get(id string) (*Plugin, bool) {
	if p, ok := s.rows.Get(id); ok {
		return p, true
	}
	if _, name, ok := Name(id); ok {
		id = name
	}
	return s.rows.Find(byName, id)
}

// All returns all plugins in the order of their creation.
func (s *Store) All() []*Plugin { return s.rows.All() }

// Settings returns what is saved for a vendor or a check by its name, or nil.
func (s *Store) Settings(name string) (map[string]string, error) {
	p, ok := s.rows.Find(byName, name)
	if !ok {
		return nil, nil //nolint:nilnil // nothing is saved
	}
	return s.Open(p)
}

// Open returns the settings of a plugin; nil: it has none.
func (s *Store) Open(p *Plugin) (settings map[string]string, err error) {
	if p.Settings == nil {
		return nil, nil //nolint:nilnil // there are none
	}
	text, err := s.sealer.UnsealText("plugin/"+p.ID, p.Settings)
	if err == nil {
		err = json.Unmarshal([]byte(text), &settings)
	}
	if err != nil {
		return nil, fmt.Errorf("opening what is saved for %s: %w", p.For, err)
	}
	return settings, nil
}

// Put stores a plugin with its settings; nil: it has none. The error is [storage.ErrExists] if there
// is another for the same vendor or check.
func (s *Store) Put(tx *storage.Txn, p *Plugin, settings map[string]string) error {
	now := s.now().UTC()
	if p.ID == "" {
		p.ID, p.CreatedAt = s.newID(), now
	}
	p.UpdatedAt = now
	if err := s.Seal(p, settings); err != nil {
		return err
	}
	return s.rows.Put(tx, p)
}

// Seal puts settings into a plugin; nil: it has none.
func (s *Store) Seal(p *Plugin, settings map[string]string) (err error) {
	p.Settings = nil
	if settings == nil {
		return nil
	}
	text, err := json.Marshal(settings)
	if err == nil {
		p.Settings, err = s.sealer.SealText("plugin/"+p.ID, string(text))
	}
	return err
}
