package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/guardrails"
	_ "github.com/caddy-gw/gateway/guardrails/external"
	_ "github.com/caddy-gw/gateway/guardrails/standard"
	"github.com/caddy-gw/gateway/internal/fairshare"
)

func parse(t *testing.T, list List, raw string) []*Hook {
	t.Helper()
	return Parse(list, "hooks", []byte(raw), Options{Broken: true}, func(path, message string) { t.Errorf("%s: %s", path, message) })
}

func TestShorthandsAreHooks(t *testing.T) {
	all := parse(t, InputGuardrails, `["pii",{"id":"mine","default.contains":{"words":["a"]},"regexMatch":{"rule":"a","is_enabled":false},
		"other":{"id":"default.wordCount","minWords":1,"failOnError":true},"deny":true,"async":false,"sequential":true,"guardrail_version_id":"v",
		"all_turns":true,"stream_mode":"buffer","max_buffer_bytes":10,"timeout":100,"on_fail":{"feedback":{"value":-2,"weight":0.5,"metadata":{"a":1}}}}]`)
	if len(all) != 2 || all[0].Slug != "pii" || all[0].ID != "pii" {
		t.Fatalf("hooks %+v", all)
	}
	h := all[1]
	if h.ID != "mine" || !h.Deny || !h.Sequential || h.VersionID != "v" || !h.Scope.AllTurns || h.ModeOf() != Buffer || h.Stream.Buffer != 10 ||
		h.Timeout != 100*time.Millisecond || h.OnFail.Value != -2 || h.OnFail.Weight != 0.5 || len(h.Checks) != 3 {
		t.Errorf("the hook is %+v", h)
	}
	if c := h.Checks; c[0].ID != "default.contains" || c[0].Check == nil || !c[1].Disabled || c[2].ID != "default.wordCount" || !c[2].FailOnErr {
		t.Errorf("the checks are %+v", c)
	}
}

// A hook without checks is a saved guardrail, by its id or slug.
func TestHooksWithoutChecksAreSaved(t *testing.T) {
	for raw, want := range map[string]string{
		`[{"type":"guardrail","id":"pg-x"}]`:                  "pg-x",
		`[{"id":"pg-x","guardrail_version_id":"v"}]`:          "pg-x v",
		`[{"id":"mine","checks":[]}]`:                         "",
		`[{"id":"mine","checks":[{"id":"default.notNull"}]}]`: "",
		`[{"checks":[{"id":"default.notNull"}],"deny":true}]`: "",
	} {
		h := parse(t, BeforeRequest, raw)[0]
		if got := strings.TrimSpace(h.Slug + " " + h.VersionID); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestFaultsOfHooks(t *testing.T) {
	for _, c := range [][2]string{
		{`7`, "hooks: expected an array"},
		{`["x"]`, "hooks[0]: expected an object"},
		{`[{"type":"x"}]`, "hooks[0].type: expected guardrail or mutator"},
		{`[{"wat":1}]`, "hooks[0].wat: unknown key"},
		{`[{"checks":[7]}]`, "hooks[0].checks[0]: expected an object"},
		{`[{"checks":[{}]}]`, "hooks[0].checks[0].id: required: the id of a check"},
		{`[{"checks":[{"id":"a","parameters":7}]}]`, "hooks[0].checks[0].parameters: expected an object"},
		{`[{"id":"pg-x","deny":true}]`, "hooks[0].deny: a saved guardrail has settings of its own: expected only id, type and guardrail_version_id where there are no checks"},
		{`[{"stream_mode":"never"}]`, "hooks[0].stream_mode: expected buffer, window or after"},
		{`[{"max_buffer_bytes":0}]`, "hooks[0].max_buffer_bytes: expected an integer from 1 to 16777216"},
		{`[{"on_fail":{"feedback":{"value":"x"}}}]`, "hooks[0].on_fail.feedback.value: expected a number"},
		{`[` + strings.Repeat(`{},`, 50) + `{}]`, "hooks: expected at most 50 elements"},
		{`[{"checks":[` + strings.Repeat(`{"id":"notNull"},`, 50) + `{"id":"notNull"}]}]`, "hooks[0].checks: expected at most 50 checks"},
	} {
		var got []string
		Parse(BeforeRequest, "hooks", []byte(c[0]), Options{Broken: false}, func(path, message string) { got = append(got, path+": "+message) })
		if len(got) != 1 || got[0] != c[1] {
			t.Errorf("%.60s: %q, want %q", c[0], got, c[1])
		}
	}
}

// privateHosts refuses a private host.
func privateHosts(host string) error {
	if strings.Contains(host, "//10.") {
		return errors.New(host + " may not be used")
	}
	return nil
}

func TestFaultsOfSavedGuardrails(t *testing.T) {
	for _, c := range [][3]string{
		{`[{"id":"default.contains","parameters":{"words":["a"]}}]`, `{"deny":true,"async":false}`, ``},
		{`[]`, `{}`, `checks: expected an array of at least one check`},
		{`[{"id":"nonesuch","parameters":{}}]`, `{}`, `checks[0].id: there is no check default.nonesuch`},
		{`[{"id":"default.contains","parameters":{"word":["a"]}}]`, `{}`, `checks[0].parameters.word: unknown parameter of default.contains; checks[0].parameters.words: required: a list of strings`},
		{`[{"id":"default.regexMatch","parameters":{"rule":"("}}]`, `{}`, `checks[0].parameters.rule: invalid regular expression`},
		{`[{"id":"default.notNull"}]`, `{"wat":1}`, `actions.wat: unknown key`},
		{`[{"id":"default.addPrefix","parameters":{"prefix":"a"}},{"id":"azure.protectedMaterial"}]`, `{}`, `checks: expected checks that judge the same: azure.protectedMaterial cannot judge calls: expected it in after_request_hooks, output_guardrails, output_mutators; default.addPrefix cannot judge answers: expected it in before_request_hooks, input_guardrails, input_mutators`},
		{`[{"id":"default.addPrefix","parameters":{"prefix":"a"}},{"id":"azure.protectedMaterial","is_enabled":false}]`, `{}`, ``},
		{`[{"id":"default.webhook","parameters":{"webhookURL":"https://10.0.0.1/x?k=v"}}]`, `{}`, `checks[0].parameters.webhookURL: https://10.0.0.1 may not be used`},
		{`[{"id":"mistral.moderateContent","parameters":{"categories":["pii"],"credentials":{"apiKey":"k","baseUrl":"10.0.0.1/v1"}}}]`, `{}`, `checks[0].parameters.credentials.baseUrl: https://10.0.0.1 may not be used`},
	} {
		var got []string
		Saved([]byte(c[0]), []byte(c[1]), Options{CheckHost: privateHosts}, func(path, message string) { got = append(got, path+": "+message) })
		if s := strings.Join(got, "; "); !strings.HasPrefix(s, c[2]) || c[2] == "" && s != "" {
			t.Errorf("%s: %q, want %q", c[0], s, c[2])
		}
	}
}

// picture is the beginning of one, in base64.
const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

func TestWhatIsJudged(t *testing.T) {
	all := Scope{true, true, true, true, true, true}
	for _, c := range []struct {
		endpoint string
		phase    guardrails.Phase
		body     string
		scope    Scope
		want     string
		calls    bool
	}{
		{"chatComplete", 0, `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b\u00e9"}]}`, Scope{}, "bé", false},
		{"chatComplete", 0, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://example.com/text"}},{"type":"text","text":""}]}]}`, Scope{}, "a,", false},
		{"chatComplete", 0, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"r"},{"role":"user","content":"b"}]}`, Scope{}, "b", false},
		{"chatComplete", 0, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"r"},{"role":"user","content":"b"}]}`, all, "s,a,{},r,b", false},
		{"chatComplete", 0, `{"messages":[{"role":"developer","content":"s"},{"role":"user","content":"a"}]}`, Scope{System: true}, "s,a", false},
		{"chatComplete", 0, `{"messages":[]}`, Scope{}, "", false},
		{"chatComplete", 0, `{"messages":7}`, all, "", false},
		{"chatComplete", 1, `{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}`, Scope{}, "a", false},
		{"chatComplete", 1, `{"choices":[{"message":{"content":"a","tool_calls":[{"function":{"arguments":"x"}}]}},{"message":{"content":"b"}}]}`, all, "a,x,b", true},
		{"complete", 0, `{"prompt":["a","b"]}`, Scope{}, "a,b", false},
		{"complete", 0, `{"prompt":[[1,2]]}`, Scope{}, "", false},
		{"complete", 1, `{"choices":[{"text":"a"},{"text":"b"}]}`, Scope{Choices: true}, "a,b", false},
		{"embed", 0, `{"input":"a"}`, Scope{}, "a", false},
		{"embed", 1, `{"data":[]}`, all, "", false},
		{"messages", 0, `{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r"}]},{"type":"text","text":"a"}]}]}`, Scope{}, "a", false},
		{"messages", 0, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"r"},{"type":"text","text":"a"}]}],"system":"s"}`, all, "r,a,s", false},
		{"messages", 1, `{"content":[{"type":"text","text":"a"},{"type":"tool_use","name":"f","input":{"k":["x",{"l":"y"}]}},{"type":"text","text":"b"}]}`, Scope{}, "a,b", true},
		{"messages", 1, `{"content":[{"type":"text","text":"a"},{"type":"tool_use","name":"f","input":{"k":["x",{"l":"y"}]}}]}`, all, "a,x,y", true},
		{"createModelResponse", 0, `{"input":"a","instructions":"i"}`, Scope{}, "a", false},
		{"createModelResponse", 0, `{"instructions":"i","input":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call","arguments":"x"},{"type":"function_call_output","output":"r"},{"type":"message","role":"user","content":"b"}]}`, Scope{}, "b", false},
		{"createModelResponse", 0, `{"instructions":"i","input":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call","arguments":"x"},{"type":"function_call_output","output":"r"},{"type":"message","role":"user","content":"b"}]}`, all, "i,s,a,x,r,b", false},
		{"createModelResponse", 1, `{"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"t"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"no"}]},{"type":"function_call","arguments":"x"}]}`, Scope{}, "t,a,no", true},
		{"complete", 0, `{"suffix":"b","prompt":"a"}`, Scope{}, "b,a", false},
		{"chatComplete", 0, `{"messages":[{"role":"user","content":"a"}],"prediction":{"type":"content","content":"p"}}`, Scope{}, "a,p", false},
		{"chatComplete", 0, `{"messages":[{"role":"assistant","content":"a","reasoning_content":"r","content_blocks":[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"}]}]}`, Scope{}, "r,t,a,a", false},
		{"chatComplete", 1, `{"choices":[{"message":{"content":"a","reasoning_content":"r"}}]}`, Scope{}, "r,a", false},
		{"chatComplete", 1, `{"choices":[{"message":{"content":"a","reasoning":"r","reasoning_details":[{"type":"reasoning.text","text":"d"},{"type":"reasoning.summary","summary":"s"}]}}]}`, Scope{}, "r,d,s,a", false},
		{"chatComplete", 1, `{"choices":[{"message":{"content":"a","content_blocks":[{"type":"thinking","thinking":"t","signature":"x"},{"type":"text","text":"a"}]}}]}`, Scope{}, "t,a", false},
		{"chatComplete", 1, `{"choices":[{"message":{"content":null,"audio":{"data":"x","transcript":"a"}}}]}`, Scope{}, "a", false},
		{"messages", 0, `{"messages":[{"role":"user","content":[{"type":"document","title":"t","context":"c","source":{"type":"text","media_type":"text/plain","data":"d"}},{"type":"document","source":{"data":"` + picture + `","type":"base64"}},{"type":"document","source":{"content":[{"type":"text","text":"f"}],"type":"content"}},{"type":"search_result","source":"u","title":"h","content":[{"type":"text","text":"g"}]}]}]}`, Scope{}, "t,c,d,f,u,h,g", false},
		{"messages", 1, `{"content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"a"}]}`, Scope{}, "t,a", false},
		{"createModelResponse", 0, `{"prompt":{"id":"p","variables":{"x":"v","y":{"type":"input_text","text":"w"}}},"input":"a"}`, Scope{}, "v,w,a", false},
		{"imageGenerate", 0, `{"prompt":"a"}`, all, "", false},
		{"chatComplete", 0, `not JSON`, all, "", false},
	} {
		r := Texts(c.endpoint, c.phase, []byte(c.body), c.scope)
		if got := strings.Join(values([]byte(c.body), r.Spans), ","); got != c.want || r.Calls != c.calls {
			t.Errorf("%s %d %s: %q, %v; want %q, %v", c.endpoint, c.phase, c.body, got, r.Calls, c.want, c.calls)
		}
	}
}

func TestTransformsRunInTheOrderOfTheListAndNoneIsLost(t *testing.T) {
	list := parse(t, InputGuardrails, `[{"a":{"id":"default.regexReplace","rule":"1","redactText":"2"},"b":{"id":"default.regexReplace","rule":"2","redactText":"3"},
		"sees":{"id":"default.contains","words":["1"]}},{"id":"later","default.contains":{"words":["33"],"operator":"all"}}]`)
	body := `{"messages":[{"role":"user","content":[{"type":"text","text":"1"},{"type":"image_url","image_url":{"url":"https://a/1"}},{"type":"text","text":"2 33"}]}],"user":"1"}`
	out := Run(context.Background(), list, guardrails.Subject{Type: "chatComplete", Request: json.RawMessage(body)}, false, time.Now)
	want := `{"messages":[{"role":"user","content":[{"type":"text","text":"3"},{"type":"image_url","image_url":{"url":"https://a/1"}},{"type":"text","text":"3 33"}]}],"user":"1"}`
	if string(out.Body) != want {
		t.Errorf("the body is %s", out.Body)
	}
	if out.Failed || out.Denied != nil || len(out.Results) != 2 || !out.Results[0].Transformed || out.Results[1].Transformed {
		t.Errorf("the outcome is %+v", out)
	}
	if data, _ := json.Marshal(out.Results); strings.Contains(string(data), "textExcerpt") {
		t.Errorf("the results repeat what was replaced: %s", data)
	}
}

func TestFeedback(t *testing.T) {
	const given = `"on_success":{"feedback":{"value":5}},"on_fail":{"feedback":{"value":-5,"weight":0.5,"metadata":"{\"k\":1}"}}`
	for _, c := range [][2]string{
		{`"default.contains":{"words":["a"]},"default.wordCount":{}`, `{"value":5,"weight":1,"metadata":{"successfulChecks":"default.contains,default.wordCount","failedChecks":"","erroredChecks":""}}`},
		{`"default.contains":{"words":["b"]},"default.jwtx":{}`, `{"value":-5,"weight":0.5,"metadata":{"k":1,"successfulChecks":"","failedChecks":"default.contains","erroredChecks":"default.jwtx"}}`},
	} {
		list := parse(t, InputGuardrails, `[{`+c[0]+`,`+given+`}]`)
		out := Run(context.Background(), list, guardrails.Subject{Type: "embed", Request: json.RawMessage(`{"input":"a"}`)}, false, time.Now)
		if got := gjson.ParseBytes(JSON(out.Results, nil)).Get("before_request_hooks.0.feedback").Raw; got != c[1] {
			t.Errorf("feedback %s, want %s", got, c[1])
		}
	}
}

func TestModesOfStreams(t *testing.T) {
	for _, c := range []struct {
		hook string
		want StreamMode
	}{
		{`{"contains":{"words":["a"],"operator":"none"},"deny":true}`, Window},
		{`{"contains":{"words":["a"]},"deny":true}`, Buffer},
		{`{"contains":{"words":["a"]}}`, After},
		{`{"regexReplace":{"rule":"a"}}`, Window},
		{`{"regexReplace":{"rule":"^a"}}`, Buffer},
		{`{"regexReplace":{"rule":"a"},"stream_mode":"after"}`, After},
		{`{"wordCount":{},"deny":true,"stream_mode":"window"}`, Buffer},
		{`{"contains":{"words":["a"],"operator":"none"},"deny":true,"stream_mode":"buffer"}`, Buffer},
		{`{"contains":{"words":["a"],"operator":"none"},"deny":true,"async":true}`, After},
	} {
		if got := parse(t, OutputGuardrails, `[`+c.hook+`]`)[0].ModeOf(); got != c.want {
			t.Errorf("%s: %s, want %s", c.hook, got, c.want)
		}
	}
}

// However texts are replaced, each comes to stand where it was, and nothing else changes.
func TestReplacedTextsStandWhereTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "texts")
		others := make([]string, len(texts))
		var parts []map[string]any
		for i, text := range texts {
			others[i] = rapid.OneOf(rapid.Just(text), rapid.String()).Draw(t, "other")
			parts = append(parts, map[string]any{"type": "text", "text": text}, map[string]any{"type": "image_url", "image_url": map[string]string{"url": "https://example.com/" + url.PathEscape(text)}})
		}
		body, _ := json.Marshal(map[string]any{"model": texts[0], "messages": []any{map[string]any{"role": "user", "content": parts}}})
		spans := Texts("chatComplete", guardrails.Input, body, Scope{}).Spans
		out, err := Replace(body, spans, others)
		if err != nil || !json.Valid(out) {
			t.Fatal(err, string(out))
		}
		for i := range texts {
			v := gjson.GetBytes(out, fmt.Sprintf("messages.0.content.%d.text", 2*i)).Str
			image := gjson.GetBytes(out, fmt.Sprintf("messages.0.content.%d.image_url.url", 2*i+1)).Str
			if v != strings.ToValidUTF8(others[i], "\ufffd") || image != gjson.GetBytes(body, fmt.Sprintf("messages.0.content.%d.image_url.url", 2*i+1)).Str {
				t.Fatalf("text %d is %q and the image %q in %s", i, v, image, out)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`["a",{"contains":{"words":["x"]},"deny":true}]`, `[{"checks":[{"id":"default.jsonSchema","parameters":{"schema":{}}}]}]`, `[{"on_fail":{"feedback":{}}}]`, `{}`, `[null]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		for list := range Lists {
			for _, h := range Parse(list, "x", raw, Options{Broken: false}, func(string, string) {}) {
				h.ModeOf()
			}
		}
		Saved(raw, raw, Options{}, func(string, string) {})
	})
}

func FuzzTexts(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"system":"s","prompt":["p"],"input":[{"type":"function_call_output","output":"o"}]}`,
		`{"choices":[{"message":{"content":"a"},"text":"t"}],"output":[{"content":[{"text":"a"}]}],"content":[{"text":"b"}]}`, `{"messages":{"a":["\ud800"]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for endpoint := range dialects {
			for phase := range guardrails.Output + 1 {
				spans := Texts(endpoint, phase, body, Scope{true, true, true, true, true, true}).Spans
				same, err := Replace(body, spans, values(body, spans))
				if err != nil || len(spans) > 0 && string(same) != string(body) {
					t.Fatalf("%s: %v: %q becomes %q", endpoint, err, body, same)
				}
			}
		}
	})
}

// What is replaced is not left elsewhere in the answer.
func TestCopiesOfWhatIsReplacedAreRemoved(t *testing.T) {
	list := parse(t, OutputGuardrails, `[{"regexReplace":{"rule":"1234","redactText":"#"}}]`)
	for _, c := range []struct{ endpoint, body, want string }{
		{
			"chatComplete", `{"choices":[{"logprobs":{"content":[{"token":"1234"}]},"message":{"reasoning_content":"a 1234","content":"b 1234","content_blocks":[{"type":"text","text":"b 1234"}],"audio":{"data":"x","transcript":"1234"}}},{"message":{"content":"c"}}]}`,
			`{"choices":[{"message":{"reasoning_content":"a #","content":"b #"}},{"message":{"content":"c"}}]}`,
		},
		{"complete", `{"choices":[{"text":"1234","logprobs":{"tokens":["1234"]}}]}`, `{"choices":[{"text":"#"}]}`},
		{"createModelResponse", `{"output":[{"type":"message","content":[{"type":"output_text","text":"1234","logprobs":[{"token":"1234"}]}]}]}`, `{"output":[{"type":"message","content":[{"type":"output_text","text":"#"}]}]}`},
		{"chatComplete", `{"choices":[{"logprobs":{"content":[]},"message":{"content":"b"}}]}`, ``},
	} {
		s := guardrails.Subject{Phase: guardrails.Output, Type: c.endpoint, Response: json.RawMessage(c.body)}
		out := Run(t.Context(), list, s, false, time.Now)
		if string(out.Body) != c.want {
			t.Errorf("%s: %s, want %s", c.body, out.Body, c.want)
		}
	}
}

func TestWhatNobodyCanReadIsSaid(t *testing.T) {
	list := parse(t, InputGuardrails, `[{"notNull":{}},{"id":"late","notNull":{},"async":true}]`)
	for body, why := range map[string]string{
		`{"input":[[1,2]]}`:   "'input' has numbers of tokens instead of text",
		`{"input":[1,2]}`:     "'input' has numbers of tokens instead of text",
		`{"input":["a","b"]}`: "",
		`{"input":"` + strings.Repeat("a", MaxText) + `"}`: "the texts have more than 16 MiB",
	} {
		s := guardrails.Subject{Type: "embed", Request: json.RawMessage(body)}
		if out := Run(t.Context(), list, s, false, time.Now); out.Unread != why {
			t.Errorf("%.30s: unread: %q, want %q", body, out.Unread, why)
		}
		if out := Run(t.Context(), list, s, true, time.Now); out.Unread != "" || (out.Results[0].State == Failed) != (why != "") {
			t.Errorf("%.30s: afterwards %+v", body, out)
		}
	}
}

// Some providers take a member in any letter case, or the first of two: what they may read instead of what was judged is
// said to be unread.
func TestMembersThatMayBeTakenForTheJudgedOnesAreUnread(t *testing.T) {
	list := parse(t, InputGuardrails, `[{"notNull":{}}]`)
	for _, c := range []struct{ endpoint, body, why string }{
		{"chatComplete", `{"messages":[{"role":"user","content":"a"}],"Messages":[]}`, "'Messages' differs from 'messages' in letter case only"},
		{"chatComplete", `{"messages":[{"role":"user","content":"a"}],"me\u017fsages":[]}`, "'meſsages' differs from 'messages' in letter case only"},
		{"chatComplete", `{"messages":[],"messages":[{"role":"user","content":"a"}]}`, "'messages' is given twice"},
		{"chatComplete", `{"messages":[{"role":"system","Role":"user","content":"a"},{"role":"user","content":"a"}]}`, "'Role' differs from 'role' in letter case only"},
		{"chatComplete", `{"messages":[{"role":"user","role":"system","content":"a"},{"role":"user","content":"a"}]}`, "'role' is given twice"},
		{"chatComplete", `{"messages":[{"role":"user","content":[{"type":"text","Type":"image_url","text":"a"}]}]}`, "'Type' differs from 'type' in letter case only"},
		{"messages", `{"System":"a","messages":[{"role":"user","content":"a"}]}`, "'System' differs from 'system' in letter case only"},
		{"messages", `{"MESSAGES":[{"role":"user","content":"a"}]}`, "'MESSAGES' differs from 'messages' in letter case only"},
		{"messages", `{"messages":[{"role":"user","content":[{"type":"tool_result","TYPE":"text","content":"a"}]}]}`, "'TYPE' differs from 'type' in letter case only"},
		{"createModelResponse", `{"input":"a","Instructions":"b"}`, "'Instructions' differs from 'instructions' in letter case only"},
		{"createModelResponse", `{"input":[{"type":"message","Type":"function_call","role":"user","content":"a"}]}`, "'Type' differs from 'type' in letter case only"},
		{"createModelResponse", `{"prompt":{"id":"p","variables":{},"Variables":{"a":"b"}}}`, "'Variables' differs from 'variables' in letter case only"},
		{"complete", `{"prompt":"a","Suffix":"b"}`, "'Suffix' differs from 'suffix' in letter case only"},
		{"embed", `{"input":"a","Texts":["b"]}`, "'Texts' differs from 'texts' in letter case only"},
		{"messages", `{"messages":[{"role":"user","content":[{"type":"tool_use","input":{"Type":"a","type":"b","Role":"c"}}]}]}`, ""},
		{"chatComplete", `{"messages":[{"role":"user","content":"a","Content":"b"}]}`, ""}, // both are judged
		{"createModelResponse", `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}]}`, ""},
	} {
		if out := Run(t.Context(), list, guardrails.Subject{Type: c.endpoint, Request: json.RawMessage(c.body)}, false, time.Now); out.Unread != c.why {
			t.Errorf("%s %s: unread: %q, want %q", c.endpoint, c.body, out.Unread, c.why)
		}
	}
	two := `{"messages":[{"role":"user","content":"a","Content":"b"}]}`
	if r := Texts("chatComplete", guardrails.Input, []byte(two), Scope{}); len(r.Spans) != 2 {
		t.Errorf("%s: %v", two, r.Spans)
	}
}

// What is wrong with checks is reported all at once, by the paths of a config.
func TestChecksOfConfigsAreValidated(t *testing.T) {
	for _, c := range []struct {
		list List
		raw  string
		want []string
	}{
		{InputGuardrails, `[{"default.regexMach":{"rule":"x"},"deny":true}]`, []string{"x[0].default.regexMach: there is no check default.regexMach"}},
		{OutputGuardrails, `["g",{"regexMatch":{"rule":"(","nott":true},"second":{"id":"default.contains","wrods":["a"],"words":["a"]}}]`, []string{
			"x[1].regexMatch.nott: unknown parameter of default.regexMatch", "x[1].regexMatch.rule: ", "x[1].second.wrods: unknown parameter of default.contains",
		}},
		{BeforeRequest, `[{"checks":[{"id":"default.nope"},{"id":"contains","parameters":{"words":1}},{"id":"default.notNull","parameters":{"is_enabled":true}}]}]`, []string{
			"x[0].checks[0].id: there is no check default.nope", "x[0].checks[1].parameters.words: ",
		}},
		{InputMutators, `[{"checks":{"rule":"x"}}]`, []string{"x[0].checks: there is no check default.checks"}},
		{StartHooks, `[{"regexMatch":{"rule":"a"}},{"requiredMetadataKeys":{"metadataKeys":["a"]}},{"allowedRequestTypes":{}},{"webhook":{"webhookURL":"https://example.com"}}]`, []string{
			"x[0].regexMatch: default.regexMatch cannot judge the start of a call, without its body: expected it in before_request_hooks, input_guardrails, input_mutators, after_request_hooks, output_guardrails, output_mutators",
		}},
		{OutputMutators, `[{"addPrefix":{"prefix":"a"}},{"addPrefix":{"prefix":"a","is_enabled":false}}]`, []string{"x[0].addPrefix: default.addPrefix cannot judge answers"}},
		{AfterRequest, `[{"checks":[{"id":"default.inlineImageUrls"},{"id":"exa.online"},{"id":"openai.moderateContent"}]}]`, []string{"x[0].checks[0].id: ", "x[0].checks[1].id: "}},
		{InputGuardrails, `[{"azure.protectedMaterial":{}},{"modelwhitelist":{"models":["m"]}},{"endsWith":{"suffix":"a"}},{"contains":{"words":["a"]}}]`, []string{"x[0].azure.protectedMaterial: azure.protectedMaterial cannot judge calls"}},
		{StartHooks, `[{"deny":true}]`, []string{"x[0]: expected at least one check"}},
		{AfterRequest, `[{"checks":[{"id":"default.nope","is_enabled":false},{}]}]`, []string{"x[0].checks[0].id: there is no check", "x[0].checks[1].id: required"}},
		{InputGuardrails, `["g",{"id":"g"},{"deny":true,"contains":{"words":["a"],"name":"mine","failOnError":true}}]`, nil},
	} {
		faults := func(broken bool) (all []string) {
			Parse(c.list, "x", []byte(c.raw), Options{Broken: broken}, func(path, message string) { all = append(all, path+": "+message) })
			return all
		}
		got := faults(false)
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", c.raw, got, c.want)
		}
		if kept := faults(true); len(kept) > 0 && !strings.HasSuffix(kept[0], "required: the id of a check") {
			t.Errorf("%s, saved before: %q", c.raw, kept)
		}
	}
}

// A check that cannot be made never judges: a hook that is to refuse or change what it judges
// refuses, and says so.
func TestChecksThatCannotBeMadeDoNotPass(t *testing.T) {
	for raw, c := range map[string]struct {
		list   List
		denied bool
		state  State
	}{
		`[{"default.regexMach":{"rule":"x"},"deny":true}]`:                           {InputGuardrails, true, Failed},
		`[{"id":"h","checks":[{"id":"notNull"},{"id":"default.nope"}],"deny":true}]`: {BeforeRequest, true, Failed},
		`[{"regexMatch":{"rule":"("},"deny":true}]`:                                  {InputGuardrails, true, Failed},
		`[{"regexReplace":{"rule":"("}}]`:                                            {InputMutators, true, Failed},
		`[{"regexMatch":{"rule":"("}}]`:                                              {InputGuardrails, false, ErroredPassed},
		`[{"regexMatch":{"rule":"("},"deny":true,"async":true}]`:                     {InputGuardrails, false, ErroredPassed},
		`[{"default.nope":{"is_enabled":false},"deny":true}]`:                        {InputGuardrails, false, Passed},
		`[{"regexMatch":{"rule":"a","nott":true},"deny":true}]`:                      {InputGuardrails, false, Passed},
	} {
		list := parse(t, c.list, raw)
		s := guardrails.Subject{Type: "embed", Request: json.RawMessage(`{"input":"a"}`)}
		out := Run(t.Context(), list, s, list[0].Async, time.Now)
		if (out.Denied != nil) != c.denied || out.Results[0].State != c.state {
			t.Errorf("%s: %+v", raw, out)
		}
		if c.denied && !strings.Contains(Why(out.Denied, guardrails.Input), "cannot be made: ") {
			t.Errorf("%s: %s", raw, Why(out.Denied, guardrails.Input))
		}
	}
}

// A check that was to change a text and did not is reported.
func TestUnfinishedChangesAreTold(t *testing.T) {
	for raw, want := range map[string]bool{
		`[{"regexReplace":{"rule":"(?=a)(a+)+$"}}]`: true,
		`[{"regexReplace":{"rule":"("}}]`:           true,
		`[{"regexReplace":{"rule":"x"}}]`:           false,
		`[{"regexMatch":{"rule":"(?=a)(a+)+$"}}]`:   false,
	} {
		s := guardrails.Subject{Type: "embed", Request: json.RawMessage(`{"input":"` + strings.Repeat("a", 60) + `b"}`)}
		out := Run(t.Context(), parse(t, InputGuardrails, raw), s, false, time.Now)
		if out.Unfinished != want {
			t.Errorf("%s: unfinished %v", raw, out.Unfinished)
		}
		if encoded := string(JSON(out.Results, nil)); want && strings.Contains(encoded, "aaaa") {
			t.Errorf("%s: the text is in %s", raw, encoded)
		}
	}
}

// A text that keeps a check from judging does not pass a hook that may refuse or change it, even
// without fail_on_error; another error does.
func TestWhatCannotBeJudgedIsRefused(t *testing.T) {
	const backtracks = `"rule":"(?=a)(a+)+$"`
	for _, c := range []struct {
		hook           string
		denied, failed bool
		name           string
	}{
		{`{"regexMatch":{` + backtracks + `,"not":true},"deny":true}`, true, false, "UnreadableError"},
		{`{"regexMatch":{` + backtracks + `},"deny":true}`, true, false, "UnreadableError"},
		{`{"regexMatch":{` + backtracks + `,"not":true}}`, false, true, "UnreadableError"},
		{`{"regexReplace":{` + backtracks + `}}`, true, false, "UnreadableError"},
		{`{"test.slow":{},"deny":true,"timeout":5}`, true, false, "TimeoutError"},
		{`{"test.service":{},"slow":{"id":"default.notNull"},"deny":true,"timeout":5}`, false, false, "TimeoutError"},
		{`{"test.service":{},"slow":{"id":"default.notNull"},"deny":true,"sequential":true,"timeout":5}`, true, false, "TimeoutError"},
		{`{"test.errs":{},"deny":true}`, false, false, "Error"},
		{`{"regexMatch":{},"deny":true}`, true, false, "Error"}, // it cannot be made
		{`{"test.panics":{},"deny":true}`, true, false, "UnreadableError"},
	} {
		for phase, list := range map[guardrails.Phase]List{guardrails.Input: InputGuardrails, guardrails.Output: OutputGuardrails} {
			text := strings.Repeat("a", 60) + "b"
			s := guardrails.Subject{
				Phase: phase, Type: "chatComplete", Request: json.RawMessage(`{"messages":[{"role":"user","content":"` + text + `"}]}`),
				Response: json.RawMessage(`{"choices":[{"message":{"content":"` + text + `"}}]}`),
			}
			out := Run(t.Context(), parse(t, list, `[`+c.hook+`]`), s, false, time.Now)
			check := out.Results[0].Checks[0]
			if (out.Denied != nil) != c.denied || out.Failed != c.failed || out.Results[0].Deny != c.denied || check.Error == nil || check.Error.Name != c.name {
				t.Errorf("%s %d: denied %v, failed %v, %+v, %+v", c.hook, phase, out.Denied != nil, out.Failed, out.Results[0], check.Error)
			}
			if want := map[bool]State{true: Failed, false: ErroredPassed}[c.denied || c.failed]; out.Results[0].State != want {
				t.Errorf("%s %d: %s, want %s", c.hook, phase, out.Results[0].State, want)
			}
		}
	}
}

func init() {
	guardrails.Register(
		guardrails.Kind{ID: "test.slow", New: func(*guardrails.Parameters) (guardrails.Check, error) { return waiting{}, nil }},
		guardrails.Kind{ID: "test.errs", New: func(*guardrails.Parameters) (guardrails.Check, error) { return erring{}, nil }},
		guardrails.Kind{ID: "test.service", New: func(*guardrails.Parameters) (guardrails.Check, error) { return service{}, nil }},
		guardrails.Kind{ID: "test.panics", New: func(*guardrails.Parameters) (guardrails.Check, error) { return panicking{}, nil }},
		guardrails.Kind{ID: "test.unread", New: func(*guardrails.Parameters) (guardrails.Check, error) { return unreadFinder{}, nil }},
	)
}

// A waiting check takes all the time that it has.
type waiting struct{}

func (waiting) Judge(ctx context.Context, _ *guardrails.Subject) (guardrails.Result, error) {
	<-ctx.Done()
	return guardrails.Result{}, ctx.Err()
}

// A service does not answer.
type service struct{ waiting }

func (service) Waits() {}

type panicking struct{}

func (panicking) Judge(context.Context, *guardrails.Subject) (guardrails.Result, error) { panic("x") }

// An unreadFinder cannot judge texts with a q.
type unreadFinder struct{ waiting }

func (unreadFinder) Finds() (decides, redacts bool) { return true, false }

func (unreadFinder) Find(_ context.Context, text string) ([]guardrails.Place, error) {
	if strings.Contains(text, "q") {
		return nil, guardrails.Unreadable("a q")
	}
	return nil, nil
}

// So it is in windows.
func TestWindowsThatCannotBeJudgedAreRefused(t *testing.T) {
	list := parse(t, OutputGuardrails, `[{"test.unread":{},"deny":true,"window_bytes":16,"overlap_bytes":16}]`)
	text, w := pass(list, []string{strings.Repeat("a", 100), strings.Repeat("b", 40) + "q" + strings.Repeat("c", 100)})
	if w.Denied == nil || strings.ContainsAny(text, "qc") || len(text) < 80 {
		t.Errorf("denied %v, let go %q", w.Denied != nil, text)
	}
	if r := w.Results()[0]; !r.Deny || r.State != Failed || r.Checks[0].Error == nil || r.Checks[0].Error.Name != "UnreadableError" {
		t.Errorf("the result is %+v", r)
	}
	late := time.Now()
	w = NewWindows("chatComplete", list, func() time.Time { late = late.Add(time.Minute); return late })
	if out := w.Push(Track{Kind: "content"}, strings.Repeat("a", 100)); w.Denied == nil || out != "" {
		t.Errorf("after its time, %q is let go", out)
	}
}

// All hooks of a phase together take no longer than a minute, and nothing passes because those
// before it took that long.
func TestAPhaseHasATimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []*Hook
		for range 4 {
			list = append(list, &Hook{ID: "slow", Timeout: defaultTimeout, Checks: []Use{{ID: "test.waits", Check: service{}}}})
		}
		list[3].Deny = true
		begun := time.Now()
		out := Run(t.Context(), list, guardrails.Subject{Type: "chatComplete", Request: []byte(`{"messages":[{"role":"user","content":"a"}]}`)}, false, time.Now)
		if took := time.Since(begun); took != phaseTimeout {
			t.Errorf("took %v", took)
		}
		if first := out.Results[0]; first.State != ErroredPassed || first.Checks[0].Error.Name != "TimeoutError" {
			t.Errorf("the first says %+v", first)
		}
		if out.Denied != list[3] || out.Results[3].Checks[0].Error.Name != "UnreadableError" {
			t.Errorf("the last says %+v", out.Results[3])
		}
	})
}

// A busy check judges until it is told to stop.
type busy struct {
	running *atomic.Int32
	stop    chan struct{}
}

func (b busy) Judge(context.Context, *guardrails.Subject) (guardrails.Result, error) {
	b.running.Add(1)
	defer b.running.Add(-1)
	<-b.stop
	return guardrails.Result{Verdict: true}, nil
}

// Checks of large texts of one workspace leave processors to those of others, and to short texts.
func TestChecksOfLargeTextsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := busy{new(atomic.Int32), make(chan struct{})}
		list := []*Hook{{ID: "busy", Timeout: time.Minute, Deny: true, Checks: []Use{{ID: "test.busy", Check: b}}}}
		done := make(chan *Outcome, 100)
		shared := fairshare.NewSemaphore(4)
		start := func(workspace string, size int) {
			go func() {
				body := []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("a", size) + `"}]}`)
				s := guardrails.Subject{Type: "chatComplete", Request: body, Workspace: workspace}
				done <- runWith(t.Context(), shared, list, s, false, time.Now)
			}()
			synctest.Wait()
		}
		for range 10 {
			start("a", largeText+1)
		}
		if n := b.running.Load(); n != 3 {
			t.Errorf("%d of one workspace run, on 4 processors", n)
		}
		start("b", largeText+1)
		start("a", largeText)
		if n := b.running.Load(); n != 5 {
			t.Errorf("%d run with another workspace's and a short text", n)
		}
		time.Sleep(2 * time.Minute) // what waits has no time left
		close(b.stop)
		denied := 0
		for range 12 {
			if out := <-done; out.Denied != nil {
				denied++
			}
		}
		if denied != 7 {
			t.Errorf("%d that got no turn are refused", denied)
		}
	})
}

// An erring check has a service that is not there.
type erring struct{}

func (erring) Judge(context.Context, *guardrails.Subject) (guardrails.Result, error) {
	return guardrails.Result{}, errors.New("the service is not there")
}
