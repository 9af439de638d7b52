package handlers_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// The time of an attempt ends at its first event, and counts until then.
func TestRequestTimeouts(t *testing.T) {
	l := newLab(t, "", "")
	l.on("silence", silence)
	l.on("headers", then(stream(), silence))
	l.on("role", then(stream(role), silence))
	l.on("json", func(w http.ResponseWriter, r *http.Request) {
		respond(200, `{"choices":[`)(w, r)
		w.(http.Flusher).Flush()
		silence(w, r)
	})
	l.on("slow end", func(w http.ResponseWriter, r *http.Request) {
		stream(role, hello)(w, r)
		<-time.After(600 * time.Millisecond) // longer than the timeout
		stream(stopped, done)(w, r)
	})
	leaf := func(more string) string { return `{"provider":"@bad"` + more + `}` }
	fallback := func(more string) string {
		return `{"strategy":{"mode":"fallback"},"targets":[` + leaf(more) + `,{"provider":"@good"}]` + `}`
	}
	var cases sync.WaitGroup // they wait at the same time
	for i, c := range []struct {
		name, config, cue, header string
		stream                    bool
		ms                        int // of the 408; 0: the good provider answers
		index, retries            string
		bad                       int
	}{
		{"of the config", leaf(`,"request_timeout":200`), "silence", "", false, 200, "config", "0", 1},
		{"of the header, with a config", leaf(`,"cache":"simple"`), "silence", "200", false, 200, "config", "0", 1},
		{"the header beats the config", leaf(`,"request_timeout":3600000`), "silence", "200", false, 200, "config", "0", 1},
		{"falls back", fallback(`,"request_timeout":200`), "silence", "", false, 0, "config.targets[1]", "0", 1},
		{"of a stream, falls back", fallback(`,"request_timeout":200`), "silence", "", true, 0, "config.targets[1]", "0", 1},
		{"of a stream without an event, falls back", fallback(`,"request_timeout":200`), "headers", "", true, 0, "config.targets[1]", "0", 1},
		{"of a stream with a role alone, falls back", fallback(`,"request_timeout":200`), "role", "", true, 0, "config.targets[1]", "0", 1},
		{"of a stream without an event", leaf(`,"request_timeout":200`), "headers", "", true, 200, "config", "0", 1},
		{"of a stream with a role alone", leaf(`,"request_timeout":200`), "role", "", true, 200, "config", "0", 1},
		{"of a stream without an event, with a retry that does not list it", leaf(`,"request_timeout":200,"retry":{"attempts":1}`), "headers", "", true, 200, "config", "0", 1},
		{"of a stream with a role alone, with a retry that does not list it", leaf(`,"request_timeout":200,"retry":{"attempts":1}`), "role", "", true, 200, "config", "0", 1},
		{"of a stream without an event, which is listed", `{"strategy":{"mode":"fallback","on_status_codes":[408]},"targets":[{"provider":"@bad","request_timeout":200},{"provider":"@good"}]}`, "headers", "", true, 0, "config.targets[1]", "0", 1},
		{"of JSON that does not come after its headers, with a retry", leaf(`,"request_timeout":200,"retry":{"attempts":1}`), "json", "", false, 200, "config", "0", 1},
		{"of JSON that does not come after its headers, falls back", fallback(`,"request_timeout":200`), "json", "", false, 0, "config.targets[1]", "0", 1},
		{"inherited", `{"request_timeout":200,"strategy":{"mode":"single"},"targets":[{"provider":"@bad"}]}`, "silence", "", false, 200, "config.targets[0]", "0", 1},
		{"is not listed, so nothing follows", `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"provider":"@bad","request_timeout":200},{"provider":"@good"}]}`, "silence", "", false, 200, "config.targets[0]", "0", 1},
		{"is listed, so the next follows", `{"strategy":{"mode":"fallback","on_status_codes":[408]},"targets":[{"provider":"@bad","request_timeout":200},{"provider":"@good"}]}`, "silence", "", false, 0, "config.targets[1]", "0", 1},
		{"is not retried by itself", leaf(`,"request_timeout":200,"retry":{"attempts":1}`), "silence", "", false, 200, "config", "0", 1},
		{"is retried where listed", leaf(`,"request_timeout":200,"retry":{"attempts":1,"on_status_codes":[408]}`), "silence", "", false, 200, "config", "-1", 2},
	} {
		cases.Go(func() {
			headers := []string{cue + c.cue}
			if c.header != "" {
				headers = append(headers, "x-gw-request-timeout: "+c.header)
			}
			body, want := gatewaytest.Chat, gatewaytest.Completion
			if c.stream {
				body, want = streamedChat, goodStream
			}
			user := fmt.Sprint("user ", i)
			marked, _ := sjson.Set(body, "user", user)
			a := l.chat(marked, c.config, headers...)
			if used, provider := a.Header.Get("x-gw-last-used-option-index"), a.Header.Get("x-gw-provider"); used != c.index || a.Header.Get("x-gw-retry-attempt-count") != c.retries || (provider == "good") != (c.ms == 0) {
				t.Errorf("%s: %s of %s, want %s: %v", c.name, used, provider, c.index, a.Header)
			}
			bad := 0
			for _, call := range l.bad.Calls() {
				if gjson.Get(call.Body, "user").Str == user {
					bad++
				}
			}
			if bad != c.bad {
				t.Errorf("%s: the bad provider was called %d times", c.name, bad)
			}
			if c.ms == 0 {
				if a.Status != 200 || a.Body != want {
					t.Errorf("%s: got %d %s", c.name, a.Status, a.Body)
				}
				return
			}
			message := fmt.Sprintf("Request exceeded the timeout sent in the request: %dms", c.ms)
			if a.Status != 408 || a.Get("error.message").Str != message || a.Get("error.type").Str != "timeout_error" || a.Get("error.param").Raw != "null" || a.Get("error.code").Raw != "null" {
				t.Errorf("%s: got %d %s", c.name, a.Status, a.Body)
			}
		})
	}
	for name, config := range map[string]string{"alone": leaf(`,"request_timeout":200`), "with a fallback": fallback(`,"request_timeout":200`)} {
		cases.Go(func() {
			if a := l.chat(streamedChat, config, cue+"slow end"); a.Status != 200 || a.Body != role+hello+stopped+done {
				t.Errorf("a stream that goes on after its timeout, %s: %d %q", name, a.Status, a.Body)
			}
		})
	}
	cases.Wait()
	// Without a config.
	if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+"silence", "x-gw-provider: bad", "x-gw-request-timeout: 200"); a.Status != 408 {
		t.Errorf("of the header: %d %s", a.Status, a.Body)
	}
	t.Setenv("REQUEST_TIMEOUT", "200")
	l.Load()
	if a := l.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+l.key, cue+"silence", "x-gw-provider: bad"); a.Status != 408 || !strings.Contains(a.Body, "200ms") {
		t.Errorf("of the environment: %d %s", a.Status, a.Body)
	}
}

func TestRetries(t *testing.T) {
	l := newLab(t, "", "")
	var n atomic.Int64
	nth := func(steps ...http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { steps[min(int(n.Add(1)), len(steps))-1](w, r) }
	}
	soon := respond(429, overloaded, "Retry-After-Ms", "1")
	ok := respond(200, gatewaytest.Completion)
	leaf := func(retry string) string { return `{"provider":"@bad","retry":{` + retry + `}}` }
	fallback := func(retry string) string {
		return `{"strategy":{"mode":"fallback"},"targets":[` + leaf(retry) + `,{"provider":"@good"}]}`
	}
	const asked = `"use_retry_after_header":true`
	for _, c := range []struct {
		name, config   string
		serve          http.HandlerFunc
		stream         bool
		status         int
		index, retries string
		bad, good      int
		after          string // Retry-After that the client sees
	}{
		{"500 then 200", leaf(`"attempts":1`), nth(respond(500, overloaded), ok), false, 200, "config", "1", 2, 0, ""},
		{"the first is good", leaf(`"attempts":3`), nth(ok), false, 200, "config", "0", 1, 0, ""},
		{"the third is good", leaf(`"attempts":3,` + asked), nth(soon, soon, ok), false, 200, "config", "2", 3, 0, ""},
		{"the other spelling", leaf(`"attempts":1,"use_retry_after_headers":true`), nth(soon, ok), false, 200, "config", "1", 2, 0, ""},
		{"Azure's spelling of the header", leaf(`"attempts":1,` + asked), nth(respond(429, overloaded, "X-Ms-Retry-After-Ms", "1"), ok), false, 200, "config", "1", 2, 0, ""},
		{"no wait at all", leaf(`"attempts":1,` + asked), nth(respond(429, overloaded, "Retry-After", "0"), ok), false, 200, "config", "1", 2, 0, ""},
		{"a date in the past", leaf(`"attempts":1,` + asked), nth(respond(429, overloaded, "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), ok), false, 200, "config", "1", 2, 0, ""},
		{"exhausted", leaf(`"attempts":2,` + asked), nth(soon), false, 429, "config", "-1", 3, 0, ""},
		{"exhausted, then the next", fallback(`"attempts":2,` + asked), nth(soon), false, 200, "config.targets[1]", "0", 3, 1, ""},
		{"good at last, so no next", fallback(`"attempts":1,` + asked), nth(soon, ok), false, 200, "config.targets[0]", "1", 2, 0, ""},
		{"a wait that is too long is relayed", leaf(`"attempts":5,` + asked), nth(respond(429, overloaded, "Retry-After", "61")), false, 429, "config", "-1", 1, 0, "61"},
		{"a wait that is too long goes to the next", fallback(`"attempts":5,` + asked), nth(respond(429, overloaded, "Retry-After", "3600")), false, 200, "config.targets[1]", "0", 1, 1, ""},
		{"a status that is not listed", leaf(`"attempts":5,"on_status_codes":[503]`), nth(respond(500, overloaded)), false, 500, "config", "0", 1, 0, ""},
		{"a status that is not among the defaults", leaf(`"attempts":5`), nth(respond(400, overloaded)), false, 400, "config", "0", 1, 0, ""},
		{"no attempts", leaf(`"attempts":0`), nth(respond(500, overloaded)), false, 500, "config", "0", 1, 0, ""},
		{"an error with status 200", leaf(`"attempts":1`), nth(respond(200, overloaded), ok), false, 200, "config", "1", 2, 0, ""},
		{"an error as first event", leaf(`"attempts":1`), nth(stream("data: "+overloaded+"\n\n"), stream(role, hello, stopped, done)), true, 200, "config", "1", 2, 0, ""},
		{"an error after output", leaf(`"attempts":1`), nth(stream(hello, "data: "+overloaded+"\n\n")), true, 200, "config", "0", 1, 0, ""},
		{"a connection that breaks", leaf(`"attempts":1,"on_status_codes":[502]`), nth(cut, ok), false, 200, "config", "1", 2, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.T = t
			n.Store(0)
			l.on("x", c.serve)
			body := gatewaytest.Chat
			if c.stream {
				body = streamedChat
			}
			var a *gatewaytest.Answer
			bad, good := l.calls(func() { a = l.chat(body, c.config, cue+"x") })
			if a.Status != c.status || a.Header.Get("Retry-After") != c.after || bad != c.bad || good != c.good {
				t.Errorf("got %d %s, Retry-After %q, after %d calls and %d of the fallback", a.Status, a.Body, a.Header.Get("Retry-After"), bad, good)
			}
			mustHaveUsed(t, a, c.index, c.retries, map[bool]string{true: "bad", false: "good"}[good == 0])
			for _, call := range l.bad.Calls()[len(l.bad.Calls())-bad:] {
				if call.Body != asking(body) {
					t.Errorf("the provider got %s", call.Body)
				}
			}
		})
	}
}

// x-gw-retry-count is for targets whose config does not say how often they are tried again.
func TestTheCallSaysHowOftenATargetIsTriedAgain(t *testing.T) {
	l := newLab(t, "", "")
	const none, again = `{"provider":"@bad"}`, `{"provider":"@bad","retry":{"attempts":1,"on_status_codes":[503]}}`
	for name, c := range map[string]struct {
		config, count string
		status        int
		bad           int
		retries       string
	}{
		"without a config":       {"", "1", 500, 2, "-1"},
		"a config without":       {none, "1", 500, 2, "-1"},
		"a config that says it":  {again, "2", 500, 1, "0"},
		"none":                   {none, "0", 500, 1, "0"},
		"more than a config may": {none, "6", 400, 0, ""},
		"no number":              {none, "often", 400, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l.T = t
			l.on("x", respond(500, overloaded))
			headers := []string{"x-gw-retry-count: " + c.count, cue + "x", "x-gw-provider: bad"}
			if c.config != "" {
				headers[2] = "x-gw-config: " + c.config
			}
			var a *gatewaytest.Answer
			bad, _ := l.calls(func() { a, _ = l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, headers...) })
			if a.Status != c.status || bad != c.bad || a.Header.Get("x-gw-retry-attempt-count") != c.retries {
				t.Errorf("%d %s %v after %d calls", a.Status, a.Body, a.Header, bad)
			}
			if c.bad == 0 && (a.Get("error.param").Str != "x-gw-retry-count" || !strings.Contains(a.Body, "0 to 5")) {
				t.Errorf("the error does not say what was expected: %s", a.Body)
			}
		})
	}
}

// A client that leaves is not answered by anyone else.
func TestAClientThatLeavesIsNotFallenBackFor(t *testing.T) {
	l := newLab(t, "", "")
	came, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	wait := func(_ http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}
	l.on("before headers", wait)
	l.on("after the role", then(stream(role), wait))
	l.on("at chunk 5", then(stream(role, hello, hello, hello, hello), wait))
	config := `{"retry":{"attempts":5,"on_status_codes":[408,499,500,502,503,504]},"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	for name, chunks := range map[string]int{"before headers": 0, "after the role": 0, "at chunk 5": 5} {
		t.Run(name, func(t *testing.T) {
			l.T = t
			bad, good := l.calls(func() {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				left := make(chan struct{})
				read := make(chan struct{})
				go func() {
					defer close(left)
					res, err := http.DefaultClient.Do(l.Request("POST", "/v1/chat/completions", streamedChat, "x-gw-api-key: "+l.key, cue+name, "x-gw-config: "+config).WithContext(ctx))
					if err != nil {
						return
					}
					defer res.Body.Close()
					lines := bufio.NewReader(res.Body)
					for range 2 * chunks {
						if _, err := lines.ReadString('\n'); err != nil {
							t.Errorf("before it left: %v", err)
						}
					}
					close(read)
					_, _ = io.Copy(io.Discard, lines)
				}()
				await(t, came, "the provider is not called")
				if chunks > 0 {
					await(t, read, "the chunks do not arrive")
				}
				leave()
				await(t, gone, "the provider's call goes on")
				await(t, left, "the client is not done")
			})
			if bad != 1 || good != 0 {
				t.Errorf("the bad provider was called %d times, the good one %d times", bad, good)
			}
		})
	}
	// The gateway goes on.
	l.T = t
	if a := l.chat(gatewaytest.Chat, `{"provider":"@good","cache":"simple"}`); a.Status != 200 {
		t.Errorf("afterwards: %d %s", a.Status, a.Body)
	}
}

func await(t *testing.T, c <-chan struct{}, or string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		t.Fatal(or)
	}
}

func upload(n int) (body string, contentType string) {
	return "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n" +
		strings.Repeat("\x00\xffw", n/3) + "\r\n--b--\r\n", "content-type: multipart/form-data; boundary=b"
}

// The model of a form chooses the provider, is changed by a config and counted by
// policies, as that of a JSON body.
func TestTheModelOfAFormCounts(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tmax_replay 8KiB\n}")
	const part = "--b\r\nContent-Disposition: form-data; name="
	form := func(model string, size int) string {
		return part + "\"file\"; filename=\"a.wav\"\r\n\r\n" + strings.Repeat("w", size) + "\r\n" + part + "\"model\"\r\n\r\n" + model + "\r\n--b--\r\n"
	}
	ask := func(body string, headers ...string) *gatewaytest.Answer {
		a, _ := l.ask("POST", "/v1/audio/transcriptions", body, append(headers, "content-type:", "content-type: multipart/form-data; boundary=b")...)
		return a
	}
	for name, c := range map[string]struct{ sent, header, got string }{
		"@slug/":           {form("@good/whisper", 10), "", form("whisper", 10)},
		"override_params":  {form("m", 10), `x-gw-config: {"provider":"@good","override_params":{"model":"whisper"}}`, form("whisper", 10)},
		"default_params":   {form("m", 10), `x-gw-config: {"provider":"@good","default_params":{"model":"whisper"}}`, form("m", 10)},
		"no config":        {form("m", 10), "x-gw-provider: @good", form("m", 10)},
		"behind the limit": {form("m", 20<<10), "x-gw-provider: @good", form("m", 20<<10)},
	} {
		headers := []string{}
		if c.header != "" {
			headers = append(headers, c.header)
		}
		if a := ask(c.sent, headers...); a.Status != 200 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		} else if got := l.good.Last(t).Body; got != c.got {
			t.Errorf("%s: got %.300q, want %.300q", name, got, c.got)
		}
	}
	if a := ask(form("m", 20<<10), `x-gw-config: {"provider":"@good","override_params":{"model":"whisper"}}`); a.Status != 400 || a.Get("error.param").Str != "model" {
		t.Errorf("a model behind the limit: %d %s", a.Status, a.Body)
	}
	before := len(l.good.Calls())
	for name, body := range map[string]string{
		"a preamble":               "x\n" + form("m", 10),
		"a delimiter after LF":     strings.Replace(form("m", 10), "wwww", "ww\n"+part+"\"model\"\r\n\r\nother\r\n--b--\r\n", 1),
		"a space before the colon": strings.Replace(form("m", 10), "--b\r\n", "--b\r\nContent-Disposition : form-data; name=\"model\"\r\n", 1),
	} {
		if a := ask(body, "x-gw-provider: @good"); a.Status != 400 || a.Get("error.code").Str != "invalid_form" || len(l.good.Calls()) != before {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	twice := strings.TrimSuffix(strings.Replace(form("m", 10), "--b--", "", 1), "\r\n") + form("n", 200<<10)
	if a := ask(twice, "x-gw-provider: @good"); a.Status != 400 || a.Get("error.code").Str != "invalid_form" {
		t.Errorf("two models: %d %s", a.Status, a.Body)
	}
	for contentType, status := range map[string]int{
		"multipart/form-data; boundary*=utf-8''c; boundary=b": 400,
		"multipart/form-data; boundary=b; boundary*0=c":       400,
		`Multipart/Form-Data;  Boundary="b"; charset=utf-8`:   200,
	} {
		a, _ := l.ask("POST", "/v1/audio/transcriptions", form("m", 10), "x-gw-provider: @good", "content-type:", "content-type: "+contentType)
		if a.Status != status || status == 400 && a.Get("error.code").Str != "invalid_content_type" {
			t.Errorf("%s: %d %s", contentType, a.Status, a.Body)
		} else if got := l.good.Last(t).Header.Get("Content-Type"); status == 200 && got != "multipart/form-data; boundary=b" {
			t.Errorf("%s was sent on as %s", contentType, got)
		}
	}
	policy(l.Gateway, map[string]any{"value": 1, "conditions": when("model", "whisper")})
	for i, want := range []int{200, 429} {
		if a := ask(form("@good/whisper", 10)); a.Status != want {
			t.Errorf("counted call %d: %d %s", i, a.Status, a.Body)
		}
	}
}

// A call that depends on a model which nobody could see is not forwarded, and not
// counted; one that no such policy could count goes on.
func TestAModelBehindTheFileIsRefusedWhereALimitDependsOnIt(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tmax_replay 8KiB\n}")
	l.on("x", respond(500, overloaded))
	form := func(model string) string {
		const part = "--b\r\nContent-Disposition: form-data; name="
		return part + "\"file\"; filename=\"a.wav\"\r\n\r\n" + strings.Repeat("w", 20<<10) + "\r\n" + part + "\"model\"\r\n\r\n" + model + "\r\n--b--\r\n"
	}
	const direct = "x-gw-provider: @good"
	for name, c := range map[string]struct {
		conditions, groupBy []any
		header              string
		refused             bool
	}{
		"no policy":                {nil, nil, direct, false},
		"a model":                  {when("model", "whisper"), nil, direct, true},
		"any model":                {when("model", "*"), nil, direct, true},
		"grouped by model":         {nil, by("model"), direct, true},
		"models of the provider":   {when("model", "@good/*"), nil, direct, true},
		"models of another":        {when("model", "@bad/*"), nil, direct, false},
		"other calls":              {append(when("model", "whisper"), when("endpoint_type", "chatComplete")...), nil, direct, false},
		"a config":                 {when("model", "whisper"), nil, `x-gw-config: {"provider":"@good","cache":"simple"}`, true},
		"targets":                  {when("model", "whisper"), nil, `x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@good"},{"provider":"@good"}]}`, true},
		"a target of another":      {when("model", "@bad/*"), nil, `x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@good"}]}`, false},
		"grouped by the key alone": {nil, by("api_key"), direct, false},
	} {
		t.Run(name, func(t *testing.T) {
			l.T = t
			if c.conditions != nil || c.groupBy != nil {
				id := policy(l.Gateway, map[string]any{"value": 100, "conditions": c.conditions, "group_by": c.groupBy})
				defer l.Admin("DELETE", "/v1/policies/rate-limits/"+id, nil)
			}
			var a *gatewaytest.Answer
			bad, good := l.calls(func() {
				a, _ = l.ask("POST", "/v1/audio/transcriptions", form("whisper"), c.header, cue+"x", "content-type:", "content-type: multipart/form-data; boundary=b")
			})
			switch {
			case !c.refused:
				if a.Status != 200 || l.good.Last(t).Body != form("whisper") {
					t.Errorf("%d %s", a.Status, a.Body)
				}
			case a.Status != 400 || a.Get("error.param").Str != "model" || a.Get("error.code").Str != "model_after_file" || !strings.Contains(a.Get("message").Str, "before the file") || bad+good != 0:
				t.Errorf("%d %s, after %d calls", a.Status, a.Body, bad+good)
			}
		})
	}
	l.T = t
	policy(l.Gateway, map[string]any{"value": 1, "conditions": when("model", "whisper")})
	a, _ := l.ask("POST", "/v1/images/edits", form("whisper"), direct, "content-type:", "content-type: multipart/form-data; boundary=b; boundary=c")
	if a.Status != 400 || a.Get("error.code").Str != "invalid_content_type" {
		t.Errorf("a boundary twice: %d %s", a.Status, a.Body)
	}
}

// Bodies that pass through are replayed up to a limit, and an answer says so where
// that was not possible.
func TestUploadsAreReplayedUpToALimit(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tmax_replay 8KiB\n\tmax_upload 64KiB\n\tmax_body 1KiB\n}")
	var n atomic.Int64
	l.on("500", respond(500, overloaded))
	l.on("ok", respond(200, gatewaytest.Completion))
	l.on("429 then 200", func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			respond(429, overloaded, "Retry-After-Ms", "1", "Retry-After", "7")(w, r)
			return
		}
		respond(200, gatewaytest.Completion)(w, r)
	})
	l.on("200 with an error", respond(200, overloaded))
	l.on("stall", then(respond(429, `{"error":`), flush, silence))
	l.on("cut", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cut(w, r)
	})
	fallback := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	ask := func(config, cued string, size int, chunked bool) *gatewaytest.Answer {
		body, contentType := upload(size)
		r := l.Request("POST", "/v1/audio/transcriptions", body, "x-gw-api-key: "+l.key, "x-gw-config: "+config, cue+cued, "content-type:", contentType)
		if chunked {
			r.Body, r.ContentLength, r.GetBody = io.NopCloser(strings.NewReader(body)), -1, nil
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		return &gatewaytest.Answer{Status: res.StatusCode, Header: res.Header, Body: string(b)}
	}
	for _, chunked := range []bool{false, true} {
		small, contentType := upload(3000)
		a := ask(fallback, "500", 3000, chunked)
		if a.Status != 200 || l.good.Last(t).Body != small || l.bad.Last(t).Body != small || "content-type: "+l.good.Last(t).Header.Get("Content-Type") != contentType {
			t.Errorf("chunked %v, small: %d %s; the second provider got %d bytes of %d", chunked, a.Status, a.Body, len(l.good.Last(t).Body), len(small))
		}
		mustHaveUsed(t, a, "config.targets[1]", "0", "good")

		n.Store(0)
		if a = ask(`{"provider":"@bad","retry":{"attempts":1,"use_retry_after_header":true}}`, "429 then 200", 3000, chunked); a.Status != 200 || l.bad.Last(t).Body != small {
			t.Errorf("chunked %v, retried: %d %s", chunked, a.Status, a.Body)
		}
		mustHaveUsed(t, a, "config", "1", "bad")

		// More than max_body, which is for bodies that are read whole.
		large, _ := upload(30_000)
		if a = ask(`{"provider":"@bad","cache":"simple"}`, "ok", 30_000, chunked); a.Status != 200 || l.bad.Last(t).Body != large {
			t.Errorf("chunked %v, large: %d %s; the provider got %d bytes of %d", chunked, a.Status, a.Body, len(l.bad.Last(t).Body), len(large))
		}
		bad, good := l.calls(func() { a = ask(fallback, "500", 30_000, chunked) })
		if a.Get("error.code").Str != "body_not_replayable" || a.Status != 500 || a.Get("message").Str != "Provider bad answered 500 Internal Server Error (overloaded); provider good could not be tried, because the upload is larger than max_replay" || bad != 1 || good != 0 {
			t.Errorf("chunked %v, large, fallen back: %d %s; %d and %d calls", chunked, a.Status, a.Body, bad, good)
		}
		// The error names a retry that is left out, and what the provider answered.
		for _, c := range []struct {
			cue     string
			on      string
			status  int
			after   string
			message string
		}{
			{"429 then 200", "429", 429, "7", "Provider bad answered 429 Too Many Requests (overloaded); it could not be retried, because the upload is larger than max_replay"},
			{"500", "500", 500, "", "Provider bad answered 500 Internal Server Error (overloaded); it could not be retried, because the upload is larger than max_replay"},
			{"200 with an error", "500", 502, "", "Provider bad answered with an error and status 200 (overloaded); it could not be retried, because the upload is larger than max_replay"},
			{"stall", "429", 429, "", "Provider bad answered 429 Too Many Requests; it could not be retried, because the upload is larger than max_replay"},
			{"cut", "502", 502, "", "Provider bad closed the connection without an answer; it could not be retried, because the upload is larger than max_replay"},
			{"500", "503", 500, "", ""}, // nobody wanted a retry
		} {
			n.Store(0)
			bad, _ = l.calls(func() {
				a = ask(`{"provider":"@bad","retry":{"attempts":1,"use_retry_after_header":true,"on_status_codes":[`+c.on+`]}}`, c.cue, 30_000, chunked)
			})
			if a.Status != c.status || bad != 1 || a.Header.Get("Retry-After") != c.after || a.Header.Get("x-gw-retry-attempt-count") != "0" {
				t.Errorf("chunked %v, large, %s: %d %v %s after %d calls", chunked, c.cue, a.Status, a.Header, a.Body, bad)
			}
			if c.message == "" && !saying(overloaded)(a.Body) || c.message != "" && (a.Get("error.code").Str != "body_not_replayable" || a.Get("message").Str != c.message) {
				t.Errorf("chunked %v, large, %s: %s", chunked, c.cue, a.Body)
			}
		}

		if a = ask(fallback, "ok", 100_000, chunked); a.Status != 413 || a.Get("error.code").Str != "payload_too_large" {
			t.Errorf("chunked %v, over the limit: %d %s", chunked, a.Status, a.Body)
		}
	}
}

// An object that reports its own failure is not a failure of the call that reads it.
func TestAnObjectThatFailedIsReadOnce(t *testing.T) {
	l := newLab(t, "", "")
	failedJob := `{"id":"x","object":"fine_tuning.job","status":"failed","error":{"code":"invalid_training_file","message":"m","param":"training_file"}}`
	succeeded := `{"id":"x","object":"fine_tuning.job","status":"succeeded","error":{}}`
	for _, body := range []string{failedJob, succeeded} {
		l.on("x", respond(200, body))
		for _, path := range []string{"/v1/fine_tuning/jobs/x", "/v1/responses/resp_1"} {
			var a *gatewaytest.Answer
			bad, _ := l.calls(func() {
				a, _ = l.ask("GET", path, "", cue+"x", `x-gw-config: {"provider":"@bad","retry":{"attempts":1,"on_status_codes":[500]}}`)
			})
			if a.Status != 200 || a.Body != body || bad != 1 || a.Header.Get("x-gw-retry-attempt-count") != "0" {
				t.Errorf("%s: %d %s after %d calls, %s retries", path, a.Status, a.Body, bad, a.Header.Get("x-gw-retry-attempt-count"))
			}
		}
	}
}
