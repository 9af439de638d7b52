package responses_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/responses"
)

// What other providers do not have is refused by its name, and never left out.
func TestRefusals(t *testing.T) {
	input := func(items string) string { return `{"model":"m","input":[` + items + `]}` }
	with := func(members string) string { return `{"model":"m","input":"hi",` + members + `}` }
	user := func(parts string) string {
		return input(`{"role":"user","content":"hi"},{"role":"user","content":[` + parts + `]}`)
	}
	long := strings.Repeat("x", 65)
	for _, c := range []struct{ body, param, message, code string }{
		{`{"model":"m"}`, "input", "Missing required parameter: 'input'.", "missing_required_parameter"},
		{input(``), "input", "Missing required parameter: 'input'.", "missing_required_parameter"},
		{with(`"background":true`), "background", "leave 'background' out", ""},
		{with(`"conversation":"c"`), "conversation", "previous_response_id", ""},
		{with(`"prompt":{"id":"p"}`), "prompt", "Stored prompts", ""},
		{with(`"background":true,"conversation":"c"`), "background", "leave 'background' out", ""}, // the first

		{input(`{"role":"user","content":"hi"},{"type":"item_reference","id":"msg_1"}`), "input[1]", "Item with id 'msg_1' not found", ""},
		{input(`{"id":"msg_1"}`), "input[0]", "Item with id 'msg_1' not found", ""},
		{input(`{"type":"computer_call","id":"c"}`), "input[0]", "Items of type 'computer_call' ", ""},
		{input(`{"content":"hi"}`), "input[0]", "Items of type '' ", ""},
		{input(`{"type":"` + long + `"}`), "input[0]", "'" + long[:64] + "…'", ""},
		{input(`{"type":"` + long[:64] + `"}`), "input[0]", "'" + long[:64] + "'", ""},
		{input(`{"role":"tool","content":"hi"}`), "input[0].role", "Invalid value: 'tool'.", ""},
		{input(`{"role":"user","content":5}`), "input[0].content", "expected a string or an array of parts", ""},
		{input(`{"type":"function_call_output","call_id":"c","output":true}`), "input[0].output", "expected a string or an array of parts", ""},
		{user(`{"type":"input_text","text":"hi"},{"type":"input_video"}`), "input[1].content[1]", "Parts of type 'input_video' ", ""},
		{user(`{"type":"input_image"}`), "input[1].content[0].image_url", "Missing required parameter: 'input[1].content[0].image_url'.", ""},
		{user(`{"type":"input_file"}`), "input[1].content[0].file_data", "Missing required parameter: 'input[1].content[0].file_data'.", ""},

		{with(`"tools":[{"type":"function","name":"f"},{"type":"file_search"}]`), "tools[1]", "Tools of type 'file_search' ", ""},
		{with(`"tools":[{"type":"web_searches"}]`), "tools[0]", "Tools of type 'web_searches' ", ""},
		{with(`"tools":[{"type":"namespace","name":"n","tools":[{"type":"web_search"}]}]`), "tools[0].tools[0]", "Tools of type 'web_search' ", ""},
		{input(`{"type":"additional_tools","tools":[{"type":"function","name":"f"},{"type":"mcp"}]}`), "input[0].tools[1]", "Tools of type 'mcp' ", ""},
		{with(`"tools":[{"type":"function"}]`), "tools[0].name", "Missing required parameter: 'tools[0].name'.", ""},
		{with(`"tools":[{"type":"namespace","tools":[]}]`), "tools[0]", "Tools of type 'namespace' ", ""},
		{with(`"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},{"type":"mcp","name":"g"}]}]`), "tools[0].tools[1]", "Tools of type 'mcp' ", ""},
		{with(`"tools":[{"type":"namespace","name":"n","tools":[{"type":"namespace","name":"o"}]}]`), "tools[0].tools[0]", "Tools of type 'namespace' ", ""},
		{with(`"tool_choice":{"type":"web_search"}`), "tool_choice", "not of type 'web_search'", ""},
		{with(`"tool_choice":{"type":"function"}`), "tool_choice", "not of type 'function'", ""},
		{with(`"tool_choice":{"type":"allowed_tools","name":"f"}`), "tool_choice", "not of type 'allowed_tools'", ""},
		{with(`"text":{"format":{"type":"grammar"}}`), "text.format.type", "not 'grammar'", ""},
	} {
		_, err := responses.Parse([]byte(c.body), responses.Options{Provider: "anthropic"})
		var u *chat.Unsupported
		if !errors.As(err, &u) || u.Param != c.param || !strings.Contains(u.Message, c.message) || u.Code != c.code {
			t.Errorf("%.200s: got %+v, want %s: %s", c.body, err, c.param, c.message)
		}
	}
	for _, body := range []string{
		with(`"background":false`), with(`"conversation":null`),
		user(`{"type":"input_image","file_id":"f"}`), user(`{"type":"input_file","file_id":"f"}`),
	} {
		if _, err := responses.Parse([]byte(body), responses.Options{}); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestConversationsAreShortenedByTheirOlderTurns(t *testing.T) {
	const body = `{"instructions":"rules","input":[{"role":"user","content":"1"},{"role":"assistant","content":"a"},{"role":"developer","content":"note"},` +
		`{"role":"user","content":"2"},{"role":"assistant","content":"b"},{"role":"user","content":"3"},{"role":"user","content":"4"}]}`
	for times, want := range []string{"rules 1 a note 2 b 3 4", "rules note 3 4", "rules note 4", "rules note 4"} {
		asked, err := responses.Parse([]byte(body), responses.Options{Shorten: times})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range asked.Messages {
			got = append(got, m.Parts[0].Text.Text())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d times: %q, want %q", times, got, want)
		}
	}
	asked, err := responses.Parse([]byte(body), responses.Options{})
	if err != nil || responses.Turns(asked.Messages) != 4 {
		t.Errorf("%d turns, %v", responses.Turns(asked.Messages), err)
	}
}
