package credentials

import (
	"encoding/json"
	"net/url"
	"sync/atomic"
	"time"
)

// A VirtualKey stands for a provider credential. The credential is sealed; its
// owner said where it may go (Provider, CustomHost), and callers cannot change that.
type VirtualKey struct {
	ID          string `json:"id"`
	Slug        string `json:"slug"`
	Name        string `json:"name"`
	Note        string `json:"note,omitempty"`
	Provider    string `json:"provider"` // a name of the providers' registry
	WorkspaceID string `json:"workspace_id"`
	// OwnSlug: the slug is one among those of its workspace. Rows of earlier versions have
	// slugs that no other workspace could have; opening the keyring gives them this.
	OwnSlug     bool            `json:"own_slug,omitempty"`
	CustomHost  string          `json:"custom_host,omitempty"`
	ModelConfig json.RawMessage `json:"model_config,omitempty"` // provider-specific settings, an object, secrets masked
	Settings    []byte          `json:"settings,omitempty"`     // the same, sealed whole; see [Keyring.SealSettings]
	Sealed      []byte          `json:"sealed"`
	Hint        string          `json:"hint"`
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
	ExpiresAt   *time.Time      `json:"expires_at,omitempty"`

	// opened is what was made of the stored row. It goes with the row: a change makes another.
	opened *atomic.Pointer[opened]
}

// UnmarshalJSON reads a stored virtual key.
func (v *VirtualKey) UnmarshalJSON(b []byte) error {
	type row VirtualKey
	err := json.Unmarshal(b, (*row)(v))
	v.opened = new(atomic.Pointer[opened])
	return err
}

// An opened virtual key is one whose credential is in the clear and whose address was
// parsed. Nobody changes what it holds.
type opened struct {
	by       *HostGuard  // that let its address pass
	of       *VirtualKey // a changed copy is another
	base     *url.URL
	key      Secret
	settings map[string]Secret
}

// slugs are the values of the index by slug. No slug holds a slash.
func (v *VirtualKey) slugs() []string {
	if v.OwnSlug {
		return []string{slugIn(v.WorkspaceID, v.Slug)}
	}
	return []string{v.Slug}
}

func slugIn(workspace, slug string) string { return workspace + "/" + slug }

// Expired reports whether the virtual key's time is over.
func (v *VirtualKey) Expired(now time.Time) bool {
	return v.ExpiresAt != nil && !now.Before(*v.ExpiresAt)
}

// Status is the virtual key's status as the control plane shows it.
func (v *VirtualKey) Status(now time.Time) string {
	if v.Expired(now) {
		return "expired"
	}
	return "active"
}
