package credentials

import (
	"maps"
	"slices"

	"github.com/caddy-gw/gateway/storage"
)

// Counts returns how many API keys, virtual keys (providers included) and integrations a
// workspace has, in a transaction (see [Keyring.In]).
func (k *Keyring) Counts(workspace string) (keys, virtualKeys, integrations int) {
	return k.apiKeys.Count(byWorkspace, workspace), k.virtualKeys.Count(byWorkspace, workspace), k.integrations.Count(byWorkspace, workspace)
}

// APIKeysOf returns the ids of at most limit API keys of a workspace.
func (k *Keyring) APIKeysOf(workspace string, limit int) []string {
	return storage.Some(k.apiKeys.Where(byWorkspace, workspace), limit, func(a *APIKey) string { return a.ID })
}

// VirtualKeysOf returns the ids of at most limit virtual keys and providers of a workspace.
func (k *Keyring) VirtualKeysOf(workspace string, limit int) []string {
	return storage.Some(k.virtualKeys.Where(byWorkspace, workspace), limit, func(v *VirtualKey) string { return v.ID })
}

// IntegrationsOf returns the ids of at most limit integrations that are a workspace's own, or
// say whether it may use them.
func (k *Keyring) IntegrationsOf(workspace string, limit int) []string {
	return storage.Some(k.integrations.Where(byNamed, workspace), limit, func(i *Integration) string { return i.ID })
}

// SecretReferencesOf returns the ids of at most limit secret references that name a workspace
// as one that may use them.
func (k *Keyring) SecretReferencesOf(workspace string, limit int) []string {
	return storage.Some(k.references.Where(byNamed, workspace), limit, func(r *SecretReference) string { return r.ID })
}

// LeaveIntegration removes an integration of a deleted workspace, or what it says of it.
func (k *Keyring) LeaveIntegration(tx *storage.Txn, id, workspace string) error {
	i, ok := k.In(tx).Integration(id)
	switch {
	case !ok:
		return storage.ErrNotFound
	case i.WorkspaceID == workspace:
		return k.RemoveIntegration(tx, id)
	}
	changed := *i
	changed.Access = maps.Clone(i.Access)
	delete(changed.Access, workspace)
	return k.ReplaceIntegration(tx, &changed, Secret{})
}

// LeaveSecretReference removes a deleted workspace from those that may use a secret reference.
func (k *Keyring) LeaveSecretReference(tx *storage.Txn, id, workspace string) error {
	r, ok := k.In(tx).references.Get(id)
	if !ok {
		return storage.ErrNotFound
	}
	changed := *r
	changed.Workspaces = slices.DeleteFunc(slices.Clone(r.Workspaces), func(w string) bool { return w == workspace })
	return k.ReplaceSecretReference(tx, &changed)
}
