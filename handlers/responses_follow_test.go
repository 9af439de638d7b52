package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func TestAResponseGoesOnFromAnEarlierOneWithItsToolsAndThoughts(t *testing.T) {
	k := newTalk(t)
	tools := `"tools":[{"type":"function","name":"weather","parameters":{"type":"object"}}]`
	k.answer = respond(200, messageOf(thinkBlock+","+toolBlock, "tool_use"))
	first := k.create(`{"model":"m","input":"Weather in Paris?","instructions":"Be kind.",` + tools + `}`)
	if first.Get("output.0.type").Str != "reasoning" || first.Get("output.0.summary.0.text").Str != "A tool will know." ||
		first.Get("output.1.type").Str != "function_call" || first.Get("output.1.call_id").Str != "toolu_1" || first.Get("output.1.arguments").Str != `{"city":"Paris"}` {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	k.answer = respond(200, messageOf(helloBlock))
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
	k.answer = respond(200, messageOf(thinkBlock+","+toolBlock, "tool_use"))
	first := k.create(`{"model":"m","input":"Weather?"}`)
	body := `{"model":"n","max_output_tokens":9,"previous_response_id":"` + first.Get("id").Str + `","input":[{"type":"function_call_output","call_id":"toolu_1","output":"sunny"}]`
	a, _ := k.ask("POST", responsesPath, body+"}", "x-gw-provider: seek")
	if a.Status != 200 || a.Get("output.0.content.0.text").Str != "ok" || a.Get("usage.total_tokens").Int() != 5 || other.Last(t).Path != "/v1/chat/completions" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	same(t, "sent", other.Last(t).Body, `{"model":"n","max_tokens":9,"messages":[{"role":"user","content":"Weather?"},
		{"role":"assistant","content":null,"reasoning_content":"A tool will know.","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]},
		{"role":"tool","tool_call_id":"toolu_1","content":"sunny"}]}`)
	// And back again: the thoughts are its own.
	k.answer = respond(200, messageOf(helloBlock))
	k.must(`{"model":"m","previous_response_id":"` + a.Get("id").Str + `","input":"Thanks"}`)
	same(t, "the first one's turn", k.sent().Get("messages.1.content").Raw, "["+thinkBlock+","+toolBlock+"]")
	// What the provider of responses holds, others cannot go on from.
	k.answer = respond(200, messageOf(helloBlock))
	native, _ := k.ask("POST", responsesPath, `{"model":"m","input":"x"}`, "x-gw-provider: good")
	if a := k.create(`{"model":"m","previous_response_id":"` + native.Get("id").Str + `","input":"x"}`); a.Status != 400 || !strings.Contains(a.Get("error.message").Str, "@good") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// Some clients send the items of a response as references to them.
func TestReferencesToItemsOfKeptResponsesAreResolved(t *testing.T) {
	k := newTalk(t)
	k.answer = respond(200, messageOf(thinkBlock+","+toolBlock, "tool_use"))
	first := k.create(`{"model":"m","input":"Weather?"}`)
	list, _ := k.ask("GET", responsesPath+"/"+first.Get("id").Str+"/input_items", "")
	k.answer = respond(200, messageOf(helloBlock))
	body := fmt.Sprintf(`{"input":[{"type":"item_reference","id":%q},{"id":%q},{"type":"item_reference","id":%q},{"type":"function_call_output","call_id":"toolu_1","output":"sunny"}],"model":"m"}`,
		list.Get("first_id").Str, first.Get("output.0.id").Str, first.Get("output.1.id").Str)
	second := k.must(body)
	same(t, "sent", k.sent().Get("messages").Raw, `[{"role":"user","content":[{"type":"text","text":"Weather?"}]},
		{"role":"assistant","content":[`+thinkBlock+`,`+toolBlock+`]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"sunny"}]}]`)
	// However often it is referred to.
	k.answer = respond(200, messageOf(`{"type":"text","text":"`+strings.Repeat("x", 1<<20)+`"}`))
	big := k.create(`{"model":"m","input":"x"}`)
	k.answer = respond(200, messageOf(helloBlock))
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
		respond(200, messageOf(helloBlock))(w, r)
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
