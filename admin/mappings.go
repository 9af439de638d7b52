package admin

import (
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

// SecretMapping says which part of a credential is a secret of a secret manager.
type SecretMapping struct {
	TargetField       string           `json:"target_field" maxLength:"255" doc:"key, or a credential or another option among the settings, such as configurations.aws_secret_access_key of an integration or model_config.aws_secret_access_key of a virtual key."`
	SecretReferenceID string           `json:"secret_reference_id" maxLength:"255" doc:"Id or slug."`
	SecretKey         Optional[string] `json:"secret_key,omitempty" doc:"The key in a secret that is a JSON object. Default: that of the reference."`
	ValueFormat       Optional[string] `json:"value_format,omitempty" doc:"string, or json for text that is parsed before use. Default: string."`
}

// ShownMapping is a mapping as it is stored.
type ShownMapping struct {
	TargetField       string  `json:"target_field"`
	SecretReferenceID string  `json:"secret_reference_id" format:"uuid"`
	SecretKey         *string `json:"secret_key"`
	ValueFormat       string  `json:"value_format" enum:"string,json"`
}

const (
	fieldMappings = "secret_mappings"
	formatText    = "string"
	formatJSON    = "json"
)

// mappedField is the field of a mapping, as far as destinations are concerned.
func mappedField(field string) string { return fieldMappings + "." + field }

// showMappings shows the mappings of a credential whose settings are the field called
// settings.
func showMappings(cred *credentials.Credential, settings string) []ShownMapping {
	out := make([]ShownMapping, len(cred.Mappings))
	for i, m := range cred.Mappings {
		out[i] = ShownMapping{TargetField: settings + "." + m.Field, SecretReferenceID: m.Reference, SecretKey: text(m.Key), ValueFormat: formatText}
		if m.Field == credentials.MappedKey {
			out[i].TargetField = m.Field
		}
		if m.JSON {
			out[i].ValueFormat = formatJSON
		}
	}
	return out
}

// mappingNames are the names of the API for fields of mappings.
var mappingNames = strings.NewReplacer(".field", ".target_field", ".key", ".secret_key")

// mappings checks the mappings of a credential that a workspace has, or, for "", the
// organisation. They are nil if the field was not sent.
func (c *call) mappings(field Optional[[]SecretMapping], settings, workspace string) (*[]credentials.SecretMapping, error) {
	if !field.Set {
		return nil, nil //nolint:nilnil // they stay
	}
	all := make([]credentials.SecretMapping, 0, len(field.Value))
	for i := range field.Value {
		in := &field.Value[i]
		m := credentials.SecretMapping{Field: in.TargetField, Key: in.SecretKey.Value, JSON: in.ValueFormat.Value == formatJSON}
		if m.Field != credentials.MappedKey {
			name, ok := strings.CutPrefix(m.Field, settings+".")
			switch {
			case !ok || !routing.IsMappable(name):
				return nil, invalid(element(fieldMappings, i, "target_field"), "expected key, or a setting that says neither where the credential goes nor how to log in, such as %s.aws_secret_access_key, got %q", settings, credentials.Clip(m.Field))
			case !routing.IsSecret(name) && c.caller.WorkspaceID != "": // providers repeat it in their errors
				return nil, invalid(element(fieldMappings, i, "target_field"), "%s is no credential; only an API key of the organisation has it from a secret", credentials.Clip(m.Field))
			}
			m.Field = name
		}
		if format := in.ValueFormat.Value; format != "" && format != formatText && format != formatJSON {
			return nil, invalid(element(fieldMappings, i, "value_format"), "expected string or json, got %q", credentials.Clip(format))
		}
		ref, ok := c.api.Keyring.SecretReference(in.SecretReferenceID)
		if !ok || workspace != "" && !ref.Allows(workspace) {
			return nil, unknownReference(element(fieldMappings, i, "secret_reference_id"), "there is no secret reference %q", credentials.Clip(in.SecretReferenceID))
		}
		m.Reference = ref.ID
		all = append(all, m)
	}
	err := routing.CheckMappings(all, func(field, format string, args ...any) error {
		return invalid(fieldMappings+mappingNames.Replace(field), format, args...)
	})
	return &all, err
}

// mapSecrets has a credential mapped as it is sent. Who may not see a secret may not send it to a
// host of its own either.
func (c *call) mapSecrets(cred *credentials.Credential, sent *sentCredential) error {
	if sent.mappings != nil {
		cred.Mappings = *sent.mappings
		if len(cred.Mappings) > 0 && cred.CustomHost != "" && c.caller.WorkspaceID != "" {
			return invalid(fieldMappings, "an API key of a workspace cannot have a secret sent to a custom host; only one of the organisation can")
		}
	}
	if len(cred.Mappings) == 0 {
		return nil
	}
	settings, err := c.api.Keyring.OpenSettings(cred)
	if err != nil {
		return err
	}
	for _, m := range cred.Mappings {
		if v := settings[m.Field]; !v.Empty() {
			return invalid(sent.field+"."+m.Field, "secret_mappings has it from a secret reference; leave it out, and send %s without it", sent.field)
		}
	}
	if _, mapped := cred.Mapping(credentials.MappedKey); mapped {
		if sent.key != nil && *sent.key != "" && !strings.Contains(*sent.key, credentials.Masked) {
			return invalid("key", "secret_mappings has it from a secret reference; leave it out")
		}
		return c.api.Keyring.ClearKey(cred)
	}
	return nil
}
