package admin

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// A sentCredential holds the fields of a request for a stored credential.
type sentCredential struct {
	key      *string                      // unchanged if it is nil, "" or the masked key
	host     Optional[string]             // custom_host
	settings string                       // JSON, all of them; unchanged if it is empty
	field    string                       // the field that contains the settings
	whole    bool                         // the settings include the address, which is removed if they do not have it
	mappings *[]credentials.SecretMapping // unchanged if it is nil
	machine  bool                         // it may be what the gateway's machine is: it is no integration of a workspace
}

// mapped returns the mappings that a credential will have.
func (s *sentCredential) mapped(cred *credentials.Credential) []credentials.SecretMapping {
	if s.mappings != nil {
		return *s.mappings
	}
	return cred.Mappings
}

// maskedKey returns how the key of a credential is shown; nil: none was saved. Earlier releases stored a hint for none, too.
func (c *call) maskedKey(cred *credentials.Credential) *string {
	if cred.Hint == credentials.Masked {
		if key, err := c.api.Keyring.OpenKey(cred); err == nil && key.Empty() {
			return nil
		}
	}
	return text(cred.Hint)
}

// hidden calls is with the secrets of a credential, which is shown with its key and its settings in fields of these names.
func (c *call) hidden(cred *credentials.Credential, key, settings string, is func(secret string, path ...string)) error {
	stored, err := c.api.Keyring.OpenKey(cred)
	if err != nil {
		return err
	}
	is(stored.Reveal(), key)
	all, err := c.api.Keyring.OpenSettings(cred)
	if err != nil {
		return err
	}
	for name, s := range all {
		if name != credentials.CustomHeaders {
			is(s.Reveal(), settings, name)
			continue
		}
		var headers map[string]string
		if err := json.Unmarshal([]byte(s.Reveal()), &headers); err != nil {
			return err
		}
		for header, value := range headers {
			is(value, settings, name, header)
		}
	}
	return nil
}

// checkSecret rejects a credential that cannot be sent in a header.
func checkSecret(key string) error {
	if !credentials.Sendable(key) {
		return invalid("key", "expected no white space around it and no control characters")
	}
	return nil
}

// receive applies a request to a credential, which is new or a copy of a stored one. It
// returns the secret in the request, if there is one. Stored secrets that are kept are
// bound to their destination.
func (c *call) receive(cred *credentials.Credential, sent *sentCredential) (secret credentials.Secret, err error) {
	stored, old, err := c.secretsOf(cred)
	if err != nil {
		return secret, err
	}
	before, was := *cred, cred.CustomHost
	if sent.settings != "" {
		list, err := c.settings(sent.settings, sent.field)
		if err != nil {
			return secret, err
		}
		host := routing.Host(list)
		if list, _ := routing.Settings([]byte(old), c.api.ParseOptions); sent.whole || cred.CustomHost == routing.Host(list) {
			cred.CustomHost = ""
		}
		switch {
		case host == "":
		case sent.host.Value != "" && sent.host.Value != host:
			return secret, invalid("custom_host", "%s has another address; send one of them", sent.field)
		default:
			cred.CustomHost = host
		}
	}
	if sent.host.Set {
		cred.CustomHost = sent.host.Value
	}
	if cred.CustomHost != was {
		if _, err := c.api.Guard.Check(cred.CustomHost); cred.CustomHost != "" && err != nil {
			return secret, invalid("custom_host", "%s", credentials.CustomHostError(err).Message)
		}
	}
	if secret, err = c.bind(cred, stored, old, sent); err == nil {
		err = c.mapSecrets(cred, sent)
	}
	if err == nil {
		err = c.machine(cred, &before, sent)
	}
	var bound *credentials.BindingError
	if errors.As(err, &bound) {
		return secret, invalid(bound.Field, "%s", bound.Why)
	}
	return secret, err
}

// machine notes whether a credential is what the gateway's machine is. Only an API key of the organisation may say so.
func (c *call) machine(cred, before *credentials.Credential, sent *sentCredential) error {
	cloud, field, mode := routing.MachineOf(cred.Provider, string(cred.ModelConfig), cred.Mappings)
	same := cloud == before.Machine && cred.CustomHost == before.CustomHost && string(cred.ModelConfig) == string(before.ModelConfig) &&
		slices.Equal(cred.Mappings, before.Mappings)
	if was, field, mode := routing.MachineOf(before.Provider, string(before.ModelConfig), before.Mappings); before.Machine != "" && was != "" && !same && c.caller.WorkspaceID != "" {
		return refuse(sent.field+".")(field, "%s is what the gateway's machine is; only an API key of the organisation may save and change that", mode)
	}
	if cloud != "" && !same {
		refuse := refuse(sent.field + ".")
		switch {
		case !sent.machine:
			return refuse(field, "%s is what the gateway's machine is, which an integration of a workspace may not use; make one of the organisation", mode)
		case c.caller.WorkspaceID != "":
			return refuse(field, "%s is what the gateway's machine is; only an API key of the organisation may save and change that", mode)
		}
		if _, err := c.api.Identities.Check(cred, string(cred.ModelConfig), providers.OwnHost(cred.Provider, cred.CustomHost), refuse); err != nil {
			return err
		}
	}
	cred.Machine = cloud
	return nil
}

// settings returns the settings in field.
func (c *call) settings(text, field string) ([]routing.Setting, error) {
	list, faults := routing.Settings([]byte(text), c.api.ParseOptions)
	if len(faults) > 0 {
		return nil, invalid(field, "%s", strings.Join(faults.Strings(), "; "))
	}
	return list, nil
}

// secretsOf returns the stored secrets of a credential, and its settings as JSON.
func (c *call) secretsOf(cred *credentials.Credential) (*credentials.Binding, string, error) {
	stored, text, err := routing.CredentialSecrets(c.api.Keyring, cred)
	if err != nil {
		return nil, "", err
	}
	to := routing.CredentialDestination(cred, text)
	for _, m := range cred.Mappings { // what they stand for is bound like a stored secret
		stored.Add(credentials.Bound{Field: mappedField(m.Field), Name: m.Field, Secret: credentials.NewSecret(m.Reference), For: to})
	}
	return stored, text, nil
}

// destinationOf returns a string that identifies the destination of a stored
// credential, including its settings.
func (c *call) destinationOf(cred *credentials.Credential) (string, error) {
	_, text, err := routing.CredentialSecrets(c.api.Keyring, cred)
	return routing.CredentialDestination(cred, text).Key(), err
}

// bind stores the settings of a request in a credential, or keeps the previous ones,
// and returns the secret in the request. Secrets that are not sent again must keep
// their destination.
func (c *call) bind(cred *credentials.Credential, stored *credentials.Binding, old string, sent *sentCredential) (secret credentials.Secret, err error) {
	settings := sent.settings
	if settings == "" {
		settings = old
	}
	to := routing.CredentialDestination(cred, settings)
	if key := sent.key; key == nil || *key == "" || *key == cred.Hint || *key == credentials.Masked { // sending back the masked value changes nothing
		err = stored.Keep("key", to)
	} else if err = checkSecret(*key); err == nil {
		secret, err = stored.Take("key", "key", *key, to)
	}
	if err != nil {
		return secret, err
	}
	if sent.mappings == nil {
		for _, m := range cred.Mappings {
			if err := stored.Keep(mappedField(m.Field), to); err != nil {
				return secret, err
			}
		}
	}
	if sent.settings == "" {
		return secret, stored.KeepAll(to, "key", mappedField(""))
	}
	if settings, err = routing.Receive(sent.settings, stored, credentials.Destination{"provider": cred.Provider, "custom_host": cred.CustomHost}); err != nil {
		return secret, err
	}
	list, err := c.settings(settings, sent.field)
	if err != nil {
		return secret, err
	}
	sealed := make(map[string]credentials.Secret, len(list))
	for _, s := range list {
		sealed[s.Name] = s.Value
	}
	cred.ModelConfig = json.RawMessage(routing.Mask(settings))
	return secret, c.api.Keyring.SealSettings(cred, sealed)
}

// complete rejects a credential without the settings that its provider's address
// requires. in and host are the names of the fields for settings and for an address.
func (c *call) complete(cred *credentials.Credential, in, host string) error {
	settings, err := c.api.Keyring.OpenSettings(cred)
	if err != nil {
		return err
	}
	return providers.CheckAddress(cred.Provider, cred.CustomHost, func(setting string) bool {
		s := settings[setting]
		return !s.Empty()
	}, func(field, format string, args ...any) error {
		if field == "" {
			field = in
		} else {
			field = host
		}
		return invalid(field, format, args...)
	})
}
