package exchange

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
)

func TestEveryEndpointThatMayUseAModelSaysHow(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for e := range Endpoints() {
		row := e.Method + " " + e.Path
		seen[row] = true
		m, listed := meterings[row]
		switch reads := e.Method == "GET" || e.Method == "DELETE"; {
		case !listed && !reads:
			t.Errorf("%s: not in meterings", row)
		case listed && m.how == unmetered && m.why == "":
			t.Errorf("%s: does not say why it is not metered", row)
		case len(m.bounds) > len(asked{}.seen):
			t.Errorf("%s: too many bounds", row)
		case !listed && e.metering.how != free:
			t.Errorf("%s: a read that uses tokens", row)
		}
	}
	for row := range meterings {
		if !seen[row] {
			t.Errorf("%s: no endpoint", row)
		}
	}
}

// Batches are refused by whatever path they are made, and so is every path of which it is not known
// what it uses.
func TestPathsThatPassThroughAreMeteredOnlyIfTheyAreKnown(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]how{
		"/openai/deployments/gpt/chat/completions": reported,
		"/deployments/gpt/embeddings":              reported,
		"/openai/v1/responses":                     reported,
		"/engines/x/completions":                   reported,
		"/score":                                   reported,
		"/tokenize":                                free,

		"/messages/batches":                           unmetered,
		"/messages/batches/chat/completions":          unmetered,
		"/async/chat/completions":                     unmetered,
		"/openai/v1/async/chat/completions":           unmetered,
		"/openai/deployments/x/y/chat/completions":    unmetered,
		"/openai/batches":                             unmetered,
		"/openai/deployments/gpt/chat/completions/x":  unmetered,
		"/model/anthropic.claude/converse":            unmetered,
		"/model-invocation-job":                       unmetered,
		"/models/gemini:generateContent":              unmetered,
		"/models/gemini:batchGenerateContent":         unmetered,
		"/projects/p/locations/l/batchPredictionJobs": unmetered,
		"/api/chat":   unmetered,
		"/Score":      unmetered,
		"/score/more": unmetered,
		"":            unmetered,
	} {
		if got := passedMetering(path); got.how != want || got.how == unmetered && got.why == "" {
			t.Errorf("%s: %v, want %v", path, got.how, want)
		}
	}
}

func TestWhatABodyAsksForIsRead(t *testing.T) {
	t.Parallel()
	const most = estimate.MaxTokens
	chat, completion, message := bounded("max_completion_tokens", "max_tokens"), meterings["POST /v1/completions"], bounded("max_tokens")
	for body, c := range map[string]struct {
		m              metering
		most, named    int64
		choices, times int64
	}{
		`{}`:                                            {chat, -1, 0, 1, 1},
		`{"max_tokens":20}`:                             {chat, 20, 20, 1, 1},
		`{"max_tokens":1e9}`:                            {chat, 1e9, 1e9, 1, 1},
		`{"max_tokens":1.5e3}`:                          {chat, 1500, 1500, 1, 1},
		`{"max_tokens":20.0}`:                           {chat, 20, 20, 1, 1},
		`{"max_tokens":" 20 "}`:                         {chat, 20, 20, 1, 1},
		`{"max_tokens":-1}`:                             {chat, -1, 0, 1, 1},
		`{"max_tokens":null}`:                           {chat, -1, 0, 1, 1},
		`{"max_tokens":0}`:                              {chat, 0, 0, 1, 1},
		`{"max_tokens":-0}`:                             {chat, 0, 0, 1, 1},
		`{"max_tokens":1e400}`:                          {chat, most, most, 1, 1},
		`{"max_tokens":-1e400}`:                         {chat, -1, 0, 1, 1},
		`{"m\u0061x_tokens":20}`:                        {chat, 20, 20, 1, 1},
		`{"Max_Tokens":20}`:                             {chat, -1, 20, 1, 1},
		`{"max_tokens":5,"MAX_TOKENS":900}`:             {message, 5, 900, 1, 1},
		`{"max_tokens":5,"max_completion_tokens":7}`:    {chat, 7, 7, 1, 1},
		`{"max_tokens":5,"max_completion_tokens":null}`: {chat, 5, 5, 1, 1},
		`{"max_tokens":5,"max_completion_tokens":-1}`:   {chat, -1, 5, 1, 1},
		`{"max_tokens":9223372036854775808}`:            {chat, most, most, 1, 1},
		`{"max_tokens":99999999999999999999}`:           {chat, most, most, 1, 1},
		`{"max_tokens":5,"n":3}`:                        {chat, 5, 5, 3, 1},
		`{"max_tokens":5,"n":"3"}`:                      {chat, 5, 5, 3, 1},
		`{"max_tokens":5,"n":-3}`:                       {chat, 5, 5, 1, 1},
		`{"max_tokens":5,"n":2,"best_of":4}`:            {completion, 5, 5, 4, 1},
		`{"max_tokens":5,"n":1e30}`:                     {chat, 5, 5, most, 1},
		`{"max_tokens":5,"options":{"num_predict":70}}`: {chat, 5, 70, 1, 1},
		`{"generationConfig":{"maxOutputTokens":70,"candidateCount":2}}`: {chat, -1, 70, 2, 1},
		`{"inferenceConfig":{"maxTokens":70}}`:                           {chat, -1, 70, 1, 1},
		`{"parameters":{"max_new_tokens":70,"num_return_sequences":2}}`:  {chat, -1, 70, 2, 1},
		`{"prompt":"a","n":1,"samples":5,"max_tokens":5}`:                {chat, 5, 5, 5, 1},
		`{"prompt":"a","numberOfImages":3,"max_tokens":5}`:               {chat, 5, 5, 3, 1},
		`{"metadata":{"max_tokens":70}}`:                                 {chat, -1, 0, 1, 1},
		`{"max_tokens":5,"prompt":["a","b"]}`:                            {completion, 5, 5, 1, 2},
		`{"max_tokens":5,"prompt":[[1,2],[3]]}`:                          {completion, 5, 5, 1, 2},
		`{"max_tokens":5,"prompt":[1,2,3]}`:                              {completion, 5, 5, 1, 1},
		`{"max_tokens":5,"prompt":"a"}`:                                  {completion, 5, 5, 1, 1},
	} {
		q := parametersOf([]byte(body), &c.m)
		named := max(q.named, q.most)
		if q.most != c.most || named != max(c.named, c.most) || q.choices != c.choices || q.prompts != c.times || q.fault != "" {
			t.Errorf("%s: %+v, want %+v", body, q, c)
		}
	}
	for _, body := range []string{
		`{"max_tokens":1.5}`, `{"max_tokens":"many"}`, `{"max_tokens":true}`, `{"max_tokens":[9]}`, `{"max_tokens":{}}`, `{"n":1.5}`, `{"n":"all"}`,
		`{"max_tokens":"NaN"}`, `{"max_tokens":5,"max_tokens":null}`, `{"max_tokens":5,"max_tokens":6}`, `{"options":{"num_predict":"x"}}`,
	} {
		if q := parametersOf([]byte(body), &chat); q.fault == "" {
			t.Errorf("%s: taken for %+v", body, q)
		}
	}
	for body, want := range map[string]bool{
		`{"background":true}`: true, `{"background":1}`: true, `{"BACKGROUND":"true"}`: true, `{"background":false,"background":true}`: true,
		`{"background":false}`: false, `{"background":null}`: false, `{}`: false, `{"metadata":{"background":true}}`: false,
	} {
		if q := parametersOf([]byte(body), &chat); q.background != want {
			t.Errorf("%s: in the background: %v", body, q.background)
		}
	}
}

// Whatever the body, a call that is not refused reserves at least what each of its numbers asks for.
func TestNoNumberOfABodyAsksForMoreThanIsReserved(t *testing.T) {
	t.Parallel()
	names := []string{"max_tokens", "max_completion_tokens", "MAX_TOKENS", "maxTokens", "max_new_tokens", "num_predict"}
	rapid.Check(t, func(t *rapid.T) {
		var body strings.Builder
		var largest float64
		body.WriteString(`{"x":0`)
		for range rapid.IntRange(1, 4).Draw(t, "members") {
			n := rapid.OneOf(rapid.Float64Range(-10, 10), rapid.Float64(), rapid.Map(rapid.IntRange(-5, 100_000), func(i int) float64 { return float64(i) })).Draw(t, "n")
			if math.IsNaN(n) || math.IsInf(n, 0) {
				continue
			}
			value, err := json.Marshal(n)
			if err != nil {
				t.Fatal(err)
			}
			name := rapid.SampledFrom(names).Draw(t, "name")
			if rapid.Bool().Draw(t, "nested") {
				body.WriteString(`,"options":{"` + name + `":` + string(value) + `}`)
			} else {
				body.WriteString(`,"` + name + `":` + string(value))
			}
			largest = max(largest, n)
		}
		body.WriteByte('}')
		m := bounded("max_completion_tokens", "max_tokens")
		q := parametersOf([]byte(body.String()), &m)
		d := estimate.Demand{Most: q.most, Named: q.named, Choices: q.choices}
		u := estimate.New().Most(&d)
		if reserved := u.Completion; q.fault == "" && float64(reserved) < min(largest, estimate.MaxTokens) {
			t.Fatalf("%s: reserves %d", body.String(), reserved)
		}
	})
}

func TestWhatAPromptHasInItIsSeen(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("QUJD", 400)
	image := "iVBORw0KGgo=" + strings.Repeat("QUJD", 397)
	for body, want := range map[string]content{
		`{"messages":[{"role":"user","content":"document file_id image"}]}`:                                                               {},
		`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]}`:                                               {images: 1, media: true},
		`{"messages":[{"content":[{"type": "image_url", "image_url" : {"url":"https://x"}},{"type":"image","source":{"type":"url"}}]}]}`:  {images: 2, media: true},
		`{"input":[{"content":[{"type":"input_image","image_url":"data:image/png;base64,` + image + `"}]}]}`:                              {images: 1, media: true, text: -1600},
		`{"messages":[{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + image + `"}}]}]}`:        {images: 1, media: true, text: -1600},
		`{"messages":[{"content":[{"type":"input_audio","input_audio":{"data": "` + long + `","format":"wav"}}]}]}`:                       {tokens: 100, media: true, text: -1600},
		`{"messages":[{"content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,` + long + `"}}]}]}`:                    {tokens: 100, unseen: true, text: -1600},
		`{"messages":[{"content":[{"type":"file","file":{"file_id":"f"}}]}]}`:                                                             {unseen: true},
		`{"messages":[{"content":[{"type":"document","source":{"type":"url","url":"https://x"}}]}]}`:                                      {unseen: true},
		`{"messages":[{"content":[{"type":"f\u0069le","file":{"f\u0069le_id":"f"}}]}]}`:                                                   {unseen: true, webSearch: true, fileSearch: true},
		`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"` + image + `"}}]}]}`:                                       {images: 1, media: true, text: -1600},
		`{"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"data:image\/png;base64,` + long + `"}]}]}`: {images: 1, tokens: 100, media: true, text: -1600},
		// The data of a file is text to the model anywhere else.
		`{"messages":[{"content":"data:image/png;base64,` + image + `"}]}`:                                                         {},
		`{"messages":[{"content":[{"type":"text","text":"data:image/png;base64,` + image + `"}]}]}`:                                {},
		`{"messages":[{"content":";base64,` + image + `"}]}`:                                                                       {},
		`{"messages":[{"content":[{"type":"tool_use","input":{"url":"data:image/png;base64,` + image + `"}}]}]}`:                   {},
		`{"messages":[{"tool_calls":[{"function":{"arguments":"{\"data\":\"` + image + `\"}"}}]}]}`:                                {},
		`{"tools":[{"type":"function","function":{"parameters":{"examples":[{"data":"` + image + `"}]}}}]}`:                        {},
		`{"messages":[{"content":[{"type":"input_audio","input_audio":{"data":"` + long + ` ` + long + `"}}]}]}`:                   {media: true},
		`{"messages":[{"content":[{"image_url":{"url":"data:image/png,` + image + `"}}]}]}`:                                        {images: 1, media: true},
		`{"messages":[{"content":"caf\u00e9 \u003c\u003e"}]}`:                                                                      {},
		`{"previous_response_id":"resp_1"}`:                                                                                        {unseen: true},
		`{"previous_response_id":null,"conversation": null}`:                                                                       {},
		`{"previous_response_id" : "resp_1"}`:                                                                                      {unseen: true},
		`{"prompt":{"id":"pmpt_1"}}`:                                                                                               {unseen: true},
		`{"tools":[{"type":"web_search_preview"}]}`:                                                                                {unseen: true, webSearch: true},
		`{"web_search_options":{}}`:                                                                                                {unseen: true, webSearch: true},
		`{"tools":[{"type": "file_search"}]}`:                                                                                      {unseen: true, fileSearch: true},
		`{"tools":[{"type":"mcp","server_url":"https://x"}]}`:                                                                      {unseen: true},
		`{"tools":[{"type":"function","function":{"name":"search","parameters":{"type":"object","properties":{"document":{}}}}}]}`: {},
		`{"messages":[{"content":"say \"file_id\": 1"}]}`:                                                                          {},
	} {
		got := contentOf([]byte(body))
		got.mayHaveFiles = false
		want.text += int64(len(body))
		if got != want {
			t.Errorf("%.200s: %+v, want %+v", body, got, want)
		}
	}
}

func FuzzWhatABodyAsksForIsRead(f *testing.F) {
	for _, body := range []string{
		`{"max_tokens":1e400,"n":-1,"options":{"num_predict":"9"}}`, `{"prompt":[[1,2],"a",{}],"pages":[1]}`, `{"input":"data:image/png;base64,AAAA","max_tokens":`,
		`{"image_url"`, `{"data":"`, `"\u00`, `{"config":{"config":{"n":9}}}`,
	} {
		f.Add([]byte(body))
	}
	m := metering{how: reported, bounds: []string{"max_tokens"}, prompts: true, pages: true}
	f.Fuzz(func(t *testing.T, body []byte) {
		q, in := parametersOf(body, &m), contentOf(body)
		if q.most < -1 || q.most > estimate.MaxTokens || q.named < 0 || q.named > estimate.MaxTokens || q.choices < 1 || q.choices > estimate.MaxTokens || q.prompts < 1 || q.tokens < 0 {
			t.Errorf("%+v", q)
		}
		if in.text > int64(len(body)) || in.tokens < 0 || in.images < 0 {
			t.Errorf("%+v", in)
		}
	})
}
