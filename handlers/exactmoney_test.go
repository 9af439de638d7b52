package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A URL that names the model more than once, in any spelling, could lead to the dearer one: a budget of dollars and the
// models of an integration refuse it.
func TestAURLNamesOneModelToABudget(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"id":"x"}`)) })
	g := gatewaytest.Start(t, "price file cheap {\n input_mtok 1\n output_mtok 1\n}\nprice file dear {\n input_mtok 100\n output_mtok 100\n}\n"+up.Provider("file"))
	key, _ := g.Key("k")
	usageLimit(g, map[string]any{"type": "cost", "credit_limit": 10})
	for query, status := range map[string]int{
		"model=cheap":                  200,
		"model=cheap&model=cheap":      200,
		"intent=x&model=cheap":         200,
		"model=cheap&model=dear":       400,
		"model=dear&model=cheap":       400,
		"model=cheap&Model=dear":       400,
		"MODEL=cheap&model=dear":       400,
		"model=cheap;model=dear":       400,
		"model=cheap&mod%65l=dear":     400,
		"model=cheap&mo%64el=de%61r":   400,
		"model=cheap&deployment=dear":  400,
		"Deployment=dear&model=cheap":  400,
		"model=&model=cheap":           400,
		"model=cheap&model=":           400,
		"model=cheap&model":            400,
		"model=cheap&model%5B%5D=dear": 400,
		"model[]=dear&model=cheap":     400,
		"model[0]=dear&model=cheap":    400,
		"model=cheap&deployment_id=d":  400,
		"model=cheap&engine=dear":      400,
		"model=cheap&models=dear":      400,
		"model=cheap&fallbacks=dear":   400,
		"model=cheap&%20model=dear":    400,
		"model=cheap&mode=x":           200,
	} {
		before := len(up.Calls())
		a := g.Do("GET", "/v1/realtime?"+query, "", "x-gw-api-key: "+key, "x-gw-provider: @file", "connection: Upgrade", "upgrade: websocket", "sec-websocket-key: a", "sec-websocket-version: 13")
		if a.Status != status || status == 400 && (a.Get("error.code").Str != "model_unread" || len(up.Calls()) != before) {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
}

// A stream is asked for its usage once, also where the call has an option that is null.
func TestAStreamIsAskedForItsUsageOnce(t *testing.T) {
	up := gatewaytest.NewUpstream(t, streamWithUsage)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	for _, options := range []string{``, `"stream_options":null,`, `"stream_options":{},`, `"stream_options":{"include_usage":false},`, `"stream_options":{"include_usage":true},`, `"stream_options":{"include_usage":null},`} {
		a := g.Do("POST", "/v1/chat/completions", `{`+options+`"stream":true,`+boundedChat[1:], "x-gw-api-key: "+key, "x-gw-provider: @file")
		if a.Status != 200 {
			t.Fatalf("%s: %d %s", options, a.Status, a.Body)
		}
		sent := up.Last(t).Body
		if strings.Count(sent, `"stream_options"`) != 1 || strings.Count(sent, `"include_usage":true`) != 1 {
			t.Errorf("%s: sent %s", options, sent)
		}
	}
}

// What a provider does itself, besides what its tokens cost, is booked at its price; where there is none, a budget of dollars
// refuses the call, unless it says otherwise.
func TestABudgetOfDollarsRefusesWhatHasNoPrice(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, "price file searches {\n input_mtok 1\n output_mtok 1\n web_searches_kcount 10\n storage_searches_kcount 2.5\n}\nprice file * {\n input_mtok 1\n output_mtok 1\n}\nprice claude * {\n input_mtok 1\n output_mtok 1\n}\n"+
		up.Provider("file")+strings.Replace(up.Provider("claude"), "type openai", "type anthropic", 1))
	strict, of := g.Key("strict")
	usageLimit(g, map[string]any{"type": "cost", "credit_limit": 100, "conditions": when("api_key", of)})
	lenient, of := g.Key("lenient")
	usageLimit(g, map[string]any{"type": "cost", "credit_limit": 100, "conditions": when("api_key", of), "on_unknown_price": "allow"})
	tokens, of := g.Key("tokens")
	usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 10_000_000, "conditions": when("api_key", of)})
	chat := func(model, more string) string {
		return `{"model":"` + model + `","max_tokens":20,"messages":[{"role":"user","content":"web_search and image_generation"}]` + more + `}`
	}
	response := func(model, more string) string {
		return `{"model":"` + model + `","max_output_tokens":20,"input":"web_search"` + more + `}`
	}
	const free = ""
	for _, c := range []struct{ path, body, unpriced string }{
		{"chat/completions", chat("m", ``), free},
		{"chat/completions", chat("m", `,"tools":[{"type":"function","function":{"name":"web_search","parameters":{"type":"object"}}},{"type":"custom","custom":{"name":"file_search"}}]`), free},
		{"chat/completions", chat("m", `,"web_search_options":null,"service_tier":"flex"`), free},
		{"chat/completions", chat("searches", `,"web_search_options":{}`), free},
		{"chat/completions", chat("m", `,"web_search_options":{}`), "searches of the web"},
		{"chat/completions", chat("m", `,"Web_Search_Options":{}`), "searches of the web"},
		{"chat/completions", chat("m", `,"extra_body":{"web_search_options":{}}`), "searches of the web"},
		{"chat/completions", chat("m", `,"plugins":[{"id":"web"}]`), "searches of the web"},
		{"chat/completions", chat("m", `,"plugins":[{"id":"file-parser"}]`), "the plugin file-parser"},
		{"chat/completions", chat("m", `,"search_parameters":{"mode":"auto"}`), "the searches of search_parameters"},
		{"chat/completions", chat("m", `,"tools":[{"google_search":{}}]`), "the tool google_search"},
		{"chat/completions", chat("m", `,"tools":[{"type":"x_search"}]`), "the tool x_search"},
		{"chat/completions", chat("m:online", ``), "searches of the web"},
		{"chat/completions", chat("gpt-4o-search-preview", ``), "searches of the web"},
		{"chat/completions", chat("compound-beta", ``), "the tools of compound-beta"},
		{"chat/completions", chat("m", `,"service_tier":"priority"`), "the tier priority"},
		{"chat/completions", chat("m", `,"Service_Tier":"Priority"`), "the tier priority"},
		{"responses", response("m", `,"tools":[{"type":"function","name":"f"},{"type":"mcp","server_label":"l"},{"type":"shell","environment":{"type":"local"}}]`), free},
		{"responses", response("searches", `,"tools":[{"type":"web_search"},{"type":"file_search","vector_store_ids":["v"]}]`), free},
		{"responses", response("m", `,"tools":[{"type":"web_search_preview"}]`), "searches of the web"},
		{"responses", response("m", `,"tools":[{"type":"file_search","vector_store_ids":["v"]}]`), "searches of files"},
		{"responses", response("searches", `,"tools":[{"type":"web_search"},{"type":"image_generation"}]`), "the tool image_generation"},
		{"responses", response("searches", `,"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`), "the tool code_interpreter"},
		{"responses", response("searches", `,"tools":[{"type":"shell","environment":{"type":"container_auto"}}]`), "containers of the provider"},
		{"responses", response("searches", `,"tools":[{"type":"what_is_new"}]`), "the tool what_is_new"},
		{"containers", `{"name":"c"}`, "a container of the provider"},
		{"chat/completions", chat("sonar-deep-research", ``), "the citations of sonar-deep-research"},
		{"ocr", `{"model":"m","document":{"type":"document_url","document_url":"https://example.com/a.pdf"},"document_annotation_format":{"type":"json_schema"}}`, "annotated pages"},
		{"ocr", `{"model":"m","document":{"type":"document_url","document_url":"https://example.com/a.pdf"},"document_annotation_format":null}`, free},
		{"audio/speech", `{"model":"m","voice":"v","input":"hi","speed":1.5}`, free},
	} {
		for _, by := range []struct {
			key     string
			refuses bool
		}{{strict, c.unpriced != free}, {lenient, false}, {tokens, false}} {
			before := len(up.Calls())
			a := g.Do("POST", "/v1/"+c.path, c.body, "x-gw-api-key: "+by.key, "x-gw-provider: @file")
			switch refused := a.Status == 412 && strings.Contains(a.Get("error.message").Str, "the price of "+c.unpriced+" is not known"); {
			case by.refuses && (!refused || len(up.Calls()) != before), !by.refuses && a.Status != 200:
				t.Errorf("%s %s: %d %s", c.path, c.body, a.Status, a.Body)
			}
		}
	}
	for _, c := range []struct {
		more, unpriced string
	}{
		{`"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"bash_20250124","name":"bash"},{"type":"web_fetch_20250910","name":"web_fetch"}]`, free},
		{`"tools":[{"type":"web_search_20250305","name":"web_search"}]`, "searches of the web"},
		{`"tools":[{"type":"code_execution_20250825","name":"code_execution"}]`, "the tool code_execution_20250825"},
		{`"speed":"fast"`, "the tier fast"},
		{`"inference_geo":"us"`, "the tier us"},
	} {
		a := g.Do("POST", "/v1/messages", `{`+c.more+`,`+chat("m", ``)[1:], "x-gw-api-key: "+strict, "x-gw-provider: @claude")
		if refused := a.Status == 412 && strings.Contains(a.Get("error.message").Str, "the price of "+c.unpriced+" is not known"); refused != (c.unpriced != free) || !refused && a.Status != 200 {
			t.Errorf("%s: %d %s", c.more, a.Status, a.Body)
		}
	}
}

// A chat that searches says nothing of it in its usage: one search is booked.
func TestASearchOfAChatIsBooked(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, "price file m {\n input_mtok 0\n output_mtok 0\n web_searches_kcount 10\n}\n"+up.Provider("file"))
	key, _ := g.Key("k")
	id := usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1})
	a := g.Do("POST", "/v1/chat/completions", `{"web_search_options":{},`+boundedChat[1:], "x-gw-api-key: "+key, "x-gw-provider: @file")
	if n := used(g, id, 0.01); a.Status != 200 || n != 0.01 {
		t.Errorf("%d %s: $%v booked", a.Status, a.Body, n)
	}
	if a := logOf(g, a); a.Get("cost").Float() != 1 && a.Get("metrics.cost").Float() != 1 {
		t.Errorf("the record is %s", a.Body)
	}
}

// A batch whose lines other models may answer is refused by a budget of dollars: which one answers is not known.
func TestABatchThatNamesOtherModelsIsRefusedByABudgetOfDollars(t *testing.T) {
	p := newBatchProvider(t)
	g := gatewaytest.Start(t, "price file m {\n input_mtok 1\n output_mtok 10\n}\n"+p.Provider("file"))
	key, of := g.Key("cost")
	usageLimit(g, map[string]any{"type": "cost", "credit_limit": 100, "conditions": when("api_key", of)})
	tokens, of := g.Key("tokens")
	usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 1_000_000, "conditions": when("api_key", of)})
	for more, code := range map[string]string{
		``:                                     "",
		`"models":null,`:                       "",
		`"models":["dear"],`:                   "model_unread",
		`"Models":["dear"],`:                   "model_unread",
		`"fallbacks":[{"model":"dear"}],`:      "model_unread",
		`"fallbac\u212as":[{"model":"dear"}],`: "model_unread",
		`"Model":"dear",`:                      "model_unread",
		`"preset":"dear",`:                     "model_unread",
		`"service_tier":"priority",`:           "",
		`"web_search_options":{},`:             "",
	} {
		p.mu.Lock()
		p.files["in"] = strings.Replace(inputOf(1, 10), `"body":{`, `"body":{`+more, 1)
		p.mu.Unlock()
		a := g.Do("POST", "/v1/batches", makeBatch, "x-gw-api-key: "+key, "x-gw-provider: @file")
		switch dearer := strings.Contains(more, "tier") || strings.Contains(more, "search"); {
		case dearer && (a.Status != 412 || !strings.Contains(a.Get("error.message").Str, "is not known")):
			t.Errorf("%s: %d %s", more, a.Status, a.Body)
		case code != "" && (a.Status != 400 || a.Get("error.code").Str != code), code == "" && !dearer && a.Status != 200:
			t.Errorf("%s: %d %s", more, a.Status, a.Body)
		}
		if a := g.Do("POST", "/v1/batches", makeBatch, "x-gw-api-key: "+tokens, "x-gw-provider: @file"); a.Status != 200 {
			t.Errorf("%s: %d %s", more, a.Status, a.Body)
		}
	}
}

// A budget of dollars is booked with how long the provider says that audio is, whether its usage says it or the answer alone. A model
// with a price of tokens is booked with tokens.
func TestTheDurationOfAudioIsBooked(t *testing.T) {
	answer := ""
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer))
	})
	g := gatewaytest.Start(t, "price file hours {\n input_audio_hours 0.36\n}\nprice file tokens {\n input_mtok 10\n output_mtok 10\n}\n"+up.Provider("file"))
	form := func(model string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\n" + strings.Repeat("x", 160_000) + "\r\n--b--\r\n"
	}
	for _, c := range []struct {
		model, answer string
		least, most   float64
	}{
		{"hours", `{"text":"hi","usage":{"type":"duration","seconds":60}}`, 0.006, 0.006},
		{"hours", `{"text":"hi","duration":60.0}`, 0.006, 0.006},
		{"hours", `{"text":"hi"}`, 0.00399, 0.00405}, // 40 s, as is usual for the size
		{"tokens", `{"text":"hi","duration":60.0}`, 1e-6, 0.2},
		{"tokens", `{"text":"hi","usage":{"type":"tokens","input_tokens":600,"output_tokens":400,"total_tokens":1000}}`, 0.01, 0.01},
	} {
		key, of := g.Key(c.model + c.answer[:5])
		id := usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1, "conditions": when("api_key", of)})
		answer = c.answer
		a := g.Do("POST", "/v1/audio/transcriptions", form(c.model), "x-gw-api-key: "+key, "x-gw-provider: @file", "content-type:", "content-type: multipart/form-data; boundary=b")
		if n := usedBetween(g, id, c.least, c.most); a.Status != 200 || n < c.least || n > c.most {
			t.Errorf("%s %s: %d, $%v booked, want %v to %v", c.model, c.answer, a.Status, n, c.least, c.most)
		}
	}
}

// Speech has no usage: what is reserved, and booked, is more where it is slower, or where there are digits, which are words when they are read.
func TestSpeechIsBookedByHowLongItMayBe(t *testing.T) {
	up := gatewaytest.NewUpstream(t, respond(200, "sound", "Content-Type", "audio/mpeg"))
	g := gatewaytest.Start(t, "price file m {\n input_mtok 0\n output_mtok 1000000\n}\n"+up.Provider("file"))
	for i, c := range []struct {
		input, more    string
		digits, factor int
	}{
		{"twelve", ``, 0, 1},
		{"twelve", `,"speed":2`, 1, 1},
		{"twelve", `,"speed":"x"`, 0, 1},
		{"123456", ``, 6, 1},
		{"twelve", `,"speed":0.5`, 2, 2},
		{"twelve", `,"Speed":0.01`, 3, 4},
		{"twelve", `,"speed":"0.3"`, 2, 4},
	} {
		key, of := g.Key(fmt.Sprint(i))
		id := usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1e6, "conditions": when("api_key", of)})
		body := `{"model":"m","voice":"v","input":"` + c.input + `"` + c.more + `}`
		want := float64((2*len(body) + 8*c.digits) * c.factor)
		a := g.Do("POST", "/v1/audio/speech", body, "x-gw-api-key: "+key, "x-gw-provider: @file")
		if n := used(g, id, want); a.Status != 200 || n != want {
			t.Errorf("%s: %d, %v booked, want %v", body, a.Status, n, want)
		}
	}
}

// Calls that no model answers count only where a condition of a policy names their endpoint; those that a model answers, and those that make a
// batch, count always.
func TestListsAndReadsCountOnlyWhereTheyAreNamed(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, strings.Replace(up.Provider("file"), "{\n", "{\n passthrough_paths /v1/passed/*\n", 1))
	for i, c := range []struct {
		method, path, body string
		endpoint           string
		reads              bool
	}{
		{"GET", "/v1/files", "", "listFiles", true},
		{"GET", "/v1/files/f", "", "retrieveFile", true},
		{"DELETE", "/v1/files/f", "", "deleteFile", true},
		{"GET", "/v1/models", "", "models", true},
		{"POST", "/v1/batches/b/cancel", "", "cancelBatch", true},
		{"GET", "/v1/passed/on", "", "proxy", true},
		{"POST", "/v1/passed/on", `{"model":"m"}`, "proxy", false},
		{"POST", "/v1/chat/completions", boundedChat, "chatComplete", false},
		{"POST", "/v1/embeddings", `{"model":"m","input":"hi"}`, "embed", false},
		{"POST", "/v1/batches", makeBatch, "createBatch", false},
		{"POST", "/v1/containers", `{"name":"c"}`, "containers", false},
	} {
		for _, named := range []bool{false, true} {
			for _, kind := range []string{"rate", "budget", "own"} {
				key, of := g.Key(fmt.Sprint(i, named, kind))
				conditions := when("api_key", of)
				if named {
					conditions = append(conditions, when("endpoint_type", c.endpoint)...)
				}
				switch kind {
				case "rate":
					policy(g, map[string]any{"value": 1, "unit": "rpd", "conditions": conditions})
				case "budget":
					usageLimit(g, map[string]any{"type": "requests", "credit_limit": 1, "conditions": conditions})
				case "own":
					if named { // it has no conditions
						continue
					}
					g.Admin("PUT", "/v1/api-keys/"+of, map[string]any{"rate_limits": []any{map[string]any{"type": "requests", "unit": "rpd", "value": 1}}})
				}
				refused := false
				for range 2 {
					a := g.Do(c.method, c.path, c.body, "x-gw-api-key: "+key, "x-gw-provider: @file")
					refused = a.Status == 429 || a.Status == 412
				}
				if refused != (named || !c.reads) {
					t.Errorf("%s %s, %s, named %v: refused %v", c.method, c.path, kind, named, refused)
				}
			}
		}
	}
}

// A rate limit of requests or tokens has any of the units, and no target but models.
func TestRateLimitsHaveTheirUnitsAndTarget(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.NewUpstream(t, answerWithUsage).Provider("file"))
	key, of := g.Key("k")
	for _, kind := range []string{"requests", "tokens"} {
		for _, unit := range []string{"rps", "rpm", "rph", "rpd", "rpw"} {
			g.Admin("POST", "/v1/policies/rate-limits", map[string]any{"type": kind, "unit": unit, "value": 1000, "target": "llm", "conditions": when("api_key", of), "group_by": by("api_key")})
		}
	}
	if a := g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, "x-gw-provider: @file"); a.Status != 200 || a.Header.Get("x-ratelimit-limit-tokens") != "1000" || a.Header.Get("x-ratelimit-limit-requests") != "1000" {
		t.Errorf("%d %v", a.Status, a.Header)
	}
	for _, target := range []string{"mcp", "mcp_tools", "LLM"} {
		body := `{"type":"requests","unit":"rpm","value":1,"target":"` + target + `","conditions":[],"group_by":[]}`
		if a := g.Do("POST", "/v1/policies/rate-limits", body, "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 400 || !strings.Contains(a.Body, "target") {
			t.Errorf("%s: %d %s", target, a.Status, a.Body)
		}
	}
}

// The usage of one value of a budget is reset, and that of others stays.
func TestTheUsageOfAValueIsReset(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.NewUpstream(t, answerWithUsage).Provider("file"))
	id := usageLimit(g, map[string]any{"type": "requests", "credit_limit": 1, "group_by": by("api_key")})
	first, of := g.Key("first")
	second, _ := g.Key("second")
	status := func(key string) int {
		return g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, "x-gw-provider: @file").Status
	}
	for _, key := range []string{first, second} {
		if status(key) != 200 || status(key) != 412 {
			t.Fatal("a budget of one call does not take one")
		}
	}
	values := g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map")
	value := ""
	for key := range values.Map() {
		if strings.Contains(key, of) {
			value = key
		}
	}
	if value == "" || values.Get(strings.ReplaceAll(value, ".", `\.`)+".current_usage").Int() != 1 {
		t.Fatalf("the usage is %s", values.Raw)
	}
	g.Admin("PUT", "/v1/policies/usage-limits/"+id, map[string]any{"reset_usage_for_value": value})
	if a, b := status(first), status(second); a != 200 || b != 412 {
		t.Errorf("after the reset: %d, and %d for the other", a, b)
	}
}

// Streams of speech and of transcriptions say what was used in their last event, which is what is booked.
func TestStreamsOfAudioAreBookedByTheirUsage(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if strings.HasSuffix(r.URL.Path, "speech") {
			_, _ = w.Write([]byte("data: {\"type\":\"speech.audio.delta\",\"audio\":\"aGk=\"}\n\ndata: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":10,\"output_tokens\":100,\"total_tokens\":110}}\n\n"))
			return
		}
		_, _ = w.Write([]byte("data: {\"type\":\"transcript.text.delta\",\"delta\":\"hi\"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"hi\",\"usage\":{\"type\":\"tokens\",\"input_tokens\":10,\"input_token_details\":{\"audio_tokens\":10},\"output_tokens\":100,\"total_tokens\":110}}\n\n"))
	})
	g := gatewaytest.Start(t, "price file speaks {\n input_mtok 1\n output_audio_mtok 10\n}\nprice file hears {\n input_mtok 1\n input_audio_mtok 5\n output_mtok 10\n}\n"+up.Provider("file"))
	form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nhears\r\n--b\r\nContent-Disposition: form-data; name=\"stream\"\r\n\r\ntrue\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\n" + strings.Repeat("x", 100_000) + "\r\n--b--\r\n"
	for _, c := range []struct {
		path, body, contentType string
		want                    float64
	}{
		{"audio/speech", `{"model":"speaks","voice":"v","input":"` + strings.Repeat("word ", 100) + `","stream_format":"sse"}`, "application/json", (10 + 100*10) * 1e-6},
		{"audio/transcriptions", form, "multipart/form-data; boundary=b", (10*5 + 100*10) * 1e-6},
	} {
		key, of := g.Key(c.path)
		id := usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1, "conditions": when("api_key", of)})
		a := g.Do("POST", "/v1/"+c.path, c.body, "x-gw-api-key: "+key, "x-gw-provider: @file", "content-type:", "content-type: "+c.contentType)
		if n := usedBetween(g, id, c.want*.999, c.want*1.001); a.Status != 200 || n < c.want*.999 || n > c.want*1.001 {
			t.Errorf("%s: %d, $%v booked, want $%v", c.path, a.Status, n, c.want)
		}
	}
}
