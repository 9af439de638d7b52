package credentials

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// A Caller is who makes a request, as its service key says.
type Caller struct {
	KeyID          string
	KeyName        string
	Kind           Kind
	OrganisationID string
	WorkspaceID    string // of an inference call, or of a workspace key; else empty
	UserID         string
	// CountedAs is the id of the key with whose calls those of this one are counted: the
	// workspace key that made it, or the one that made that; or else its own.
	CountedAs string
	Owner     bool // the organisation owner's key: every scope
	Metadata  json.RawMessage
	ConfigID  string // of the config of its calls that name none
	// ForbidsOverride: its calls may name no other config.
	ForbidsOverride bool
	ExpiresAt       *time.Time // of its key; nil: never
	// System: it holds the data-service token, and reads what other parts of the service
	// need of the whole organisation.
	System bool

	scopes []string
}

// May reports whether the caller holds scope.
func (c *Caller) May(scope string) bool { return c.Owner || slices.Contains(c.scopes, scope) }

// OwnerKeyID is the id of the key that admin_key configures; it is in no store.
const OwnerKeyID = "admin_key"

// SystemKeyID is the id of the data-service token; it is in no store.
const SystemKeyID = "data_service_token"

// systemScopes are those of the data-service token.
var systemScopes = []string{
	"configs.list", "configs.read", "guardrails.list", "guardrails.read", "prompts.list", "prompts.read",
	"providers.list", "providers.read", "virtual_keys.list", "virtual_keys.read",
}

// An Authenticator turns service keys into callers.
type Authenticator struct {
	Keyring          *Keyring
	OrganisationID   string
	DefaultWorkspace string  // workspace of the owner's inference calls
	AdminKey         *Digest // of the configured admin_key; nil: none
	DataService      *Digest // of the configured data_service_token; nil: none
}

// Authenticate returns the caller that holds token, or a Refusal. The look-up is
// by digest, so that its time says nothing of any stored key.
func (a *Authenticator) Authenticate(token string) (*Caller, *Refusal) {
	if token == "" {
		return nil, refuse(InvalidKey, "x-gw-api-key", "Invalid API Key. Error Code: 03. No service key was sent: expected one in x-gw-api-key, as Authorization: Bearer, or in x-api-key")
	}
	digest := DigestOf(token)
	if digest.is(a.AdminKey) {
		return &Caller{KeyID: OwnerKeyID, KeyName: OwnerKeyID, CountedAs: OwnerKeyID, Kind: OrganisationService, OrganisationID: a.OrganisationID, Owner: true}, nil
	}
	if digest.is(a.DataService) {
		return &Caller{
			KeyID: SystemKeyID, KeyName: SystemKeyID, CountedAs: SystemKeyID, Kind: OrganisationService, OrganisationID: a.OrganisationID,
			System: true, scopes: systemScopes,
		}, nil
	}
	key, ok := a.Keyring.apiKeys.Find(byDigest, string(digest[:]))
	if !ok {
		return nil, refuse(InvalidKey, "x-gw-api-key", "Invalid API Key. Error Code: 03. The service key in x-gw-api-key, Authorization or x-api-key is unknown or was deleted")
	}
	if key.Expired(a.Keyring.now()) {
		return nil, refuse(ExpiredKey, "x-gw-api-key", "API Key %s has expired. Error Code: 01", key.Hint)
	}
	return &Caller{
		KeyID: key.ID, KeyName: key.Name, CountedAs: cmp.Or(key.CountedAs, key.ID), Kind: key.Kind, OrganisationID: key.OrganisationID,
		WorkspaceID: key.WorkspaceID, UserID: key.UserID, Owner: key.Owner, Metadata: key.Metadata, scopes: key.Scopes,
		ConfigID: key.ConfigID, ForbidsOverride: key.AllowOverride != nil && !*key.AllowOverride,
		ExpiresAt: key.ExpiresAt,
	}, nil
}

// Knows reports whether a token is a service key, be it expired: it is nobody's provider
// credential then.
func (a *Authenticator) Knows(token string) bool {
	_, refusal := a.Authenticate(token)
	return refusal == nil || refusal.Reason == ExpiredKey
}

// AuthenticateCall is Authenticate for an inference call, which also needs a scope
// and a workspace; the owner's calls run in the default workspace.
func (a *Authenticator) AuthenticateCall(token, scope string) (*Caller, *Refusal) {
	c, refusal := a.Authenticate(token)
	if refusal != nil {
		return nil, refusal
	}
	if c.Owner {
		c.WorkspaceID = a.DefaultWorkspace
	}
	if !c.May(scope) || c.WorkspaceID == "" {
		return nil, refuse(MissingScope, "x-gw-api-key", "Forbidden! The API key %q lacks the scope %s; make the call with a workspace key that has it.", c.KeyName, scope)
	}
	return c, nil
}
