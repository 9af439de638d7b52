package telemetry

// operations maps endpoints to the names of operations in the GenAI conventions.
var operations = map[string]string{
	"chatComplete":        "chat",
	"messages":            "chat",
	"createModelResponse": "chat",
	"complete":            "text_completion",
	"embed":               "embeddings",
}

// operationOf returns the operation of an endpoint. If the conventions have no name for it,
// it is the endpoint's own.
func operationOf(endpoint string) string {
	if name := operations[endpoint]; name != "" {
		return name
	}
	return endpoint
}

// providerNames maps providers to their names in the GenAI conventions, if they differ from
// the gateway's.
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
