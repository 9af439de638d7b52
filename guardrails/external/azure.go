package external

import (
	"context"
	"net/url"
	"regexp"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// azure is Azure AI services: Content Safety and Language.
var azure = vendor("azure", "customHost",
	guardrails.Parameter{Name: "resourceName", Doc: "the resource, if there is no customHost"},
	guardrails.Parameter{Name: "azureAuthMode", OneOf: []string{"apiKey", "entra", "managed"}, Default: `"apiKey"`, Doc: "how the gateway logs in; managed, as what its machine is, only with credentials that the organisation has saved"},
	guardrails.Parameter{Name: "apiKey", Secret: true, Doc: "the key of the resource"},
	guardrails.Parameter{Name: "azureEntraTenantId", Doc: "with entra: the tenant"},
	guardrails.Parameter{Name: "azureEntraClientId", Doc: "with entra: the application"},
	guardrails.Parameter{Name: "azureEntraClientSecret", Secret: true, Doc: "with entra: its secret"},
	guardrails.Parameter{Name: "azureManagedClientId", Doc: "with managed: which identity, if there are several"},
)

const (
	azureBase  = "https://{resourceName}.cognitiveservices.azure.com"
	azureScope = "https://cognitiveservices.azure.com/.default"
	azureEntra = "https://login.microsoftonline.com/"
)

var azureClientID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

var azureCategories = []string{"Hate", "SelfHarm", "Sexual", "Violence"}

var azureRows = []row{
	{
		id: "azure.contentSafety", doc: "Azure AI Content Safety finds no category of a severity, and nothing of the blocklists",
		vendor: azure, address: "customHost", base: azureBase, path: "/contentsafety/text:analyze", query: "api-version={apiVersion}", needs: azureNeeds, authorize: azureLogin, valid: azureOwn,
		parameters: []guardrails.Parameter{
			{Name: "categories", Type: guardrails.Texts, OneOf: azureCategories, Default: `["Hate","SelfHarm","Sexual","Violence"]`, Doc: "what counts"},
			{Name: "severity", Type: guardrails.Integer, Default: "2", Max: 7, Doc: "the least that counts"},
			{Name: "blocklistNames", Type: guardrails.Texts, Doc: "blocklists of the resource"},
			azureVersion("2024-11-01"),
		},
		body: object{"text": "$text", "categories": "$categories", "blocklistNames": "$blocklistNames"}, read: readContentSafety,
	},
	{
		id: "azure.shieldPrompt", doc: "Azure's Prompt Shields find no attack",
		vendor: azure, judges: calls, address: "customHost", base: azureBase, path: "/contentsafety/text:shieldPrompt", query: "api-version={apiVersion}", needs: azureNeeds, authorize: azureLogin, valid: azureOwn,
		parameters: []guardrails.Parameter{azureVersion("2024-09-01")},
		body:       object{"userPrompt": "$text", "documents": list{}}, read: flag("userPromptAnalysis.attackDetected", ""),
	},
	{
		id: "azure.protectedMaterial", doc: "Azure finds no protected material in the answer",
		vendor: azure, judges: answers, address: "customHost", base: azureBase, path: "/contentsafety/text:detectProtectedMaterial", query: "api-version={apiVersion}", needs: azureNeeds, authorize: azureLogin, valid: azureOwn,
		parameters: []guardrails.Parameter{azureVersion("2024-09-01")},
		body:       object{"text": "$text"}, read: flag("protectedMaterialAnalysis.detected", ""),
	},
	{
		id: "azure.pii", doc: "Azure AI Language finds no personal data, or it is replaced with redact",
		vendor: azure, address: "customHost", base: azureBase, path: "/language/:analyze-text", query: "api-version={apiVersion}", needs: azureNeeds, authorize: azureLogin, valid: azureOwn, redacts: true,
		parameters: []guardrails.Parameter{
			{Name: "domain", OneOf: []string{"none", "phi"}, Default: `"none"`, Doc: "phi: health information"},
			{Name: "modelVersion", Default: `"latest"`, Doc: "the version of the model"},
			{Name: "language", Default: `"en"`, Doc: "of the text"},
			{Name: "categories", Type: guardrails.Texts, Doc: "only these count, as Azure names them"},
			azureVersion("2024-11-01"),
		},
		body: object{
			"kind":          "PiiEntityRecognition",
			"parameters":    object{"domain": "$domain", "modelVersion": "$modelVersion", "piiCategories": "$categories"},
			"analysisInput": object{"documents": list{object{"id": "1", "text": "$text", "language": "$language"}}},
		},
		read: readAzurePII,
	},
}

func azureVersion(initial string) guardrails.Parameter {
	return guardrails.Parameter{Name: "apiVersion", Default: `"` + initial + `"`, Doc: "the version of the API"}
}

// azureNeeds checks that there are all settings of the way to log in.
func azureNeeds(settings map[string]string) error {
	names := []string{"apiKey"}
	switch settings["azureAuthMode"] {
	case "entra":
		names = []string{"azureEntraTenantId", "azureEntraClientId", "azureEntraClientSecret"}
	case "managed":
		names = []string{"resourceName"} // what the machine is, is told only to Azure's own hosts
		if settings["customHost"] != "" {
			return credentialError("customHost", "not with azureAuthMode managed, whose token goes only to the host of resourceName")
		}
		if id := settings["azureManagedClientId"]; id != "" && !azureClientID.MatchString(id) {
			return credentialError("azureManagedClientId", "expected the client id of a managed identity, a UUID")
		}
	}
	for _, name := range names {
		if settings[name] == "" {
			return credentialError(name, "required: a string")
		}
	}
	return nil
}

// azureOwn refuses credentials among the parameters that are nobody's secret: whoever may write a config could use
// what the machine is.
func azureOwn(p *guardrails.Parameters) error {
	if p.Settings(azure)["azureAuthMode"] == "managed" {
		return credentialError("azureAuthMode", "managed is only for credentials that the organisation has saved (/v1/plugins)")
	}
	return nil
}

// azureLogin adds the key of the resource, or a token of Microsoft Entra ID.
func azureLogin(ctx context.Context, _ *check, services guardrails.Services, settings map[string]string, q *guardrails.Request) error {
	var login guardrails.Login
	switch settings["azureAuthMode"] {
	case "entra":
		login = guardrails.Login{
			TokenURL: azureEntra + url.PathEscape(settings["azureEntraTenantId"]) + "/oauth2/v2.0/token",
			ClientID: settings["azureEntraClientId"], ClientSecret: settings["azureEntraClientSecret"], Scope: azureScope,
		}
	case "managed":
		login = guardrails.Login{TokenURL: azureEntra, ClientID: settings["azureManagedClientId"], Scope: azureScope, Managed: true}
	default:
		q.Header.Set("Ocp-Apim-Subscription-Key", settings["apiKey"])
		return nil
	}
	token, err := services.Token(ctx, azure.ID, &login)
	if err == nil {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	return err
}

// readContentSafety reads the severities of categories, and what of blocklists was found.
func readContentSafety(a *answer) (f finding, err error) {
	all := a.Get("categoriesAnalysis")
	if !all.IsArray() {
		return f, a.unexpected("categoriesAnalysis")
	}
	least := a.p.Number("severity")
	for _, c := range all.Array() {
		if v := c.Get("severity"); v.Type == gjson.Number && v.Num >= least {
			f.found = true
			f.kinds = append(f.kinds, c.Get("category").Str)
		}
	}
	for _, m := range a.Get("blocklistsMatch").Array() {
		f.found = true
		f.kinds = append(f.kinds, m.Get("blocklistName").Str)
	}
	return f, nil
}

// readAzurePII reads the entities of the only document.
func readAzurePII(a *answer) (f finding, err error) {
	document := a.Get("results.documents.0")
	if entities := document.Get("entities"); !entities.IsArray() { // such as after an error of the document
		return f, a.unexpected("results.documents[].entities")
	}
	for _, e := range document.Get("entities").Array() {
		f.found = true
		f.kinds = append(f.kinds, e.Get("category").Str)
	}
	text := document.Get("redactedText")
	f.fixed, f.fixable = text.Str, text.Type == gjson.String
	return f, nil
}
