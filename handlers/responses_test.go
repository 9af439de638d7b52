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

// said is what the provider of Messages says.
func said(content string, more ...string) string {
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
	k.answer = respond(200, said(helloBlock))
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
		"content":[{"type":"output_text","text":"Hello!","annotations":[],"logprobs":[]}]}],"output_text":"Hello!",
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

func TestAResponseGoesOnFromAnEarlierOneWithItsToolsAndThoughts(t *testing.T) {
	k := newTalk(t)
	tools := `"tools":[{"type":"function","name":"weather","parameters":{"type":"object"}}]`
	k.answer = respond(200, said(thinkBlock+","+toolBlock, "tool_use"))
	first := k.create(`{"model":"m","input":"Weather in Paris?","instructions":"Be kind.",` + tools + `}`)
	if first.Get("output.0.type").Str != "reasoning" || first.Get("output.0.summary.0.text").Str != "A tool will know." ||
		first.Get("output.1.type").Str != "function_call" || first.Get("output.1.call_id").Str != "toolu_1" || first.Get("output.1.arguments").Str != `{"city":"Paris"}` {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	k.answer = respond(200, said(helloBlock))
	second := k.must(`{"model":"m","previous_response_id":"` + first.Get("id").Str + `","input":[{"type":"function_call_output","call_id":"toolu_1","output":"sunny"}],` + tools + `}`)
	turns := `{"role":"user","content":[{"type":"text","text":"Weather in Paris?"}]},
		{"role":"assistant","content":[` + thinkBlock + `,` + toolBlock + `]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"sunny"}]}`
	same(t, "the second call", k.sent().Get("messages").Raw, "["+turns+"]")
	if k.sent().Get("system").Exists() {
		t.Error("instructions were carried over")
	}
	k.must(`{"model":"m","previous_response_id":"` + second + `","input":[{"role":"user","content":[{"type":"input_text","text":"Thanks"}]}],"instructions":"Be brief."}`)
	same(t, "the third call", k.sent().Get("messages").Raw, "["+turns+`,{"role":"assistant","content":[`+helloBlock+`]},{"role":"user","content":[{"type":"text","text":"Thanks"}]}]`)
	if k.sent().Get("system").Str != "Be brief." {
		t.Errorf("sent %s", k.sent())
	}
	third := k.must(`{"model":"m","previous_response_id":"` + second + `","input":"Thanks"}`)

	// The list of what it answers, in pages.
	var kinds []string
	after := ""
	for {
		page, _ := k.ask("GET", responsesPath+"/"+third+"/input_items?limit=2&order=asc"+after, "")
		if page.Status != 200 || page.Get("object").Str != "list" || page.Get("last_id").Str != page.Get("data.@reverse.0.id").Str || page.Get("first_id").Str != page.Get("data.0.id").Str {
			t.Fatalf("%d %s", page.Status, page.Body)
		}
		for _, item := range page.Get("data").Array() {
			kinds = append(kinds, item.Get("type").Str)
		}
		if !page.Get("has_more").Bool() {
			break
		}
		after = "&after=" + page.Get("last_id").Str
	}
	if got := strings.Join(kinds, " "); got != "message reasoning function_call function_call_output message message" {
		t.Errorf("items %s", got)
	}
	page, _ := k.ask("GET", responsesPath+"/"+third+"/input_items", "")
	same(t, "the latest item", page.Get("data.0").Raw, fmt.Sprintf(`{"id":%q,"type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"Thanks"}]}`, page.Get("first_id").Str))
	if a, _ := k.ask("GET", responsesPath+"/"+third+"/input_items?order=asc&before="+page.Get("first_id").Str, ""); len(a.Get("data").Array()) != 5 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "order=up", "after=nobody", "before=nobody"} {
		if a, _ := k.ask("GET", responsesPath+"/"+third+"/input_items?"+query, ""); a.Status != 400 {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}

	// One that holds responses itself is asked as the call says.
	if a, _ := k.ask("POST", responsesPath, `{"model":"m","previous_response_id":"`+second+`","input":"And?"}`, "x-gw-provider: good"); a.Status != 200 || gjson.Get(k.good.Last(t).Body, "previous_response_id").Str != second {
		t.Errorf("%d %s", a.Status, a.Body)
	}

	// A turn that was deleted ends what went on from it.
	k.ask("DELETE", responsesPath+"/"+second, "")
	if a := k.create(`{"model":"m","previous_response_id":"` + third + `","input":"And?"}`); a.Status != 400 || !strings.Contains(a.Get("error.message").Str, second) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A conversation goes on with another provider, which speaks another dialect and gets
// nothing that only the first one reads: it wants thoughts with calls, whoever had them.
func TestAResponseGoesOnWithAnotherProvider(t *testing.T) {
	other := gatewaytest.NewUpstream(t, nil)
	k := newTalk(t)
	k.Stop()
	k.Options += strings.Replace(other.Provider("seek"), "type openai", "type deepseek", 1)
	k.Load()
	k.answer = respond(200, said(thinkBlock+","+toolBlock, "tool_use"))
	first := k.create(`{"model":"m","input":"Weather?"}`)
	body := `{"model":"n","max_output_tokens":9,"previous_response_id":"` + first.Get("id").Str + `","input":[{"type":"function_call_output","call_id":"toolu_1","output":"sunny"}]`
	a, _ := k.ask("POST", responsesPath, body+"}", "x-gw-provider: seek")
	if a.Status != 200 || a.Get("output_text").Str != "ok" || a.Get("usage.total_tokens").Int() != 5 || other.Last(t).Path != "/v1/chat/completions" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	same(t, "sent", other.Last(t).Body, `{"model":"n","max_tokens":9,"messages":[{"role":"user","content":"Weather?"},
		{"role":"assistant","content":null,"reasoning_content":"A tool will know.","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]},
		{"role":"tool","tool_call_id":"toolu_1","content":"sunny"}]}`)
	// And back again: the thoughts are its own.
	k.answer = respond(200, said(helloBlock))
	k.must(`{"model":"m","previous_response_id":"` + a.Get("id").Str + `","input":"Thanks"}`)
	same(t, "the first one's turn", k.sent().Get("messages.1.content").Raw, "["+thinkBlock+","+toolBlock+"]")
	// What the provider of responses holds, others cannot go on from.
	k.answer = respond(200, said(helloBlock))
	native, _ := k.ask("POST", responsesPath, `{"model":"m","input":"x"}`, "x-gw-provider: good")
	if a := k.create(`{"model":"m","previous_response_id":"` + native.Get("id").Str + `","input":"x"}`); a.Status != 400 || !strings.Contains(a.Get("error.message").Str, "@good") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// Some clients send the items of a response as references to them.
func TestReferencesToItemsOfKeptResponsesAreResolved(t *testing.T) {
	k := newTalk(t)
	k.answer = respond(200, said(thinkBlock+","+toolBlock, "tool_use"))
	first := k.create(`{"model":"m","input":"Weather?"}`)
	list, _ := k.ask("GET", responsesPath+"/"+first.Get("id").Str+"/input_items", "")
	k.answer = respond(200, said(helloBlock))
	body := fmt.Sprintf(`{"input":[{"type":"item_reference","id":%q},{"id":%q},{"type":"item_reference","id":%q},{"type":"function_call_output","call_id":"toolu_1","output":"sunny"}],"model":"m"}`,
		list.Get("first_id").Str, first.Get("output.0.id").Str, first.Get("output.1.id").Str)
	second := k.must(body)
	same(t, "sent", k.sent().Get("messages").Raw, `[{"role":"user","content":[{"type":"text","text":"Weather?"}]},
		{"role":"assistant","content":[`+thinkBlock+`,`+toolBlock+`]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"sunny"}]}]`)
	// However often it is referred to.
	k.answer = respond(200, said(`{"type":"text","text":"`+strings.Repeat("x", 1<<20)+`"}`))
	big := k.create(`{"model":"m","input":"x"}`)
	k.answer = respond(200, said(helloBlock))
	many := strings.Repeat(`{"type":"item_reference","id":"`+big.Get("output.0.id").Str+`"},`, 40)
	if a := k.create(`{"model":"m","input":[` + many + `{"role":"user","content":"x"}]}`); a.Status != 400 || a.Get("error.code").Str != "input_too_large" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	// What was referred to is a part of the input, whatever becomes of the first response.
	k.ask("DELETE", responsesPath+"/"+first.Get("id").Str, "")
	k.must(`{"model":"m","input":"Thanks","previous_response_id":"` + second + `"}`)
	if n := len(k.sent().Get("messages").Array()); n != 5 {
		t.Errorf("sent %s", k.sent())
	}
	if a := k.create(body); a.Status != 400 || a.Get("error.param").Str != "input[0]" || !strings.Contains(a.Get("error.message").Str, "not found") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// Gemini wants the signature of the thought that led to a call back with it.
func TestAResponseOfGeminiGoesOnWithItsSignature(t *testing.T) {
	gemini := gatewaytest.NewUpstream(t, respond(200, `{"candidates":[{"content":{"role":"model","parts":[
		{"functionCall":{"name":"weather","args":{"city":"Paris"}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP"}],
		"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"thoughtsTokenCount":5,"totalTokenCount":12},"modelVersion":"gemini-x"}`))
	k := newTalk(t)
	k.Stop()
	k.Options += strings.Replace(gemini.Provider("gem"), "type openai", "type google", 1)
	k.Load()
	const tools = `"model":"gemini-x","tools":[{"type":"function","name":"weather","parameters":{"type":"object"}}]`
	first, _ := k.ask("POST", responsesPath, `{`+tools+`,"input":"Weather?"}`, "x-gw-provider: gem")
	call := first.Get("output.0")
	if first.Status != 200 || call.Get("name").Str != "weather" || call.Get("arguments").Str != `{"city":"Paris"}` || first.Get("usage.output_tokens_details.reasoning_tokens").Int() != 5 {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	output := `{"type":"function_call_output","call_id":"` + call.Get("call_id").Str + `","output":"sunny"}`
	for what, body := range map[string]string{
		"on from the response": `"previous_response_id":"` + first.Get("id").Str + `","input":[` + output + `]`,
		"with everything":      `"input":[{"role":"user","content":"Weather?"},` + call.Raw + `,` + output + `]`,
	} {
		k.ask("POST", responsesPath, `{`+tools+`,`+body+`}`, "x-gw-provider: gem")
		sent := gjson.Get(gemini.Last(t).Body, "contents")
		if sent.Get("1.parts.0.thoughtSignature").Str != "c2ln" || sent.Get("1.parts.0.functionCall.args.city").Str != "Paris" || sent.Get("2.parts.0.functionResponse.name").Str != "weather" {
			t.Errorf("%s: sent %s", what, sent)
		}
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
		`"input":"x","tools":[{"type":"function","name":"f"},{"type":"web_search"}]`:                    "tools[1]",
		`"input":"x","tools":[{"type":"file_search","vector_store_ids":["v"]}]`:                         "tools[0]",
		`"input":"x","tools":[{"type":"function"}]`:                                                     "tools[0].name",
		`"input":"x","tool_choice":{"type":"web_search"}`:                                               "tool_choice",
		`"input":"x","background":true`:                                                                 "background",
		`"input":"x","conversation":"conv_1"`:                                                           "conversation",
		`"input":"x","text":{"format":{"type":"grammar"}}`:                                              "text.format.type",
		`"input":[{"role":"user","content":"x"},{"type":"item_reference","id":"msg_1"}]`:                "input[1]",
		`"input":[{"type":"web_search_call","id":"ws_1"}]`:                                              "input[0]",
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

func TestAConversationThatIsTooLongIsRefusedOrShortened(t *testing.T) {
	k := newTalk(t)
	const tooLong = `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`
	k.answer = respond(400, tooLong)
	const long = `{"model":"m","input":[{"role":"developer","content":"Rules"},{"role":"user","content":"1"},{"role":"assistant","content":"one"},
		{"role":"user","content":"2"},{"role":"assistant","content":"two"},{"role":"user","content":"3"}]`
	if a := k.create(long + "}"); a.Status != 400 || a.Get("error.code").Str != "context_length_exceeded" || len(k.claude.Calls()) != 1 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	k.answer = func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(k.claude.Last(t).Body, `"1"`) {
			respond(400, tooLong)(w, r)
			return
		}
		respond(200, said(helloBlock))(w, r)
	}
	a := k.create(long + `,"truncation":"auto"}`)
	if a.Status != 200 || len(k.claude.Calls()) != 3 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	same(t, "the shorter conversation", k.sent().Get("messages").Raw, `[{"role":"user","content":[{"type":"text","text":"3"}]}]`)
	if k.sent().Get("system").Str != "Rules" {
		t.Errorf("sent %s", k.sent())
	}
	// Where nothing can be dropped, it is too long after all.
	k.answer = respond(413, strings.Replace(tooLong, "prompt is too long", "Input is too long for requested model", 1))
	before := len(k.claude.Calls())
	if a := k.create(long + `,"truncation":"auto"}`); a.Status != 400 || a.Get("error.code").Str != "context_length_exceeded" || len(k.claude.Calls())-before != 2 {
		t.Errorf("%d %s after %d calls", a.Status, a.Body, len(k.claude.Calls())-before)
	}
	if a := k.create(`{"model":"m","input":"x","truncation":"auto"}`); a.Status != 400 || a.Get("error.code").Str != "context_length_exceeded" {
		t.Errorf("%d %s", a.Status, a.Body)
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
	if a.Status != 200 || a.Get("output_text").Str != "Hello!" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if a, _ := k.ask("GET", responsesPath+"/"+a.Get("id").Str, ""); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A response that cannot be kept is no response, and says so.
func TestAResponseThatCannotBeStoredFailsInSight(t *testing.T) {
	k := newTalk(t)
	const half = 9 << 20
	text := strings.Repeat("x", half)
	k.answer = respond(200, said(`{"type":"text","text":"`+text+text+`"}`))
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
