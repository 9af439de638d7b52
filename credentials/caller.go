package credentials

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// A Caller is the caller of a request, identified by its service key.
type Caller struct {
	KeyID          string
	KeyName        string
	Kind           Kind
	OrganisationID string
	WorkspaceID    string // of an inference call or a workspace key; otherwise empty
	UserID         string
	// CountedAs is the id of the key whose limits count this key's calls: the workspace key
	// that created it, directly or indirectly, or else its own.
	CountedAs string
	Owner     bool // the organisation owner's key: every scope
	Metadata  json.RawMessage
	ConfigID  string // default config of its calls
	// ForbidsOverride is set if its calls may not name another config.
	ForbidsOverride bool
	ExpiresAt       *time.Time // of its key; nil: never
	// System: it holds the data-service token, and reads what other parts of the service
	// need of the whole organisation.
	System bool
	// Rights are those of a user who makes the request without an API key; nil: a key does.
	Rights *Rights
	// TokenExpires is when the JWT expires by which the caller was identified; nil: by a key.
	TokenExpires *time.Time
	// TokenLimits are the limits that this JWT has itself, of package policies; nil: it has none.
	TokenLimits any

	scopes []string
}

// May reports whether the caller has a scope.
func (c *Caller) May(scope string) bool {
	return c.Owner || slices.Contains(c.scopes, scope) || c.Rights != nil && c.Rights.May(scope)
}

// ID is the id of the user who calls, or else of the API key.
func (c *Caller) ID() string { return cmp.Or(c.UserID, c.KeyID) }

// OwnerKeyID is the id of the key configured by admin_key, which is not in a store.
const OwnerKeyID = "admin_key"

// SystemKeyID is the id of the data-service token; it is in no store.
const SystemKeyID = "data_service_token"

// OperatorID is the id of the operator in the audit trail, who uses Caddy's admin endpoint or the
// store itself.
const OperatorID = "operator"

// Operator returns the operator as a caller, who may do what the organisation's owner may.
func Operator(organisation string) *Caller {
	return &Caller{KeyID: OperatorID, KeyName: OperatorID, CountedAs: OperatorID, Kind: OrganisationService, OrganisationID: organisation, Owner: true}
}

// TokenCaller returns the caller of a JWT that names no user of the organisation: it may do what a
// key of a workspace may that has those of the scopes that such keys may have.
func TokenCaller(id string, scopes []string) *Caller {
	held := slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return !WorkspaceService.MayHold(scope) })
	return &Caller{KeyID: id, CountedAs: id, Kind: WorkspaceService, scopes: held}
}

// Tokens identifies callers by JSON Web Tokens.
type Tokens interface {
	// Authenticate returns the caller that a token stands for, or an Error. ours reports whether
	// it is a JWT of an issuer that is configured at all. digest is that of the token.
	Authenticate(token string, digest *Digest) (c *Caller, refusal *Error, ours bool)
	// Recognizes reports whether a text is a JWT of an issuer that is configured, possibly one that
	// is refused.
	Recognizes(token string) bool
}

// systemScopes are those of the data-service token.
var systemScopes = []string{
	"configs.list", "configs.read", "guardrails.list", "guardrails.read", "prompts.list", "prompts.read",
	"providers.list", "providers.read", "virtual_keys.list", "virtual_keys.read",
}

// An Authenticator identifies callers by their service keys.
type Authenticator struct {
	Keyring          *Keyring
	OrganisationID   string
	DefaultWorkspace string  // workspace of the owner's inference calls
	AdminKey         *Digest // of the configured admin_key; nil: none
	DataService      *Digest // of the configured data_service_token; nil: none
	Tokens           Tokens  // instead of keys; nil: none
	// HasWorkspace reports whether there is a workspace, by its id. The keys of one that was
	// deleted are refused, also while they are still stored. Nil: all exist.
	HasWorkspace func(id string) bool
}

// Authenticate returns the caller with the given token, or an Error. Keys are looked up by
// digest, so that the time it takes reveals nothing about stored keys.
func (a *Authenticator) Authenticate(token string) (*Caller, *Error) {
	if token == "" {
		return nil, newError(InvalidKey, "x-gw-api-key", "Invalid API Key. Error Code: 03. No service key was sent: expected one in x-gw-api-key, as Authorization: Bearer, or in x-api-key")
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
	if a.Tokens != nil {
		if c, refusal, ours := a.Tokens.Authenticate(token, &digest); ours {
			return c, refusal
		}
	}
	key, ok := a.Keyring.apiKeys.Find(byDigest, string(digest[:]))
	if !ok || key.WorkspaceID != "" && a.HasWorkspace != nil && !a.HasWorkspace(key.WorkspaceID) {
		return nil, newError(InvalidKey, "x-gw-api-key", "Invalid API Key. Error Code: 03. The service key in x-gw-api-key, Authorization or x-api-key is unknown or was deleted")
	}
	now := a.Keyring.now()
	switch {
	case key.Expired(now):
		return nil, newError(ExpiredKey, "x-gw-api-key", "API Key %s has expired. Error Code: 01", key.Hint)
	case digest != key.Digest && !key.InTransition(now):
		return nil, newError(ExpiredKey, "x-gw-api-key", "The API key %q was rotated, and its previous secret does not work any more. Error Code: 01", key.Name)
	}
	a.Keyring.uses.note(key.ID, now)
	return &Caller{
		KeyID: key.ID, KeyName: key.Name, CountedAs: cmp.Or(key.CountedAs, key.ID), Kind: key.Kind, OrganisationID: key.OrganisationID,
		WorkspaceID: key.WorkspaceID, UserID: key.UserID, Owner: key.Owner, Metadata: key.Metadata, scopes: key.Scopes,
		ConfigID: key.ConfigID, ForbidsOverride: key.AllowOverride != nil && !*key.AllowOverride,
		ExpiresAt: key.ExpiresAt,
	}, nil
}

// Knows reports whether a token is a service key, possibly one that is refused, which is then
// not a provider's credential.
func (a *Authenticator) Knows(token string) bool {
	if token == "" {
		return false
	}
	digest := DigestOf(token)
	if digest.is(a.AdminKey) || digest.is(a.DataService) {
		return true
	}
	if _, ok := a.Keyring.apiKeys.Find(byDigest, string(digest[:])); ok {
		return true
	}
	return a.Recognizes(token)
}

// Recognizes reports whether a token is a JWT of an issuer that is configured.
func (a *Authenticator) Recognizes(token string) bool {
	return a.Tokens != nil && a.Tokens.Recognizes(token)
}

// IsOperatorKey reports whether a token is a service key without the form of API keys: one of the
// configured ones, or a JWT.
func (a *Authenticator) IsOperatorKey(token string) bool {
	if a.Recognizes(token) {
		return true
	}
	if a.AdminKey == nil && a.DataService == nil {
		return false
	}
	digest := DigestOf(token)
	return digest.is(a.AdminKey) || digest.is(a.DataService)
}

// AuthenticateCall is Authenticate for an inference call, which also needs a scope, or one of others that do as well, and a
// workspace. Calls of the owner, and of admins, who name no workspace run in the default one.
func (a *Authenticator) AuthenticateCall(token, scope string, others ...string) (*Caller, *Error) {
	c, refusal := a.Authenticate(token)
	if refusal != nil {
		return nil, refusal
	}
	if c.Owner || c.WorkspaceID == "" && c.Rights != nil {
		c.WorkspaceID = a.DefaultWorkspace
	}
	if !c.May(scope) && !slices.ContainsFunc(others, c.May) || c.WorkspaceID == "" {
		scope = strings.Join(append([]string{scope}, others...), " or ")
		switch {
		case c.Rights != nil:
			return nil, newError(MissingScope, "x-gw-api-key", "Forbidden! %q lacks the scope %s; make the call with a token or a workspace key that has it.", c.KeyName, scope)
		case c.TokenExpires != nil:
			return nil, newError(MissingScope, "x-gw-api-key", "Forbidden! The JWT of %q lacks the scope %s, or names no workspace; make the call with a token or a workspace key that has both.", c.KeyName, scope)
		}
		return nil, newError(MissingScope, "x-gw-api-key", "Forbidden! The API key %q lacks the scope %s; make the call with a workspace key that has it.", c.KeyName, scope)
	}
	return c, nil
}
