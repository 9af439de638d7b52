package responses_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/responses"
)

var tight = chat.Limits{ToolName: 64, User: 64, NoAllowedTools: true}

// What a provider refuses becomes what it takes, and everything else keeps its bytes.
func TestABodyThatPassesIsWithinTheLimits(t *testing.T) {
	long := strings.Repeat("n", 65)
	names := chat.Renames{Most: 64}
	short := names.Of(chat.Quote(long)).Text()
	for name, c := range map[string]struct{ body, want string }{
		"names of tools": {
			`{"tools":[{"type":"function","name":"NAME"},{"name":"NAME","type":"custom"},{"type":"mcp","name":"a/b"},{"type":"namespace","name":"a.b","tools":[{"type":"function","name":"NAME"}]}],"tool_choice":{"type":"function","name":"NAME"}}`,
			`{"tools":[{"type":"function","name":"SHORT"},{"name":"SHORT","type":"custom"},{"type":"mcp","name":"a/b"},{"type":"namespace","name":"a.b","tools":[{"type":"function","name":"SHORT"}]}],"tool_choice":{"type":"function","name":"SHORT"}}`,
		},
		"names of calls": {
			`{"input":[{"type":"function_call","name":"NAME","arguments":"{\"a\":\"NAME\"}"},{"name":"NAME","type":"custom_tool_call"},{"type":"mcp_call","name":"a.b"},{"role":"user","content":"NAME"}]}`,
			`{"input":[{"type":"function_call","name":"SHORT","arguments":"{\"a\":\"NAME\"}"},{"name":"SHORT","type":"custom_tool_call"},{"type":"mcp_call","name":"a.b"},{"role":"user","content":"NAME"}]}`,
		},
		"a long user":                       {`{"user":"` + strings.Repeat("u", 65) + `"}`, `{"user":"` + strings.Repeat("u", 64) + `"}`},
		"an image":                          {`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/jpg;base64,AA=="}]}]}`, `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/jpeg;base64,AA=="}]}]}`},
		"an image in a result":              {`{"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"data:image/jpg;base64,AA=="}]}]}`, `{"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"data:image/jpeg;base64,AA=="}]}]}`},
		"a document":                        {`{"input":[{"role":"user","content":[{"type":"input_file","file_data":"data:application/pdf;base64,AA=="},{"type":"input_file","file_url":"https://x"}]}]}`, `{"input":[{"role":"user","content":[{"type":"input_file","file_data":"data:application/pdf;base64,AA==","filename":"document.pdf"},{"type":"input_file","file_url":"https://x"}]}]}`},
		"a choice without tools":            {`{"input":"x","tool_choice":"required"}`, `{"input":"x"}`},
		"a choice that needs none":          {`{"input":"x","tool_choice":"auto","tools":[]}`, ""},
		"tools of a stored prompt":          {`{"tool_choice":"required","prompt":{"id":"p"}}`, ""},
		"tools of an item":                  {`{"tool_choice":"required","input":[{"type":"additional_tools","tools":[{"type":"function","name":"f"}]}]}`, ""},
		"empty texts, and results anywhere": {`{"input":[{"role":"user","content":""},{"type":"function_call","call_id":"c","name":"f","arguments":""},{"role":"user","content":[{"type":"input_text","text":""}]},{"type":"function_call_output","call_id":"c","output":""}]}`, ""},
		"allowed tools": {
			`{"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"NAME"},{"type":"web_search"}]},"tools":[{"type":"function","name":"f"},{"type":"web_search"},{"type":"function","name":"NAME"}]}`,
			`{"tool_choice":"required","tools":[{"type":"web_search"},{"type":"function","name":"SHORT"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := strings.NewReplacer("NAME", long, "SHORT", short)
			body, want := r.Replace(c.body), r.Replace(c.want)
			got, _ := responses.Pass([]byte(body), tight)
			if string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	body := []byte(`{"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]}}`)
	if got, _ := responses.Pass(body, chat.Limits{ToolName: 64, User: 64}); got != nil {
		t.Errorf("where the provider knows the choice, got %s", got)
	}
}

// FuzzPass: of what is JSON comes JSON, in which nothing is left to be changed.
func FuzzPass(f *testing.F) {
	for _, body := range []string{
		`{"input":[{"type":"reasoning","encrypted_content":"gw:thinking:a:b"},{"type":"function_call","name":"a b","extra_content":1},{"content":[{"file_data":"x"},{"image_url":"data:image/jpg;base64,"}]}],"tool_choice":"required"}`,
		`{"tools":[{"type":"function","name":"a b"},{"type":"x"}],"tool_choice":{"type":"allowed_tools","tools":[{"name":"a b"}]},"user":"x"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, _ := responses.Pass(body, tight)
		if out == nil || !json.Valid(body) {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%q becomes %q", body, out)
		}
		if again, _ := responses.Pass(out, tight); again != nil && string(again) != string(out) {
			t.Fatalf("%q becomes %q, and that %q", body, out, again)
		}
	})
}
