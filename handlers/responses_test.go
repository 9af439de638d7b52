package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

const responsesPath = "/v1/responses"

// messageOf returns the answer of a provider of Messages with this content.
func messageOf(content string, more ...string) string {
	reason := "end_turn"
	if len(more) > 0 {
		reason = more[0]
	}
	return `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[` + content + `],"stop_reason":"` + reason +
		`","usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":2}}`
}

const helloBlock = `{"type":"text","text":"Hello!"}`

const (
	thinkBlock = `{"type":"thinking","thinking":"A tool will know.","signature":"c2ln"}`
	toolBlock  = `{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Paris"}}`
)

// saidInPieces is the same as a stream.
var saidInPieces = strings.Join([]string{
	`{"type":"message_start","message":{"id":"msg_1","model":"claude-x","usage":{"input_tokens":10,"output_tokens":1}}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
	`{"type":"ping"}`,
	`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hel"}}`,
	`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"lo"}}`,
	`{"type":"content_block_stop","index":1}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\":"}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"Paris\"}"}}`,
	`{"type":"content_block_stop","index":2}`,
	`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}`,
	`{"type":"message_stop"}`,
}, "\n")

func messageEvents(lines string) (portions []string) {
	for line := range strings.SplitSeq(lines, "\n") {
		portions = append(portions, "event: "+gjson.Get(line, "type").Str+"\ndata: "+line+"\n\n")
	}
	return portions
}

// A talk is a lab with a provider that holds conversations in Messages.
type talk struct {
	*lab
	claude *gatewaytest.Upstream
	answer http.HandlerFunc
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	k := new(talk)
	k.claude = gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) { k.answer(w, r) })
	k.answer = respond(200, messageOf(helloBlock))
	k.lab = newLab(t, strings.Replace(k.claude.Provider("claude"), "type openai", "type anthropic", 1), "")
	return k
}

// create makes a response with the provider.
func (k *talk) create(body string, headers ...string) *gatewaytest.Answer {
	k.T.Helper()
	a, _ := k.ask("POST", responsesPath, body, append([]string{"x-gw-provider: claude"}, headers...)...)
	return a
}

// must creates a response and returns its id.
func (k *talk) must(body string) string {
	k.T.Helper()
	a := k.create(body)
	id := a.Get("id").Str
	if a.Status != 200 || !strings.HasPrefix(id, "resp_") || a.Get("status").Str != "completed" {
		k.T.Fatalf("%s: %d %s", body, a.Status, a.Body)
	}
	return id
}

// sent is the body that the provider got last.
func (k *talk) sent() gjson.Result {
	k.T.Helper()
	return gjson.Parse(k.claude.Last(k.T).Body)
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	var g, w any
	if json.Unmarshal([]byte(got), &g) != nil || json.Unmarshal([]byte(want), &w) != nil {
		t.Errorf("%s: got %s, want %s", what, got, want)
		return
	}
	a, _ := json.Marshal(g)
	b, _ := json.Marshal(w)
	if string(a) != string(b) {
		t.Errorf("%s:\n got %s\nwant %s", what, a, b)
	}
}

func TestAResponseOfAProviderThatHasNoneIsKeptAndFoundWithTheServiceKeyAlone(t *testing.T) {
	k := newTalk(t)
	a := k.create(`{"model":"claude-x","input":"hi","instructions":"Be brief.","max_output_tokens":50,"metadata":{"a":"b"},"temperature":0.5}`)
	if a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if last := k.claude.Last(t); last.Path != "/v1/messages" || last.Header.Get("X-Api-Key") != "sk-of-the-file-claude" {
		t.Errorf("the provider got %+v", last)
	}
	same(t, "sent", k.sent().Raw, `{"model":"claude-x","max_tokens":50,"system":"Be brief.","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"temperature":0.5}`)
	id := a.Get("id").Str
	suffix := strings.TrimPrefix(id, "resp_")
	same(t, "response", a.Body, fmt.Sprintf(`{"id":%q,"object":"response","created_at":%d,"status":"completed","error":null,"incomplete_details":null,
		"model":"claude-x","output":[{"id":"msg_%s00","type":"message","status":"completed","role":"assistant",
		"content":[{"type":"output_text","text":"Hello!","annotations":[],"logprobs":[]}]}],
		"background":false,"instructions":"Be brief.","max_output_tokens":50,"metadata":{"a":"b"},"parallel_tool_calls":true,"previous_response_id":null,
		"reasoning":{"effort":null,"summary":null},"store":true,"temperature":0.5,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],
		"top_p":1,"truncation":"disabled","usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":2},"output_tokens":5,
		"output_tokens_details":{"reasoning_tokens":0},"total_tokens":17}}`, id, a.Get("created_at").Int(), suffix))

	k.Stop() // and its store goes on
	k.Load()
	for _, headers := range [][]string{nil, {"x-gw-provider: claude"}, {"x-gw-provider: good"}} {
		for _, query := range []string{"", "?include=file_search_call.results", "?include[]=message.input_image.image_url&include[]=reasoning.encrypted_content"} {
			got, _ := k.ask("GET", responsesPath+"/"+id+query, "", headers...)
			if got.Status != 200 || got.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("%v%s: %d %s", headers, query, got.Status, got.Body)
			}
			same(t, "kept", got.Body, a.Body)
		}
	}
	if n := len(k.good.Calls()); n != 0 {
		t.Errorf("another provider was asked %d times", n)
	}
	if a, _ := k.ask("GET", responsesPath+"/"+id+"?stream=true", ""); a.Status != 400 || a.Get("error.param").Str != "stream" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a, _ := k.ask("POST", responsesPath+"/"+id+"/cancel", ""); a.Status != 400 || a.Get("error.code").Str != "response_not_cancellable" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	a, _ = k.ask("DELETE", responsesPath+"/"+id, "")
	same(t, "deleted", a.Body, `{"id":"`+id+`","object":"response","deleted":true}`)
	for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/cancel"}, {"GET", "/input_items"}} {
		for _, headers := range [][]string{nil, {"x-gw-provider: claude"}} {
			if a, _ := k.ask(c[0], responsesPath+"/"+id+c[1], "", headers...); a.Status != 404 || a.Get("error.code").Str != "response_not_found" {
				t.Errorf("%s %s %v after it was deleted: %d %s", c[0], c[1], headers, a.Status, a.Body)
			}
		}
	}
	if a := k.create(`{"model":"m","input":"hi","previous_response_id":"` + id + `"}`); a.Status != 400 || a.Get("error.code").Str != "previous_response_not_found" || a.Get("error.param").Str != "previous_response_id" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// otherWorkspace makes a workspace, and returns a key of it.
func (k *talk) otherWorkspace() string {
	k.T.Helper()
	k.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": "Other", "slug": "other"})
	return k.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "other", "workspace_id": "other", "scopes": []string{"completions.write"}}).Get("key").Str
}

func TestAResponseIsNobodysOutsideOfItsWorkspace(t *testing.T) {
	k := newTalk(t)
	id := k.must(`{"model":"m","input":"hi"}`)
	other := k.otherWorkspace()
	for _, c := range [][2]string{{"GET", ""}, {"GET", "/input_items"}, {"POST", "/cancel"}, {"DELETE", ""}} {
		if a := k.Do(c[0], responsesPath+"/"+id+c[1], "", "x-gw-api-key: "+other); a.Status != 404 || a.Get("error.code").Str != "response_not_found" {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.Status, a.Body)
		}
	}
	if a := k.Do("POST", responsesPath, `{"model":"m","input":"hi","previous_response_id":"`+id+`"}`, "x-gw-api-key: "+other, "x-gw-provider: claude"); a.Status != 400 || a.Get("error.code").Str != "previous_response_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a, _ := k.ask("GET", responsesPath+"/"+id, ""); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestAStreamedResponseIsKeptBeforeItIsComplete(t *testing.T) {
	k := newTalk(t)
	k.answer = stream(messageEvents(saidInPieces)...)
	a := k.create(`{"model":"m","input":"hi","stream":true}`)
	if a.Status != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") || strings.Contains(a.Body, "[DONE]") {
		t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	var last gjson.Result
	number := int64(0)
	for event := range strings.SplitSeq(strings.TrimSpace(a.Body), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		last = gjson.Parse(data)
		if !ok || !gjson.Valid(data) || last.Get("type").Str != name || last.Get("sequence_number").Int() != number {
			t.Errorf("event %d: %s", number, event)
		}
		number++
	}
	if last.Get("type").Str != "response.completed" || last.Get("response.usage.total_tokens").Int() != 17 {
		t.Fatalf("the last event is %s", last)
	}
	kept, _ := k.ask("GET", responsesPath+"/"+last.Get("response.id").Str, "")
	same(t, "kept", kept.Body, last.Get("response").Raw)
}

func TestAResponseThatIsNotToBeStoredIsNot(t *testing.T) {
	k := newTalk(t)
	id := k.must(`{"model":"m","input":"hi","store":false}`)
	if a, _ := k.ask("GET", responsesPath+"/"+id, ""); a.Status != 404 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestWhatOnlyOpenAICanDoIsRefusedByNameBeforeItCosts(t *testing.T) {
	k := newTalk(t)
	for body, param := range map[string]string{
		`"input":"x","tools":[{"type":"function","name":"f"},{"type":"code_interpreter"}]`:              "tools[1]",
		`"input":"x","tools":[{"type":"file_search","vector_store_ids":["v"]}]`:                         "tools[0]",
		`"input":"x","tools":[{"type":"function"}]`:                                                     "tools[0].name",
		`"input":"x","tool_choice":{"type":"web_search"}`:                                               "tool_choice",
		`"input":"x","background":true`:                                                                 "background",
		`"input":"x","conversation":"conv_1"`:                                                           "conversation",
		`"input":"x","text":{"format":{"type":"grammar"}}`:                                              "text.format.type",
		`"input":[{"role":"user","content":"x"},{"type":"item_reference","id":"msg_1"}]`:                "input[1]",
		`"input":[{"type":"image_generation_call","id":"ig_1"}]`:                                        "input[0]",
		`"input":[{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_video"}]}]`: "input[0].content[1]",
		`"input":[{"role":"judge","content":"x"}]`:                                                      "input[0].role",
		`"instructions":"x"`:                                                                                  "input",
		`"input":"x","previous_response_id":"resp_nope"`:                                                      "previous_response_id",
		`"input":"x","previous_response_id":"` + strings.Repeat("r", 2000) + `"`:                              "previous_response_id",
		`"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_image"}]}]`:           "input[0].output[0].image_url",
		`"input":"x","tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]},"prompt":{"id":"pmpt_"}`: "prompt",
	} {
		if a := k.create(`{"model":"m",` + body + `}`); a.Status != 400 || a.Get("error.param").Str != param || a.Get("error.message").Str == "" {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	for _, path := range []string{"/compact", "/input_tokens"} {
		if a, _ := k.ask("POST", responsesPath+path, `{"model":"m","input":"x"}`, "x-gw-provider: claude"); a.Status != 400 || a.Get("error.code").Str != "endpoint_not_supported" {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if n := len(k.claude.Calls()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
}

func TestAStreamThatBreaksOffMakesNoResponse(t *testing.T) {
	k := newTalk(t)
	events := messageEvents(saidInPieces)
	k.answer = then(stream(events[:9]...), cut)
	a := k.create(`{"model":"m","input":"hi","stream":true}`)
	if !strings.Contains(a.Body, "event: error\n") || strings.Contains(a.Body, "response.completed") {
		t.Errorf("%s", a.Body)
	}
	id := gjson.Get(strings.TrimPrefix(strings.Split(a.Body, "\n")[1], "data: "), "response.id").Str
	if a, _ := k.ask("GET", responsesPath+"/"+id, ""); id == "" || a.Status != 404 {
		t.Errorf("%s: %d %s", id, a.Status, a.Body)
	}
	k.answer = stream(append(events[:9:9], "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n")...)
	a = k.create(`{"model":"m","input":"hi","stream":true}`)
	lines := strings.Split(strings.TrimSpace(a.Body), "\n")
	last := gjson.Parse(strings.TrimPrefix(lines[len(lines)-1], "data: "))
	if last.Get("type").Str != "response.failed" || last.Get("response.error.message").Str != "Overloaded" || last.Get("response.status").Str != "failed" {
		t.Fatalf("%s", a.Body)
	}
	kept, _ := k.ask("GET", responsesPath+"/"+last.Get("response.id").Str, "")
	same(t, "kept", kept.Body, last.Get("response").Raw)
}

func TestAResponseFallsBackFromWhoHasResponsesToWhoHasNone(t *testing.T) {
	k := newTalk(t)
	k.on("500", respond(500, overloaded))
	config := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@claude"}]}`
	a, _ := k.ask("POST", responsesPath, `{"model":"m","input":"hi"}`, "x-gw-config: "+config, cue+"500")
	if a.Status != 200 || a.Get("output.0.content.0.text").Str != "Hello!" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if a, _ := k.ask("GET", responsesPath+"/"+a.Get("id").Str, ""); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A response that cannot be kept is not a response, and says so.
func TestAResponseThatCannotBeStoredFailsInSight(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of an answer take long under the race detector; shorter ones are stored by other tests")
	}
	k := newTalk(t)
	const half = 9 << 20
	text := strings.Repeat("x", half)
	k.answer = respond(200, messageOf(`{"type":"text","text":"`+text+text+`"}`))
	config := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@claude","retry":{"attempts":3}},{"provider":"@good"}]}`
	a, _ := k.ask("POST", responsesPath, `{"model":"m","input":"hi"}`, "x-gw-config: "+config)
	if a.Status != 500 || a.Get("error.code").Str != "response_not_stored" || a.Header.Get("X-Should-Retry") != "false" || len(k.claude.Calls()) != 1 || len(k.good.Calls()) != 0 {
		t.Errorf("%d %v %.300s after %d calls", a.Status, a.Header, a.Body, len(k.claude.Calls()))
	}
	if a := k.create(`{"model":"m","input":"hi","store":false}`); a.Status != 200 {
		t.Errorf("%d %.300s", a.Status, a.Body)
	}
	// The last event of a stream holds the response, and a line has its bounds too.
	input := strings.Repeat("x", 8<<20-2)
	delta := `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}`
	k.answer = stream(messageEvents(strings.Join([]string{`{"type":"message_start","message":{}}`, delta, `{"type":"message_stop"}`}, "\n"))...)
	a = k.create(`{"model":"m","input":"` + input + `","stream":true}`)
	lines := strings.Split(strings.TrimSpace(a.Body), "\n")
	last := gjson.Parse(strings.TrimPrefix(lines[len(lines)-1], "data: "))
	if last.Get("type").Str != "response.failed" || !strings.Contains(last.Get("response.error.message").Str, "could not be stored") {
		t.Errorf("the last event is %.300s", last.Raw)
	}
	if !strings.Contains(k.Logs(), "response not stored") {
		t.Error("nothing was logged")
	}
	// What is too big to be stored is refused before it costs.
	before := len(k.claude.Calls())
	if a := k.create(`{"model":"m","input":"` + text + `"}`); a.Status != 400 || a.Get("error.code").Str != "input_too_large_to_store" || len(k.claude.Calls()) != before {
		t.Errorf("%d %.300s", a.Status, a.Body)
	}
}
