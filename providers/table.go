package providers

import (
	"net/http"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
)

func init() { Register(compatible...) }

// What rows serve besides conversations.
var (
	chatOnly     = []string{}
	embeds       = []string{Embed}
	completes    = []string{Complete}
	both         = []string{Complete, Embed}
	reranks      = []string{Embed, Rerank}
	hasResponses = []string{Complete, Embed, CreateResponse}
	all          = slices.Concat(OpenAIServes, []string{CreateResponse})
)

// posts returns patterns for POST requests to paths below /v1.
func posts(paths ...string) (out credentials.Paths) {
	for _, path := range paths {
		out = append(out, credentials.PathPattern{Method: http.MethodPost, Path: "/v1" + path})
	}
	return out
}

// compatible has the providers that use OpenAI's API with a base URL and a bearer token; a
// row needs no code. A base URL ends where the path of an endpoint, such as
// /chat/completions, starts. If a provider is known to refuse what others accept, its row
// says so. The columns are explained in docs/providers.md.
var compatible = []Provider{
	{Name: "openai", BaseURL: "https://api.openai.com/v1", Serves: all, Closed: true, NewerNames: true, Limits: &OpenAILimits, Headers: map[string]string{
		"openai_organization": "Openai-Organization", "openai_project": "Openai-Project", "openai_beta": "Openai-Beta",
	}},

	{Name: "302ai", BaseURL: "https://api.302.ai/v1", Serves: both},
	{Name: "ai21", BaseURL: "https://api.ai21.com/studio/v1", Serves: chatOnly, NoStreamUsage: true},
	{Name: "aibadgr", BaseURL: "https://aibadgr.com/api/v1", Serves: chatOnly},
	{Name: "anyscale", BaseURL: "https://api.endpoints.anyscale.com/v1", Serves: both},
	{Name: "baseten", BaseURL: "https://inference.baseten.co/v1", Serves: chatOnly},
	{Name: "byteplus", BaseURL: "https://ark.{byteplus_region}.bytepluses.com/api/v3", Serves: embeds},
	{Name: "cerebras", BaseURL: "https://api.cerebras.ai/v1", Serves: completes, Closed: true},
	{Name: "cometapi", BaseURL: "https://api.cometapi.com/v1", Serves: both},
	{Name: "cortex", BaseURL: "https://{snowflake_account}.snowflakecomputing.com/api/v2/cortex/v1", Serves: embeds},
	{Name: "dashscope", BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", Serves: both, ReturnReasoning: true},
	{Name: "databricks", BaseURL: "https://{databricks_workspace}.cloud.databricks.com/serving-endpoints", Serves: both, Closed: true},
	{Name: "deepbricks", BaseURL: "https://api.deepbricks.ai/v1", Serves: chatOnly},
	{Name: "deepinfra", BaseURL: "https://api.deepinfra.com/v1/openai", Serves: both},
	{Name: "deepseek", BaseURL: "https://api.deepseek.com/v1", Serves: chatOnly, StringContent: true, NoSchemas: true, ReturnReasoning: true, SwitchesThinking: true, MaxEffort: true},
	{Name: "featherless-ai", BaseURL: "https://api.featherless.ai/v1", Serves: both},
	{Name: "fireworks-ai", BaseURL: "https://api.fireworks.ai/inference/v1", Serves: slices.Concat(both, []string{Rerank, CreateResponse}), PlainMessages: true, ReturnReasoning: true},
	{Name: "friendliai", BaseURL: "https://api.friendli.ai/serverless/v1", Serves: completes},
	{Name: "github", BaseURL: "https://models.github.ai/inference", Serves: embeds, Closed: true},
	{Name: "groq", BaseURL: "https://api.groq.com/openai/v1", Serves: []string{CreateResponse}, Closed: true, NewerNames: true},
	{Name: "huggingface", BaseURL: "https://router.huggingface.co/v1", Host: "huggingface_base_url", Serves: slices.Concat(chatOnly, []string{CreateResponse})},
	{Name: "hyperbolic", BaseURL: "https://api.hyperbolic.xyz/v1", Serves: completes},
	{Name: "inference-net", BaseURL: "https://api.inference.net/v1", Serves: both},
	{Name: "iointelligence", BaseURL: "https://api.intelligence.io.solutions/api/v1", Serves: hasResponses},
	{Name: "jina", BaseURL: "https://api.jina.ai/v1", Serves: reranks},
	{Name: "kluster-ai", BaseURL: "https://api.kluster.ai/v1", Serves: chatOnly},
	{Name: "krutrim", BaseURL: "https://cloud.olakrutrim.com/v1", Serves: both},
	{Name: "lambda", BaseURL: "https://api.lambdalabs.com/v1", Serves: completes},
	{Name: "lemonfox-ai", BaseURL: "https://api.lemonfox.ai/v1", Serves: chatOnly},
	{Name: "lingyi", BaseURL: "https://api.lingyiwanwu.com/v1", Serves: chatOnly},
	{Name: "lmstudio", Serves: slices.Concat(both, []string{CreateResponse})},
	{Name: "matterai", BaseURL: "https://api.matterai.so/v1", Serves: embeds},
	{Name: "minimax", BaseURL: "https://api.minimax.io/v1", Serves: chatOnly, ReturnReasoning: true},
	{Name: "monsterapi", BaseURL: "https://llm.monsterapi.ai/v1", Serves: chatOnly},
	{Name: "moonshot", BaseURL: "https://api.moonshot.cn/v1", Serves: chatOnly, ReturnReasoning: true, SwitchesThinking: true},
	{Name: "ncompass", BaseURL: "https://api.ncompass.tech/v1", Serves: chatOnly},
	{Name: "nebius", BaseURL: "https://api.studio.nebius.ai/v1", Serves: both},
	{Name: "nextbit", BaseURL: "https://api.nextbit256.com/v1", Serves: completes},
	{Name: "nomic", BaseURL: "https://api-atlas.nomic.ai/v1", Serves: embeds},
	{Name: "novita-ai", BaseURL: "https://api.novita.ai/v3/openai", Serves: both},
	{Name: "nscale", BaseURL: "https://inference.api.nscale.com/v1", Serves: embeds},
	{Name: "nvidia", BaseURL: "https://integrate.api.nvidia.com/v1", Serves: both, Closed: true},
	{Name: "ollama", Serves: both},
	{Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1", Serves: hasResponses},
	{Name: "ovhcloud", BaseURL: "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1", Serves: both},
	{Name: "perplexity-ai", BaseURL: "https://api.perplexity.ai", Serves: chatOnly, NoStreamUsage: true, Sources: true},
	{Name: "predibase", Serves: chatOnly},
	{Name: "reka-ai", BaseURL: "https://api.reka.ai/v1", Serves: chatOnly},
	{Name: "sambanova", BaseURL: "https://api.sambanova.ai/v1", Serves: embeds},
	{Name: "siliconflow", BaseURL: "https://api.siliconflow.cn/v1", Serves: reranks},
	{Name: "together-ai", BaseURL: "https://api.together.xyz/v1", Serves: slices.Concat(both, []string{Rerank})},
	{Name: "upstage", BaseURL: "https://api.upstage.ai/v1/solar", Serves: embeds},
	{Name: "vercel", BaseURL: "https://ai-gateway.vercel.sh/v1", Serves: embeds},
	{Name: "vllm", Serves: slices.Concat(both, []string{Rerank, CreateResponse}), Passes: posts("/score", "/tokenize", "/detokenize", "/pooling", "/classify")},
	{Name: "voyage", BaseURL: "https://api.voyageai.com/v1", Serves: reranks, Passes: posts("/contextualizedembeddings", "/multimodalembeddings")},
	{Name: "workers-ai", BaseURL: "https://api.cloudflare.com/client/v4/accounts/{workers_ai_account_id}/ai/v1", Serves: embeds},
	{Name: "x-ai", BaseURL: "https://api.x.ai/v1", Serves: hasResponses},
	{Name: "z-ai", BaseURL: "https://api.z.ai/api/paas/v4", Serves: embeds, ReturnReasoning: true, SwitchesThinking: true},
	{Name: "zhipu", BaseURL: "https://open.bigmodel.cn/api/paas/v4", Serves: embeds, ReturnReasoning: true, SwitchesThinking: true},
}
