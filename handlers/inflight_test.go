package handlers_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// prompt is a chat of about n bytes.
func prompt(n int) string {
	return `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", n) + `"}]}`
}

// mustBeOverloaded checks the refusal of a call for which there is no memory.
func mustBeOverloaded(t *testing.T, a *gatewaytest.Answer, why string) {
	t.Helper()
	if a.Status != 503 || !failed("gateway_overloaded")(a.Body) || a.Header.Get("Retry-After") != "1" || !strings.Contains(a.Body, why) || !strings.Contains(a.Body, "max_inflight_bytes") {
		t.Errorf("got %d %v %s", a.Status, a.Header, a.Body)
	}
}

// A call for which there is no memory is refused before anything was spent for it.
func TestAFullBudgetSpendsNothing(t *testing.T) {
	l := newLab(t, "max_inflight_bytes 1MiB\n", "")
	ok := respond(200, gatewaytest.Completion)
	l.on("ok", ok)
	const overridden = `{"provider":"@bad","override_params":{"temperature":0}}`
	for name, c := range map[string]struct {
		config string
		size   int
	}{
		"a copy of its body":                    {overridden, 460_000},
		"a copy of its body, counted by target": {`{"strategy":{"mode":"fallback"},"targets":[` + overridden + `]}`, 460_000},
	} {
		t.Run(name, func(t *testing.T) {
			l.T = t
			id := l.Admin("POST", "/v1/policies/rate-limits", map[string]any{
				"conditions": []any{map[string]any{"key": "provider", "value": "bad"}}, "group_by": []any{map[string]any{"key": "api_key"}},
				"type": "requests", "unit": "rph", "value": 1,
			}).Get("id").Str
			defer l.Admin("DELETE", "/v1/policies/rate-limits/"+id, nil)
			bad, good := l.calls(func() { mustBeOverloaded(t, l.chat(prompt(c.size), c.config, cue+"ok"), "") })
			if bad+good != 0 {
				t.Error("a provider was called")
			}
			for _, status := range []int{200, 429} { // the only unit was still there
				if a := l.chat(gatewaytest.Chat, c.config, cue+"ok"); a.Status != status {
					t.Errorf("got %d %s, want %d", a.Status, a.Body, status)
				}
			}
		})
	}
}

// A body for which there is never room is too large, and not to be sent again.
func TestABodyLargerThanTheMemoryOfCallsIsTooLarge(t *testing.T) {
	l := newLab(t, "max_inflight_bytes 1MiB\n", "")
	l.on("ok", respond(200, gatewaytest.Completion))
	for size, status := range map[int]int{100_000: 200, 900_000: 413} {
		a := l.chat(prompt(size), `{"provider":"@bad"}`, cue+"ok")
		if a.Status != status || status == 413 && (!failed("payload_too_large")(a.Body) || a.Header.Get("Retry-After") != "") {
			t.Errorf("%d bytes: %d %s", size, a.Status, a.Body)
		}
	}
}

// A workspace whose keys hold what they may leaves room for the calls of another.
func TestOneWorkspaceDoesNotTakeAllMemory(t *testing.T) {
	l := newLab(t, "max_inflight_bytes 4MiB\n", "")
	release, held := make(chan struct{}), make(chan struct{}, 8)
	l.on("hold", func(w http.ResponseWriter, r *http.Request) {
		held <- struct{}{}
		<-release
		respond(200, gatewaytest.Completion)(w, r)
	})
	l.on("ok", respond(200, gatewaytest.Completion))
	const config = `{"provider":"@bad"}`
	one := l.key
	second, _ := l.Key("second")
	l.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": "Other", "slug": "other"})
	other := l.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "other", "workspace_id": "other", "scopes": []string{"completions.write"}}).Get("key").Str
	var calls sync.WaitGroup
	for _, l.key = range []string{one, second} {
		calls.Go(func() {
			if a := l.chat(prompt(1_000_000), config, cue+"hold"); a.Status != 200 {
				t.Errorf("got %d %s", a.Status, a.Body)
			}
		})
		<-held
	}
	for _, l.key = range []string{one, second} {
		mustBeOverloaded(t, l.chat(prompt(1_000_000), config, cue+"ok"), "this workspace")
	}
	l.key = other
	if a := l.chat(prompt(700_000), config, cue+"ok"); a.Status != 200 {
		t.Errorf("another workspace: %d %s", a.Status, a.Body)
	}
	l.key = one
	close(release)
	calls.Wait()
	if a := l.chat(prompt(1_000_000), config, cue+"ok"); a.Status != 200 {
		t.Errorf("when the others are over: %d %s", a.Status, a.Body)
	}
}

// A key that has as many calls under way as it may is refused before anything was spent, and leaves
// room for the calls of another workspace. Streams count until they end.
func TestTheNumberOfCallsUnderWayIsBounded(t *testing.T) {
	l := newLab(t, "max_inflight_calls 16\n", "")
	release, held := make(chan struct{}), make(chan struct{}, 16)
	l.on("hold", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(role + hello))
		w.(http.Flusher).Flush()
		held <- struct{}{}
		<-release
		_, _ = w.Write([]byte(stopped + done))
	})
	l.on("ok", respond(200, gatewaytest.Completion))
	const config, most = `{"provider":"@bad"}`, 11 // nine thirteenths of 16
	one := l.key
	l.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": "Other", "slug": "other"})
	other := l.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "other", "workspace_id": "other", "scopes": []string{"completions.write"}}).Get("key").Str
	l.Admin("POST", "/v1/policies/rate-limits", map[string]any{
		"conditions": []any{map[string]any{"key": "provider", "value": "bad"}}, "group_by": []any{map[string]any{"key": "api_key"}}, "type": "requests", "unit": "rph", "value": most + 1,
	})
	var calls sync.WaitGroup
	for range most {
		calls.Go(func() {
			if a := l.chat(strings.Replace(gatewaytest.Chat, "{", `{"stream":true,`, 1), config, cue+"hold"); a.Status != 200 || !strings.Contains(a.Body, "[DONE]") {
				t.Errorf("got %d %s", a.Status, a.Body)
			}
		})
		<-held
	}
	bad, _ := l.calls(func() {
		for range 3 {
			if a := l.chat(gatewaytest.Chat, config, cue+"ok"); a.Status != 503 || !failed("gateway_overloaded")(a.Body) || a.Header.Get("Retry-After") != "1" || !strings.Contains(a.Body, "this key") || !strings.Contains(a.Body, "max_inflight_calls") {
				t.Errorf("one more: %d %v %s", a.Status, a.Header, a.Body)
			}
		}
	})
	if bad != 0 {
		t.Error("the provider was called")
	}
	l.key = other
	if a := l.chat(gatewaytest.Chat, config, cue+"ok"); a.Status != 200 {
		t.Errorf("another workspace: %d %s", a.Status, a.Body)
	}
	l.key = one
	close(release)
	calls.Wait()
	for _, status := range []int{200, 429} { // what was refused was not counted
		if a := l.chat(gatewaytest.Chat, config, cue+"ok"); a.Status != status {
			t.Errorf("when the others are over: %d %s, want %d", a.Status, a.Body, status)
		}
	}
}

// An answer that is translated needs memory, too.
func TestAnswersAreHeldInTheBudget(t *testing.T) {
	claude := gatewaytest.NewUpstream(t, respond(200, `{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"`+strings.Repeat("x", 900_000)+`"}],"stop_reason":"end_turn"}`))
	l := newLab(t, "max_inflight_bytes 1MiB\n"+strings.Replace(claude.Provider("claude"), "type openai", "type anthropic", 1), "")
	mustBeOverloaded(t, l.chat(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, `{"provider":"@claude"}`), "")
}

// So does what a stream that is translated has of an event that is not whole yet.
func TestEventsThatAreNotWholeAreHeldInTheBudget(t *testing.T) {
	begin, large := `data: {"type":"message_start","message":{"id":"m","content":[]}}`+"\n\n", `data: {"type":"`+strings.Repeat("x", 900_000)
	block := `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}` + "\n\n"
	claude, silent := gatewaytest.NewUpstream(t, stream(begin+block, large)), gatewaytest.NewUpstream(t, stream(begin, large))
	l := newLab(t, "max_inflight_bytes 1MiB\n"+strings.ReplaceAll(claude.Provider("claude")+silent.Provider("silent"), "type openai", "type anthropic"), "")
	const call = `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	mustBeOverloaded(t, l.chat(call, `{"provider":"@silent"}`), "")
	a := l.chat(call, `{"provider":"@claude"}`)
	if a.Status != 200 || !strings.Contains(a.Body, "max_inflight_bytes") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// Whatever becomes of calls, in the end they hold nothing.
func TestTheBudgetIsEmptyWhenCallsAreOver(t *testing.T) {
	claude := gatewaytest.NewUpstream(t, respond(200, `{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn"}`))
	l := newLab(t, "max_inflight_bytes 8MiB\nlogs {\n\tbodies on\n}\n"+strings.Replace(claude.Provider("claude"), "type openai", "type anthropic", 1), "", withAdminEndpoint)
	big := strings.Repeat("y", 1<<20)
	l.on("ok", respond(200, gatewaytest.Completion))
	l.on("500", respond(500, overloaded))
	l.on("cut", cut)
	l.on("stream", stream(role, hello, stopped, done))
	l.on("long line", stream(role, "data: "+big, big))
	l.on("half", then(respond(200, `{"choices":[`), flush, cut))
	l.on("early", respond(401, overloaded))
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("model", "m")
	file, _ := w.CreateFormFile("file", "a.wav")
	_, _ = file.Write([]byte(big + big))
	_ = w.Close()
	const retried = `{"retry":{"attempts":1},"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad","override_params":{"temperature":0}},{"provider":"@good"}]}`
	load := func() {
		var all sync.WaitGroup
		for _, body := range []string{gatewaytest.Chat, streamedChat, prompt(300_000), prompt(2_500_000), "{", prompt(0) + "x"} {
			for _, config := range []string{`{"provider":"@bad"}`, retried, `{"provider":"@bad","cache":"simple"}`, `{"provider":"@claude","override_params":{"max_tokens":9}}`, `{"provider":"@bad","request_timeout":5000}`} {
				for _, cue1 := range []string{"ok", "500", "cut", "stream", "long line", "half", "early"} {
					all.Go(func() {
						res, err := l.Send(func() *http.Request {
							return l.Request("POST", "/v1/chat/completions", body, "x-gw-api-key: "+l.key, "x-gw-config: "+config, cue+cue1)
						})
						if err == nil {
							var some [100]byte
							_, _ = res.Body.Read(some[:])
							res.Body.Close() // some clients leave
						}
					})
				}
			}
		}
		for _, cue1 := range []string{"ok", "500", "early", "cut"} {
			all.Go(func() {
				_, _ = l.TryRequest("POST", "/v1/audio/transcriptions", form.String(), "Content-Type: "+w.FormDataContentType(), "x-gw-api-key: "+l.key, "x-gw-config: "+retried, cue+cue1)
			})
		}
		all.Wait()
	}
	mustCount(t, l.Gateway, load, map[string]string{"caddy_gw_inflight_bytes": "0"})
	if a := l.chat(prompt(2_500_000), `{"provider":"@bad"}`, cue+"ok"); a.Status != 200 {
		t.Errorf("a large call afterwards: %s", fmt.Sprint(a.Status, a.Body))
	}
}
