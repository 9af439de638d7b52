package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// The usage of an answer counts whatever its status of success and its media type are, and so does the text of one without usage.
func TestUsageOfAnswersThatAreNotTheUsualOnes(t *testing.T) {
	const (
		used    = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":500,"completion_tokens":1000,"total_tokens":1500}}`
		streams = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":500,\"completion_tokens\":1000,\"total_tokens\":1500}}\n\ndata: [DONE]\n\n"
	)
	var serve http.HandlerFunc
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) { serve(w, r) })
	g := gatewaytest.Start(t, up.Provider("p"))
	key, _ := g.Key("k")
	for name, c := range map[string]struct {
		serve    http.HandlerFunc
		from, to int64
	}{
		"200":            {respond(200, used), 1500, 1500},
		"201":            {respond(201, used), 1500, 1500},
		"202":            {respond(202, used), 1500, 1500},
		"206":            {respond(206, used), 1500, 1500},
		"plain":          {respond(200, used, "Content-Type", "text/plain"), 1500, 1500},
		"without a type": {respond(200, used, "Content-Type", "application/octet-stream"), 1500, 1500},
		"a stream":       {respond(201, streams, "Content-Type", "text/event-stream"), 1500, 1500},
		"text":           {respond(200, strings.Repeat("word ", 400), "Content-Type", "text/plain"), 500, 600},
	} {
		serve = c.serve
		a := g.Do("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "x-gw-api-key: "+key, "x-gw-provider: @p")
		if tokens := logOf(g, a).Get("metrics.total_units").Int(); tokens < c.from || tokens > c.to {
			t.Errorf("%s: %d %.200s: %d tokens, want %d to %d", name, a.Status, a.Body, tokens, c.from, c.to)
		}
	}
}
