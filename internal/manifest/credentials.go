package manifest

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/plugins"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/secrets"
)

// credentialFields are the members of a [credentials.Credential] that are not in documents.
var credentialFields = []string{"sealed", "settings", "hint", "own_slug", "machine"}

// settingsOf returns the settings of a credential as they were sent, with their secrets.
func (x *session) settingsOf(c *credentials.Credential) (string, error) {
	if c.ModelConfig == nil {
		return "", nil
	}
	settings, err := x.Keyring.OpenSettings(c)
	if err != nil {
		return "", err
	}
	var headers map[string]string
	if s, ok := settings[credentials.CustomHeaders]; ok {
		if err := stdjson.Unmarshal([]byte(s.Reveal()), &headers); err != nil {
			return "", err
		}
	}
	return routing.ReplaceSecrets(string(c.ModelConfig), func(path, masked string) (string, error) {
		if s, ok := settings[path]; ok {
			return s.Reveal(), nil
		}
		for name, value := range headers {
			if path == routing.PathIn(credentials.CustomHeaders, name) {
				return value, nil
			}
		}
		return masked, nil
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

// boundOf returns the secrets of a credential of the store, or nil, with where they go, and its settings as they are in
// documents.
func (x *session) boundOf(old *credentials.Credential) (key credentials.Secret, settings map[string]string, bound *credentials.Binding, err error) {
	settings, bound = make(map[string]string), new(credentials.Binding)
	if old == nil || old.Sealed == nil {
		return key, settings, bound, nil
	}
	if key, err = x.Keyring.OpenKey(old); err != nil {
		return key, nil, nil, err
	}
	text, err := x.settingsOf(old)
	if err != nil {
		return key, nil, nil, err
	}
	if text != "" {
		all, err := normal([]byte(text))
		if err != nil {
			return key, nil, nil, err
		}
		text = string(all)
	}
	_, err = routing.ReplaceSecrets(text, func(path, value string) (string, error) {
		settings[path] = value
		return value, nil
	})
	return key, settings, routing.BindCredential(old, text, key), err
}

// keep refuses to keep a secret of the store that would go elsewhere than it went.
func keep(bound *credentials.Binding, field string, to credentials.Destination, at string) error {
	refused := new(credentials.BindingError)
	err := bound.Keep(field, to)
	if !errors.As(err, &refused) {
		return err
	}
	if routing.IsPlace(refused.Field) {
		at += ".model_config"
	}
	return wrong(at+"."+refused.Field, "%s", refused.Why)
}

// readCredential takes the secrets of a credential out of an object. The key is kept if the object has none, and so is what is
// [Omitted], if it goes where it went. sent: the object has a key.
func (x *session) readCredential(kind string, f *form, old *credentials.Credential, at string) (sent bool, finish func(*credentials.Credential) error, err error) {
	id := f.get("id").Str
	of, key, config := kind+"/"+id, f.take("key"), f.take("model_config")
	if key.Exists() && key.Type != gjson.String {
		return false, nil, wrong(at+".key", "expected a text")
	}
	if config.Type == gjson.Null {
		config.Raw = "{}"
	}
	had, stored, bound, err := x.boundOf(old)
	if err != nil {
		return false, nil, err
	}
	host := f.get("custom_host").Str
	if list, _ := routing.Settings([]byte(config.Raw), x.ParseOptions); host == "" {
		host = routing.Host(list) // a setting may be the address
	}
	to := routing.CredentialDestination(&credentials.Credential{Provider: f.get("provider").Str, CustomHost: host}, config.Raw)
	mapped := f.get(`mappings.#(field=="` + credentials.MappedKey + `")`).Exists()
	var secret string
	switch {
	case !key.Exists() && !mapped:
		secret = had.Reveal()
	case key.Exists():
		if secret, err = x.open(of, at+".key", key.Str, func() (string, bool) { return had.Reveal(), old != nil && old.Sealed != nil }); err != nil {
			return false, nil, err
		}
		if secret != "" && mapped {
			return false, nil, wrong(at+".key", "mappings has it from a secret reference; leave it out")
		}
	}
	if sent = key.Exists() && key.Str != Omitted; !sent && secret != "" {
		if err := keep(bound, credentials.MappedKey, to, at); err != nil {
			return false, nil, err
		}
	}
	if !credentials.Sendable(secret) {
		return false, nil, wrong(at+".key", "expected no white space around it and no control characters")
	}
	text, err := routing.ReplaceSecrets(config.Raw, func(path, value string) (string, error) {
		if value == Omitted {
			if err := keep(bound, path, to, at); err != nil {
				return "", err
			}
		}
		return x.open(of, at+".model_config."+path, value, func() (string, bool) { v, ok := stored[path]; return v, ok })
	})
	if err != nil {
		return false, nil, err
	}
	list, faults := routing.Settings([]byte(text), x.ParseOptions)
	if len(faults) > 0 {
		return false, nil, wrong(at+".model_config", "%s", strings.Join(faults.Strings(), "; "))
	}
	settings := make(map[string]credentials.Secret, len(list))
	for _, s := range list {
		settings[s.Name] = s.Value
	}
	return sent, func(c *credentials.Credential) error {
		if _, ok := providers.Lookup(c.Provider); !ok {
			return wrong(at+".provider", "there is no provider %q", credentials.Clip(c.Provider))
		}
		c.CustomHost = host
		if c.CustomHost != "" && (old == nil || c.CustomHost != old.CustomHost) {
			if _, err := x.Guard.Check(c.CustomHost); err != nil {
				return wrong(at+".custom_host", "%s", credentials.CustomHostError(err).Message)
			}
		}
		if err := routing.CheckMappings(c.Mappings, refuse(at+".mappings")); err != nil {
			return err
		}
		for _, m := range c.Mappings {
			if s := settings[m.Field]; !s.Empty() {
				return wrong(at+".model_config."+m.Field, "mappings has it from a secret reference; leave it out")
			}
		}
		if config.Exists() && config.Type != gjson.Null {
			c.ModelConfig = stdjson.RawMessage(routing.Mask(text))
		}
		if err := x.Keyring.SealSettings(c, settings); err != nil {
			return err
		}
		if old == nil || c.CustomHost != old.CustomHost || string(c.ModelConfig) != string(old.ModelConfig) {
			err := providers.CheckAddress(c.Provider, c.CustomHost, func(setting string) bool { s := settings[setting]; return !s.Empty() },
				refuseIn(at, "custom_host"))
			if err != nil {
				return err
			}
		}
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
	if provided {
		for _, name := range []string{"key", "model_config", "custom_host", "mappings"} {
			if f.get(name).Exists() {
				return nil, wrong(at+"."+name, "expected none with integration_id, which has it")
			}
		}
		return func(v *credentials.VirtualKey) error { v.OwnSlug = true; return nil }, nil
	}
	_, finish, err := x.readCredential("virtual_keys", f, stored, at)
	if err != nil {
		return nil, err
	}
	return func(v *credentials.VirtualKey) error {
		v.OwnSlug = true
		if err := finish(&v.Credential); err != nil {
			return err
		}
		if old == nil || string(v.ModelConfig) != string(old.ModelConfig) || !slices.Equal(v.Mappings, old.Mappings) {
			if err := routing.CheckModelConfig(v.Provider, cmp.Or(string(v.ModelConfig), "{}"), v.Mappings, refuse(at+".model_config.")); err != nil {
				return err
			}
		}
		return x.machine(&v.Credential, stored, refuse(at+".model_config."))
	}, nil
}

// machine notes whether a credential is what the gateway's machine is. What was so before stays.
func (x *session) machine(c, old *credentials.Credential, refuse credentials.Refuse) (err error) {
	text := string(c.ModelConfig)
	cloud, _, _ := routing.MachineOf(c.Provider, text, c.Mappings)
	if old == nil || cloud != old.Machine || c.CustomHost != old.CustomHost || text != string(old.ModelConfig) {
		cloud, err = x.Identities.Check(c, text, providers.OwnHost(c.Provider, c.CustomHost), refuse)
	}
	c.Machine = cloud
	return err
}

func decodeVirtualKey(text []byte, v *credentials.VirtualKey) error {
	type plain credentials.VirtualKey // without its own way to be read, which takes unknown members
	return json.Unmarshal(text, (*plain)(v), json.RejectUnknownMembers(true))
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
	of, given := "secret_references/"+f.get("id").Str, f.take("auth")
	auth, had, sent := make(map[string]string), map[string]string(nil), map[string]bool(nil)
	if old != nil {
		var err error
		if had, err = x.Keyring.OpenAuth(old); err != nil {
			return nil, err
		}
	}
	if given.Exists() {
		var err error
		if auth, sent, err = x.openTexts(of, at+".auth", given, had); err != nil {
			return nil, err
		}
	}
	return func(r *credentials.SecretReference) error {
		m, ok := x.Managers[r.Manager]
		switch {
		case !ok:
			return wrong(at+".manager", "expected one of %s", strings.Join(slices.Sorted(maps.Keys(x.Managers)), ", "))
		case old != nil && r.Path == old.Path && r.Manager == old.Manager && maps.Equal(auth, had): // as the store has it
			return x.Keyring.SealAuth(r, auth)
		}
		checked, err := secrets.CheckReference(m, x.Guard, r, had, auth, func(name string) bool { return sent[name] },
			refuse(at+".", "auth_config", "auth", "manager_type", "manager", secrets.FieldPath, "path"))
		if err != nil {
			return err
		}
		return x.Keyring.SealAuth(r, checked)
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
	given := f.take("settings")
	if !given.Exists() {
		return func(p *plugins.Plugin) error { return x.Plugins.Seal(p, nil) }, nil
	}
	var had map[string]string
	if old != nil {
		var err error
		if had, err = x.Plugins.Open(old); err != nil {
			return nil, err
		}
	}
	settings, sent, err := x.openTexts("plugins/"+f.get("id").Str, at+".settings", given, had)
	if err != nil {
		return nil, err
	}
	return func(p *plugins.Plugin) error {
		if v, name, ok := plugins.Name(p.For); ok && name == p.For && (old == nil || !maps.Equal(settings, had)) {
			var err error
			if settings, err = plugins.Check(v, p.For, "settings.", had, settings, func(name string) bool { return sent[name] }, x.ParseOptions.CheckHost, refuse(at+".")); err != nil {
				return err
			}
		}
		return x.Plugins.Seal(p, settings)
	}, nil
}

// openTexts opens those texts of an object that are sealed; had are those that the store has. sent are the names
// of those that are not kept from there.
func (x *session) openTexts(of, at string, given gjson.Result, had map[string]string) (texts map[string]string, sent map[string]bool, err error) {
	texts, sent = make(map[string]string), make(map[string]bool)
	if err := stdjson.Unmarshal([]byte(given.Raw), &texts); err != nil {
		return nil, nil, wrong(at, "expected an object of texts")
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if texts[name] != Omitted {
			sent[name] = true
		}
		var err error
		if texts[name], err = x.open(of, at+"."+credentials.Clip(name), texts[name], func() (string, bool) { v, ok := had[name]; return v, ok }); err != nil {
			return nil, nil, err
		}
	}
	return texts, sent, nil
}
