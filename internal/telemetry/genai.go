package telemetry

// operations are the names that the GenAI conventions have for what endpoints do.
var operations = map[string]string{
	"chatComplete":        "chat",
	"messages":            "chat",
	"createModelResponse": "chat",
	"complete":            "text_completion",
	"embed":               "embeddings",
}

// operationOf is the operation of an endpoint. Where the conventions have no name, they
// leave it to who writes the span: it is the endpoint's own.
func operationOf(endpoint string) string {
	if name := operations[endpoint]; name != "" {
		return name
	}
	return endpoint
}

// providerNames are the names that the GenAI conventions have for providers, where they
// are not the gateway's.
var providerNames = map[string]string{
	"azure-ai":      "azure.ai.inference",
	"azure-openai":  "azure.ai.openai",
	"bedrock":       "aws.bedrock",
	"google":        "gcp.gemini",
	"mistral-ai":    "mistral_ai",
	"perplexity-ai": "perplexity",
	"vertex-ai":     "gcp.vertex_ai",
	"x-ai":          "x_ai",
}

func providerName(dialect string) string {
	if name := providerNames[dialect]; name != "" {
		return name
	}
	return dialect
}
