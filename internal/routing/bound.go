package routing

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/caddy-gw/gateway/credentials"
)

// CredentialDestination returns the destination of a stored credential with certain settings, a JSON object.
func CredentialDestination(c *credentials.Credential, settings string) credentials.Destination {
	return Destination(settings, credentials.Destination{"provider": c.Provider, customHost: c.CustomHost})
}

// CredentialSecrets returns the secrets of a stored credential with where they go, and its settings as
// a JSON object. The key is in the field key, and the others in those of the settings.
func CredentialSecrets(k *credentials.Keyring, c *credentials.Credential) (*credentials.Binding, string, error) {
	if c.Sealed == nil {
		return new(credentials.Binding), "{}", nil
	}
	key, err := k.OpenKey(c)
	if err != nil {
		return nil, "", err
	}
	settings, err := k.OpenSettings(c)
	if err != nil {
		return nil, "", err
	}
	plain := make(map[string]any, len(settings))
	for name, s := range settings {
		plain[name] = s.Reveal()
		if name == credentials.CustomHeaders {
			plain[name] = json.RawMessage(s.Reveal())
		}
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, "", err
	}
	return BindCredential(c, string(text), key), string(text), nil
}

// BindCredential returns the secrets of a stored credential with certain settings, a JSON object, and a key.
func BindCredential(c *credentials.Credential, settings string, key credentials.Secret) *credentials.Binding {
	stored := Secrets(settings, credentials.Destination{"provider": c.Provider, customHost: c.CustomHost})
	stored.Add(credentials.Bound{Field: credentials.MappedKey, Name: credentials.MappedKey, Secret: key, For: CredentialDestination(c, settings)})
	return &stored
}

// secretSetting returns the first setting of an integration that is a credential, or "".
func secretSetting(k *credentials.Keyring, i *credentials.Integration) (string, error) {
	settings, err := k.OpenSettings(&i.Credential)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if IsSecret(name) {
			return name, err
		}
	}
	return "", err
}

// KeyHosts are the hosts that the key of an integration goes to: its own, and those of its models.
func KeyHosts(i *credentials.Integration) map[string]bool {
	hosts := map[string]bool{i.CustomHost: true}
	for _, m := range i.Models {
		hosts[m.CustomHost] = true
	}
	return hosts
}

// CheckModelHost refuses, as custom_host, a host for a model of an integration that the integration's
// credential must not be sent to, as it does not go there already: only the key may go to a model's own host,
// and only if it was sent along. guard decides about hosts.
func CheckModelHost(k *credentials.Keyring, guard credentials.Guard, i *credentials.Integration, host string, keySent bool, refuse credentials.Refuse) error {
	if _, err := guard.Check(host); err != nil {
		return refuse(customHost, "%s", credentials.CustomHostError(err).Message)
	}
	setting, err := secretSetting(k, i)
	switch {
	case err != nil:
		return err
	case len(i.Mappings) > 0:
		return refuse(customHost, "the integration has secret_mappings, and no secret of a reference is sent to a model's own host")
	case setting != "":
		return refuse(customHost, "the integration has %s, which is not sent to where it was not saved for", setting)
	}
	key, err := k.OpenKey(&i.Credential)
	if err == nil && !key.Empty() && !keySent {
		return refuse(customHost, "send key along; a stored credential is not sent to where it was not saved for")
	}
	return err
}

// CheckModels refuses what an integration's credential cannot be together with its models. moved: it goes
// elsewhere than the stored headers of models without a host of their own were saved for. Fields are those of
// settings, or "" for the settings as a whole, or secret_mappings.
func CheckModels(k *credentials.Keyring, i *credentials.Integration, moved, mapped bool, refuse credentials.Refuse) error {
	setting, err := secretSetting(k, i)
	if err != nil {
		return err
	}
	for _, m := range i.Models {
		switch {
		case moved && m.Headers != nil && m.CustomHost == "":
			return refuse("", "model %s has custom_headers, which are not sent to where they were not saved for; remove them first", m.Slug)
		case len(i.Mappings) > 0 && m.CustomHost != "" && mapped:
			return refuse("secret_mappings", "model %s has a host of its own, to which no secret of a reference goes; delete the model first", m.Slug)
		case setting != "" && m.CustomHost != "":
			return refuse(setting, "model %s has a host of its own, to which only the key may go; delete the model first", m.Slug)
		}
	}
	return nil
}

// maxMappings bounds the mappings of a credential.
const maxMappings = 64

// CheckMappings refuses mappings of a credential whose fields are none, or that are for the same part.
// Fields are those of one of the mappings, such as [0].field, or "" for all of them.
func CheckMappings(list []credentials.SecretMapping, refuse credentials.Refuse) error {
	if len(list) > maxMappings {
		return refuse("", "expected at most %d", maxMappings)
	}
	seen := make(map[string]bool)
	for i, m := range list {
		at := "[" + strconv.Itoa(i) + "]."
		switch {
		case m.Field != credentials.MappedKey && !IsMappable(m.Field):
			return refuse(at+"field", "expected key, or a setting that says neither where the credential goes nor how to log in, such as aws_secret_access_key, got %q", credentials.Clip(m.Field))
		case seen[m.Field]:
			return refuse(at+"field", "%s is mapped twice", m.Field)
		case len(m.Key) > 255:
			return refuse(at+"key", "expected at most 255 bytes")
		}
		seen[m.Field] = true
	}
	return nil
}
