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
