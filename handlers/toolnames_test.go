package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A tool whose name the provider would refuse has another one there, and its own for the caller,
// also where calls are passed on.
func TestNamesOfToolsAreTheCallersOwnWhereCallsPass(t *testing.T) {
	long := strings.Repeat("mcp__server__", 10) + "read.file"
	sentName := func(body string) string {
		v := gjson.Parse(body)
		for _, path := range []string{"tools.0.function.name", "tools.0.name"} {
			if name := v.Get(path).Str; name != "" {
				return name
			}
		}
		return ""
	}
	var up *gatewaytest.Upstream
	up = gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		body := up.Last(t).Body
		name := sentName(body)
		streams := gjson.Get(body, "stream").Bool()
		arguments := `{\"tool\":\"` + name + `\"}`
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/messages") && streams:
			w.Header().Set("Content-Type", "text/event-stream")
			writePieces(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n"+
				"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\""+name+"\",\"input\":{}}}\n\n"+
				"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\""+arguments+"\"}}\n\n"+
				"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
		case strings.HasSuffix(path, "/messages"):
			respond(200, `{"id":"m","type":"message","role":"assistant","content":[{"type":"tool_use","id":"t","name":"`+name+`","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`)(w, r)
		case strings.HasSuffix(path, "/responses") && streams:
			w.Header().Set("Content-Type", "text/event-stream")
			writePieces(w, "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"item\":{\"type\":\"function_call\",\"name\":\""+name+"\",\"arguments\":\"\"}}\n\n"+
				"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\",\"tools\":[{\"type\":\"function\",\"name\":\""+name+"\"}],\"output\":[{\"type\":\"function_call\",\"name\":\""+name+"\",\"arguments\":\""+arguments+"\"}]}}\n\n")
		case strings.HasSuffix(path, "/responses"):
			respond(200, `{"id":"resp_1","object":"response","status":"completed","output":[{"type":"function_call","name":"`+name+`","arguments":"`+arguments+`"}]}`)(w, r)
		case streams:
			w.Header().Set("Content-Type", "text/event-stream")
			writePieces(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\""+name+"\",\"arguments\":\""+arguments+"\"}}]}}]}\n\n"+
				"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n")
		default:
			respond(200, `{"id":"c","object":"chat.completion","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"`+name+`","arguments":"`+arguments+`"}}]},"finish_reason":"tool_calls"}]}`)(w, r)
		}
	})
	g := gatewaytest.Start(t, up.Provider("stored")+strings.Replace(up.Provider("claude"), "type openai", "type anthropic", 1))
	key, _ := g.Key("k")
	const parameters = `{"type":"object","properties":{}}`
	for _, c := range []struct{ path, provider, body string }{
		{"/v1/chat/completions", "stored", `"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"` + long + `","parameters":` + parameters + `}}]`},
		{"/v1/messages", "claude", `"max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"` + long + `","input_schema":` + parameters + `}]`},
		{"/v1/responses", "stored", `"input":"Hi","tools":[{"type":"function","name":"` + long + `","parameters":` + parameters + `}]`},
	} {
		for _, stream := range []string{"false", "true"} {
			a := g.Do("POST", c.path, `{"model":"m","stream":`+stream+`,`+c.body+`}`, "x-gw-api-key: "+key, "x-gw-provider: "+c.provider)
			sent := sentName(up.Last(t).Body)
			if a.Status != 200 || sent == long || sent == "" || len(sent) > 128 {
				t.Fatalf("%s, stream %s: %d %s, sent %q", c.path, stream, a.Status, a.Body, sent)
			}
			if !strings.Contains(a.Body, `"name":"`+long+`"`) || strings.Contains(a.Body, `"name":"`+sent+`"`) {
				t.Errorf("%s, stream %s: %s", c.path, stream, a.Body)
			}
			if strings.Contains(a.Body, `\"tool\"`) && !strings.Contains(a.Body, `\"tool\":\"`+sent+`\"`) {
				t.Errorf("%s, stream %s: the arguments were changed: %s", c.path, stream, a.Body)
			}
			if c.path == "/v1/chat/completions" && stream == "false" && a.Get("system_fingerprint").Str != "fp" {
				t.Errorf("what is not known was lost: %s", a.Body)
			}
		}
	}
}

// writePieces writes a stream in pieces of seven bytes.
func writePieces(w http.ResponseWriter, stream string) {
	for len(stream) > 0 {
		n := min(7, len(stream))
		_, _ = w.Write([]byte(stream[:n]))
		_ = http.NewResponseController(w).Flush()
		stream = stream[n:]
	}
}
