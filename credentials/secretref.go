package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/storage"
)

// A SecretReference names a secret in a secret manager, whose value is not stored.
type SecretReference struct {
	ID             string            `json:"id"`
	OrganisationID string            `json:"organisation_id"`
	Slug           string            `json:"slug"`
	Name           string            `json:"name"`
	Description    string            `json:"description,omitempty"`
	Manager        string            `json:"manager"` // the name of a module in gw.secrets
	Path           string            `json:"path"`
	Key            string            `json:"key,omitempty"` // in a secret that is a JSON object
	Auth           []byte            `json:"auth"`          // sealed; see [Keyring.SealAuth]
	AllWorkspaces  bool              `json:"everywhere,omitempty"`
	Workspaces     []string          `json:"workspaces,omitempty"` // ids of those that may use it, unless all may
	Tags           map[string]string `json:"tags,omitempty"`
	CreatedBy      string            `json:"created_by,omitempty"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"`
}

// Allows reports whether the credentials of a workspace may have the secret.
func (r *SecretReference) Allows(workspace string) bool {
	return r.AllWorkspaces || slices.Contains(r.Workspaces, workspace)
}

// MaxSecretReferences bounds the secret references of an organisation.
const MaxSecretReferences = 10_000

// SecretReference returns a secret reference by its id or slug.
func (k *Keyring) SecretReference(slugOrID string) (*SecretReference, bool) {
	if r, ok := k.references.Get(slugOrID); ok {
		return r, true
	}
	return k.references.Find(bySlug, slugOrID)
}

// SecretReferencesWith returns the references to secrets of a manager in the order of their creation.
func (k *Keyring) SecretReferencesWith(manager string) []*SecretReference {
	return k.references.Where(byManager, manager)
}

// SecretReferences returns all secret references in the order of their creation.
func (k *Keyring) SecretReferences() []*SecretReference { return k.references.All() }

// ReplaceSecretReference stores a new secret reference, or a changed copy. An error that wraps
// storage.ErrExists means that the slug is taken.
func (k *Keyring) ReplaceSecretReference(tx *storage.Txn, r *SecretReference) error {
	r.UpdatedAt = k.now().UTC()
	if r.CreatedAt.IsZero() {
		r.CreatedAt = r.UpdatedAt
	}
	return k.references.Put(tx, r)
}

// RemoveSecretReference removes a secret reference.
func (k *Keyring) RemoveSecretReference(tx *storage.Txn, id string) error {
	return k.references.Delete(tx, id)
}

// SealAuth seals the auth_config of a secret reference into it.
func (k *Keyring) SealAuth(r *SecretReference, auth map[string]string) error {
	text, err := json.Marshal(auth)
	if err == nil {
		r.Auth, err = k.SealText("auth/"+r.ID, string(text))
	}
	return err
}

// OpenAuth returns what SealAuth sealed.
func (k *Keyring) OpenAuth(r *SecretReference) (auth map[string]string, err error) {
	if r.Auth == nil {
		return auth, nil
	}
	text, err := k.UnsealText("auth/"+r.ID, r.Auth)
	if err == nil {
		err = json.Unmarshal([]byte(text), &auth)
	}
	return auth, err
}

// A SecretMapping says which part of a stored credential is a secret that is not stored.
type SecretMapping struct {
	Field     string `json:"field"` // MappedKey, or a setting of the provider
	Reference string `json:"reference"`
	Key       string `json:"key,omitempty"` // instead of that of the reference
	JSON      bool   `json:"json,omitempty"`
}

// MappedKey is the field of a mapping that stands for the key of the provider.
const MappedKey = "key"

// Mapping returns the mapping of a field.
func (c *Credential) Mapping(field string) (*SecretMapping, bool) {
	for i := range c.Mappings {
		if c.Mappings[i].Field == field {
			return &c.Mappings[i], true
		}
	}
	return nil, false
}

// A SecretValue is the current value of a secret. Another value is another pointer.
type SecretValue struct{ Text Secret }

// A SecretSource has the values of secrets.
type SecretSource interface {
	// Secret returns the current value. It waits only for the first fetch, and no longer than
	// ctx.
	Secret(ctx context.Context, r *SecretReference) (*SecretValue, error)
}

// fetched has the parts of a credential that are not stored, for the values they are from.
type fetched struct {
	values   []*SecretValue
	key      Secret
	settings map[string]Secret
}

// Fetch completes a route whose credential is managed elsewhere, for a call of a workspace.
// All other routes are complete.
func (r *Router) Fetch(ctx context.Context, workspace string, route *Route) *Error {
	o := route.mapped
	if o == nil {
		return nil
	}
	kept := o.fetched.Load()
	var values []*SecretValue
	for i := range o.mappings {
		value, refusal := r.value(ctx, workspace, route, &o.mappings[i])
		if refusal != nil {
			return refusal
		}
		if values == nil && (kept == nil || kept.values[i] != value) {
			values = make([]*SecretValue, len(o.mappings))
			if kept != nil {
				copy(values, kept.values)
			}
		}
		if values != nil {
			values[i] = value
		}
	}
	if values != nil {
		kept = &fetched{values: values, key: o.key, settings: maps.Clone(o.settings)}
		for i := range o.mappings {
			if err := kept.set(r, &o.mappings[i], values[i].Text); err != nil {
				return unfetched(route, err)
			}
		}
		o.fetched.Store(kept)
	}
	route.Key, route.Settings = kept.key, kept.settings
	return nil
}

// Mapped reports whether a setting of the route is a secret of a secret manager.
func (r *Route) Mapped(setting string) bool {
	return r.mapped != nil && slices.ContainsFunc(r.mapped.mappings, func(m SecretMapping) bool { return m.Field == setting })
}

// value returns the current value of a mapping's reference.
func (r *Router) value(ctx context.Context, workspace string, route *Route, m *SecretMapping) (*SecretValue, *Error) {
	ref, ok := r.Keyring.SecretReference(m.Reference)
	switch {
	case !ok || r.Secrets == nil:
		return nil, unfetched(route, errors.New("there is no such secret reference"))
	case !ref.Allows(workspace):
		return nil, newError(SecretNotAllowed, "", "The workspace may not use the secret reference of %q", route.VirtualKey)
	}
	value, err := r.Secrets.Secret(ctx, ref)
	if err != nil {
		return nil, unfetched(route, err)
	}
	return value, nil
}

func unfetched(route *Route, err error) *Error {
	return &Error{Reason: SecretUnfetched, Message: "The credential of " + route.VirtualKey + " cannot be fetched from its secret manager: " + err.Error(), Err: err}
}

// set puts the part that a mapping selects of a value into a credential.
func (f *fetched) set(r *Router, m *SecretMapping, value Secret) error {
	ref, _ := r.Keyring.SecretReference(m.Reference)
	part, err := m.Part(ref, value)
	if err != nil {
		return err
	}
	if m.Field == MappedKey {
		f.key = part
		return nil
	}
	if f.settings == nil {
		f.settings = make(map[string]Secret)
	}
	f.settings[m.Field] = part
	return nil
}

// Part returns what a mapping selects of the value of a secret; ref is its reference, or nil if that is gone.
func (m *SecretMapping) Part(ref *SecretReference, value Secret) (part Secret, err error) {
	key := m.Key
	if ref != nil && key == "" {
		key = ref.Key
	}
	text, err := selectKey(value.Reveal(), key, m.JSON)
	switch {
	case err != nil || m.Field != MappedKey:
	case key == "" && !m.JSON && gjson.Valid(text) && gjson.Parse(text).IsObject():
		err = errors.New("the secret is a JSON object: name the key that has the credential in secret_key, of the reference or of the mapping; value_format json takes all of it")
	case !Sendable(text):
		err = errors.New("the secret is not a credential: expected no white space around it and no control characters")
	}
	if err != nil {
		return part, err
	}
	return NewSecret(text), nil
}

// selectKey returns the value of a key of a JSON object, or, for "", the whole text. With
// asJSON the result has to be JSON, also if it is the text in a JSON string.
func selectKey(text, key string, asJSON bool) (string, error) {
	if key != "" {
		all := gjson.Parse(text)
		if !gjson.Valid(text) || !all.IsObject() {
			return "", errors.New("the secret is not a JSON object, and has no keys")
		}
		part, ok := all.Map()[key]
		switch {
		case !ok:
			return "", errors.New("the secret has no such key")
		case part.Type == gjson.String:
			text = part.Str
		default:
			text = part.Raw
		}
	}
	if asJSON {
		if inner := gjson.Parse(text); gjson.Valid(text) && inner.Type == gjson.String {
			text = inner.Str
		}
		if !gjson.Valid(text) {
			return "", errors.New("the secret is not JSON")
		}
	}
	if text == "" {
		return "", errors.New("the secret is empty")
	}
	return text, nil
}

// Sendable reports whether a header can carry a credential.
func Sendable(key string) bool {
	return strings.TrimSpace(key) == key && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f })
}
