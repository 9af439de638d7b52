package routing

import (
	"maps"
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
	also     []string        // settings that virtual keys may have besides, where nothing is required
	modes    map[string]mode // for a field that selects how to authenticate
}

// A mode is a way to log in, by the value of its field.
type mode map[string]login

type login struct {
	needs   []string // what else it needs
	machine string   // the cloud for which it is what the gateway's machine is; "": it is not
	unless  []string // but not if the settings have one of these; then they need all
}

// The settings of logins, and how they log in.
var (
	entraSettings = []string{
		"azure_entra_tenant_id", "azure_entra_client_id", "azure_entra_client_secret", "azure_entra_scope", "azure_ad_token",
		"azure_managed_client_id", "azure_workload_client_id", "azure_workload_tenant_id",
	}
	entra = mode{
		"default": {}, "entra": {needs: []string{"azure_entra_tenant_id", "azure_entra_client_id", "azure_entra_client_secret"}},
		"managed": {machine: Azure}, "workload": {machine: Azure}, "entraFederated": {machine: Azure, needs: []string{"azure_entra_tenant_id", "azure_entra_client_id"}},
	}
	awsSettings = []string{"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_role_arn", "aws_external_id"}
	awsKeys     = []string{"aws_access_key_id", "aws_secret_access_key"}
	awsModes    = mode{
		"accessKey":   {needs: awsKeys},
		"assumedRole": {needs: []string{"aws_role_arn"}, machine: AWS, unless: awsKeys},
		"serviceRole": {machine: AWS},
	}
	bedrockModes = with(awsModes, "apiKey", login{})

	// sagemakerSettings become headers of calls.
	sagemakerSettings = []string{
		"amzn_sagemaker_custom_attributes", "amzn_sagemaker_target_model", "amzn_sagemaker_target_variant", "amzn_sagemaker_target_container_hostname",
		"amzn_sagemaker_inference_id", "amzn_sagemaker_enable_explanations", "amzn_sagemaker_inference_component", "amzn_sagemaker_session_id",
	}
)

// unused are fields that other gateways have for a provider and that would do nothing here, with why. They are refused,
// and not ignored.
var unused = map[string]string{
	"sagemaker.amzn_sagemaker_model_name":  "SageMaker takes the name of an endpoint, which is in the path, and no model",
	"fireworks-ai.fireworks_account_id":    "it is for files and fine-tuning, which are not translated for this provider",
	"vertex-ai.vertex_storage_bucket_name": "it is for files and batches, which this provider does not serve",
	"vertex-ai.skipPtuCostAttribution":     "what a call costs does not depend on provisioned throughput; give the models a pricing_config or pricing_adjustments instead",
}

// with returns a mode with one more way.
func with(m mode, name string, l login) mode {
	m = maps.Clone(m)
	m[name] = l
	return m
}

// configurations are those of the providers that have fields of their own. Settings that no call reads are not among
// them: they are refused, and not ignored.
var configurations = map[string]configuration{
	"openai": {optional: []string{"openai_organization", "openai_project", "openai_beta"}},
	"azure-openai": {
		required: []string{"azure_auth_mode", "azure_resource_name", "azure_deployment_config"},
		optional: entraSettings,
		also:     []string{"azure_api_version", "azure_deployment_id", "azure_deployment_name"},
		modes:    map[string]mode{"azure_auth_mode": entra},
	},
	"azure-ai": {
		required: []string{"azure_auth_mode", "azure_foundry_url"},
		optional: slices.Concat(entraSettings, []string{"azure_api_version", "azure_deployment_name", "azure_extra_parameters"}),
		modes:    map[string]mode{"azure_auth_mode": entra},
	},
	"bedrock": {
		required: []string{"aws_auth_type", "aws_region"},
		optional: slices.Concat(awsSettings, []string{"aws_s3_bucket", "aws_batch_role_arn"}),
		also:     []string{"aws_bedrock_model", "aws_s3_object_key"},
		modes:    map[string]mode{"aws_auth_type": bedrockModes},
	},
	"vertex-ai": {
		required: []string{"vertex_auth_type", "vertex_region"},
		optional: []string{"vertex_project_id", "vertex_service_account_json"},
		modes: map[string]mode{"vertex_auth_type": {
			"basic": {needs: []string{"vertex_project_id"}}, "serviceAccount": {needs: []string{"vertex_service_account_json"}},
		}},
	},
	"sagemaker": {
		required: []string{"aws_auth_type", "aws_region"},
		optional: slices.Concat(awsSettings, sagemakerSettings),
		modes:    map[string]mode{"aws_auth_type": awsModes},
	},
	"workers-ai":  {required: []string{"workers_ai_account_id"}},
	"huggingface": {optional: []string{"huggingface_base_url"}},
	"cortex":      {required: []string{"snowflake_account"}},
	"anthropic":   {optional: []string{"anthropic_beta", "anthropic_version", inspectStream}},
	"byteplus":    {required: []string{"byteplus_region"}},
	"databricks":  {optional: []string{"databricks_workspace"}},
}

// inspectStream asks for what the gateway does anyway: an error at the beginning of a stream is an error of the call, and
// an attempt that failed.
const inspectStream = "anthropic_inspect_stream_for_overloaded_error"

// A deployment is how an element of azure_deployment_config is written: the members that it
// must have, and those that it may have.
type deployment struct{ required, optional []string }

// The members of integrations, and of virtual keys, which older clients write.
var (
	deploymentOfIntegration = deployment{[]string{"azure_api_version", "azure_deployment_name", "azure_model_slug"}, []string{"alias", isDefault}}
	deploymentOfVirtualKey  = deployment{[]string{"apiVersion", "deploymentName"}, []string{"alias", isDefault}}
)

const isDefault = "is_default"

// CheckConfigurations refuses the configurations of an integration that are not those of its
// provider. What each field may hold is checked where it is read, and what is mapped when it is
// fetched. The fields that it refuses are those of text.
func CheckConfigurations(provider, text string, mapped []credentials.SecretMapping, refuse credentials.Refuse) error {
	known, all := configurations[provider], gjson.Parse(text)
	fields := slices.Concat(known.required, known.optional)
	if err := checkFields(provider, all, append(fields, customHost), refuse, deploymentOfIntegration); err != nil {
		return err
	}
	has := present(all, mapped)
	for _, name := range known.required {
		if !has(name) {
			return refuse(name, "required for provider %s", provider)
		}
	}
	for field := range known.modes {
		if err := known.checkMode(field, all.Get(field).Str, has, refuse); err != nil {
			return err
		}
	}
	return nil
}

// CheckModelConfig is [CheckConfigurations] for the settings of a virtual key. None is required but
// those of the provider's address, and of a way to log in that the settings name.
func CheckModelConfig(provider, text string, mapped []credentials.SecretMapping, refuse credentials.Refuse) error {
	known, all := configurations[provider], gjson.Parse(text)
	fields := slices.Concat(known.required, known.optional, known.also)
	if err := checkFields(provider, all, fields, refuse, deploymentOfVirtualKey, deploymentOfIntegration); err != nil {
		return err
	}
	for field := range known.modes {
		if mode := all.Get(field).Str; mode != "" {
			if err := known.checkMode(field, mode, present(all, mapped), refuse); err != nil {
				return err
			}
		}
	}
	return nil
}

// present returns whether settings have a field, or secret_mappings has it.
func present(all gjson.Result, mapped []credentials.SecretMapping) func(name string) bool {
	return func(name string) bool {
		v := all.Get(name)
		return slices.ContainsFunc(mapped, func(m credentials.SecretMapping) bool { return m.Field == name }) || v.Exists() && v.Type != gjson.Null && v.String() != ""
	}
}

// checkFields checks the fields of settings, which are among those that are listed, or custom_headers.
// Deployments are of one of the forms.
func checkFields(provider string, all gjson.Result, listed []string, refuse credentials.Refuse, forms ...deployment) (err error) {
	all.ForEach(func(key, value gjson.Result) bool {
		name := key.Str
		field := credentials.Clip(name)
		switch {
		case value.Type == gjson.Null, name == credentials.CustomHeaders:
		case unused[provider+"."+name] != "":
			err = refuse(field, "it would do nothing: %s", unused[provider+"."+name])
		case !slices.Contains(listed, name):
			err = refuse(field, "provider %s has no such field, expected one of %s", provider, strings.Join(append(listed, credentials.CustomHeaders), ", "))
		case name == "aws_role_arn":
			if fault := (sts.Role{ARN: value.String()}).CheckARN(); fault != "" && value.String() != "" {
				err = refuse(field, "%s", fault)
			}
		case name == "aws_external_id":
			if fault := (sts.Role{ExternalID: value.String()}).CheckExternalID(); fault != "" {
				err = refuse(field, "%s", fault)
			}
		case name == "azure_deployment_config":
			err = checkDeployments(field, value, refuse, forms)
		case name == "vertex_service_account_json" && !value.IsObject() && value.Type != gjson.String:
			err = refuse(field, "expected an object")
		case name == "vertex_service_account_json":
			if kind := kindOf(value); kind != "" && kind != "service_account" {
				err = refuse(field, "expected the key of a service account, got one of type %s: workload identity federation reads files and asks hosts that the key names, which are the operator's to choose", credentials.Clip(kind))
			}
		case name == inspectStream && value.String() != "true":
			err = refuse(field, "expected true: the beginning of every stream is inspected")
		}
		return err == nil
	})
	return err
}

// kindOf is the type of a key of Google's, which is an object or its text; "": it has none.
func kindOf(key gjson.Result) string {
	if key.Type == gjson.String {
		key = gjson.Parse(key.Str)
	}
	return key.Get("type").Str
}

// checkMode checks the value of a field that selects how to authenticate, and that the settings
// have what that needs.
func (c *configuration) checkMode(field, value string, has func(string) bool, refuse credentials.Refuse) error {
	ways := c.modes[field]
	way, ok := ways[value]
	if !ok {
		return refuse(field, "expected one of %s", strings.Join(slices.Sorted(maps.Keys(ways)), ", "))
	}
	needs := way.needs
	if slices.ContainsFunc(way.unless, has) {
		needs = slices.Concat(needs, way.unless)
	}
	for _, name := range needs {
		if !has(name) {
			return refuse(name, "required where %s is %s", field, value)
		}
	}
	return nil
}

// checkDeployments checks the list of a resource's deployments, each of which is written in one of the
// forms. Calls find one by its alias, or the default one, so there is one of each.
func checkDeployments(field string, list gjson.Result, refuse credentials.Refuse, forms []deployment) error {
	if !list.IsArray() || len(list.Array()) == 0 {
		return refuse(field, "expected an array of at least one deployment")
	}
	named, hasDefault := make(map[string]bool), false
	for i, d := range list.Array() {
		if !d.IsObject() {
			return refuse(field, "expected objects, element %d is none", i)
		}
		form := forms[0]
		for _, f := range forms[1:] {
			if slices.ContainsFunc(f.required, func(name string) bool { return d.Get(name).Exists() }) {
				form = f
			}
		}
		if err := form.check(field, i, d, refuse); err != nil {
			return err
		}
		alias, first := d.Get("alias").Str, d.Get(isDefault).Bool()
		switch {
		case alias != "" && named[alias]:
			return refuse(field, "element %d has the alias %q, as another has", i, credentials.Clip(alias))
		case first && hasDefault:
			return refuse(field, "element %d is the default one, as another is", i)
		}
		named[alias], hasDefault = true, hasDefault || first
	}
	return nil
}

// check checks a deployment, which is element i.
func (f *deployment) check(field string, i int, d gjson.Result, refuse credentials.Refuse) (err error) {
	d.ForEach(func(key, value gjson.Result) bool {
		switch {
		case !slices.Contains(f.required, key.Str) && !slices.Contains(f.optional, key.Str):
			err = refuse(field, "element %d has the unknown field %s, expected one of %s", i, credentials.Clip(key.Str), strings.Join(slices.Concat(f.required, f.optional), ", "))
		case key.Str == isDefault && !value.IsBool():
			err = refuse(field, "%s of element %d: expected true or false", key.Str, i)
		case key.Str != isDefault && value.Type != gjson.String:
			err = refuse(field, "%s of element %d: expected a text", key.Str, i)
		case strings.HasSuffix(strings.ToLower(key.Str), "version") && len(value.Str) > 30:
			err = refuse(field, "%s of element %d is longer than 30 bytes", key.Str, i)
		}
		return err == nil
	})
	for _, name := range f.required {
		if err == nil && d.Get(name).Str == "" {
			err = refuse(field, "%s of element %d is required", name, i)
		}
	}
	return err
}
