package credentials

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-gw/gateway/storage"
)

// An Integration is a provider's credential that workspaces share. What makes it available
// in one is a provider: a [VirtualKey] that has its id.
type Integration struct {
	Credential
	Slug           string            `json:"slug"`
	Name           string            `json:"name"`
	Description    string            `json:"description,omitempty"`
	OrganisationID string            `json:"organisation_id"`
	WorkspaceID    string            `json:"workspace_id,omitempty"` // that alone has it; "": the organisation's
	Tags           map[string]string `json:"tags,omitempty"`

	// Models are those that it says something of; OnlyListed: all others are refused.
	Models     []IntegrationModel `json:"models,omitempty"`
	OnlyListed bool               `json:"only_listed,omitempty"`
	// Adjustments are its pricing_adjustments; see [prices.ParseAdjustment]. nil: none.
	Adjustments json.RawMessage `json:"adjustments,omitempty"`

	// Access is whether a workspace may use it, by its id; AllWorkspaces is for those that are
	// not in it. The workspace that has it always may.
	Access        map[string]bool `json:"access,omitempty"`
	AllWorkspaces bool            `json:"everywhere,omitempty"`
	// DefaultSlug is the slug of the provider that a workspace gets when it gets access, "":
	// the integration's own; NoDefault: it gets none.
	DefaultSlug string `json:"default_slug,omitempty"`
	NoDefault   bool   `json:"no_default,omitempty"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// UnmarshalJSONFrom reads a stored integration.
func (i *Integration) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type row Integration
	err := jsonv2.UnmarshalDecode(d, (*row)(i))
	i.opened = new(atomic.Pointer[opened])
	return err
}

// EnabledIn reports whether a workspace may use the integration.
func (i *Integration) EnabledIn(workspace string) bool {
	if i.WorkspaceID != "" {
		return i.WorkspaceID == workspace
	}
	if enabled, ok := i.Access[workspace]; ok {
		return enabled
	}
	return i.AllWorkspaces
}

// account is what objects that are made with the credential are told apart by; "": it is a
// workspace's own.
func (i *Integration) account() string {
	if i.WorkspaceID != "" {
		return ""
	}
	return "integration:" + i.ID
}

// alone reports whether at most one workspace may use the integration now.
func (i *Integration) alone() bool {
	enabled := 0
	for _, may := range i.Access {
		if may {
			enabled++
		}
	}
	return i.WorkspaceID != "" || !i.AllWorkspaces && enabled < 2
}

// ProviderSlug is the slug of the provider that a workspace gets.
func (i *Integration) ProviderSlug() string { return cmp.Or(i.DefaultSlug, i.Slug) }

// Integration returns an integration by its id.
func (k *Keyring) Integration(id string) (*Integration, bool) { return k.integrations.Get(id) }

// IntegrationOf returns an integration by its slug among those of a workspace, or for "" of
// the organisation.
func (k *Keyring) IntegrationOf(workspace, slug string) (*Integration, bool) {
	return k.integrations.Find(bySlug, slugIn(workspace, slug))
}

// Integrations returns all integrations in the order of their creation.
func (k *Keyring) Integrations() []*Integration { return k.integrations.All() }

// IntegrationsIn returns the integrations that a workspace has itself, in the order of their creation; of "", those
// of the organisation.
func (k *Keyring) IntegrationsIn(workspace string) []*Integration {
	return k.integrations.Where(byWorkspace, workspace)
}

// IntegrationsOfWorkspaces returns the integrations that a workspace has itself, of all workspaces, in the order of
// their creation.
func (k *Keyring) IntegrationsOfWorkspaces() []*Integration {
	return k.integrations.Where(byAccess, ofWorkspaces)
}

// IntegrationsFor returns those of the organisation's integrations that were made available to a workspace by name,
// and those that are available to all that are not named. The latter may say of the workspace that it may not use
// them; see [Integration.EnabledIn].
func (k *Keyring) IntegrationsFor(workspace string) (named, everywhere []*Integration) {
	return k.integrations.Where(byAccess, forWorkspace+workspace), k.integrations.Where(byAccess, forAll)
}

// The values of byAccess.
const (
	ofWorkspaces = "of workspaces"
	forAll       = "for all"
	forWorkspace = "for/" // and the id of the workspace
)

// byNamed is the index of the workspaces that a row names, or belongs to.
const byNamed = "named"

func (i *Integration) names() []string {
	names := slices.Collect(maps.Keys(i.Access))
	if i.WorkspaceID != "" {
		names = append(names, i.WorkspaceID)
	}
	return names
}

func (i *Integration) lists() []string {
	if i.WorkspaceID != "" {
		return []string{ofWorkspaces}
	}
	in := make([]string, 0, len(i.Access)+1)
	for workspace, may := range i.Access {
		if may {
			in = append(in, forWorkspace+workspace)
		}
	}
	if i.AllWorkspaces {
		in = append(in, forAll)
	}
	return in
}

// ProvidersOf are the providers of an integration, of all workspaces.
func (k *Keyring) ProvidersOf(integration string) []*VirtualKey {
	return k.virtualKeys.Where(byIntegration, integration)
}

// ReplaceIntegration stores a new integration, or a changed copy; an empty secret keeps the
// one that it has. An error that wraps storage.ErrExists means that the slug is taken.
func (k *Keyring) ReplaceIntegration(tx *storage.Txn, i *Integration, secret Secret) error {
	if err := k.seal(&i.Credential, secret); err != nil {
		return err
	}
	i.UpdatedAt = k.now().UTC()
	if i.CreatedAt.IsZero() {
		i.CreatedAt = i.UpdatedAt
	}
	return k.integrations.Put(tx, i)
}

// RemoveIntegration removes an integration.
func (k *Keyring) RemoveIntegration(tx *storage.Txn, id string) error {
	return k.integrations.Delete(tx, id)
}

// AddProvider stores v, whose ID and IntegrationID are set: it has no credential of its
// own. An error that wraps storage.ErrExists means that its workspace has one of this slug.
func (k *Keyring) AddProvider(tx *storage.Txn, v *VirtualKey) error {
	v.CreatedAt = k.now().UTC()
	return k.ReplaceVirtualKey(tx, v, Secret{})
}
