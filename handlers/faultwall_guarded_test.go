package handlers_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// spoken is the text of an answer, in one piece or as a stream.
func spoken(body string) string {
	if strings.HasPrefix(body, "{") {
		return gjson.Get(body, "choices.0.message.content").Str
	}
	var text strings.Builder
	for line := range strings.Lines(body) {
		text.WriteString(gjson.Get(strings.TrimPrefix(strings.TrimSpace(line), "data:"), "choices.0.delta.content").Str)
	}
	return text.String()
}

// The fault wall with a guardrail of the answer. One that nothing fails changes nothing but when texts come: what is whole
// stays whole, what fails fails in the same way, and of an answer that breaks off nobody gets more than without. Of one that
// refuses a text, nobody gets that text, whatever the provider does.
func TestTheFaultWallWithAGuardrail(t *testing.T) {
	l, plain := newWall(t)
	const end = "data: [DONE]"
	var log wall
	for _, c := range wallRows(plain) {
		t.Run(c.name, func(t *testing.T) {
			l.T = t
			if c.provider == "" {
				c.provider = "bad"
			}
			if c.serve != nil {
				l.on(c.name, c.serve)
			}
			request, other := gatewaytest.Chat, spoken(gatewaytest.Completion)
			if c.stream {
				request, other = streamedChat, spoken(goodStream)
			}
			target := func(hook string) string {
				return `{"provider":"@` + c.provider + `"` + c.target + `,"output_guardrails":[` + hook + `]}`
			}
			bare, bareErr := l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-config: "+target(""))
			log.expect(c.name, bare, c.provider)
			whole := bareErr == nil && bare.Status == 200 && (!c.stream || strings.Contains(bare.Body, end))
			for _, mode := range []string{"buffer", "window"} {
				hook := func(word string) string {
					return `{"default.contains":{"words":["` + word + `"],"operator":"none"},"deny":true,"stream_mode":"` + mode + `","max_buffer_bytes":16777216}`
				}
				a, err := l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-config: "+target(hook("never said")))
				if a.Status == bare.Status && (whole || a.Status != 200) { // otherwise more came than the client got
					log.expect(c.name+", "+mode, a, c.provider)
				}
				body, _ := sjson.Delete(a.Body, "hook_results")
				if c.stream {
					body = a.Body
				}
				switch {
				case whole && (err != nil || a.Status != 200 || spoken(a.Body) != spoken(bare.Body) || c.stream && strings.Count(a.Body, end) != 1 || !c.stream && body != bare.Body):
					t.Errorf("%s: a whole answer is %d %.1000s, %v", mode, a.Status, a.Body, err)
				case bare.Status != 200 && (a.Status != bare.Status || a.Body != bare.Body):
					t.Errorf("%s: got %d %.1000s, want %d %.1000s", mode, a.Status, a.Body, bare.Status, bare.Body)
				case !whole && bare.Status == 200 && (!strings.HasPrefix(spoken(bare.Body), spoken(a.Body)) || strings.Contains(a.Body, end) || a.Status == 200 && !strings.Contains(a.Body, `"error"`)):
					t.Errorf("%s: an answer that breaks off is %d %.1000s, %v", mode, a.Status, a.Body, err)
				}

				// What was not sent can come from another provider.
				fallback := `{"strategy":{"mode":"fallback"},"targets":[` + target(hook("never said")) + `,{"provider":"@good"}]}`
				bad, good := l.calls(func() { a, err = l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-config: "+fallback) })
				if c.follows && (err != nil || a.Status != 200 || spoken(a.Body) != other || good != 1) {
					t.Errorf("%s: the fallback ran %d times after %d calls; got %d %.1000s, %v", mode, good, bad, a.Status, a.Body, err)
				}
				if a.Status == 200 && err == nil && !whole && good == 1 && spoken(a.Body) != other {
					t.Errorf("%s: texts of two answers: %.1000s", mode, a.Body)
				}

				// hello is in the texts of the rows.
				a, err = l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-config: "+target(hook("hello")))
				if strings.Contains(spoken(a.Body), "hello") || whole && strings.Contains(spoken(bare.Body), "hello") && a.Status != 446 {
					t.Errorf("%s: what is refused is %d %.1000s, %v", mode, a.Status, a.Body, err)
				}
			}
		})
	}
	log.check(t)
}
