package routing

import (
	"bytes"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
)

// A form is what a vendor's key may hold.
type form uint8

const (
	plain    form = iota // text
	address              // a URL, which the host guard must pass
	label                // becomes part of a host name or a path: no separators
	document             // text, or JSON
)

// vendorKeys are the keys of one vendor each, which its dialect reads.
var vendorKeys = map[string]form{
	"anthropic_beta":    plain,
	"anthropic_version": plain,

	"aws_access_key_id":     plain,
	"aws_auth_type":         plain,
	"aws_batch_role_arn":    plain,
	"aws_bedrock_model":     plain,
	"aws_external_id":       plain,
	"aws_region":            label,
	"aws_role_arn":          plain,
	"aws_s3_bucket":         label,
	"aws_s3_object_key":     plain,
	"aws_secret_access_key": plain,
	"aws_session_token":     plain,

	"azure_ad_token":            plain,
	"azure_api_version":         label,
	"azure_auth_mode":           plain,
	"azure_deployment_config":   document,
	"azure_deployment_id":       label,
	"azure_deployment_name":     label,
	"azure_endpoint_name":       label,
	"azure_entra_client_id":     plain,
	"azure_entra_client_secret": plain,
	"azure_entra_scope":         plain,
	"azure_entra_tenant_id":     label,
	"azure_extra_parameters":    plain,
	"azure_foundry_url":         address,
	"azure_managed_client_id":   plain,
	"azure_model_name":          label,
	"azure_resource_name":       label,

	"databricks_workspace":  label,
	"fireworks_account_id":  label,
	"huggingface_base_url":  address,
	"openai_beta":           plain,
	"openai_organization":   plain,
	"openai_project":        plain,
	"snowflake_account":     label,
	"workers_ai_account_id": label,

	"oracle_api_version":    label,
	"oracle_compartment_id": plain,
	"oracle_fingerprint":    plain,
	"oracle_key_passphrase": plain,
	"oracle_private_key":    document,
	"oracle_region":         label,
	"oracle_serving_mode":   plain,
	"oracle_tenancy":        plain,
	"oracle_user":           plain,

	"stability_client_id":      plain,
	"stability_client_user_id": plain,
	"stability_client_version": plain,

	"vertex_auth_type":            plain,
	"vertex_project_id":           label,
	"vertex_region":               label,
	"vertex_service_account_json": document,
	"vertex_storage_bucket_name":  label,
}

// Settings reads the settings of a provider that are saved with a credential (the
// model_config of a virtual key): an object of vendors' keys. Null is absent.
func Settings(raw []byte, o Options) ([]Setting, Faults) {
	p := &parser{options: &o, config: new(Config), fieldOf: make(map[string]int)}
	t := new(Target)
	if p.whole(raw) {
		p.object("", bytes.Clone(raw[space(raw, 0):]), func(at, name string, v []byte) {
			if v[0] != 'n' && !p.vendor(t, at, name, v) {
				p.fault(at, "unknown key%s", suggestion(name))
			}
		})
	}
	return t.Vendor, p.faults
}

// Host is the address that one of the settings is, "" where none is: a provider's own,
// which counts as a custom host.
func Host(settings []Setting) string {
	for _, s := range settings {
		if vendorKeys[s.Name] == address {
			return s.Value.Reveal()
		}
	}
	return ""
}

// vendor reads a vendor's key, and reports whether name is one.
func (p *parser) vendor(t *Target, path, name string, v []byte) bool {
	f, ok := vendorKeys[name]
	if !ok {
		return false
	}
	var value string
	switch {
	case f == address:
		value = p.host(path, v)
	case f == document && (v[0] == '{' || v[0] == '['):
		value = string(v)
	case f == document && v[0] == '"':
		value = text(v) // a PEM or a JSON text has lines
	default:
		value = p.text(path, v, maxSecret)
		if f == label && (strings.ContainsFunc(value, separates) || strings.Contains(value, "..") || value == ".") {
			p.fault(path, "expected letters, digits, hyphens, underscores and single dots only")
		}
	}
	t.Vendor = append(t.Vendor, Setting{name, credentials.NewSecret(value)})
	return true
}

func separates(r rune) bool {
	return r != '_' && r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}
