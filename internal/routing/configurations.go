package routing

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/sts"
)

// A configuration describes the configurations field of a provider's integrations,
// without custom_host and custom_headers, which all integrations may have.
type configuration struct {
	required []string
	optional []string
	modes    map[string]mode // for a field that selects how to authenticate
}

// A mode is a way to log in, by the value of its field: what else it needs; off: it is not
// supported yet.
type mode map[string]login

type login struct {
	needs []string
	off   bool
}

var entra = mode{
	"default": {}, "entra": {needs: []string{"azure_entra_tenant_id", "azure_entra_client_id", "azure_entra_client_secret"}},
	"managed": {off: true}, "workload": {off: true}, "entraFederated": {off: true},
}

// configurations are those of the providers that have fields of their own.
var configurations = map[string]configuration{
	"openai": {optional: []string{"openai_organization", "openai_project", "openai_beta"}},
	"azure-openai": {
		required: []string{"azure_auth_mode", "azure_resource_name", "azure_deployment_config"},
		optional: []string{"azure_entra_tenant_id", "azure_entra_client_id", "azure_entra_client_secret", "azure_entra_scope", "azure_managed_client_id", "azure_ad_token"},
		modes:    map[string]mode{"azure_auth_mode": entra},
	},
	"azure-ai": {
		required: []string{"azure_auth_mode", "azure_foundry_url"},
		optional: []string{"azure_api_version", "azure_deployment_name", "azure_entra_tenant_id", "azure_entra_client_id", "azure_entra_client_secret", "azure_entra_scope", "azure_managed_client_id", "azure_ad_token", "azure_extra_parameters"},
		modes:    map[string]mode{"azure_auth_mode": entra},
	},
	"bedrock": {
		required: []string{"aws_auth_type", "aws_region"},
		optional: []string{"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_role_arn", "aws_external_id", "aws_s3_bucket", "aws_batch_role_arn"},
		modes: map[string]mode{"aws_auth_type": {
			"accessKey": {needs: []string{"aws_access_key_id", "aws_secret_access_key"}}, "apiKey": {},
			"assumedRole": {needs: []string{"aws_access_key_id", "aws_secret_access_key", "aws_role_arn"}}, "serviceRole": {off: true},
		}},
	},
	"vertex-ai": {
		required: []string{"vertex_auth_type", "vertex_region"},
		optional: []string{"vertex_project_id", "vertex_service_account_json", "vertex_storage_bucket_name"},
		modes: map[string]mode{"vertex_auth_type": {
			"basic": {needs: []string{"vertex_project_id"}}, "serviceAccount": {needs: []string{"vertex_service_account_json"}},
		}},
	},
	"workers-ai":   {required: []string{"workers_ai_account_id"}},
	"huggingface":  {optional: []string{"huggingface_base_url"}},
	"cortex":       {required: []string{"snowflake_account"}},
	"anthropic":    {optional: []string{"anthropic_beta", "anthropic_version"}},
	"databricks":   {optional: []string{"databricks_workspace"}},
	"fireworks-ai": {optional: []string{"fireworks_account_id"}},
	"oracle": {optional: []string{
		"oracle_api_version", "oracle_compartment_id", "oracle_fingerprint", "oracle_key_passphrase", "oracle_private_key", "oracle_region",
		"oracle_serving_mode", "oracle_tenancy", "oracle_user",
	}},
	"stability-ai": {optional: []string{"stability_client_id", "stability_client_user_id", "stability_client_version"}},
}

// deploymentFields are those of an element of azure_deployment_config; see deployment.
var deploymentFields = []string{"alias", "azure_api_version", "azure_deployment_name", "is_default", "azure_model_slug"}

// CheckConfigurations refuses the configurations of an integration that are not those of its
// provider. What each field may hold is checked where it is read, and what is mapped when it is
// fetched. The fields that it refuses are those of text.
func CheckConfigurations(provider, text string, mapped []credentials.SecretMapping, refuse credentials.Refuse) error {
	known := configurations[provider]
	all := gjson.Parse(text)
	var err error
	all.ForEach(func(key, value gjson.Result) bool {
		name := key.Str
		field := credentials.Clip(name)
		switch {
		case value.Type == gjson.Null:
		case name == "custom_host" || name == credentials.CustomHeaders:
		case !slices.Contains(known.required, name) && !slices.Contains(known.optional, name):
			expected := slices.Concat(known.required, known.optional, []string{"custom_host", credentials.CustomHeaders})
			err = refuse(field, "provider %s has no such field, expected one of %s", provider, strings.Join(expected, ", "))
		case name == "aws_role_arn":
			if fault := (sts.Role{ARN: value.String()}).CheckARN(); fault != "" && value.String() != "" {
				err = refuse(field, "%s", fault)
			}
		case name == "aws_external_id":
			if fault := (sts.Role{ExternalID: value.String()}).CheckExternalID(); fault != "" {
				err = refuse(field, "%s", fault)
			}
		case name == "azure_deployment_config":
			err = checkDeployments(field, value, refuse)
		case name == "vertex_service_account_json" && !value.IsObject() && value.Type != gjson.String:
			err = refuse(field, "expected an object")
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	has := func(name string) bool {
		v := all.Get(name)
		return slices.ContainsFunc(mapped, func(m credentials.SecretMapping) bool { return m.Field == name }) || v.Exists() && v.Type != gjson.Null && v.String() != ""
	}
	for _, name := range known.required {
		if !has(name) {
			return refuse(name, "required for provider %s", provider)
		}
	}
	for field, ways := range known.modes {
		way, ok := ways[all.Get(field).Str]
		switch {
		case !ok:
			return refuse(field, "expected one of %s", strings.Join(ways.supported(), ", "))
		case way.off:
			return refuse(field, "%s is not supported yet, expected one of %s", all.Get(field).Str, strings.Join(ways.supported(), ", "))
		}
		for _, name := range way.needs {
			if !has(name) {
				return refuse(name, "required where %s is %s", field, all.Get(field).Str)
			}
		}
	}
	return nil
}

// supported are the values of a field that work, sorted.
func (m mode) supported() (values []string) {
	for value, l := range m {
		if !l.off {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values
}

// checkDeployments checks the list of a resource's deployments.
func checkDeployments(field string, list gjson.Result, refuse credentials.Refuse) error {
	if !list.IsArray() || len(list.Array()) == 0 {
		return refuse(field, "expected an array of at least one deployment")
	}
	for i, d := range list.Array() {
		if !d.IsObject() {
			return refuse(field, "expected objects, element %d is none", i)
		}
		var err error
		d.ForEach(func(key, value gjson.Result) bool {
			switch {
			case !slices.Contains(deploymentFields, key.Str):
				err = refuse(field, "element %d has the unknown field %s, expected one of %s", i, credentials.Clip(key.Str), strings.Join(deploymentFields, ", "))
			case key.Str == "is_default" && !value.IsBool(), key.Str != "is_default" && value.Type != gjson.String:
				err = refuse(field, "%s of element %d is of another type than expected", key.Str, i)
			}
			return err == nil
		})
		if err != nil {
			return err
		}
		for _, name := range []string{"azure_api_version", "azure_deployment_name", "azure_model_slug"} {
			switch v := d.Get(name).Str; {
			case v == "":
				return refuse(field, "%s of element %d is required", name, i)
			case name == "azure_api_version" && len(v) > 30:
				return refuse(field, "%s of element %d is longer than 30 bytes", name, i)
			}
		}
	}
	return nil
}
