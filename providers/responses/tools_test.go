package responses_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/responses"
)

// parsed is a request as a conversation of Chat Completions.
func parsed(t *testing.T, members string) (*chat.Request, gjson.Result) {
	t.Helper()
	asked, err := responses.Parse([]byte(`{"model":"m","input":"hi",`+members+`}`), responses.Options{Provider: "anthropic"})
	if err != nil {
		t.Fatalf("%s: %v", members, err)
	}
	return asked, gjson.ParseBytes(new(chat.Encoder).Append(nil, asked))
}

// Tools of a namespace and custom tools are functions to providers, whose forms are kept for
// the answer.
func TestToolsThatAreNoFunctions(t *testing.T) {
	asked, sent := parsed(t, `"tools":[{"type":"function","name":"plain","cache_control":{"type":"ephemeral"}},
		{"type":"custom","name":"shell","description":"Runs.","format":{"type":"grammar","syntax":"lark","definition":"start: X"}},
		{"type":"namespace","name":"crm","tools":[{"type":"function","name":"find","strict":true},{"type":"custom","name":"note"}]},
		{"type":"function","name":"after"}]`)
	var names []string
	for _, tool := range sent.Get("tools").Array() {
		names = append(names, tool.Get("function.name").Str)
	}
	if got := strings.Join(names, " "); got != "plain shell crm__find crm__note after" {
		t.Errorf("tools %s", got)
	}
	if string(asked.Tools[0].Cache) != `{"type":"ephemeral"}` {
		t.Errorf("cache control %s", asked.Tools[0].Cache)
	}
	if d := sent.Get("tools.1.function.description").Str; d != "Runs.\n\nThe input has to match this grammar (lark):\nstart: X" {
		t.Errorf("description %q", d)
	}
	forms := asked.Forms()
	for name, want := range map[string]chat.Form{
		"shell":     {Custom: true},
		"crm__find": {Namespace: chat.Literal(`"crm"`), Name: chat.Literal(`"find"`)},
		"crm__note": {Custom: true, Namespace: chat.Literal(`"crm"`), Name: chat.Literal(`"note"`)},
	} {
		got, ok := forms[name]
		if !ok || got.Custom != want.Custom || string(got.Namespace) != string(want.Namespace) || string(got.Name) != string(want.Name) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if len(forms) != 3 {
		t.Errorf("forms %v", forms)
	}
}

func TestToolChoices(t *testing.T) {
	const tools = `"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}],`
	for choice, want := range map[string]chat.ToolChoice{
		`"required"`:                     {Mode: chat.Required},
		`"none"`:                         {Mode: chat.None},
		`{"type":"function","name":"f"}`: {Mode: chat.Named, Name: chat.Literal(`"f"`)},
		`{"type":"custom","name":"c"}`:   {Mode: chat.Named, Name: chat.Literal(`"c"`)},
		`{"type":"function","name":"f","namespace":"n"}`:                                      {Mode: chat.Named, Name: chat.Literal(`"n__f"`)},
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]}`: {Mode: chat.Required, Allowed: []chat.Literal{chat.Literal(`"f"`)}},
	} {
		asked, _ := parsed(t, tools+`"tool_choice":`+choice)
		got := asked.ToolChoice
		if got.Mode != want.Mode || string(got.Name) != string(want.Name) || len(got.Allowed) != len(want.Allowed) || len(want.Allowed) > 0 && string(got.Allowed[0]) != string(want.Allowed[0]) {
			t.Errorf("%s: got %+v, want %+v", choice, got, want)
		}
	}
}

func TestMembersOfARequest(t *testing.T) {
	asked, _ := parsed(t, `"stop":["a","b"],"include":["reasoning.encrypted_content","message.output_text.logprobs"],"top_logprobs":2`)
	if len(asked.Stop) != 2 || string(asked.LogProbs) != "true" || string(asked.TopLogProbs) != "2" {
		t.Errorf("got %s, %s, %s", asked.Stop, asked.LogProbs, asked.TopLogProbs)
	}
	if asked, _ = parsed(t, `"include":["reasoning.encrypted_content"],"top_logprobs":2`); asked.LogProbs != nil || asked.TopLogProbs != nil {
		t.Errorf("without log probabilities: got %s, %s", asked.LogProbs, asked.TopLogProbs)
	}
}

// Calls of custom tools, parts of all kinds.
func TestItemsOfAConversation(t *testing.T) {
	parsed, _, err := responses.Messages([]byte(`[{"type":"custom_tool_call","call_id":"c1","name":"note","namespace":"crm","input":"free text"},
		{"type":"function_call","id":"fc_1","name":"f","arguments":{"a":1},"cache_control":{"type":"ephemeral"}},
		{"type":"custom_tool_call_output","call_id":"c1","output":[{"type":"input_text"}]},
		{"role":"user","content":[{"type":"input_image","image_url":{"url":"https://a.example/b.png"}},{"type":"input_image","file_id":"file-1","detail":"low"},
			{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},{"type":"input_text","text":"x","cache_control":{"type":"ephemeral"}}]}]`), "anthropic")
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed) != 3 || len(parsed[0].Calls) != 2 {
		t.Fatalf("got %d messages: %+v", len(parsed), parsed)
	}
	custom, function, parts := parsed[0].Calls[0], parsed[0].Calls[1], parsed[2].Parts
	if custom.ID.Text() != "c1" || custom.Name.Text() != "crm__note" || custom.Arguments.Text() != `{"input":"free text"}` {
		t.Errorf("a custom call: %s %s %s", custom.ID, custom.Name, custom.Arguments)
	}
	if function.ID.Text() != "fc_1" || function.Arguments.Text() != `{"a":1}` || function.Cache == nil {
		t.Errorf("a call: %s %s %s", function.ID, function.Arguments, function.Cache)
	}
	if p := parsed[1].Parts; parsed[1].CallID.Text() != "c1" || len(p) != 1 || string(p[0].Text) != `""` {
		t.Errorf("an output: %+v", parsed[1])
	}
	if len(parts) != 4 || parts[1].FileID.Text() != "file-1" || parts[1].Detail.Text() != "low" || parts[2].Kind != chat.Audio || parts[2].MediaType != "audio/wav" || parts[3].Cache == nil {
		t.Errorf("parts: %+v", parts)
	}
	body := string(new(chat.Encoder).Append(nil, &chat.Request{Messages: parsed}))
	for _, want := range []string{"https://a.example/b.png", "UklGRg=="} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
}

// stream is what a stream of these events becomes.
func stream(t *testing.T, forms map[string]chat.Form, list ...chat.Event) []gjson.Result {
	t.Helper()
	w := &responses.Events{Response: responses.Response{Style: style}}
	w.Forms = forms
	w.Begin(nil)
	for i := range list {
		w.Event(&list[i])
	}
	w.End()
	return events(t, w.Take())
}

// of are the events of one type.
func of(list []gjson.Result, kind string) (found []gjson.Result) {
	for _, e := range list {
		if e.Get("type").Str == kind {
			found = append(found, e)
		}
	}
	return found
}

// The text of a call of a custom tool comes whole, and under the names that the caller knows.
func TestACustomCallIsStreamed(t *testing.T) {
	list := stream(t, map[string]chat.Form{"crm__note": {Custom: true, Namespace: chat.Literal(`"crm"`), Name: chat.Literal(`"note"`)}},
		chat.Event{Kind: chat.CallStart, ID: chat.Literal(`"c1"`), Name: chat.Literal(`"crm__note"`)},
		chat.Event{Kind: chat.CallPiece, Text: chat.Literal(`"{\"input\":\"fr"`)},
		chat.Event{Kind: chat.CallPiece, Text: chat.Literal(`"ee\"}"`)},
		chat.Event{Kind: chat.Finish, Finish: chat.ToolCalls},
	)
	delta, done := of(list, "response.custom_tool_call_input.delta"), of(list, "response.custom_tool_call_input.done")
	if len(delta) != 1 || delta[0].Get("delta").Str != "free" || len(done) != 1 || done[0].Get("input").Str != "free" {
		t.Errorf("got %v and %v", delta, done)
	}
	added := of(list, "response.output_item.added")
	if len(added) != 1 || added[0].Get("item.type").Str != "custom_tool_call" || added[0].Get("item.input").Raw != `""` {
		t.Errorf("added %v", added)
	}
	item := list[len(list)-1].Get("response.output.0")
	if item.Get("name").Str != "note" || item.Get("namespace").Str != "crm" || item.Get("call_id").Str != "c1" || item.Get("input").Str != "free" {
		t.Errorf("the item is %s", item.Raw)
	}
}

// Citations and log probabilities are the text's that they come with.
func TestCitationsAndLogProbabilitiesAreStreamed(t *testing.T) {
	text := func(s string) chat.Event { return chat.Event{Kind: chat.TextPiece, Text: chat.Literal(`"` + s + `"`)} }
	list := stream(t, nil,
		chat.Event{Kind: chat.LogProbs, Raw: chat.Raw(`{"refusal":[{"token":"no"}],"content":[{"token":"a"}, {"token":"b"}]}`)}, text("ab"), text("c"),
		chat.Event{Kind: chat.LogProbs, Raw: chat.Raw(`{"content":[{"token":"d"}]}`)}, text("d"),
		chat.Event{Kind: chat.Annotation, Raw: chat.Raw(`{"type":"url_citation","url_citation":{"type":"x","url":"https://a.example","title":"A"}}`)},
		chat.Event{Kind: chat.Annotation, Raw: chat.Raw(`{"type":"other","n":1}`)},
		chat.Event{Kind: chat.Finish, Finish: chat.Stop},
	)
	const flat, other = `{"type":"url_citation","url":"https://a.example","title":"A"}`, `{"type":"other","n":1}`
	cited := of(list, "response.output_text.annotation.added")
	if len(cited) != 2 || cited[0].Get("annotation").Raw != flat || cited[1].Get("annotation").Raw != other || cited[0].Get("annotation_index").Int() != 0 || cited[1].Get("annotation_index").Raw != "1" {
		t.Errorf("cited %v", cited)
	}
	deltas := of(list, "response.output_text.delta")
	for i, want := range []string{`[{"token":"a"},{"token":"b"}]`, `[]`, `[{"token":"d"}]`} {
		if got := deltas[i].Get("logprobs").Raw; got != want {
			t.Errorf("delta %d: log probabilities %s, want %s", i, got, want)
		}
	}
	part := list[len(list)-1].Get("response.output.0.content.0")
	if part.Get("annotations").Raw != "["+flat+","+other+"]" || part.Get("logprobs").Raw != `[{"token":"a"},{"token":"b"},{"token":"d"}]` {
		t.Errorf("the part is %s", part.Raw)
	}
}
