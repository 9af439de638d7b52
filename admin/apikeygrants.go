package admin

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/roles"
)

// What callers may do with API keys: no key that they make or change may do more than they do.

// mayAct returns an error if the caller may not perform an action on a key.
func (c *call) mayAct(k *credentials.APIKey, action string) error {
	if err := c.need(k.Kind.Resource() + "." + action); err != nil || action == "read" {
		return err
	}
	if r := c.caller.Rights; r != nil && !r.Organisation.Administers() && r.Workspace == roles.WorkspaceMember && k.UserID != c.caller.UserID {
		return forbidden("Members of a workspace change their own API keys only")
	}
	// Otherwise the caller could take over a key with more permissions, or revoke it.
	for _, scope := range k.Scopes {
		if k.Owner && !c.caller.Owner || !c.mayGrant(scope) {
			return forbidden("The %s lacks what key %q may do, and so cannot change it", c.credential(), k.Name)
		}
	}
	return nil
}

// mayGrant reports whether the caller may grant a scope to a key. Callers can only grant
// scopes that they have, except that a key of the organisation can grant those that only
// workspace keys have.
func (c *call) mayGrant(scope string) bool {
	return c.caller.May(scope) || !c.caller.Kind.Workspace() && !c.caller.Kind.MayHold(scope)
}

// grant checks the scopes requested for a key.
func (c *call) grant(kind credentials.Kind, scopes []string) ([]string, error) {
	for i, scope := range scopes {
		field := "scopes[" + strconv.Itoa(i) + "]"
		if !kind.MayHold(scope) {
			valid := kind.Scopes()
			meant := ""
			if nearest := credentials.Nearest(scope, valid); nearest != "" {
				meant = "did you mean " + nearest + "? "
			}
			return nil, invalid(field, "a key of kind %s cannot hold %q; %sexpected one of %s", kind, credentials.Clip(scope), meant, strings.Join(valid, ", "))
		}
		if !c.mayGrant(scope) {
			return nil, forbidden("%s: the %s lacks %s itself", field, c.credential(), scope)
		}
	}
	scopes = slices.Clone(scopes)
	slices.Sort(scopes)
	return slices.Compact(scopes), nil
}

// bounded checks that the permissions of k, which was changed by in, do not exceed
// those of the caller's key: it must not expire later, override the default config if
// the caller may not, lack the caller's metadata, or escape the caller's limits. Unset
// fields of a new key are copied from the caller's key.
func (c *call) bounded(k *credentials.APIKey, in *APIKeyFields) (err error) {
	own, created := c.caller, k.ID == ""
	if own.Rights == nil && !own.Owner {
		// Read in the transaction, so that a key that is revoked meanwhile makes none.
		if _, ok := c.api.Keyring.APIKey(own.KeyID); !ok {
			if own.TokenExpires != nil {
				return forbidden("A JWT that names no user of the organisation makes and changes no API keys")
			}
			return forbidden("The API key was revoked")
		}
	}
	if ends := own.ExpiresAt; ends != nil && (created || in.ExpiresAt.Set) && (k.ExpiresAt == nil || k.ExpiresAt.After(*ends)) {
		return forbidden("expires_at: the API key itself expires at %s, and gives no other key more time", ends.Format(time.RFC3339))
	}
	if !created && !in.may && !in.Defaults.Set && !in.ExpiresAt.Set && !in.given() {
		return nil
	}
	if own.ForbidsOverride {
		if created && in.Defaults.Value.ConfigID == nil && in.Defaults.Value.AllowConfigOverride == nil {
			k.ConfigID, k.AllowOverride = own.ConfigID, new(bool)
		}
		if k.ConfigID != own.ConfigID || k.AllowOverride == nil || *k.AllowOverride {
			return forbidden("defaults: the API key itself is bound to its config, and so must be a key that it makes or changes: config_id the same, allow_config_override false")
		}
	}
	if k.Metadata, err = within(own.Metadata, k.Metadata, created); err != nil {
		return err
	}
	if own.TokenLimits != nil {
		return forbidden("The JWT has limits of its own, which would not count the calls of a key that it makes or changes")
	}
	for _, limited := range []string{own.KeyID, own.CountedAs} {
		if _, has := c.carried().Get(limited); has && k.CountedAs != limited {
			return forbidden("The API key has limits of its own, which would not count the calls of a key that it makes or changes; use another key")
		}
	}
	for _, conditions := range c.allConditions() {
		for _, condition := range conditions {
			if condition.Key == policies.KeyAPIKey && slices.Contains(condition.Values, own.KeyID) && (created || !slices.Contains(condition.Values, k.ID)) {
				return forbidden("A policy counts the calls of the API key itself, and would not count those of a key that it makes or changes; use another key")
			}
		}
	}
	return nil
}

// within checks that the metadata of a key includes own, the metadata of the caller. If
// add is set, as for a new key, it is added instead.
func within(own, given json.RawMessage, add bool) (json.RawMessage, error) {
	if own == nil {
		return given, nil
	}
	var fixed, all map[string]any
	if err := json.Unmarshal(own, &fixed); err != nil {
		return nil, err
	}
	if given != nil {
		if err := json.Unmarshal(given, &all); err != nil {
			return nil, err
		}
	}
	for name, value := range fixed {
		has, ok := all[name]
		switch {
		case !ok && add:
			if all == nil {
				all = make(map[string]any, len(fixed))
			}
			all[name] = value
		case !ok || !reflect.DeepEqual(has, value):
			return nil, forbidden("defaults.metadata: the API key itself has %q, and so must a key that it makes or changes, with the same value", credentials.Clip(name))
		}
	}
	return encodeMetadata(all)
}
