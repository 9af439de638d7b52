package handlers_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// used is what a budget has booked, once it is what was expected or nothing changes any more.
func used(g *gatewaytest.Gateway, id string, want float64) float64 {
	g.T.Helper()
	return usedBetween(g, id, want, want)
}

func usedBetween(g *gatewaytest.Gateway, id string, least, most float64) (n float64) {
	g.T.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); { // the client may have its answer before the call has ended
		n = g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map.default.current_usage").Float()
		if n >= least && n <= most {
			break
		}
	}
	return n
}

// Where tokens or costs are counted, a call whose usage will not be known is refused, by
// whatever path and dialect it is made. Other calls, and policies of requests, let it pass.
func TestCallsOfWhichNobodySaysWhatTheyUseAreRefused(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	open := func(kind string) string {
		return strings.Replace(up.Provider(kind), "type openai", "type "+kind+"\n passthrough_paths /v1/*", 1)
	}
	g := gatewaytest.Start(t, "block_inline_config off\nprice openai m {\n input_mtok 1\n output_mtok 1\n}\nprice anthropic m {\n input_mtok 1\n output_mtok 1\n}\n"+
		open("openai")+open("anthropic")+open("google"))
	calls := map[string]struct{ provider, method, path, body, config string }{
		"a batch of Messages":        {"anthropic", "POST", "/v1/messages/batches", `{"model":"m","requests":[]}`, ""},
		"a batch at another path":    {"openai", "POST", "/v1/openai/batches", `{"model":"m"}`, ""},
		"a fine-tuning job":          {"openai", "POST", "/v1/fine_tuning/jobs", `{"model":"m","training_file":"f"}`, ""},
		"a job that goes on":         {"openai", "POST", "/v1/fine_tuning/jobs/j/resume", ``, ""},
		"in the background":          {"openai", "POST", "/v1/responses", `{"model":"m","input":"hi","background":true}`, ""},
		"in the background, in text": {"openai", "POST", "/v1/responses", `{"model":"m","input":"hi","Background":"true","max_output_tokens":9}`, ""},
		"in the background by a config": {
			"openai", "POST", "/v1/responses", `{"model":"m","input":"hi","max_output_tokens":9}`, `{"provider":"@openai","override_params":{"background":true}}`,
		},
		"a run":                    {"openai", "POST", "/v1/threads/t/runs", `{"assistant_id":"a","model":"m"}`, ""},
		"a run of evals":           {"openai", "POST", "/v1/evals/e/runs", `{"model":"m"}`, ""},
		"a video":                  {"openai", "POST", "/v1/videos", `{"model":"m","prompt":"x"}`, ""},
		"a secret of a client":     {"openai", "POST", "/v1/realtime/client_secrets", `{"model":"m"}`, ""},
		"a path of the provider":   {"openai", "POST", "/v1/anything", `{"model":"m"}`, ""},
		"another method":           {"openai", "PATCH", "/v1/anything", `{"model":"m"}`, ""},
		"a call in Gemini's words": {"google", "POST", "/v1/models/m:generateContent", `{"contents":[]}`, ""},
		"a maximum in words":       {"anthropic", "POST", "/v1/messages", `{"model":"m","max_tokens":"many","messages":[{"role":"user","content":"hi"}]}`, ""},
	}
	ask := func(key, provider, method, path, body, config string) *gatewaytest.Answer {
		headers := []string{"x-gw-api-key: " + key}
		if config != "" {
			headers = append(headers, "x-gw-config: "+config)
		} else {
			headers = append(headers, "x-gw-provider: @"+provider)
		}
		return g.Do(method, path, body, headers...)
	}
	for _, c := range []struct {
		name, path, errorType string
		fields                map[string]any
	}{
		{"a budget of tokens", "usage-limits", "usage_limits_policy_exhaust_error", map[string]any{"type": "tokens", "credit_limit": 1e9}},
		{"a budget of costs", "usage-limits", "usage_limits_policy_exhaust_error", map[string]any{"type": "cost", "credit_limit": 100}},
		{"a rate of tokens", "rate-limits", "rate_limits_policy_exhaust_error", map[string]any{"type": "tokens", "unit": "rpm", "value": 1e9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			key, id := g.Key(c.name)
			c.fields["conditions"] = when("api_key", id)
			g.Admin("POST", "/v1/policies/"+c.path, c.fields)
			for name, call := range calls {
				before := len(up.Calls())
				a := ask(key, call.provider, call.method, call.path, call.body, call.config)
				errorType := c.errorType
				if strings.HasPrefix(call.path, "/v1/messages") {
					errorType = "invalid_request_error" // as Anthropic has it for the status
				}
				if a.Status != 412 || a.Get("error.code").Str != "unmetered_call" || a.Get("error.type").Str != errorType || len(up.Calls()) != before {
					t.Errorf("%s: %d %s", name, a.Status, a.Body)
				}
			}
			for _, path := range []string{"GET /v1/batches", "GET /v1/models", "POST /v1/batches/b/cancel", "POST /v1/fine_tuning/jobs/j/cancel", "GET /v1/responses/r", "DELETE /v1/files/f", "GET /v1/anything"} {
				method, path, _ := strings.Cut(path, " ")
				if a := ask(key, "openai", method, path, "", ""); a.Status != 200 {
					t.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
				}
			}
			if a := ask(key, "openai", "POST", "/v1/chat/completions", boundedChat, ""); a.Status != 200 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
	key, id := g.Key("other")
	usageLimit(g, map[string]any{"type": "requests", "credit_limit": 1000, "conditions": when("api_key", id)})
	for name, call := range calls {
		if a := ask(key, call.provider, call.method, call.path, call.body, call.config); a.Status == 412 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

// The unified list of models is a read, and has no price.
func TestTheListOfModelsIsNotRefusedByABudgetOfCosts(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1})
	if a := g.Do("GET", "/v1/models", "", "x-gw-api-key: "+key); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// However a call spells how long its answer may be, it is refused if the budget has no room for that.
func TestNoSpellingOfAMaximumPassesABudget(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("file")+strings.Replace(up.Provider("claude"), "type openai", "type anthropic", 1))
	key, _ := g.Key("k")
	usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 1000})
	chat := func(more string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"}],` + more + `}`
	}
	for _, c := range []struct {
		provider, path, body, config string
		status                       int
	}{
		{"file", "chat/completions", chat(`"max_tokens":1e3`), "", 412},
		{"file", "chat/completions", chat(`"max_tokens":1000.0`), "", 412},
		{"file", "chat/completions", chat(`"max_completion_tokens":99999999999999999999`), "", 412},
		{"file", "chat/completions", chat(`"max_tokens":100,"n":10`), "", 412},
		{"file", "chat/completions", chat(`"max_tokens":10,"max_new_tokens":1000`), "", 412},
		{"file", "chat/completions", chat(`"max_tokens":10,"options":{"num_predict":"1000"}`), "", 412},
		{"file", "chat/completions", chat(`"max_tokens":10`), `{"provider":"@file","override_params":{"max_tokens":1000}}`, 412},
		{"file", "chat/completions", chat(`"max_tokens":10`), `{"provider":"@file","override_params":{"options":{"num_predict":1000}}}`, 412},
		{"claude", "messages", chat(`"max_tokens":10,"MaxTokens":1000`), "", 412},
		{"file", "completions", `{"model":"m","max_tokens":200,"prompt":["a","b","c","d","e"]}`, "", 412},
		{"file", "completions", `{"model":"m","max_tokens":100,"best_of":10,"n":1,"prompt":"a"}`, "", 412},
		{"file", "embeddings", `{"model":"m","input":[` + strings.Repeat("1,", 1000) + `1]}`, "", 412},
		{"file", "chat/completions", chat(`"max_tokens":10`), "", 200},
		{"file", "completions", `{"model":"m","max_tokens":20,"prompt":["a","b","c","d","e"]}`, "", 200},
	} {
		by := "x-gw-provider: @" + c.provider
		if c.config != "" {
			by = "x-gw-config: " + c.config
		}
		before := len(up.Calls())
		a := g.Do("POST", "/v1/"+c.path, c.body, "x-gw-api-key: "+key, by)
		if a.Status != c.status || c.status == 412 && len(up.Calls()) != before {
			t.Errorf("%s: %d %s", c.body[:min(len(c.body), 120)], a.Status, a.Body)
		}
	}
}

// A client that leaves before the provider has said how long the answer is has used what it has seen,
// and what the provider works on without an answer is a prompt.
func TestWhoLeavesEarlyHasUsedWhatWasSeen(t *testing.T) {
	began := make(chan struct{}, 1)
	var answer func(http.ResponseWriter, *http.Request)
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) })
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("file")+strings.Replace(up.Provider("claude"), "type openai", "type anthropic", 1))
	waits := func(_ http.ResponseWriter, r *http.Request) { began <- struct{}{}; <-r.Context().Done() }
	streams := func(events string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, events)
			_ = http.NewResponseController(w).Flush()
			began <- struct{}{}
			<-r.Context().Done()
		}
	}
	const message = `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	text := strings.Repeat("12345678", 10)
	for name, c := range map[string]struct {
		provider, path, body string
		answer               func(http.ResponseWriter, *http.Request)
		wait                 bool // for the text
		used                 int
	}{
		"before the answer": {"file", "chat/completions", boundedChat, waits, false, (len(boundedChat) + 3) / 4},
		"of a message": {
			"claude", "messages", message,
			streams("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"m\",\"usage\":{\"input_tokens\":30,\"output_tokens\":1}}}\n\n" +
				"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + text + "\"}}\n\n"),
			true, 30 + 20,
		},
		"of a message in a conversation": {
			"claude", "chat/completions", message,
			streams("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"m\",\"usage\":{\"input_tokens\":30,\"output_tokens\":1}}}\n\n" +
				"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + text + "\"}}\n\n"),
			true, 30 + 20,
		},
		"of a response": {
			"file", "responses", `{"model":"m","stream":true,"max_output_tokens":100,"input":"hi"}`,
			streams(`data: {"type": "response.output_text.delta", "delta": "` + text + `"}` + "\n\n"), true, (len(`{"model":"m","stream":true,"max_output_tokens":100,"input":"hi"}`)+3)/4 + 20,
		},
		"of a conversation with blanks": {
			"file", "chat/completions", message,
			streams(`data: {"choices": [{"index": 0, "delta": {"content": "` + text + `"}}]}` + "\n\n"), true, (len(message)+len(`,"stream_options":{"include_usage":true}`)*0+3)/4 + 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			key, of := g.Key(name)
			id := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 100_000, "conditions": when("api_key", of)})
			answer = c.answer
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r := g.Request("POST", "/v1/"+c.path, c.body, "x-gw-api-key: "+key, "x-gw-provider: @"+c.provider).WithContext(ctx)
			if !c.wait {
				go func() {
					<-began
					leave()
				}()
			}
			res, err := http.DefaultClient.Do(r)
			if err == nil {
				<-began
				lines := bufio.NewScanner(res.Body)
				for lines.Scan() && !strings.Contains(lines.Text(), text) {
				}
				leave()
				res.Body.Close()
			}
			if n := used(g, id, float64(c.used)); n != float64(c.used) {
				t.Errorf("%v tokens booked, want %d", n, c.used)
			}
		})
	}
}

// What nothing reports is booked as it was reserved, at its price, and images as their provider says.
func TestSpeechTextOfAudioAndImagesAreBooked(t *testing.T) {
	const size = 400_000
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		kind, answer := "text/plain", "anything"
		switch {
		case strings.HasSuffix(r.URL.Path, "speech"):
			kind = "audio/mpeg"
		case strings.Contains(r.URL.Path, "images"):
			kind, answer = "application/json", `{"created":1,"data":[{"b64_json":"aGk="}],"usage":{"input_tokens":50,"output_tokens":100,"total_tokens":150,"input_tokens_details":{"text_tokens":50,"image_tokens":0}}}`
		}
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, answer)
	})
	g := gatewaytest.Start(t, "price file speaks {\n input_mtok 1\n output_audio_mtok 10\n}\nprice file hears {\n input_audio_hours 0.36\n}\nprice file draws {\n input_mtok 1\n output_mtok 10\n}\n"+up.Provider("file"))
	speech := `{"model":"speaks","voice":"v","input":"` + strings.Repeat("word ", 100) + `"}`
	form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nhears\r\n--b\r\nContent-Disposition: form-data; name=\"response_format\"\r\n\r\ntext\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\n" + strings.Repeat("x", size) + "\r\n--b--\r\n"
	for _, c := range []struct {
		path, body  string
		contentType string
		least, most float64
	}{
		{"images/generations", `{"model":"draws","prompt":"p"}`, "application/json", (50 + 100*10) * .99e-6, (50 + 100*10) * 1.01e-6},
		{"audio/speech", speech, "application/json", float64(len(speech)) * (1 + 20) * .99e-6, float64(len(speech)) * (1 + 20) * 1.01e-6},
		{"audio/transcriptions", form, "multipart/form-data; boundary=b", size / 4000 * 1e-4 * .99, size / 4000 * 1e-4 * 1.02},
	} {
		t.Run(c.path, func(t *testing.T) {
			key, of := g.Key(c.path)
			id := usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1, "conditions": when("api_key", of)})
			a := g.Do("POST", "/v1/"+c.path, c.body, "x-gw-api-key: "+key, "x-gw-provider: @file", "content-type:", "content-type: "+c.contentType)
			if a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			if n := usedBetween(g, id, c.least, c.most); n < c.least || n > c.most {
				t.Errorf("$%v booked, want $%v to $%v", n, c.least, c.most)
			}
		})
	}
}

// An upload is reserved and booked by the bytes that the provider gets, however the client sends them.
func TestUploadsAreBookedByWhatIsPassedOn(t *testing.T) {
	const size = 2_000_000
	up := gatewaytest.NewUpstream(t, respond(200, "anything", "Content-Type", "text/plain"))
	g := gatewaytest.New(t, "price file hears {\n input_audio_hours 0.36\n}\n"+up.Provider("file"))
	g.Site = "gw_admin\ngw_ratelimit\ngw_inference {\n\tmax_replay 8KiB\n\tmax_upload 4MiB\n}"
	g.Load()
	audio := make([]byte, size)
	for i, random := 0, rand.New(rand.NewPCG(1, 2)); i < size; i++ {
		audio[i] = "ab"[random.IntN(2)] // so that it becomes much smaller, but not too much
	}
	form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nhears\r\n--b\r\nContent-Disposition: form-data; name=\"response_format\"\r\n\r\ntext\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\n" + string(audio) + "\r\n--b--\r\n"
	small := strings.Replace(form, string(audio), "ID3", 1)
	const dollarsOfByte = 0.36 / 3600 / 4000
	for name, c := range map[string]struct {
		body    string
		headers []string
		chunked bool
		bytes   float64
		times   float64 // of what it costs are in the budget
		again   int     // the status of another one
	}{
		// What is reserved is at least as if a second had 750 bytes, and not 4,000.
		"plain":                          {form, nil, false, size, 5, 412},
		"compressed":                     {encodeAs("gzip", form), []string{"content-encoding: gzip"}, false, size, 5, 412},
		"chunked":                        {form, nil, true, size, 5, 412},
		"chunked, and all of it is kept": {small, nil, true, float64(len(small)), 7, 200},
	} {
		t.Run(name, func(t *testing.T) {
			key, of := g.Key(name)
			usual := c.bytes * dollarsOfByte
			id := usageLimit(g, map[string]any{"type": "cost", "credit_limit": usual * c.times, "conditions": when("api_key", of)})
			ask := func() int {
				res, err := g.Send(func() *http.Request {
					r := g.Request("POST", "/v1/audio/transcriptions", c.body, append(c.headers, "x-gw-api-key: "+key, "x-gw-provider: @file", "content-type:", "content-type: multipart/form-data; boundary=b")...)
					if c.chunked {
						r.ContentLength = -1
					}
					return r
				})
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				return res.StatusCode
			}
			status := ask()
			if n := usedBetween(g, id, usual*.9, usual*1.02); status != 200 || n < usual*.9 || n > usual*1.02 {
				t.Errorf("%d, $%v booked, want $%v", status, n, usual)
			}
			if status := ask(); status != c.again {
				t.Errorf("another one: %d, want %d", status, c.again)
			}
		})
	}
}

// What a stored answer used was counted when it was made: reading, changing or cancelling it counts
// nothing, neither in a budget nor in the records.
func TestStoredAnswersAreNotBookedTwice(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, fmt.Sprintf(`{"id":"resp_1","object":"response","status":"completed","model":"m","choices":[],"output":[],"usage":{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}}`, 10, 20, 30))
	})
	g := gatewaytest.Start(t, "price file m {\n input_mtok 1\n output_mtok 1\n}\n"+up.Provider("file"))
	key, of := g.Key("k")
	id := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 100_000, "conditions": when("api_key", of)})
	ask := func(method, path, body string) {
		t.Helper()
		if a := g.Do(method, path, body, "x-gw-api-key: "+key, "x-gw-provider: @file"); a.Status != 200 {
			t.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
	}
	ask("POST", "/v1/responses", `{"model":"m","max_output_tokens":50,"input":"hi"}`)
	ask("GET", "/v1/responses/resp_1", "")
	ask("POST", "/v1/responses/resp_1/cancel", "")
	ask("POST", "/v1/chat/completions/resp_1", `{"metadata":{"a":"b"}}`)
	if n := used(g, id, 30); n != 30 {
		t.Errorf("%v tokens booked", n)
	}
	var records []gjson.Result
	for end := time.Now().Add(5 * time.Second); len(records) < 4 && time.Now().Before(end); {
		records = g.Admin("GET", "/v1/logs", nil).Get("data").Array()
	}
	total := 0.0
	for _, r := range records {
		total += r.Get("cost").Float()
	}
	if want := 30 * 1e-4; total < want*.999 || total > want*1.001 {
		t.Errorf("records of %v cents, want %v", total, want)
	}
}
