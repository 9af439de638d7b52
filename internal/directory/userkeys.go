package directory

import (
	"encoding/json"
	"time"
)

// UserKeys are the settings of user keys: of the organisation, and of workspaces where it lets
// them decide. The zero value limits nothing.
type UserKeys struct {
	AutoCreate   bool  `json:"auto_create,omitempty"`   // a key is made for each member who joins
	RotationDays int   `json:"rotation_days,omitempty"` // all are rotated so often; 0: as their own policies say
	TTL          int64 `json:"ttl,omitempty"`           // seconds until a key expires that does not say when; 0: never
	MaxTTL       int64 `json:"max_ttl,omitempty"`       // seconds until a key expires at the latest; 0: never
	Count        *int  `json:"count,omitempty"`         // of keys that a user has in a workspace; nil: any number

	Metadata         map[string]string `json:"metadata,omitempty"`          // that keys have in their defaults
	MetadataOverride bool              `json:"metadata_override,omitempty"` // keys may have other values
}

// Expiry returns when a new key expires that does not say when; nil: never.
func (u *UserKeys) Expiry(now time.Time) *time.Time {
	seconds := u.TTL
	if u.MaxTTL > 0 && (seconds == 0 || seconds > u.MaxTTL) {
		seconds = u.MaxTTL
	}
	if seconds == 0 {
		return nil
	}
	at := now.UTC().Add(time.Duration(seconds) * time.Second)
	return &at
}

// Export are the settings of exports of the request log.
type Export struct {
	Denied []string `json:"denied,omitempty"` // fields that no export has
}

// Decided is what a workspace decides, or, in the organisation, what all workspaces begin with.
// Each time that the organisation lets workspaces decide, they begin with its values, and what they
// had decided before does not count any more.
type Decided[T any] struct {
	Epoch int `json:"epoch"`
	Value T   `json:"value"`
}

// effective returns what counts in a workspace: its own value, or what workspaces began with, if
// they decide, and else that of the organisation.
func effective[T any](decides bool, organisation T, begin, own *Decided[T]) T {
	switch {
	case !decides || begin == nil:
		return organisation
	case own != nil && own.Epoch == begin.Epoch:
		return own.Value
	}
	return begin.Value
}

// UserKeysOf returns the settings of the user keys of a workspace.
func (d *Directory) UserKeysOf(w *Workspace) UserKeys {
	o := d.Organisation()
	keys := effective(o.LetsDecide(UserAPIKeys), o.UserKeys, o.UserKeysBegin, w.UserKeys)
	if w.Default {
		keys.AutoCreate = o.AutoCreateInDefault
	}
	return keys
}

// ExportOf returns the settings of the exports of a workspace.
func (d *Directory) ExportOf(w *Workspace) Export {
	o := d.Organisation()
	return effective(o.LetsDecide(ExportSettings), o.Export, o.ExportBegin, w.Export)
}

// LetDecide sets whether workspaces decide a section. Those that begin to have the organisation's
// values of it first, except of security settings.
func (o *Organisation) LetDecide(section string, decide bool) {
	if decide && !o.LetsDecide(section) {
		switch section {
		case UserAPIKeys:
			o.UserKeysBegin = next(o.UserKeysBegin, o.UserKeys)
		case ExportSettings:
			o.ExportBegin = next(o.ExportBegin, o.Export)
		case DataPlaneSecurity:
			o.DataPlaneBegin = next(o.DataPlaneBegin, o.DataPlane)
		}
	}
	if o.Overrides == nil {
		o.Overrides = make(map[string]bool)
	}
	o.Overrides[section] = decide
}

func next[T any](before *Decided[T], value T) *Decided[T] {
	if before == nil {
		return &Decided[T]{1, value}
	}
	return &Decided[T]{before.Epoch + 1, value}
}

// DecideUserKeys stores what a workspace decides, which the organisation lets it.
func (w *Workspace) DecideUserKeys(o *Organisation, u UserKeys) {
	w.UserKeys = &Decided[UserKeys]{o.UserKeysBegin.Epoch, u}
}

// RotationDays returns the days after which every user key of a workspace is rotated; 0: as the keys
// themselves say.
func (d *Directory) RotationDays(workspaceID string) int {
	w, ok := d.Workspace(workspaceID)
	if !ok {
		return 0
	}
	return d.UserKeysOf(w).RotationDays
}

// DecideExport stores what a workspace decides, which the organisation lets it.
func (w *Workspace) DecideExport(o *Organisation, e Export) {
	w.Export = &Decided[Export]{o.ExportBegin.Epoch, e}
}

// SignIn are the rules of signing in to the organisation.
type SignIn struct {
	InvitedOnly   bool          `json:"invited_only,omitempty"`    // users of allowed domains are not made at their first sign-in
	MaxSessionTTL int           `json:"max_session_ttl,omitempty"` // seconds; 0: no limit
	Domains       []EmailDomain `json:"domains,omitempty"`

	Issuers []TokenIssuer `json:"issuers,omitempty"`
}

// A TokenIssuer issues JSON Web Tokens that are accepted instead of API keys.
type TokenIssuer struct {
	Issuer   string          `json:"issuer"`             // the claim iss
	Audience []string        `json:"audience"`           // the claim aud has to have one of them
	URLs     []string        `json:"jwks_url,omitempty"` // of key sets
	Keys     json.RawMessage `json:"jwks,omitempty"`     // further keys, a JSON Web Key Set
}

// An EmailDomain is a domain whose e-mail addresses may sign in.
type EmailDomain struct {
	Domain     string `json:"domain"`
	Subdomains bool   `json:"subdomains,omitempty"`
}
