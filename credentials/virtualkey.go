package credentials

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// A Credential is a stored provider credential, which is sealed. Its owner determines where it
// may be sent (Provider, CustomHost, ModelConfig), which callers cannot change.
type Credential struct {
	ID          string          `json:"id"`       // of the row that contains it; the secrets are sealed for it
	Provider    string          `json:"provider"` // a registered provider
	CustomHost  string          `json:"custom_host,omitempty"`
	ModelConfig json.RawMessage `json:"model_config,omitempty"` // provider-specific settings, an object, secrets masked
	Settings    []byte          `json:"settings,omitempty"`     // the same, sealed whole; see [Keyring.SealSettings]
	Sealed      []byte          `json:"sealed,omitempty"`
	Hint        string          `json:"hint"`
	Mappings    []SecretMapping `json:"mappings,omitempty"` // parts that are not stored, each of another field

	// Machine is the cloud for which the credential is what the gateway's machine is, aws or azure; "": it is not. It
	// is only set by whoever may say so, and not by the settings alone.
	Machine string `json:"machine,omitempty"`

	// opened caches the opened key. A changed row is a new value with its own cache.
	opened *atomic.Pointer[opened]
}

// A VirtualKey stands for a provider credential in a workspace: its own, or that of an
// integration. In the second case it is a provider, and its Credential has only ID and Provider.
type VirtualKey struct {
	Credential
	IntegrationID string `json:"integration_id,omitempty"`

	Slug        string `json:"slug"`
	Name        string `json:"name"`
	Note        string `json:"note,omitempty"`
	WorkspaceID string `json:"workspace_id"`
	// OwnSlug is set if the slug is unique within its workspace. Rows written by earlier
	// versions have slugs that are unique in the store; they are converted when the keyring
	// is opened.
	OwnSlug   bool       `json:"own_slug,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// UnmarshalJSONFrom reads a stored virtual key.
func (v *VirtualKey) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type row VirtualKey
	err := jsonv2.UnmarshalDecode(d, (*row)(v))
	v.opened = new(atomic.Pointer[opened])
	return err
}

// slugs returns the values for the index by slug. Slugs contain no slashes.
func (v *VirtualKey) slugs() []string {
	if v.OwnSlug {
		return []string{slugIn(v.WorkspaceID, v.Slug)}
	}
	return []string{v.Slug}
}

func slugIn(workspace, slug string) string { return workspace + "/" + slug }

// integrations returns the values for the index by integration.
func (v *VirtualKey) integrations() []string {
	if v.IntegrationID == "" {
		return nil
	}
	return []string{v.IntegrationID}
}

// providerOf returns the values for the index of providers.
func (v *VirtualKey) providerOf() []string {
	if v.IntegrationID == "" {
		return nil
	}
	return []string{v.WorkspaceID, ""}
}

// Expired reports whether the virtual key has expired.
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

// CheckProviderSlug returns why the slug of a new virtual key or provider is refused.
func CheckProviderSlug(slug string) error {
	if _, err := uuid.Parse(slug); err == nil || slug == "cf" || slug == "hf" {
		return errors.New("expected a name that is not a UUID and neither cf nor hf, which models begin with")
	}
	return nil
}
