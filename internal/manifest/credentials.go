package manifest

import (
	"encoding/hex"
	stdjson "encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/plugins"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/secrets"
)

// credentialFields are the members of a [credentials.Credential] that are not in documents.
var credentialFields = []string{"sealed", "settings", "hint", "own_slug"}

// settingsOf returns the settings of a credential as they were sent, with their secrets.
func (x *session) settingsOf(c *credentials.Credential) (string, error) {
	if c.ModelConfig == nil {
		return "", nil
	}
	settings, err := x.Keyring.OpenSettings(c)
	if err != nil {
		return "", err
	}
	return routing.ReplaceSecrets(string(c.ModelConfig), func(path, masked string) (string, error) {
		first, rest, nested := strings.Cut(path, ".")
		s, ok := settings[first]
		switch {
		case !ok:
			return masked, nil
		case nested: // a header
			var headers map[string]string
			if err := stdjson.Unmarshal([]byte(s.Reveal()), &headers); err != nil {
				return "", err
			}
			return headers[rest], nil
		}
		return s.Reveal(), nil
	})
}

// writeCredential puts the secrets of a credential of a kind into an object.
func (x *session) writeCredential(kind string, c *credentials.Credential, f *form) error {
	of := kind + "/" + c.ID
	if c.Sealed != nil {
		key, err := x.Keyring.OpenKey(c)
		if err != nil {
			return err
		}
		if !key.Empty() {
			f.set("key", x.seal(of, key.Reveal()))
		}
	}
	text, err := x.settingsOf(c)
	if err == nil && text != "" {
		text, err = routing.ReplaceSecrets(text, func(_, value string) (string, error) { return x.seal(of, value), nil })
		f.setRaw("model_config", []byte(text))
	}
	return err
}

// readCredential takes the secrets of a credential out of an object.
func (x *session) readCredential(kind string, f *form, old *credentials.Credential, at string) (func(*credentials.Credential) error, error) {
	of, id := kind+"/"+f.get("id").Str, f.get("id").Str
	key, config := f.take("key"), f.take("model_config")
	if key.Exists() && key.Type != gjson.String {
		return nil, wrong(at+".key", "expected a text")
	}
	secret, err := x.open(of, at+".key", key.Str, func() (string, bool) {
		if old == nil || old.Sealed == nil {
			return "", false
		}
		k, err := x.Keyring.OpenKey(old)
		return k.Reveal(), err == nil
	})
	if err != nil {
		return nil, err
	}
	if !credentials.Sendable(secret) {
		return nil, wrong(at+".key", "expected no white space around it and no control characters")
	}
	sealed := &credentials.Credential{ID: id}
	if config.Exists() {
		stored := make(map[string]string)
		if old != nil {
			text, err := x.settingsOf(old)
			if err != nil {
				return nil, err
			}
			if _, err := routing.ReplaceSecrets(text, func(path, value string) (string, error) {
				stored[path] = value
				return value, nil
			}); err != nil {
				return nil, err
			}
		}
		text, err := routing.ReplaceSecrets(config.Raw, func(path, value string) (string, error) {
			return x.open(of, at+".model_config."+path, value, func() (string, bool) { v, ok := stored[path]; return v, ok })
		})
		if err != nil {
			return nil, err
		}
		list, faults := routing.Settings([]byte(text), x.ParseOptions)
		if len(faults) > 0 {
			return nil, wrong(at+".model_config", "%s", strings.Join(faults.Strings(), "; "))
		}
		settings := make(map[string]credentials.Secret, len(list))
		for _, s := range list {
			settings[s.Name] = s.Value
		}
		if err := x.Keyring.SealSettings(sealed, settings); err != nil {
			return nil, err
		}
		sealed.ModelConfig = stdjson.RawMessage(routing.Mask(text))
	}
	return func(c *credentials.Credential) error {
		c.Settings, c.ModelConfig = sealed.Settings, sealed.ModelConfig
		return x.Keyring.SealKey(c, credentials.NewSecret(secret))
	}, nil
}

func writeVirtualKey(x *session, v *credentials.VirtualKey, f *form) error {
	return x.writeCredential("virtual_keys", &v.Credential, f)
}

func readVirtualKey(x *session, f *form, old *credentials.VirtualKey, at string) (func(*credentials.VirtualKey) error, error) {
	var stored *credentials.Credential
	if old != nil {
		stored = &old.Credential
	}
	provided := f.get("integration_id").Str != ""
	if provided && (f.get("key").Exists() || f.get("model_config").Exists()) {
		return nil, wrong(at+".key", "expected neither key nor model_config with integration_id, which has them")
	}
	finish, err := x.readCredential("virtual_keys", f, stored, at)
	if err != nil {
		return nil, err
	}
	return func(v *credentials.VirtualKey) error {
		v.OwnSlug = true
		if provided {
			return nil
		}
		return finish(&v.Credential)
	}, nil
}

func decodeVirtualKey(text []byte, v *credentials.VirtualKey) error {
	type plain credentials.VirtualKey // without its own way to be read, which takes unknown members
	return json.Unmarshal(text, (*plain)(v), json.RejectUnknownMembers(true))
}

func decodeIntegration(text []byte, i *credentials.Integration) error {
	type plain credentials.Integration
	return json.Unmarshal(text, (*plain)(i), json.RejectUnknownMembers(true))
}

func writeIntegration(x *session, i *credentials.Integration, f *form) error {
	for n := range i.Models {
		at := "models." + strconv.Itoa(n) + "."
		headers, err := x.Keyring.OpenHeaders(i, &i.Models[n])
		if err != nil {
			return err
		}
		f.drop(at+"headers", at+"hints")
		if len(headers) > 0 {
			for name, value := range headers {
				headers[name] = x.seal("integrations/"+i.ID, value)
			}
			f.set(at+"headers", headers)
		}
	}
	return x.writeCredential("integrations", &i.Credential, f)
}

func readIntegration(x *session, f *form, old *credentials.Integration, at string) (func(*credentials.Integration) error, error) {
	of := "integrations/" + f.get("id").Str
	var stored *credentials.Credential
	if old != nil {
		stored = &old.Credential
	}
	all := make(map[string]map[string]string) // headers by model
	for n, m := range f.get("models").Array() {
		at, path := at+".models["+strconv.Itoa(n)+"].headers", "models."+strconv.Itoa(n)+"."
		headers := f.take(path + "headers")
		if f.get(path + "hints").Exists() {
			return nil, wrong(at, "unknown member hints")
		}
		if !headers.Exists() {
			continue
		}
		slug, opened := m.Get("slug").Str, make(map[string]string)
		had := make(map[string]string)
		if old != nil {
			if model, ok := old.Model(slug); ok {
				var err error
				if had, err = x.Keyring.OpenHeaders(old, model); err != nil {
					return nil, err
				}
			}
		}
		if err := stdjson.Unmarshal([]byte(headers.Raw), &opened); err != nil {
			return nil, wrong(at, "expected an object of texts")
		}
		for name, value := range opened {
			var err error
			if opened[name], err = x.open(of, at+"."+credentials.Clip(name), value, func() (string, bool) { v, ok := had[name]; return v, ok }); err != nil {
				return nil, err
			}
		}
		all[slug] = opened
	}
	finish, err := x.readCredential("integrations", f, stored, at)
	if err != nil {
		return nil, err
	}
	return func(i *credentials.Integration) error {
		for n := range i.Models {
			if err := x.Keyring.SealHeaders(i, &i.Models[n], all[i.Models[n].Slug]); err != nil {
				return err
			}
		}
		return finish(&i.Credential)
	}, nil
}

func writeSecretReference(x *session, r *credentials.SecretReference, f *form) error {
	auth, err := x.Keyring.OpenAuth(r)
	if err != nil {
		return err
	}
	public := secrets.PublicFields(x.Managers[r.Manager])
	for name, value := range auth {
		if !public[name] {
			auth[name] = x.seal("secret_references/"+r.ID, value)
		}
	}
	if len(auth) > 0 {
		f.set("auth", auth)
	} else {
		f.drop("auth")
	}
	return nil
}

func readSecretReference(x *session, f *form, old *credentials.SecretReference, at string) (func(*credentials.SecretReference) error, error) {
	of, sent := "secret_references/"+f.get("id").Str, f.take("auth")
	auth, had := make(map[string]string), map[string]string(nil)
	if old != nil {
		var err error
		if had, err = x.Keyring.OpenAuth(old); err != nil {
			return nil, err
		}
	}
	if sent.Exists() {
		var err error
		if auth, err = x.openTexts(of, at+".auth", sent, had); err != nil {
			return nil, err
		}
	}
	return func(r *credentials.SecretReference) error {
		if _, ok := x.Managers[r.Manager]; !ok {
			return wrong(at+".manager", "expected one of %s", strings.Join(slices.Sorted(maps.Keys(x.Managers)), ", "))
		}
		return x.Keyring.SealAuth(r, auth)
	}, nil
}

func writePlugin(x *session, p *plugins.Plugin, f *form) error {
	settings, err := x.Plugins.Open(p)
	if err != nil {
		return err
	}
	v, _, _ := plugins.Name(p.For)
	for name, value := range settings {
		if plugins.IsSecret(v, name) {
			settings[name] = x.seal("plugins/"+p.ID, value)
		}
	}
	if f.drop("settings"); settings != nil {
		f.set("settings", settings)
	}
	return nil
}

func readPlugin(x *session, f *form, old *plugins.Plugin, at string) (func(*plugins.Plugin) error, error) {
	sent := f.take("settings")
	if !sent.Exists() {
		return func(p *plugins.Plugin) error { return x.Plugins.Seal(p, nil) }, nil
	}
	var had map[string]string
	if old != nil {
		var err error
		if had, err = x.Plugins.Open(old); err != nil {
			return nil, err
		}
	}
	settings, err := x.openTexts("plugins/"+f.get("id").Str, at+".settings", sent, had)
	return func(p *plugins.Plugin) error { return x.Plugins.Seal(p, settings) }, err
}

// openTexts opens those texts of an object that are sealed; had are those that the store has.
func (x *session) openTexts(of, at string, sent gjson.Result, had map[string]string) (map[string]string, error) {
	texts := make(map[string]string)
	if err := stdjson.Unmarshal([]byte(sent.Raw), &texts); err != nil {
		return nil, wrong(at, "expected an object of texts")
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		var err error
		if texts[name], err = x.open(of, at+"."+credentials.Clip(name), texts[name], func() (string, bool) { v, ok := had[name]; return v, ok }); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// writeDigest puts the digest of a secret that only its owner has into an object.
func (x *session) writeDigest(of, name string, digest *[32]byte, f *form) {
	f.drop(name)
	if digest != nil {
		f.set(name, x.seal(of, hex.EncodeToString(digest[:])))
	}
}

// readDigest takes a digest out of an object; nil: there is none.
func (x *session) readDigest(of, name string, f *form, at string) (*[32]byte, error) {
	sent := f.take(name)
	if !sent.Exists() {
		return nil, nil
	}
	text, err := x.open(of, at+"."+name, sent.Str, nil)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(text)
	if digest := new([32]byte); err == nil && copy(digest[:], raw) == len(digest) && len(raw) == len(digest) {
		return digest, nil
	}
	return nil, wrong(at+"."+name, "expected a sealed SHA-256 in hex")
}

func writeAPIKey(x *session, k *credentials.APIKey, f *form) error {
	of := "api_keys/" + k.ID
	x.writeDigest(of, "digest", (*[32]byte)(&k.Digest), f)
	x.writeDigest(of, "previous", (*[32]byte)(k.Previous), f)
	return nil
}

func readAPIKey(x *session, f *form, old *credentials.APIKey, at string) (func(*credentials.APIKey) error, error) {
	of := "api_keys/" + f.get("id").Str
	digest, err := x.readDigest(of, "digest", f, at)
	if err != nil {
		return nil, err
	}
	previous, err := x.readDigest(of, "previous", f, at)
	if err != nil {
		return nil, err
	}
	return func(k *credentials.APIKey) error {
		switch {
		case old != nil: // its secret may have been rotated since
			k.Digest, k.Previous, k.PreviousUntil, k.Hint, k.Unclaimed = old.Digest, old.Previous, old.PreviousUntil, old.Hint, old.Unclaimed
			k.NotifiedExpiring, k.NotifiedRotating, k.NotifiedExpired = old.NotifiedExpiring, old.NotifiedRotating, old.NotifiedExpired
			if k.Rotation != nil && old.Rotation != nil && k.Rotation.Period == old.Rotation.Period && k.Rotation.Days == old.Rotation.Days {
				k.Rotation.NextAt = old.Rotation.NextAt
			}
			return nil
		case digest == nil:
			return wrong(at+".digest", "required for a key that the store does not have; caddy gw key create makes new keys")
		}
		k.Digest, k.Previous = *digest, (*credentials.Digest)(previous)
		return nil
	}, nil
}

// uniqueOfKey has the digests by which a key is found.
func uniqueOfKey(k *credentials.APIKey) []string {
	all := []string{hex.EncodeToString(k.Digest[:])}
	if k.Previous != nil {
		all = append(all, hex.EncodeToString(k.Previous[:]))
	}
	return all
}

func checkAPIKey(_ *session, k *credentials.APIKey) error {
	if k.Kind != credentials.OrganisationService && !k.Kind.Workspace() {
		return wrong("kind", "expected %s, %s or %s", credentials.OrganisationService, credentials.WorkspaceService, credentials.WorkspaceUser)
	}
	if k.Kind.Workspace() != (k.WorkspaceID != "") {
		return wrong("workspace_id", "expected one for a key of a workspace, and none for one of the organisation")
	}
	for i, scope := range k.Scopes {
		if !k.Kind.MayHold(scope) {
			return wrong("scopes["+strconv.Itoa(i)+"]", "a key of kind %s cannot hold %q", k.Kind, credentials.Clip(scope))
		}
	}
	if r := k.Rotation; r != nil && (r.Period != "" || r.Days != 0) {
		checked := *r
		checked.NextAt = nil
		if err := checked.Begin(k.CreatedAt); err != nil {
			return wrong("rotation", "%v", err)
		}
	}
	return nil
}
