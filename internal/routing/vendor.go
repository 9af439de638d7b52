package routing

import (
	"bytes"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
)

// A form is the type of the value of a vendor's key.
type form uint8

const (
	plain    form = iota // text
	address              // a URL, which the host guard checks
	label                // becomes part of a host name or a path, so it must not contain separators
	document             // text, or JSON
	flag                 // true or false, also as a text
)

// A use says what a vendor's key has to do with credentials. It determines what is masked
// and redacted, and what a stored secret is bound to, so every key has one.
type use uint8

const (
	_      use = iota
	secret     // a credential, which is always masked
	place      // determines where credentials go: an address, an account, a bucket, a role
	option     // neither
)

type vendorKey struct {
	form form
	use  use
}

// IsSecret reports whether a vendor's key is a credential.
func IsSecret(name string) bool { return vendorKeys[name].use == secret }

// IsPlace reports whether a vendor's key determines where credentials go.
func IsPlace(name string) bool { return vendorKeys[name].use == place }

// IsMappable reports whether a part of a saved credential may be a secret of a secret manager: a credential, or a setting that
// neither determines where credentials go nor which of them are used.
func IsMappable(name string) bool {
	return IsSecret(name) || vendorKeys[name].use == option && !strings.HasSuffix(name, "_auth_mode") && !strings.HasSuffix(name, "_auth_type")
}

// The sorted names of all vendors' keys that are credentials, and of those that determine
// where credentials go.
var (
	VendorKeys = keys(secret, place, option)
	SecretKeys = keys(secret)
	PlaceKeys  = keys(place)
)

func keys(uses ...use) (names []string) {
	for name, k := range vendorKeys {
		if slices.Contains(uses, k.use) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// vendorKeys has the keys of all vendors, which their dialects read.
var vendorKeys = map[string]vendorKey{
	"amzn_sagemaker_custom_attributes":         {plain, option},
	"amzn_sagemaker_enable_explanations":       {plain, option},
	"amzn_sagemaker_inference_component":       {plain, option},
	"amzn_sagemaker_inference_id":              {plain, option},
	"amzn_sagemaker_session_id":                {plain, option},
	"amzn_sagemaker_target_container_hostname": {plain, option},
	"amzn_sagemaker_target_model":              {plain, option},
	"amzn_sagemaker_target_variant":            {plain, option},

	"anthropic_beta":    {plain, option},
	"anthropic_version": {plain, option},

	"anthropic_inspect_stream_for_overloaded_error": {flag, option},

	"aws_access_key_id":     {plain, secret},
	"aws_auth_type":         {plain, option},
	"aws_batch_role_arn":    {plain, place},
	"aws_bedrock_model":     {plain, option},
	"aws_external_id":       {plain, place},
	"aws_region":            {label, place},
	"aws_role_arn":          {plain, place},
	"aws_s3_bucket":         {label, place},
	"aws_s3_object_key":     {plain, place},
	"aws_secret_access_key": {plain, secret},
	"aws_session_token":     {plain, secret},

	"azure_ad_token":            {plain, secret},
	"azure_api_version":         {label, option},
	"azure_auth_mode":           {plain, option},
	"azure_deployment_config":   {document, place},
	"azure_deployment_id":       {label, place},
	"azure_deployment_name":     {label, place},
	"azure_endpoint_name":       {label, place},
	"azure_entra_client_id":     {plain, option},
	"azure_entra_client_secret": {plain, secret},
	"azure_entra_scope":         {plain, place},
	"azure_entra_tenant_id":     {label, place},
	"azure_extra_parameters":    {plain, option},
	"azure_foundry_url":         {address, place},
	"azure_managed_client_id":   {label, place},
	"azure_model_name":          {label, option},
	"azure_resource_name":       {label, place},
	"azure_workload_client_id":  {label, place},
	"azure_workload_tenant_id":  {label, place},

	"byteplus_region":       {label, place},
	"databricks_workspace":  {label, place},
	"fireworks_account_id":  {label, place},
	"huggingface_base_url":  {address, place},
	"openai_beta":           {plain, option},
	"openai_organization":   {plain, option},
	"openai_project":        {plain, option},
	"snowflake_account":     {label, place},
	"workers_ai_account_id": {label, place},

	"oracle_api_version":    {label, option},
	"oracle_compartment_id": {plain, option},
	"oracle_fingerprint":    {plain, option},
	"oracle_key_passphrase": {plain, secret},
	"oracle_private_key":    {document, secret},
	"oracle_region":         {label, place},
	"oracle_serving_mode":   {plain, option},
	"oracle_tenancy":        {plain, option},
	"oracle_user":           {plain, option},

	"stability_client_id":      {plain, option},
	"stability_client_user_id": {plain, option},
	"stability_client_version": {plain, option},

	"vertex_auth_type":            {plain, option},
	"vertex_project_id":           {label, place},
	"vertex_region":               {label, place},
	"vertex_service_account_json": {document, secret},
	"vertex_storage_bucket_name":  {label, place},
}

// Settings parses the settings of a provider that are saved with a credential (the
// model_config of a virtual key): an object of vendors' keys. Null counts as absent.
func Settings(raw []byte, o Options) ([]Setting, ConfigErrors) {
	p := &parser{options: &o, config: new(Config), fieldOf: make(map[string]int)}
	t := new(Target)
	if p.whole(raw) {
		p.object("", bytes.Clone(raw[space(raw, 0):]), func(at, name string, v []byte) {
			switch {
			case v[0] == 'n':
			case name == credentials.CustomHeaders:
				p.customHeaders(t, at, v)
			case !p.vendor(t, at, name, v):
				p.errorf(at, "unknown key%s", suggestion(name))
			}
		})
	}
	return t.Vendor, p.errors
}

const maxHeaders = 64

// customHeaders reads the headers that are added to the requests to a provider.
func (p *parser) customHeaders(t *Target, path string, v []byte) {
	if v[0] != '{' {
		p.errorf(path, "expected an object of texts")
		return
	}
	n := 0
	p.object(path, v, func(at, name string, v []byte) {
		if n++; n == maxHeaders+1 {
			p.errorf(path, "expected at most %d headers", maxHeaders)
		}
		if !credentials.Configurable(name) {
			p.errorf(at, "not the name of a header that can be set")
		}
		p.text(at, v, maxSecret)
	})
	t.Vendor = append(t.Vendor, Setting{credentials.CustomHeaders, credentials.NewSecret(string(v))})
}

// Host returns the setting that is the provider's address, which counts as a custom host,
// or "".
func Host(settings []Setting) string {
	for _, s := range settings {
		if vendorKeys[s.Name].form == address {
			return s.Value.Reveal()
		}
	}
	return ""
}

// vendor parses a vendor's key, and reports whether name is one.
func (p *parser) vendor(t *Target, path, name string, v []byte) bool {
	k, ok := vendorKeys[name]
	if !ok {
		return false
	}
	f := k.form
	var value string
	switch {
	case f == address:
		value = p.host(path, v)
	case f == document && (v[0] == '{' || v[0] == '['):
		value = string(v)
	case f == flag && (string(v) == "true" || string(v) == "false"):
		value = string(v)
	case f == document && v[0] == '"':
		value = text(v) // a PEM block or JSON text has several lines
	default:
		value = p.text(path, v, maxSecret)
		if f == label && (strings.ContainsFunc(value, separates) || strings.Contains(value, "..") || value == ".") {
			p.errorf(path, "expected letters, digits, hyphens, underscores and single dots only")
		}
	}
	t.Vendor = append(t.Vendor, Setting{name, credentials.NewSecret(value)})
	return true
}

func separates(r rune) bool {
	return r != '_' && r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}
