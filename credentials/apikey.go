package credentials

import (
	"encoding/json"
	"time"
)

// An APIKey is a stored service key. Only a digest of the key itself is stored.
type APIKey struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	Description    string          `json:"description,omitempty"`
	Kind           Kind            `json:"kind"`
	OrganisationID string          `json:"organisation_id"`
	WorkspaceID    string          `json:"workspace_id,omitempty"`
	UserID         string          `json:"user_id,omitempty"`
	Owner          bool            `json:"owner,omitempty"` // created at the first start: it has every scope
	Scopes         []string        `json:"scopes"`
	Metadata       json.RawMessage `json:"metadata,omitempty"`  // defaults.metadata, an object
	ConfigID       string          `json:"config_id,omitempty"` // defaults.config_id
	AllowOverride  *bool           `json:"allow_config_override,omitempty"`
	AlertEmails    []string        `json:"alert_emails,omitempty"`
	Digest         Digest          `json:"digest"`
	Hint           string          `json:"hint"`
	CreationMode   string          `json:"creation_mode"`        // api, auto
	CountedAs      string          `json:"counted_as,omitempty"` // id of the key whose limits count its calls; empty: its own
	CreatedAt      time.Time       `json:"created_at"`
	UpdatedAt      time.Time       `json:"updated_at"`
	ExpiresAt      *time.Time      `json:"expires_at,omitempty"`

	Rotation      *Rotation  `json:"rotation,omitempty"`
	Previous      *Digest    `json:"previous,omitempty"`       // of the secret before the last rotation
	PreviousUntil *time.Time `json:"previous_until,omitempty"` // how long it works
	Unclaimed     []byte     `json:"unclaimed,omitempty"`      // the secret of an unattended rotation, sealed

	// The expiries and the rotation for which events were sent: upcoming ones, and an expiry that has passed.
	NotifiedExpiring *time.Time `json:"told_expiring,omitempty"`
	NotifiedRotating *time.Time `json:"told_rotating,omitempty"`
	NotifiedExpired  *time.Time `json:"told_expired,omitempty"`
}

// digests are those by which the key is found. A secret that does not work any more is still
// recognised as one, so that it is never sent to a provider.
func (k *APIKey) digests() []string {
	all := []string{string(k.Digest[:])}
	if k.Previous != nil {
		all = append(all, string(k.Previous[:]))
	}
	return all
}

// Expired reports whether the key's time is over.
func (k *APIKey) Expired(now time.Time) bool { return k.ExpiresAt != nil && !now.Before(*k.ExpiresAt) }

// Status is the key's status as the control plane shows it.
func (k *APIKey) Status(now time.Time) string {
	if k.Expired(now) {
		return "expired"
	}
	return "active"
}
