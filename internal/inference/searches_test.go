package inference

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// What a provider charges for its own tools is counted from the items of a response, which come in one piece, in
// portions and in a stream, and from the usage of others.
func TestSearchesOfTheProviderAreCounted(t *testing.T) {
	item := func(action string) string {
		return `{"id":"ws","type":"web_search_call","status":"completed","action":` + action + `}`
	}
	output := `[` + strings.Join([]string{
		item(`{"type":"search","query":"web_search_call"}`), item(`{"type":"open_page","url":"https://x"}`), item(`{"type":"search","query":"b"}`),
		item(`{"type":"find_in_page","pattern":"p"}`), `{"id":"fs","type":"file_search_call","queries":["a"],"status":"completed"}`,
		`{"type":"message","content":[{"type":"output_text","text":"file_search_call","annotations":[]}]}`,
	}, ",") + `]`
	response := `{"id":"r","object":"response","status":"completed","model":"m","tools":[{"type":"web_search"}],"output":` + output + `,"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`
	for name, c := range map[string]struct {
		path, media, body string
		web, files        int64
	}{
		"a response":  {"/responses", "application/json", response, 2, 1},
		"a stream":    {"/responses", "text/event-stream", event(`{"type":"response.created","response":{"id":"r","output":[]}}`) + event(`{"type":"response.output_item.done","item":`+item(`{"type":"search"}`)+`}`) + event(`{"type":"response.completed","response":`+response+`}`), 2, 1},
		"Anthropic":   {"/messages", "application/json", `{"id":"m","type":"message","content":[],"usage":{"input_tokens":3,"output_tokens":4,"server_tool_use":{"web_search_requests":5,"web_fetch_requests":1}}}`, 5, 0},
		"OpenRouter":  {"/chat/completions", "application/json", strings.Replace(answerOf("x"), `"total_tokens"`, `"server_tool_use":{"web_search_requests":1},"total_tokens"`, 1), 1, 0},
		"Perplexity":  {"/chat/completions", "application/json", strings.Replace(answerOf("x"), `"total_tokens"`, `"num_search_queries":28,"total_tokens"`, 1), 28, 0},
		"none":        {"/responses", "application/json", strings.Replace(response, output, "[]", 1), 0, 0},
		"of a caller": {"/chat/completions", "application/json", answerOf("web_search_call"), 0, 0},
	} {
		for in, portion := range map[string]func(io.Reader) io.Reader{"at once": iotest.DataErrReader, "in portions": iotest.HalfReader, "by bytes": iotest.OneByteReader} {
			t.Run(name+", "+in, func(t *testing.T) {
				w := watching("/v1" + c.path)
				var err error
				if c.media == "text/event-stream" {
					_, err = io.Copy(io.Discard, newStream(io.NopCloser(portion(strings.NewReader(c.body))), w, 0))
				} else {
					_, err = io.Copy(io.Discard, &body{src: io.NopCloser(portion(strings.NewReader(c.body))), to: w, json: true})
				}
				if u := w.attempt.Usage; err != nil || !u.Known || u.WebSearches != c.web || u.FileSearches != c.files {
					t.Errorf("%+v, %v", u, err)
				}
			})
		}
	}
}
