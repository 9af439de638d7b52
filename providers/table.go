package providers

// table is every provider that speaks the OpenAI shape under a base URL and a
// bearer credential; a row costs no code. A base URL stops where the path of an
// endpoint, such as /chat/completions, begins.
func init() { Register(table...) }

var table = []Provider{
	{Name: "openai", BaseURL: "https://api.openai.com/v1"},
	{Name: "302ai", BaseURL: "https://api.302.ai/v1"},
	{Name: "cerebras", BaseURL: "https://api.cerebras.ai/v1"},
	{Name: "dashscope", BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"},
	{Name: "deepinfra", BaseURL: "https://api.deepinfra.com/v1/openai"},
	{Name: "deepseek", BaseURL: "https://api.deepseek.com/v1"},
	{Name: "featherless-ai", BaseURL: "https://api.featherless.ai/v1"},
	{Name: "fireworks-ai", BaseURL: "https://api.fireworks.ai/inference/v1"},
	{Name: "groq", BaseURL: "https://api.groq.com/openai/v1"},
	{Name: "hyperbolic", BaseURL: "https://api.hyperbolic.xyz/v1"},
	{Name: "inference-net", BaseURL: "https://api.inference.net/v1"},
	{Name: "iointelligence", BaseURL: "https://api.intelligence.io.solutions/api/v1"},
	{Name: "kluster-ai", BaseURL: "https://api.kluster.ai/v1"},
	{Name: "krutrim", BaseURL: "https://cloud.olakrutrim.com/v1"},
	{Name: "lambda", BaseURL: "https://api.lambdalabs.com/v1"},
	{Name: "mistral-ai", BaseURL: "https://api.mistral.ai/v1"},
	{Name: "moonshot", BaseURL: "https://api.moonshot.cn/v1"},
	{Name: "nebius", BaseURL: "https://api.studio.nebius.ai/v1"},
	{Name: "novita-ai", BaseURL: "https://api.novita.ai/v3/openai"},
	{Name: "nscale", BaseURL: "https://inference.api.nscale.com/v1"},
	{Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1"},
	{Name: "ovhcloud", BaseURL: "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1"},
	{Name: "perplexity-ai", BaseURL: "https://api.perplexity.ai"},
	{Name: "sambanova", BaseURL: "https://api.sambanova.ai/v1"},
	{Name: "siliconflow", BaseURL: "https://api.siliconflow.cn/v1"},
	{Name: "together-ai", BaseURL: "https://api.together.xyz/v1"},
	{Name: "upstage", BaseURL: "https://api.upstage.ai/v1/solar"},
	{Name: "x-ai", BaseURL: "https://api.x.ai/v1"},
	{Name: "z-ai", BaseURL: "https://api.z.ai/api/paas/v4"},
	{Name: "zhipu", BaseURL: "https://open.bigmodel.cn/api/paas/v4"},
}
