// Package azure provides OpenAI's models on Azure: azure-openai, and azure-ai for the
// models of an Azure AI Foundry project. Both use OpenAI's API at their own addresses.
package azure

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

func init() {
	providers.Register(
		providers.Provider{
			Name:     "azure-openai",
			Limits:   &providers.OpenAILimits,
			BaseURL:  "https://{azure_resource_name}.openai.azure.com/openai",
			Auth:     auth,
			Login:    login,
			OwnHosts: []string{".openai.azure.com", ".cognitiveservices.azure.com"},
			Serves:   slices.Concat(providers.OpenAIServes, []string{providers.CreateResponse}),
			Address:  address,

			Closed: true, NewerNames: true, OldStreams: oldStreams,
		},
		providers.Provider{
			Name:  "azure-ai",
			Host:  "azure_foundry_url",
			Auth:  auth,
			Login: login,
			// Not those of online endpoints (inference.ml.azure.com), whose containers are anybody's and see the token.
			OwnHosts: []string{".services.ai.azure.com", ".models.ai.azure.com", ".openai.azure.com", ".cognitiveservices.azure.com"},
			Headers:  map[string]string{"azure_deployment_name": "Azureml-Model-Deployment", "azure_extra_parameters": "Extra-Parameters"},
			Address:  foundry,

			Closed: true,
		},
	)
}

const (
	defaultVersion  = "2024-10-21"         // of a deployment's API
	foundryVersion  = "2024-05-01-preview" // of the model inference API
	scope           = "https://cognitiveservices.azure.com/.default"
	foundryScope    = "https://ai.azure.com/.default" // of projects
	authority       = "https://login.microsoftonline.com"
	settingVersion  = "azure_api_version"
	settingTenant   = "azure_entra_tenant_id"
	settingClient   = "azure_entra_client_id"
	settingSecret   = "azure_entra_client_secret"
	settingADToken  = "azure_ad_token"
	settingAuthMode = "azure_auth_mode"
	paramAuthMode   = "x-gw-azure-auth-mode"
)

// auth sends an API key in the header api-key, and an Entra token as a bearer token.
func auth(c *providers.Call, h http.Header) error {
	token := c.Token
	if t := c.Setting(settingADToken); t != "" {
		token = credentials.NewSecret(t)
	}
	if !token.Empty() {
		h["Authorization"] = []string{"Bearer " + token.Reveal()}
		return nil
	}
	return providers.KeyHeader("Api-Key")(c, h)
}

// login obtains an Entra token for an application, or for what the gateway's machine is.
func login(c *providers.Call) (*providers.Login, error) {
	mode := c.Setting(settingAuthMode)
	switch mode {
	case "", "default", "proxy":
		return nil, nil
	case "entra":
		for _, name := range []string{settingTenant, settingClient, settingSecret} {
			if c.Setting(name) == "" {
				return nil, c.Provider.Missing(name)
			}
		}
		return &providers.Login{
			TokenURL: authority + "/" + url.PathEscape(c.Setting(settingTenant)) + "/oauth2/v2.0/token",
			ClientID: c.Setting(settingClient), ClientSecret: credentials.NewSecret(c.Setting(settingSecret)), Scopes: []string{scopeOf(c)},
		}, nil
	case "managed", "workload", "entraFederated":
		return machine(c, mode)
	}
	return nil, &providers.RequestError{
		Param: paramAuthMode, Code: "invalid_setting",
		Message: "azure_auth_mode " + credentials.Clip(mode) + " is not supported; use default (a key or azure_ad_token), entra, managed, workload or entraFederated",
	}
}

// scopeOf returns what a token is for.
func scopeOf(c *providers.Call) string {
	if s := c.Setting("azure_entra_scope"); s != "" {
		return s
	}
	return scope
}

// machine logs in as what the gateway's machine is.
func machine(c *providers.Call, mode string) (*providers.Login, error) {
	if !c.Machine {
		return nil, &providers.RequestError{
			Param: paramAuthMode, Code: "invalid_setting",
			Message: "azure_auth_mode " + mode + " is what the gateway's machine is, which only credentials may use that an API key of the organisation has saved",
		}
	}
	wanted := scopeOf(c)
	if wanted != scope && wanted != foundryScope {
		return nil, &providers.RequestError{
			Param: "x-gw-azure-entra-scope", Code: "invalid_setting",
			Message: "azure_entra_scope: the gateway's machine asks for tokens of " + scope + " or " + foundryScope + " only",
		}
	}
	id := &providers.AzureIdentity{Authority: authority, Resource: strings.TrimSuffix(wanted, "/.default"), Federated: mode != "managed"}
	switch mode {
	case "managed":
		id.Client = c.Setting("azure_managed_client_id")
	case "workload":
		id.Client, id.Tenant = c.Setting("azure_workload_client_id"), c.Setting("azure_workload_tenant_id")
	default:
		for _, name := range []string{settingTenant, settingClient} {
			if c.Setting(name) == "" {
				return nil, c.Provider.Missing(name)
			}
		}
		id.Client, id.Tenant = c.Setting(settingClient), c.Setting(settingTenant)
	}
	return &providers.Login{Azure: id}, nil
}

// streamUsage is the first API version of a deployment that accepts stream_options.
const streamUsage = "2024-09"

// oldStreams reports whether the API version of a call is older than that. Versions are
// dates.
func oldStreams(c *providers.Call) bool {
	version := deploymentOf(c).version
	if query, err := url.ParseQuery(c.Query); err == nil && query.Has("api-version") {
		version = query.Get("api-version")
	}
	return version != "" && version[0] >= '0' && version[0] <= '9' && version < streamUsage
}

// deployed lists the endpoints that Azure serves below a deployment. The others are served
// next to it.
var deployed = []string{
	"/chat/completions", "/completions", "/embeddings", "/images/generations", "/images/edits",
	"/audio/speech", "/audio/transcriptions", "/audio/translations",
}

// address returns the URL of a call: below a deployment, with the version in the query, or,
// if neither is set, below /v1, which has no versions and takes the model from the body.
func address(c *providers.Call, path string) (*url.URL, error) {
	d := deploymentOf(c)
	switch {
	case d.version == "" && d.name == "", d.version == "v1", d.version == "preview":
		return providers.VersionedURL(c.Base, "/v1"+path, c.Query), nil
	case d.version == "":
		d.version = defaultVersion
	}
	if slices.Contains(deployed, path) {
		if d.name == "" {
			d.name = c.Model
		}
		if d.name == "" {
			return nil, c.Provider.Missing("azure_deployment_id")
		}
		path = "/deployments/" + url.PathEscape(d.name) + path
	}
	return providers.VersionedURL(c.Base, path, with(c.Query, d.version)), nil
}

// foundry returns the URL of a call to a Foundry project.
func foundry(c *providers.Call, path string) (*url.URL, error) {
	version := c.Setting(settingVersion)
	if version == "" {
		version = foundryVersion
	}
	if strings.HasSuffix(c.Base.Path, "/openai/v1") {
		return providers.URL(c.Base, path, c.Query), nil
	}
	return providers.URL(c.Base, path, with(c.Query, version)), nil
}

// with adds the API's version to a query that has none.
func with(query, version string) string {
	if strings.Contains("&"+query, "&api-version=") {
		return query
	}
	if query != "" {
		query += "&"
	}
	return query + "api-version=" + url.QueryEscape(version)
}

// A deployment is a model as an Azure resource has it deployed.
type deployment struct{ name, version string }

// deploymentOf returns the deployment that the settings name. A saved credential may have a
// list of deployments; the one for the call's model is used, or else the default one.
func deploymentOf(c *providers.Call) deployment {
	d := deployment{c.Setting("azure_deployment_id"), c.Setting(settingVersion)}
	if d.name == "" {
		d.name = c.Setting("azure_deployment_name")
	}
	list := c.Setting("azure_deployment_config")
	if list == "" {
		return d
	}
	var found, ofModel, fallback *deployment
	r := jsonscan.NewReader([]byte(list))
	r.Array(func() {
		one, names := entry(r)
		switch {
		case names.alias != "" && names.alias == c.Model:
			found = &one
		case ofModel == nil && names.model != "" && names.model == c.Model:
			ofModel = &one
		}
		if names.isDefault || fallback == nil && names.alias == "" && names.model == "" {
			fallback = &one
		}
	})
	if found == nil {
		found = ofModel
	}
	if found == nil {
		found = fallback
	}
	if found == nil {
		return d
	}
	if found.version == "" {
		found.version = d.version
	}
	return *found
}

// names are what calls name a deployment by: its alias, or else its model.
type names struct {
	alias, model string
	isDefault    bool
}

// entry reads one deployment, with the member names that virtual keys and integrations use.
func entry(r *jsonscan.Reader) (d deployment, n names) {
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "deploymentName", "azure_deployment_name":
			d.name = chat.Literal(r.String()).Text()
		case "apiVersion", settingVersion:
			d.version = chat.Literal(r.String()).Text()
		case "alias":
			n.alias = chat.Literal(r.String()).Text()
		case "azure_model_slug":
			n.model = chat.Literal(r.String()).Text()
		case "is_default":
			n.isDefault = string(r.Raw()) == "true"
		}
	})
	return d, n
}
