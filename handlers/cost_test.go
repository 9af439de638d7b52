package handlers_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/tidwall/gjson"
)

// priced is a gateway with an upstream behind providers of several dialects. What it
// answers is the body of x-upstream: the body of the call says it as "user".
func priced(t *testing.T, answer func(path string) (media, body string), options string) (g *gatewaytest.Gateway, key string) {
	t.Helper()
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		media, body := answer(r.URL.Path)
		w.Header().Set("Content-Type", media)
		_, _ = io.WriteString(w, body)
	})
	for _, kind := range []string{"openai", "anthropic", "azure-openai", "mistral-ai", "google", "x-ai"} {
		options += "provider my-" + kind + " {\n type " + kind + "\n base_url " + up.URL + "/v1\n api_key sk-1\n"
		if kind == "azure-openai" {
			options += " setting azure_resource_name r\n setting azure_deployment_id prod\n setting azure_api_version v1\n"
		}
		options += "}\n"
	}
	g = startScraped(t, trustLoopback+options)
	key, _ = g.Key("k")
	return g, key
}

func TestCallsHaveTheirCost(t *testing.T) {
	const (
		chatUsage  = `"usage":{"prompt_tokens":1000,"completion_tokens":200,"total_tokens":1200,"prompt_tokens_details":{"cached_tokens":600},"completion_tokens_details":{"reasoning_tokens":50}}`
		completion = `{"id":"c","object":"chat.completion","created":1,"model":"%s","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],%s}`
		message    = `{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-4-5-20250929","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":50,"cache_read_input_tokens":20,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":10},"output_tokens":5}}`
	)
	messages := (50*3 + 20*.3 + 20*3.75 + 10*6 + 5*15) * 1e-4 // in cents
	ask := func(model, more string) string {
		return `{"model":"` + model + `","max_tokens":9,` + more + `"messages":[{"role":"user","content":"hi"}]}`
	}
	var media, answer string // of the case
	g, key := priced(t, func(string) (string, string) { return media, answer }, "price my-openai llama* {\n input_mtok 0.1\n output_mtok 0.4\n requests_kcount 0.5\n}\nprice my-openai flat {\n requests_kcount 0.5\n}\n")
	for _, c := range []struct {
		name, provider, path, body string
		media, answer              string
		want                       float64 // cents; NaN: not known
	}{
		{"chat", "openai", "chat/completions", ask("gpt-4o-mini", ""), "application/json", fmt.Sprintf(completion, "gpt-4o-mini-2024-07-18", chatUsage), (400*.15 + 600*.075 + 200*.6) * 1e-4},
		{
			"stream", "openai", "chat/completions", ask("gpt-4o-mini", `"stream":true,`), "text/event-stream",
			`data: {"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n" + `data: {"choices":[],` + chatUsage + "}\n\ndata: [DONE]\n\n", (400*.15 + 600*.075 + 200*.6) * 1e-4,
		},
		{"a model without a price", "openai", "chat/completions", ask("self-made", ""), "application/json", fmt.Sprintf(completion, "self-made", chatUsage), math.NaN()},
		{"the answer's model", "openai", "chat/completions", ask("a-deployment", ""), "application/json", fmt.Sprintf(completion, "gpt-4o-mini", chatUsage), (400*.15 + 600*.075 + 200*.6) * 1e-4},
		{"a deployment", "azure-openai", "chat/completions", ask("whatever", ""), "application/json", fmt.Sprintf(completion, "gpt-4o-2024-08-06", chatUsage), (400*2.5 + 600*1.25 + 200*10) * 1e-4},
		{"no usage", "openai", "chat/completions", ask("gpt-4o-mini", ""), "application/json", strings.Replace(fmt.Sprintf(completion, "m", `"x":1`), `"x":1`, `"service_tier":null`, 1), math.NaN()},
		{"responses", "openai", "responses", `{"model":"gpt-4o-mini","input":"hi"}`, "application/json", `{"id":"resp_1","object":"response","model":"gpt-4o-mini","status":"completed","output":[],"usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":600},"output_tokens":200,"total_tokens":1200}}`, (400*.15 + 600*.075 + 200*.6) * 1e-4},
		{"embeddings", "openai", "embeddings", `{"model":"text-embedding-3-small","input":"hi"}`, "application/json", `{"object":"list","data":[],"model":"text-embedding-3-small","usage":{"prompt_tokens":8,"total_tokens":8}}`, 8 * .02 * 1e-4},
		{"a long answer", "openai", "embeddings", `{"model":"text-embedding-3-small","input":"hi"}`, "application/json", `{"object":"list","data":[{"embedding":[` + strings.Repeat("0.25,", 300_000) + `1]}],"model":"text-embedding-3-small","usage":{"prompt_tokens":8,"total_tokens":8}}`, 8 * .02 * 1e-4},
		{"embeddings with a total", "openai", "embeddings", `{"model":"text-embedding-3-small","input":"hi"}`, "application/json", `{"object":"list","data":[],"usage":{"total_tokens":8}}`, 8 * .02 * 1e-4},
		{"a usage that says nothing", "openai", "chat/completions", ask("gpt-4o-mini", ""), "application/json", fmt.Sprintf(completion, "gpt-4o-mini", `"usage":{"prompt_tokens":"7","completion_tokens":-1,"x":{}}`), math.NaN()},
		{"a usage that cannot be", "openai", "chat/completions", ask("gpt-4o-mini", ""), "application/json", fmt.Sprintf(completion, "gpt-4o-mini", `"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":10}`), math.NaN()},
		{"a usage without a completion", "openai", "chat/completions", ask("gpt-4o-mini", ""), "application/json", fmt.Sprintf(completion, "gpt-4o-mini", `"usage":{"prompt_tokens":10,"total_tokens":20}`), 10 * .75 * 1e-4},
		{"a usage in other letters", "openai", "chat/completions", ask("gpt-4o-mini", ""), "application/json", fmt.Sprintf(completion, "gpt-4o-mini", `"us\u0061ge":{"prompt_tokens":10,"completion_tokens":10}`), 10 * .75 * 1e-4},
		{"more cached than there is", "openai", "chat/completions", ask("gpt-4o-mini", ""), "application/json", fmt.Sprintf(completion, "gpt-4o-mini", `"usage":{"prompt_tokens":10,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":1000}}`), 10 * .075 * 1e-4},
		{"a price of calls alone", "openai", "chat/completions", ask("flat", ""), "application/json", fmt.Sprintf(completion, "flat", `"x":1`), .05},
		{"seconds with tokens", "openai", "chat/completions", ask("gpt-4o-mini", ""), "application/json", fmt.Sprintf(completion, "gpt-4o-mini", `"usage":{"prompt_tokens":10,"completion_tokens":10,"seconds":3}`), 10 * .75 * 1e-4},
		{"reasoning with the completion", "x-ai", "chat/completions", ask("grok-4.3", ""), "application/json", fmt.Sprintf(completion, "grok-4.3", `"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":160,"completion_tokens_details":{"reasoning_tokens":50}}`), (100*1.25 + 60*2.5) * 1e-4},
		{"audio that was heard", "openai", "audio/transcriptions", "", "application/json", `{"text":"hi","usage":{"type":"duration","seconds":90}}`, .9},
		{"how long audio is", "openai", "audio/transcriptions", "", "application/json", `{"task":"transcribe","duration":90.5,"text":"hi"}`, .905},
		{"how long audio is, in a text", "openai", "audio/translations", "", "application/json", `{"duration":"90.5","text":"hi"}`, .905},
		{"how long audio is, besides its usage", "openai", "audio/transcriptions", "", "application/json", `{"duration":90.5,"text":"hi","usage":{"type":"duration","seconds":91}}`, .91},
		{"pages", "mistral-ai", "ocr", `{"model":"mistral-ocr-2505","document":{"type":"document_url","document_url":"https://example.com/a.pdf"}}`, "application/json", `{"pages":[],"model":"mistral-ocr-2505","usage_info":{"pages_processed":3}}`, .3},
		{"Messages", "anthropic", "messages", ask("claude-sonnet-4-5", ""), "application/json", message, messages},
		{"Messages for a caller of chat", "anthropic", "chat/completions", ask("claude-sonnet-4-5", ""), "application/json", message, messages},
		{"Gemini's audio", "google", "chat/completions", ask("gemini-2.5-flash", ""), "application/json", `{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"promptTokensDetails":[{"modality":"TEXT","tokenCount":6},{"modality":"AUDIO","tokenCount":4}],"candidatesTokenCount":3,"thoughtsTokenCount":2,"totalTokenCount":15}}`, (6*.3 + 4*1 + 5*2.5) * 1e-4},
		{"an operator's price", "openai", "chat/completions", ask("llama-3", ""), "application/json", fmt.Sprintf(completion, "llama-3", chatUsage), (1000*.1 + 200*.4 + 1e6*.0005) * 1e-4},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.T = t
			media, answer = c.media, c.answer
			headers := []string{"x-gw-api-key: " + key, "x-gw-provider: my-" + c.provider}
			body := c.body
			if body == "" {
				body = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n--x--\r\n"
				headers = append(headers, "content-type: ", "content-type: multipart/form-data; boundary=x")
			}
			a := g.Do("POST", "/v1/"+c.path, body, headers...)
			if a.Status != 200 {
				t.Fatal(a.Status, a.Body)
			}
			r := logOf(g, a)
			got := r.Get("metrics.cost")
			if math.IsNaN(c.want) != (got.Raw == "null") || !math.IsNaN(c.want) && math.Abs(got.Float()-c.want) > 1e-12 {
				t.Errorf("%s cents, want %v\n%s", got.Raw, c.want, r.Body)
			}
			if r.Get("metrics.cost_currency").Str != "USD" {
				t.Error(r.Body)
			}
			if version := r.Get("metrics.price_version"); math.IsNaN(c.want) == version.Exists() || version.Exists() && len(version.Str) != 12 {
				t.Errorf("of the prices %q\n%s", version.Raw, r.Body)
			}
		})
	}
}

// What a call cost is the same in its record, the metrics, the access log and placeholders;
// what the cache answers costs nothing, and so does what was never sent.
func TestCostIsToldEverywhere(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil) // 3 and 2 tokens
	g := startScraped(t, trustLoopback+"price costly m {\n input_mtok 1\n output_mtok 2.5\n}\n"+up.Provider("costly")+up.Provider("unknown")+gatewaytest.UnreachableProvider(t, "dead"), func(g *gatewaytest.Gateway) {
		g.Site = "log_append told {http.gw.cost_usd}\n" + g.Site
	})
	key, _ := g.Key("k")
	const dollars, cents = 8e-6, 8e-4
	ask := func(more ...string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, append(more, "authorization: Bearer "+key)...)
	}
	series := `caddy_gw_cost_usd_total{endpoint="chatComplete",model="other",provider="costly"}`
	before := scrape(t, g)[series]
	records := []*gatewaytest.Answer{
		ask("x-gw-provider: costly", "x-gw-cache: simple"), ask("x-gw-provider: costly", "x-gw-cache: simple"), ask("x-gw-provider: unknown"),
	}
	for i, want := range []string{fmt.Sprint(cents), "0", "null"} {
		if version := logOf(g, records[i]).Get("metrics.price_version"); version.Exists() != (i == 0) {
			t.Errorf("call %d: of the prices %q", i, version.Raw)
		}
		if got := logOf(g, records[i]).Get("metrics.cost").Raw; got != want {
			t.Errorf("call %d: %s, want %s", i, got, want)
		}
	}
	eventually(t, "the metric", func() bool {
		was, _ := strconv.ParseFloat(before, 64)
		now, _ := strconv.ParseFloat(scrape(t, g)[series], 64)
		return math.Abs(now-was-dollars) < 1e-15
	})
	eventually(t, "the access log", func() bool {
		var costs, appended []string
		for line := range strings.Lines(g.Logs()) {
			if gjson.Get(line, "gw.endpoint").Str == "chatComplete" {
				costs, appended = append(costs, gjson.Get(line, "gw.cost_usd").Raw), append(appended, gjson.Get(line, "told").Raw)
			}
		}
		return fmt.Sprint(costs, appended) == `[0.000008 0 ] [0.000008 0 ""]`
	})
	// Also where a target failed before.
	dead := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-cache: simple", "authorization: Bearer "+key,
		`x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@dead"},{"provider":"@costly"}]}`)
	if r := logOf(g, dead); dead.Header.Get("x-gw-cache-status") != "HIT" || r.Get("metrics.cost").Raw != "0" || r.Get("metrics.attempts").Int() != 1 {
		t.Errorf("%v %s", dead.Header, r.Body)
	}
	if was, now := before, scrape(t, g)[series]; func() float64 {
		a, _ := strconv.ParseFloat(was, 64)
		b, _ := strconv.ParseFloat(now, 64)
		return math.Abs(b - a - dollars)
	}() > 1e-15 {
		t.Errorf("the metric went from %s to %s", was, now)
	}
	for query, want := range map[string]int64{
		"cost_min=0.0008": 1, "cost_max=0.0008": 3, "cost_min=0.00081": 0, "cost_max=0.00079": 2, "cost_min=0&cost_max=0": 2, "": 4, "cost_min=1e99": 0,
	} {
		if list := g.Admin("GET", "/v1/logs?"+query, nil); list.Get("total").Int() != want || list.Get("data.#").Int() != want {
			t.Errorf("%s: %s", query, list.Body)
		}
	}
	if a := g.Do("GET", "/v1/logs?cost_min=-1", "", "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 400 || !strings.Contains(a.Body, "cost_min") {
		t.Error(a.Status, a.Body)
	}
}

// A file has precedence over the prices of the build, and an operator's own over both.
func TestPricesComeFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data.json")
	if err := os.WriteFile(file, []byte(`[{"id":"openai","name":"OpenAI","models":[{"id":"m","match":{"starts_with":"m"},"prices":{"input_mtok":4,"output_mtok":0}}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, "prices_file "+file+"\n"+up.Provider("file"))
	key, _ := g.Key("k")
	if got := logOf(g, call(g, key)).Get("metrics.cost").Num; math.Abs(got-12e-4) > 1e-12 {
		t.Error(got)
	}
}
