package chat_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/alloctest"
	"github.com/caddy-gw/gateway/providers/chat"
)

var (
	long  = strings.Repeat("n", 65)
	tight = chat.Limits{ToolName: 64, User: 64, NoAllowedTools: true}
)

// shortOf returns the name that a tool gets, with the original one.
func shortOf(t testing.TB, name string) string {
	t.Helper()
	names := chat.Renames{Most: 64}
	short := names.Of(chat.Quote(name)).Text()
	if short == "" || names.Was[short].Text() != name {
		t.Fatalf("%s becomes %q, which is %q", name, short, names.Was)
	}
	return short
}

// What a provider refuses becomes what it takes, and everything else keeps its bytes.
func TestABodyThatPassesIsWithinTheLimits(t *testing.T) {
	const call, result, again = `{"role":"assistant","tool_calls":[{"id":"a"},{"id":"b"}]}`, `{"role":"tool","tool_call_id":"a","content":""}`, `{"role":"tool","content":"x","tool_call_id":"b"}`
	const user = `{"role":"user","content":"Hi"}`
	short, dotted := shortOf(t, long), shortOf(t, "f.g")
	for name, c := range map[string]struct{ body, want string }{
		"names of tools": {
			`{ "tools":[{"type":"function","function":{"name":"NAME","x":1}},{"function":{"name":"f.g"}},{"type":"custom","custom":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"NAME"}} }`,
			`{ "tools":[{"type":"function","function":{"name":"` + short + `","x":1}},{"function":{"name":"` + dotted + `"}},{"type":"custom","custom":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"` + short + `"}} }`,
		},
		"names of calls": {
			`{"messages":[{"role":"assistant","content":"NAME","tool_calls":[{"id":"a","function":{"name":"NAME","arguments":"{\"name\":\"NAME\"}"}}]},{"name":"NAME","role":"tool","tool_call_id":"a"},{"role":"user","name":"f.g"}]}`,
			`{"messages":[{"role":"assistant","content":"NAME","tool_calls":[{"id":"a","function":{"name":"` + short + `","arguments":"{\"name\":\"NAME\"}"}}]},{"name":"` + short + `","role":"tool","tool_call_id":"a"},{"role":"user","name":"f.g"}]}`,
		},
		"names of functions": {
			`{"functions":[{"name":"NAME"}],"function_call":{"name":"NAME"},"messages":[{"role":"assistant","function_call":{"name":"NAME"}},{"role":"function","name":"NAME"}]}`,
			`{"functions":[{"name":"` + short + `"}],"function_call":{"name":"` + short + `"},"messages":[{"role":"assistant","function_call":{"name":"` + short + `"}},{"role":"function","name":"` + short + `"}]}`,
		},
		"names of 64 characters":       {`{"tools":[{"function":{"name":"` + long[1:] + `"}}]}`, ""},
		"a long user":                  {`{"user":"` + strings.Repeat("é", 65) + `","x":1}`, `{"user":"` + strings.Repeat("é", 64) + `","x":1}`},
		"a user of 64 characters":      {`{"user":"` + strings.Repeat(`\u00e9`, 64) + `"}`, ""},
		"an address":                   {`{"user":"a@example.com"}`, ""},
		"an image":                     {`{"messages":[{"content":[{"type":"image_url","image_url":{"detail":"low","url":"data:image/jpg;base64,AA=="}}]}]}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"detail":"low","url":"data:image/jpeg;base64,AA=="}}]}]}`},
		"an image as a text":           {`{"messages":[{"content":[{"image_url":"data:image/pjpeg;base64,AA=="}]}]}`, `{"messages":[{"content":[{"image_url":"data:image/jpeg;base64,AA=="}]}]}`},
		"other images":                 {`{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AA=="}},{"image_url":{"url":"https://x/image/jpg"}},{"image_url":{"url":"data:image/jpg"}}]}]}`, ""},
		"a document":                   {`{"messages":[{"content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,AA=="}}]}]}`, `{"messages":[{"content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,AA==","filename":"document.pdf"}}]}]}`},
		"a document with an empty one": {`{"messages":[{"content":[{"file":{"filename":null,"file_data":"data:text/csv,AA"}}]}]}`, `{"messages":[{"content":[{"file":{"file_data":"data:text/csv,AA","filename":"document.csv"}}]}]}`},
		"named documents":              {`{"messages":[{"content":[{"file":{"filename":"a","file_data":"data:application/pdf;base64,AA=="}},{"file":{"file_id":"f"}}]}]}`, ""},
		"empty texts":                  {`{"messages":[{"role":"system","content":""},{"role":"user","content":[{"type":"text","text":" "}]},{"role":"assistant","content":""}]}`, ""},
		"choices without tools":        {`{"a":1, "tool_choice":"auto","parallel_tool_calls":true,"function_call":"auto" , "b":2}`, `{"a":1 , "b":2}`},
		"no tools":                     {`{"tools":[],"tool_choice":"none","model":"m"}`, `{"model":"m"}`},
		"choices that are none":        {`{"tools":null,"tool_choice":null,"parallel_tool_calls":null,"function_call":null}`, ""},
		"choices":                      {`{"tool_choice":"auto","parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"f"}}]}`, ""},
		"results":                      {`{"messages":[` + call + `,` + result + `,` + again + `,` + user + `]}`, ""},
		"results in another order":     {`{"messages":[` + call + `, ` + again + `, ` + result + `]}`, ""},
		"a text between":               {`{"messages":[` + user + `, ` + call + `, ` + result + `, ` + user + `, ` + again + `],"n":1}`, `{"messages":[` + user + `,` + call + `,` + result + `,` + again + `,` + user + `],"n":1}`},
		"a turn between":               {`{"messages":[` + call + `,` + again + `,{"role":"assistant","tool_calls":[{"id":"c"}]},{"role":"tool","tool_call_id":"c"},` + result + `]}`, `{"messages":[` + call + `,` + again + `,` + result + `,{"role":"assistant","tool_calls":[{"id":"c"}]},{"role":"tool","tool_call_id":"c"}]}`},
		"results of no call":           {`{"messages":[` + user + `,` + result + `]}`, ""},
		"allowed tools": {
			`{"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"NAME"}},{"type":"web_search"}]}},"tools":[{"type":"function","function":{"name":"f"}},{"type":"web_search"}, {"type":"function","function":{"name":"NAME"}}]}`,
			`{"tool_choice":"required","tools":[{"type":"web_search"}, {"type":"function","function":{"name":"` + short + `"}}]}`,
		},
		"no allowed tools": {`{"m":1,"tools":[{"type":"function","function":{"name":"f"}}],"parallel_tool_calls":true,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}}`, `{"m":1}`},
		"system alone":     {`{"messages":[{"role":"system","content":"x"}]}`, ""},
		"not JSON":         {`{"tools":[],"x":`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			body, want := strings.ReplaceAll(c.body, "NAME", long), strings.ReplaceAll(c.want, "NAME", long)
			got, names := chat.Pass([]byte(body), chat.Foreign{}, tight)
			if string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			for new, was := range names {
				if !strings.Contains(body, string(was)) || !strings.Contains(want, new) {
					t.Errorf("%s was %s", new, was)
				}
			}
		})
	}
}

// Where the provider knows the choice, all tools stay.
func TestAChoiceThatTheProviderKnowsPasses(t *testing.T) {
	body := `{"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}}`
	if got, _ := chat.Pass([]byte(body), chat.Foreign{}, chat.Limits{ToolName: 64}); got != nil {
		t.Errorf("got %s", got)
	}
}

// Providers that want their reasoning back refuse turns with calls that have none, such as those
// of another model.
func TestATurnWithCallsHasReasoningForThoseThatRequireIt(t *testing.T) {
	const calls = `"tool_calls":[{"id":"c"}]`
	for message, want := range map[string]string{
		`{"role":"assistant",` + calls + `}`:                                                         `{"role":"assistant",` + calls + `,"reasoning_content":""}`,
		`{"reasoning_content":null,"role":"assistant",` + calls + `}`:                                `{"role":"assistant",` + calls + `,"reasoning_content":""}`,
		`{"role":"assistant","reasoning_content":"Hm.",` + calls + `}`:                               "",
		`{"role":"assistant","reasoning_content":"",` + calls + `}`:                                  "",
		`{"role":"assistant","content":"Ho"}`:                                                        "",
		`{"role":"assistant","content":"Ho","tool_calls":[]}`:                                        "",
		`{"role":"user","content":"Ho"}`:                                                             "",
		`{"role":"assistant",` + calls + `,"content_blocks":[{"type":"text","text":"x"}]}`:           `{"role":"assistant",` + calls + `,"reasoning_content":""}`,
		`{"role":"assistant",` + calls + `,"content_blocks":[{"type":"thinking","thinking":"Hm."}]}`: `{"role":"assistant",` + calls + `,"reasoning_content":"Hm."}`,
	} {
		if want != "" {
			want = `{"messages":[` + want + `]}`
		}
		got, _ := chat.Pass([]byte(`{"messages":[`+message+`]}`), chat.Foreign{ReturnReasoning: true}, tight)
		if string(got) != want {
			t.Errorf("%s: got %s, want %s", message, got, want)
		}
		if got, _ = chat.Pass([]byte(`{"messages":[`+message+`]}`), chat.Foreign{}, tight); strings.Contains(string(got), `"reasoning_content":"`) && !strings.Contains(message, "reasoning_content") {
			t.Errorf("%s: got %s from a provider that does not want it", message, got)
		}
	}
}

// agent is the body of an agent: tools, calls and results, of about the given size.
func agent(size int) []byte {
	var turns []string
	for n := 0; n < size; n += 1200 {
		id := len(turns)
		turns = append(turns, fmt.Sprintf(`{"role":"user","content":%q}`, strings.Repeat("words ", 90)),
			fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a/b.go\"}"}}]}`, id),
			fmt.Sprintf(`{"role":"tool","tool_call_id":"call_%d","content":%q}`, id, strings.Repeat("line of code\n", 30)))
	}
	return fmt.Appendf(nil, `{"model":"m","messages":[%s],"tools":[{"type":"function","function":{"name":"read_file","parameters":{"type":"object"}}}],"tool_choice":"auto","user":"u"}`, strings.Join(turns, ","))
}

// A body that breaks no limit costs the same few allocations, however large it is.
func TestABodyWithinTheLimitsCostsNoMemory(t *testing.T) {
	for _, size := range []int{2 << 10, 200 << 10} {
		body := agent(size)
		alloctest.AtMost(t, 4, 20, func() {
			if out, _ := chat.Pass(body, chat.Foreign{Signatures: true}, tight); out != nil {
				t.Fatal("it was edited")
			}
		})
	}
}

func BenchmarkPass(b *testing.B) {
	for _, size := range []int{2 << 10, 200 << 10} {
		body := agent(size)
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				chat.Pass(body, chat.Foreign{Signatures: true}, tight)
			}
		})
	}
}

// FuzzPass: of what is JSON comes JSON, in which nothing is left to be changed.
func FuzzPass(f *testing.F) {
	for _, body := range []string{
		`{"tools":[],"tool_choice":"auto","messages":[{"role":"assistant","tool_calls":[{"id":"a"}]},{"role":"user","content":[{"type":"file","file":{"file_data":"x"}},{"image_url":{"url":"data:image/jpg;base64,"}}]},{"role":"tool","tool_call_id":"a"}]}`,
		`{"messages":[{"content_blocks":[{"type":"thinking","thinking":"x"}],"role":"assistant","tool_calls":[{"extra_content":1}]}, null],"user":"\ud800"}`,
		`{"tools":[{"function":{"name":"a b"}},{"cache_control":{}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[{"name":"a b"}]}}}`,
		`{"cache_control":1,"output_config":{}}`,
	} {
		f.Add([]byte(body), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, closed bool) {
		foreign := chat.Foreign{Signatures: true, Reasoning: closed, ReturnReasoning: !closed, OfCalls: closed, OfMessages: closed}
		out, _ := chat.Pass(body, foreign, tight)
		if out == nil || !json.Valid(body) {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%q becomes %q", body, out)
		}
		if again, _ := chat.Pass(out, foreign, tight); again != nil && string(again) != string(out) {
			t.Fatalf("%q becomes %q, and that %q", body, out, again)
		}
	})
}
