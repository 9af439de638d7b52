package admin

import (
	"net/http"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/identity"
)

// A held is an API key of a user, and what the user might do in its workspace; nil: nothing.
type held struct {
	key    *credentials.APIKey
	before *credentials.Caller
}

// heldBy returns the API keys of a user in a workspace or, for "", in all, before a role of the user changes.
func (c *call) heldBy(u *directory.User, workspace string) ([]held, error) {
	keys := c.api.Keyring.APIKeysOfUser(u.ID, workspace)
	if len(keys) > maxRemovedWith {
		return nil, failure(http.StatusConflict, "The user has more than %d API keys; revoke some first", maxRemovedWith)
	}
	all := make([]held, len(keys))
	for i, k := range keys {
		all[i] = held{k, c.userIn(u, k.WorkspaceID)}
	}
	return all, nil
}

// userIn returns the user as a caller in a workspace, or nil.
func (c *call) userIn(u *directory.User, workspace string) *credentials.Caller {
	w, ok := c.api.Directory.Workspace(workspace)
	if !ok {
		return nil
	}
	return identity.UserCaller(c.api.Directory, u, w)
}

// narrow takes from the keys of a user the scopes that the user had by a role, and does not have by the new one.
// A key that has none left is revoked, as all are in a workspace that the user may not use any more.
func (c *call) narrow(u *directory.User, keys []held) error {
	for _, h := range keys {
		after := c.userIn(u, h.key.WorkspaceID)
		kept := slices.DeleteFunc(slices.Clone(h.key.Scopes), func(scope string) bool {
			return after == nil || h.before != nil && h.before.May(scope) && !after.May(scope)
		})
		switch len(kept) {
		case len(h.key.Scopes):
			if after != nil {
				continue
			}
			fallthrough
		case 0:
			if err := c.revoke(h.key); err != nil {
				return err
			}
			kept = nil
		default:
			narrowed := *h.key
			narrowed.Scopes = kept
			if err := c.api.Keyring.ReplaceAPIKey(c.tx, &narrowed); err != nil {
				return err
			}
		}
		scopes := func(list []string) map[string]any {
			return map[string]any{"api_keys": map[string]any{h.key.ID: list}}
		}
		c.also(edit{scopes(h.key.Scopes), scopes(kept)})
	}
	return nil
}
