package handlers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// What a canary looks like, and a word that says where something is.
var (
	canaries = regexp.MustCompile(`cnry[0-9]{6}[a-c]yy`)
	places   = regexp.MustCompile(`plc[0-9]+[a-c]z`)
)

// A home is a place that a canary was saved for.
type home struct {
	key      string   // of a virtual key, which then says where
	provider string   // by its name
	host     string   // on loopback, in the provider's place; "": none
	words    []string // of its settings
	logins   []string // hosts of token servers
}

// A model is what everybody who sent a canary said of where it goes. It lasts, because a
// request that the gateway gave up may come to a host when the next check runs.
type model struct {
	lock  sync.Mutex        // a host may be asked for a token at any time
	homes map[string][]home // by canary
	free  map[string]bool   // canaries of callers, which go where the call says
	keys  map[string]*home  // of the virtual keys, by slug
}

// provider is where a provider is by itself, and what it needs to be there.
type provider struct {
	at, logins string   // regular expressions of hosts
	settings   []string // that its address needs
	alone      bool     // it has no address without a custom host
}

var worldProviders = map[string]provider{
	"openai":       {at: `api\.openai\.com`},
	"anthropic":    {at: `api\.anthropic\.com`},
	"azure-openai": {at: `[a-z0-9]+\.openai\.azure\.com`, logins: `login\.microsoftonline\.com`, settings: []string{"azure_resource_name"}},
	"azure-ai":     {logins: `login\.microsoftonline\.com`, alone: true},
	"bedrock":      {at: `(bedrock-runtime|bedrock|[a-z0-9]+\.s3)\.[a-z0-9]+\.amazonaws\.com`, settings: []string{"aws_region"}},
	"vertex-ai":    {at: `[a-z0-9]+-aiplatform\.googleapis\.com`, logins: `oauth2\.googleapis\.com`, settings: []string{"vertex_region"}},
	"google":       {at: `generativelanguage\.googleapis\.com`},
	"databricks":   {at: `[a-z0-9]+\.cloud\.databricks\.com`, settings: []string{"databricks_workspace"}},
	"cortex":       {at: `[a-z0-9]+\.snowflakecomputing\.com`, settings: []string{"snowflake_account"}},
	"workers-ai":   {at: `api\.cloudflare\.com`, settings: []string{"workers_ai_account_id"}},
	"huggingface":  {at: `router\.huggingface\.co`},
	"groq":         {at: `api\.groq\.com`},
	"mistral-ai":   {at: `api\.mistral\.ai`},
}

// A row of the settings that providers have.
const (
	rowSecret  = "secret"
	rowAccount = "account" // a service account, in JSON
	rowPlace   = "place"
	rowHost    = "host"
	rowOption  = "option"
)

var worldRows = map[string]string{
	"anthropic_beta": rowOption, "anthropic_version": rowOption,
	"aws_access_key_id": rowSecret, "aws_secret_access_key": rowSecret, "aws_session_token": rowSecret,
	"aws_auth_type": rowOption, "aws_bedrock_model": rowOption, "aws_region": rowPlace, "aws_role_arn": rowPlace,
	"aws_batch_role_arn": rowPlace, "aws_external_id": rowPlace, "aws_s3_bucket": rowPlace, "aws_s3_object_key": rowPlace,
	"azure_ad_token": rowSecret, "azure_entra_client_secret": rowSecret, "azure_foundry_url": rowHost,
	"azure_api_version": rowOption, "azure_auth_mode": rowOption, "azure_entra_client_id": rowOption, "azure_managed_client_id": rowPlace,
	"azure_workload_client_id": rowPlace, "azure_workload_tenant_id": rowPlace, "byteplus_region": rowPlace, "anthropic_inspect_stream_for_overloaded_error": rowOption,
	"amzn_sagemaker_custom_attributes": rowOption, "amzn_sagemaker_enable_explanations": rowOption, "amzn_sagemaker_inference_component": rowOption,
	"amzn_sagemaker_inference_id": rowOption, "amzn_sagemaker_session_id": rowOption, "amzn_sagemaker_target_container_hostname": rowOption,
	"amzn_sagemaker_target_model": rowOption, "amzn_sagemaker_target_variant": rowOption,
	"azure_extra_parameters": rowOption, "azure_model_name": rowOption, "azure_deployment_config": rowPlace, "azure_deployment_id": rowPlace,
	"azure_deployment_name": rowPlace, "azure_endpoint_name": rowPlace, "azure_entra_scope": rowPlace, "azure_entra_tenant_id": rowPlace,
	"azure_resource_name": rowPlace, "databricks_workspace": rowPlace, "fireworks_account_id": rowPlace, "huggingface_base_url": rowHost,
	"openai_beta": rowOption, "openai_organization": rowOption, "openai_project": rowOption, "snowflake_account": rowPlace,
	"workers_ai_account_id": rowPlace, "oracle_api_version": rowOption, "oracle_compartment_id": rowOption, "oracle_fingerprint": rowOption,
	"oracle_key_passphrase": rowSecret, "oracle_private_key": rowSecret, "oracle_region": rowPlace, "oracle_serving_mode": rowOption,
	"oracle_tenancy": rowOption, "oracle_user": rowOption, "stability_client_id": rowOption, "stability_client_user_id": rowOption,
	"stability_client_version": rowOption, "vertex_auth_type": rowOption, "vertex_project_id": rowPlace, "vertex_region": rowPlace,
	"vertex_service_account_json": rowAccount, "vertex_storage_bucket_name": rowPlace,
}

var rowNames = slices.Sorted(maps.Keys(worldRows))

// says reads a member that is a text, "" where it is none.
func says(object map[string]any, name string) string {
	s, _ := object[name].(string)
	return s
}

// textOf is everything in a value.
func textOf(value any) string {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// frees notes a canary that goes where the call says.
func (m *model) frees(canary string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.free[canary] = true
}

// bought notes a token that was got for a canary.
func (m *model) bought(token, canary string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.homes[token], m.free[token] = m.homes[canary], m.free[canary]
}

// homeOf is where the secrets of an object go whose custom host is host.
func homeOf(object map[string]any, host string) home {
	h := home{provider: says(object, "provider"), host: bare(host), key: says(object, "virtual_key")}
	if slug, ok := strings.CutPrefix(h.provider, "@"); ok {
		h.key = slug
	}
	for _, name := range rowNames {
		if worldRows[name] == rowHost && h.host == "" {
			h.host = bare(says(object, name))
		}
		if worldRows[name] == rowPlace {
			h.words = append(h.words, places.FindAllString(textOf(object[name]), -1)...)
		}
	}
	var account struct {
		TokenURI string `json:"token_uri"`
	}
	if json.Unmarshal([]byte(says(object, "vertex_service_account_json")), &account) == nil && account.TokenURI != "" {
		h.logins = append(h.logins, strings.TrimSuffix(bare(account.TokenURI), "/token"))
	}
	return h
}

// bare is the host and port of an address.
func bare(address string) string {
	address = strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://")
	host, _, _ := strings.Cut(address, "/")
	return host
}

// savedKey notes a virtual key that was saved: of what it is now, sent came with it.
func (m *model) savedKey(slug string, h home, sent any) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.keys[slug] = &h
	for _, canary := range canaries.FindAllString(textOf(sent), -1) {
		m.homes[canary] = []home{h}
	}
}

// savedConfig notes a config that was saved. Older versions of it can still be called.
func (m *model) savedConfig(node map[string]any) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.note(node, "")
}

// note notes a node of a config; above is the custom host of those over it.
func (m *model) note(node map[string]any, above string) (leaves []home) {
	host := above
	if own := says(node, "custom_host"); own != "" {
		host = own
	}
	own := homeOf(node, host)
	targets, _ := node["targets"].([]any)
	if targets == nil {
		leaves = []home{own}
	}
	for _, t := range targets {
		leaves = append(leaves, m.note(t.(map[string]any), host)...)
	}
	for name, value := range node {
		homes := []home{own}
		switch name {
		case "targets":
			continue
		case "override_params":
			homes = leaves
		}
		for _, canary := range canaries.FindAllString(textOf(value), -1) {
			m.homes[canary] = append(m.homes[canary], homes...)
		}
	}
	return leaves
}

// holds reports whether what came is in one of the homes of a canary.
func (m *model) holds(canary string, r receipt) bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.free[canary] || slices.ContainsFunc(m.homes[canary], func(h home) bool { return m.in(h, r) })
}

func (m *model) in(h home, r receipt) bool {
	if of := m.keys[h.key]; h.key != "" {
		return of != nil && m.in(home{provider: of.provider, host: of.host, words: of.words, logins: of.logins}, r)
	}
	for _, word := range places.FindAllString(r.text, -1) {
		if !slices.Contains(h.words, word) {
			return false
		}
	}
	p := worldProviders[h.provider]
	at := p.at
	if h.host != "" {
		at = regexp.QuoteMeta(h.host)
	}
	return slices.Contains(h.logins, r.at) || matches(at, r.at) || matches(p.logins, r.at)
}

func matches(pattern, host string) bool {
	return pattern != "" && regexp.MustCompile(`^(`+pattern+`)$`).MatchString(host)
}

func (h home) String() string {
	return fmt.Sprintf("key %q provider %q host %q words %v logins %v", h.key, h.provider, h.host, h.words, h.logins)
}
