package external

import (
	"slices"
	"time"

	"github.com/caddy-gw/gateway/guardrails"
)

// vendor returns a vendor with a setting that says where its service is, and others.
func vendor(id, address string, settings ...guardrails.Parameter) *guardrails.Vendor {
	return &guardrails.Vendor{ID: id, Settings: append(settings, guardrails.Parameter{Name: address, Address: true, Doc: elsewhere})}
}

// key is a setting that is a credential.
func key(name string) guardrails.Parameter {
	return guardrails.Parameter{Name: name, Required: true, Secret: true, Doc: "the credential"}
}

const elsewhere = "the base URL of the service, if it is another; one that is not public must be a trusted custom host"

// The vendors that need no more than a key.
var (
	aporia        = vendor("aporia", "apiEndpoint", key("apiKey"))
	akto          = vendor("akto", baseURL, key("apiKey"))
	crowdstrike   = &guardrails.Vendor{ID: "crowdstrike-aidr", Settings: []guardrails.Parameter{key("apiKey"), {Name: baseURL, Required: true, Address: true, Doc: "the base URL of the service"}}}
	f5            = vendor("f5-guardrails", "calypsoUrl", key("apiKey"))
	javelin       = vendor("javelin", baseURL, key("apiKey"), guardrails.Parameter{Name: "domain", Default: `"api.javelin.live"`, Doc: "the host of the service"}, guardrails.Parameter{Name: "application", Doc: "the name of the application"})
	lakera        = vendor("lakera", baseURL, key("apiKey"))
	lasso         = vendor("lasso", "apiEndpoint", key("apiKey"))
	mistral       = vendor("mistral", baseURL, key("apiKey"))
	openai        = vendor("openai", baseURL, key("apiKey"))
	pangea        = vendor("pangea", baseURL, key("apiKey"), guardrails.Parameter{Name: "domain", Doc: "of the project, such as aws.us.pangea.cloud"})
	panw          = vendor("panw-prisma-airs", baseURL, key("AIRS_API_KEY"))
	patronus      = vendor("patronus", baseURL, key("apiKey"))
	pillar        = vendor("pillar", baseURL, key("apiKey"))
	promptfoo     = vendor("promptfoo", baseURL)
	promptSecured = vendor("promptsecurity", baseURL, key("apiKey"), guardrails.Parameter{Name: "apiDomain", Doc: "the host of the service"})
	qualifire     = vendor("qualifire", baseURL, key("apiKey"))
	sydelabs      = vendor("sydelabs", baseURL, key("apiKey"))
	walled        = vendor("walledai", baseURL, key("apiKey"))
	zscaler       = vendor("zscaler", baseURL, key("zscalerApiKey"))
)

// bearer has the key as most services want it.
var bearer = map[string]string{"Authorization": "Bearer {apiKey}"}

// table has the checks that are a row; more are in files of their own.
var table = slices.Concat(rows, azureRows, patronusRows(), qualifireRows(), []row{acuvityScan, bedrockGuard, panwIntercept, qualifireToolUse, sydeGuard})

var rows = []row{
	{
		id: "openai.moderateContent", doc: "OpenAI's moderation endpoint flags nothing, or none of the categories",
		vendor: openai, base: "https://api.openai.com/v1", path: "/moderations", header: bearer,
		parameters: []guardrails.Parameter{
			{Name: "model", Default: `"omni-moderation-latest"`, Doc: "the model that judges"},
			{Name: "categories", Type: guardrails.Texts, Doc: "only these count: " + openaiCategoryList},
			notParameter,
		},
		body: object{"model": "$judge", "input": "$text"}, values: judgingModel, read: moderated,
	},
	{
		id: "gw.moderateContent", doc: "the moderation endpoint of openai's credentials flags none of the categories",
		vendor: openai, judges: calls, base: "https://api.openai.com/v1", path: "/moderations", header: bearer,
		parameters: []guardrails.Parameter{
			{Name: "categories", Type: guardrails.Texts, Required: true, OneOf: openaiCategories, Doc: "what counts"},
			{Name: "model", Default: `"omni-moderation-latest"`, Doc: "the model that judges"},
			notParameter,
		},
		body: object{"model": "$judge", "input": "$text"}, values: judgingModel, read: moderated,
	},
	{
		id: "mistral.moderateContent", doc: "Mistral's moderation endpoint finds none of the categories",
		vendor: mistral, base: "https://api.mistral.ai/v1", path: "/moderations", header: bearer,
		parameters: []guardrails.Parameter{
			{Name: "categories", Type: guardrails.Texts, Required: true, OneOf: mistralCategories, Doc: "what counts"},
			{Name: "model", Default: `"mistral-moderation-latest"`, Doc: "the model that judges"},
		},
		body: object{"model": "$judge", "input": "$text"}, values: judgingModel, read: moderated,
	},
	{
		id: "lakera.guard", doc: "Lakera Guard flags nothing; what is only personal data is replaced with redact",
		vendor: lakera, base: "https://api.lakera.ai", path: "/v2/guard", header: bearer, timeout: 30 * time.Second, redacts: true,
		parameters: []guardrails.Parameter{{Name: "projectID", Doc: "the project whose policy applies"}},
		body:       object{"messages": "$messages", "project_id": "$projectID", "payload": true, "breakdown": true}, read: readLakera,
	},
	{
		id: "aporia.validateProject", doc: "the policies of an Aporia project let the text pass",
		vendor: aporia, address: "apiEndpoint", base: "https://gr-prd.aporia.com", path: "/{projectID}/validate",
		header:     map[string]string{"X-APORIA-API-KEY": "{apiKey}"},
		parameters: []guardrails.Parameter{{Name: "projectID", Required: true, Doc: "the project"}},
		body:       object{"messages": "$messages", "response": "$answer", "validation_target": "$target", "explain": true},
		read:       word("action", []string{"passthrough"}, nil),
	},
	{
		id: "pangea.textGuard", doc: "no detector of Pangea's AI Guard finds anything",
		vendor: pangea, base: "https://ai-guard.{domain}", path: "/v1/text/guard", header: bearer,
		parameters: []guardrails.Parameter{
			{Name: "recipe", Doc: "the recipe"},
			{Name: "debug", Type: guardrails.Boolean, Doc: "the service keeps details"},
			{Name: "overrides", Type: guardrails.Object, Doc: "of the recipe"},
		},
		body: object{"text": "$text", "recipe": "$recipe", "debug": "$debug", "overrides": "$overrides"}, read: readPangeaGuard,
	},
	{
		id: "pangea.pii", doc: "Pangea's Redact finds no personal data, or it is replaced with redact",
		vendor: pangea, base: "https://redact.{domain}", path: "/v1/redact_structured", header: bearer, redacts: true, oneByOne: true,
		body: object{"data": list{"$text"}}, read: readPangeaRedact,
	},
	{
		id: "promptfoo.guard", doc: "promptfoo finds no jailbreak and no injection",
		vendor: promptfoo, base: "https://api.promptfoo.dev", path: "/v1/guard", body: object{"input": "$text"}, read: flag("results.0.flagged", "results.0.categories"),
	},
	{
		id: "promptfoo.pii", doc: "promptfoo finds no personal data, or it is replaced with redact",
		vendor: promptfoo, base: "https://api.promptfoo.dev", path: "/v1/pii", body: object{"input": "$text"}, redacts: true, read: readPromptfooPII,
	},
	{
		id: "promptfoo.harm", doc: "promptfoo finds nothing harmful",
		vendor: promptfoo, base: "https://api.promptfoo.dev", path: "/v1/harm", body: object{"input": "$text"}, read: flag("results.0.flagged", "results.0.categories"),
	},
	pillarRow("pillar.scanPrompt", "/prompt", calls),
	pillarRow("pillar.scanResponse", "/response", answers),
	{
		id: "promptsecurity.protectPrompt", doc: "Prompt Security lets the prompt pass",
		vendor: promptSecured, judges: calls, base: "https://{apiDomain}", path: "/api/protect", header: map[string]string{"APP-ID": "{apiKey}"},
		body: object{"prompt": "$text"}, read: passes("result.prompt.passed"),
	},
	{
		id: "promptsecurity.protectResponse", doc: "Prompt Security lets the answer pass",
		vendor: promptSecured, judges: answers, base: "https://{apiDomain}", path: "/api/protect", header: map[string]string{"APP-ID": "{apiKey}"},
		body: object{"response": "$text"}, read: passes("result.response.passed"),
	},
	{
		id: "crowdstrike-aidr.guardChatCompletions", doc: "the policy of CrowdStrike AIDR does not block the text; what it changes is replaced with redact",
		vendor: crowdstrike, path: "/v1/guard_chat_completions", header: bearer, redacts: true,
		body: object{
			"guard_input": "$guardInput", "event_type": "$phase", "app_id": "caddy-gw", "user_id": "$user", "llm_provider": "$provider", "model": "$model", "extra_info": object{},
		},
		values: crowdstrikeValues, read: readCrowdstrike,
	},
	{
		id: "zscaler.zscalerprotect", doc: "the policy of Zscaler AI Guard does not block the text",
		vendor: zscaler, base: "https://api.zseclipse.net", path: "/v1/detection/execute-policy", header: map[string]string{"Authorization": "Bearer {zscalerApiKey}"},
		timeout: 10 * time.Second, parameters: []guardrails.Parameter{{Name: "policyId", Required: true, Doc: "the policy"}},
		body: object{"policyId": "$policyId", "direction": "$direction", "content": "$text"}, read: readZscaler,
	},
	{
		id: "walledai.walledprotect", doc: "Walled Protect says that the text is safe",
		vendor: walled, base: "https://services.walled.ai", path: "/v1/walled-protect", header: map[string]string{"x-api-key": "{apiKey}"},
		parameters: []guardrails.Parameter{
			{Name: "generic_safety_check", Type: guardrails.Boolean, Default: "true", Doc: "whether safety is judged"},
			{Name: "greetings_list", Type: guardrails.Texts, Default: `["Casual & Friendly"]`, Doc: "kinds of greetings"},
			{Name: "pii_list", Type: guardrails.Texts, Default: `["Person's Name","Address","Email Id","Contact No","Date Of Birth","Unique Id","Financial Data"]`, Doc: "kinds of personal data"},
			{Name: "compliance_list", Type: guardrails.Texts, Default: "[]", Doc: "rules of compliance"},
		},
		body: object{
			"text": "$text", "generic_safety_check": "$generic_safety_check", "greetings_list": "$greetings_list", "pii_list": "$pii_list", "compliance_list": "$compliance_list",
		},
		read: passes("data.safety.0.isSafe"),
	},
	{
		id: "f5-guardrails.scan", doc: "the scanners of an F5 project clear the text, or it is replaced with redact",
		vendor: f5, address: "calypsoUrl", base: "https://us1.calypsoai.app", path: "/backend/v1/scans", header: bearer, redacts: true, oneByOne: true,
		parameters: []guardrails.Parameter{{Name: "projectId", Required: true, Doc: "the project"}},
		body:       object{"input": "$text", "project": "$projectId"}, read: readF5,
	},
	{
		id: "javelin.guardrails", doc: "no guardrail of Javelin's application rejects the text",
		vendor: javelin, base: "https://{domain}", path: "/v1/guardrails/apply", header: map[string]string{"x-javelin-apikey": "{apiKey}"},
		parameters: []guardrails.Parameter{{Name: "config", Type: guardrails.Object, Doc: "of the guardrails"}},
		body:       object{"input": object{"text": "$text"}, "config": "$config", "metadata": object{}},
		authorize:  javelinApplication, read: readJavelin,
	},
	{
		id: "akto.scan", doc: "Akto allows the text",
		vendor: akto, base: "https://1726615470-guardrails.akto.io", path: "/api/validate/request", header: bearer,
		body:   object{"path": "/v1/chat/completions", "method": "POST", "requestPayload": "$payload", "time": "$time", "source": "caddy-gw"},
		values: aktoValues, read: passes("Allowed"),
	},
	{
		id: "lasso.classify", doc: "Lasso detects no violation",
		vendor: lasso, address: "apiEndpoint", base: "https://server.lasso.security", path: "/gateway/v2/classify", header: map[string]string{"lasso-api-key": "{apiKey}"},
		parameters: []guardrails.Parameter{{Name: "conversationId", Doc: "the conversation, as reports name it"}, {Name: "userId", Doc: "the user, as reports name it"}},
		body:       object{"messages": "$messages"}, valid: lassoValid, authorize: lassoHeaders, read: flag("violations_detected", "deputies"),
	},
}
