package messages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/alloctest"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
)

// What the API refuses becomes what it takes, and everything else keeps its bytes.
func TestABodyThatPassesIsWithinTheLimits(t *testing.T) {
	const user, text = `{"role":"user","content":"Hi"}`, `{"type":"text","text":"Hi"}`
	const calls = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]}`
	const a, b = `{"type":"tool_result","tool_use_id":"a","content":"1"}`, `{"content":"2","tool_use_id":"b","type":"tool_result"}`
	long := strings.Repeat("n", 129)
	names := chat.Renames{Most: 128}
	short := names.Of(chat.Quote(long)).Text()
	for name, c := range map[string]struct{ body, want string }{
		"names of tools": {
			`{"tools":[{"name":"NAME","input_schema":{}},{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"tool","name":"NAME"}, "messages":[{"role":"assistant","content":[{"name":"NAME","type":"tool_use","input":{"name":"NAME"}},{"type":"mcp_tool_use","name":"a/b"}]}]}`,
			`{"tools":[{"name":"SHORT","input_schema":{}},{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"tool","name":"SHORT"}, "messages":[{"role":"assistant","content":[{"name":"SHORT","type":"tool_use","input":{"name":"NAME"}},{"type":"mcp_tool_use","name":"a/b"}]}]}`,
		},
		"names of tools that were found": {
			`{"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_reference","tool_name":"NAME"}]}]}]}`,
			`{"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_reference","tool_name":"SHORT"}]}]}]}`,
		},
		"a long user":               {`{"metadata":{"user_id":"` + strings.Repeat("u", 257) + `"}}`, `{"metadata":{"user_id":"` + strings.Repeat("u", 256) + `"}}`},
		"a user with an address":    {`{"metadata":{"user_id":"a@example.com"}}`, `{"metadata":{}}`},
		"a user":                    {`{"metadata":{"user_id":"` + strings.Repeat("u", 256) + `"}}`, ""},
		"an image":                  {`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpg","data":"AA=="}}]}]}`, `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AA=="}}]}]}`},
		"an image in a result":      {`{"messages":[` + calls + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"media_type":"image/jpg"}}]}]}]}`, `{"messages":[` + calls + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"media_type":"image/jpeg"}}]}]}]}`},
		"blank blocks":              {`{"messages":[{"role":"user","content":[{"type":"text","text":"" }, ` + text + `, {"text":" \n","type":"text"}]}]}`, `{"messages":[{"role":"user","content":[` + text + `]}]}`},
		"blank messages":            {`{"messages":[` + user + `, {"role":"assistant","content":" "}, {"role":"user","content":[{"type":"text","text":""}]}, {"role":"user","content":[]}]}`, `{"messages":[` + user + `]}`},
		"blank blocks of results":   {`{"messages":[` + calls + `,{"role":"user","content":[{"content":[{"type":"text","text":""},` + text + `],"type":"tool_result","tool_use_id":"a"}]}]}`, `{"messages":[` + calls + `,{"role":"user","content":[{"content":[` + text + `],"type":"tool_result","tool_use_id":"a"}]}]}`},
		"blocks of its own tools":   {`{"messages":[{"role":"assistant","content":[{"type":"mcp_tool_result","content":[{"type":"text","text":""}]}]}]}`, ""},
		"blank instructions":        {`{"system":[{"type":"text","text":""}],"messages":[` + user + `]}`, `{"messages":[` + user + `]}`},
		"instructions":              {`{"system":[{"type":"text","text":""}, ` + text + `],"messages":[` + user + `]}`, `{"system":[` + text + `],"messages":[` + user + `]}`},
		"instructions alone":        {`{"model":"m","messages":[],"system":"Go."}`, `{"model":"m","messages":[{"role":"user","content":"Go."}]}`},
		"blocks of instructions":    {`{"system":[` + text + `],"messages":[{"role":"user","content":""}]}`, `{"messages":[{"role":"user","content":[` + text + `]}]}`},
		"nothing at all":            {`{"system":"","messages":[]}`, ""},
		"a thread":                  {`{"system":"Go.","messages":[],"thread":"t","tool_choice":{"type":"auto"}}`, ""},
		"a choice without tools":    {`{"tool_choice":{"type":"auto"},"messages":[` + user + `]}`, `{"messages":[` + user + `]}`},
		"a choice of an empty list": {`{"tools":[],"messages":[` + user + `],"tool_choice":{"type":"any"}}`, `{"tools":[],"messages":[` + user + `]}`},
		"a choice":                  {`{"tool_choice":{"type":"any"},"tools":[{"name":"f"}]}`, ""},
		"tools of servers":          {`{"tool_choice":{"type":"any"},"mcp_servers":[{"name":"s"}]}`, ""},
		"results":                   {`{"messages":[` + calls + `,{"role":"user","content":[` + b + `,` + a + `,` + text + `]}]}`, ""},
		"results in two messages":   {`{"messages":[` + calls + `,{"role":"user","content":[` + a + `]},{"role":"user","content":[` + b + `,` + text + `]}]}`, ""},
		"a text before":             {`{"messages":[` + calls + `,{"role":"user","content":[` + text + `,` + a + `,` + b + `]}],"n":1}`, `{"messages":[` + calls + `,{"role":"user","content":[` + a + `,` + b + `,` + text + `]}],"n":1}`},
		"a message between":         {`{"messages":[` + calls + `,` + user + `,{"role":"user","content":[` + a + `,` + b + `]}]}`, `{"messages":[` + calls + `,{"role":"user","content":[` + a + `,` + b + `,` + text + `]}]}`},
		"a turn between":            {`{"messages":[` + calls + `,{"role":"user","content":[` + a + `]},{"role":"assistant","content":"Ho"},{"role":"user","content":[` + b + `]}]}`, `{"messages":[` + calls + `,{"role":"user","content":[` + a + `,` + b + `]},{"role":"assistant","content":"Ho"}]}`},
		"thinking without a mark":   {`{"messages":[` + user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""}, ` + text + `]}]}`, `{"messages":[` + user + `,{"role":"assistant","content":[` + text + `]}]}`},
		"not JSON":                  {`{"messages":[{"role":"user","content":""}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := strings.NewReplacer("NAME", long, "SHORT", short)
			body, want := r.Replace(c.body), r.Replace(c.want)
			if want == "" {
				want = body
			}
			got, names := messages.Pass([]byte(body))
			if string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if renamed := strings.Contains(want, short); renamed != (names[short].Text() == long) {
				t.Errorf("names: %s", names)
			}
		})
	}
}

// agent is the body of an agent, of about the given size.
func agent(size int) []byte {
	var turns []string
	for n := 0; n < size; n += 1200 {
		id := len(turns)
		turns = append(turns, fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":%q}]}`, strings.Repeat("words ", 90)),
			fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"Read","input":{"path":"a/b.go"}}]}`, id),
			fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%q}]}`, id, strings.Repeat("line of code\n", 30)))
	}
	return fmt.Appendf(nil, `{"model":"m","max_tokens":1,"messages":[%s],"tools":[{"name":"Read","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto"},"metadata":{"user_id":"u"}}`, strings.Join(turns, ","))
}

// A body that breaks no limit costs the same few allocations, however large it is.
func TestABodyWithinTheLimitsCostsNoMemory(t *testing.T) {
	for _, size := range []int{2 << 10, 200 << 10} {
		body := agent(size)
		alloctest.AtMost(t, 4, 20, func() {
			if out, _ := messages.Pass(body); &out[0] != &body[0] {
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
				messages.Pass(body)
			}
		})
	}
}

// FuzzPass: of what is JSON comes JSON, in which nothing is left to be changed.
func FuzzPass(f *testing.F) {
	for _, body := range []string{
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a"}]},{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":""}]}]}]}`,
		`{"system":[{"type":"text","text":"x"}],"messages":[{"content":[{"type":"thinking"}]}, null, "x"],"tool_choice":{}}`,
		`{"metadata":{"user_id":"a@b"},"tools":[{"name":"a b"}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, _ := messages.Pass(body)
		if !json.Valid(body) {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%q becomes %q", body, out)
		}
		if again, _ := messages.Pass(out); string(again) != string(out) {
			t.Fatalf("%q becomes %q, and that %q", body, out, again)
		}
	})
}
