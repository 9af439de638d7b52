package echo

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

const responseTools = `[{"type":"web_search"},{"type":"function","name":"weather"},{"type":"function","name":"time"}]`

func TestResponsesEcho(t *testing.T) {
	for name, test := range map[string]struct{ request, call, text, status, usage string }{
		"a text":                 {`"model":"m","input":"Hi, you"`, "", "Hi, you", completed, "3 3 6"},
		"instructions":           {`"instructions":"Be brief.","input":"two"`, "", "two", completed, "4 1 5"},
		"messages":               {`"input":[{"role":"developer","content":"x"},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image"},{"type":"input_text","text":"b"}]}]`, "", "a\nb", completed, "3 2 5"},
		"an assistant's last":    {`"input":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"output_text","text":"a b"}]}]`, "", "q", completed, "3 1 4"},
		"the output of a tool":   {`"tools":` + responseTools + `,"input":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"time","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"at 9"}]`, "", "at 9", completed, "3 2 5"},
		"a limit":                {`"max_output_tokens":2,"input":"a b c"`, "", "a b", incomplete, "3 2 5"},
		"escapes":                {`"input":"\"\\\u0001 \u00e9"`, "", "\"\\\u0001 é", completed, "4 4 8"},
		"the first function":     {`"input":"in \"Oslo\"?","tools":` + responseTools, "weather", `{"input": "in \"Oslo\"?"}`, completed, "5 5 10"},
		"the forced one":         {`"input":"q","tool_choice":{"type":"function","name":"time"},"tools":` + responseTools, "time", `{"input": "q"}`, completed, "1 1 2"},
		"tools that are not for": {`"input":"q","tool_choice":"none","tools":` + responseTools, "", "q", completed, "1 1 2"},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(got gjson.Result) {
				t.Helper()
				item, content := got.Get("output.0"), "content.0.text"
				kind := "message"
				if test.call != "" {
					kind, content = "function_call", "arguments"
				}
				usage := got.Get("usage.input_tokens").Raw + " " + got.Get("usage.output_tokens").Raw + " " + got.Get("usage.total_tokens").Raw
				if got.Get("object").Str != "response" || got.Get("status").Str != test.status || got.Get("output.#").Int() != 1 || usage != test.usage ||
					(test.status == incomplete) != (got.Get("incomplete_details.reason").Str == "max_output_tokens") {
					t.Errorf("%s", got.Raw)
				}
				if item.Get("type").Str != kind || item.Get(content).Str != test.text || item.Get("name").Str != test.call || item.Get("status").Str != test.status {
					t.Errorf("item %s, want %s with %q", item.Raw, kind, test.text)
				}
			}
			check(post(t, "/v1/responses", "{"+test.request+"}"))

			events := stream(t, "/v1/responses", `{"stream":true,`+test.request+"}")
			var text strings.Builder
			for i, e := range events {
				if e.Get("sequence_number").Int() != int64(i) {
					t.Errorf("event %d: %s", i, e.Raw)
				}
				text.WriteString(e.Get("delta").Str)
				if id := e.Get("item_id").Str; id != "" && id != events[len(events)-1].Get("response.output.0.id").Str {
					t.Errorf("event %d is of another item: %s", i, e.Raw)
				}
			}
			if text.String() != test.text || events[0].Get("response.output.#").Int() != 0 || events[0].Get("response.status").Str != inProgress {
				t.Errorf("the pieces are %q, want %q; first %s", text.String(), test.text, events[0].Raw)
			}
			last := events[len(events)-1]
			if last.Get("type").Str != "response."+test.status {
				t.Errorf("last %s", last.Raw)
			}
			check(last.Get("response"))
			if done := events[len(events)-2]; done.Get("item").Raw != last.Get("response.output.0").Raw {
				t.Errorf("item %s", done.Raw)
			}
		})
	}
}

func TestResponsesRefuse(t *testing.T) {
	for _, body := range []string{
		`{}`, `{"input":1}`, `{"input":[]}`, `{"input":["a"]}`, `{"input":[{"role":"user","content":1}]}`, `{"input":"a","max_output_tokens":-1}`, `{"input":"a","stream":1}`,
		`{"input":"a","tool_choice":{"type":"function","name":"x"},"tools":` + responseTools + `}`,
	} {
		if w := do(t, new(Echo), http.MethodPost, "/v1/responses", body); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}
