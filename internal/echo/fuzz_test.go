package echo

import (
	"encoding/json"
	"net/http"
	"testing"
)

// No body makes an endpoint panic, and every answer and event is JSON.
func FuzzServeHTTP(f *testing.F) {
	paths := []string{"/chat/completions", "/completions", "/embeddings", "/moderations", "/responses"}
	for i, bodies := range [][]string{
		{
			`{"model":"m","n":2,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"a \"b\" c"}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"\ud800 \u0000"}]}],"tools":` + tools + `,"stream":true}`,
			`{"messages":[{"role":"tool","content":"x"}],"tool_choice":{"function":{"name":"time"}},"max_tokens":1}`,
		},
		{`{"prompt":["a","b"],"n":3}`, `{"prompt":[[1,2]],"stream":true}`},
		{`{"input":"a","dimensions":3,"encoding_format":"base64"}`, `{"input":[1,2]}`},
		{`{"input":"flag-me","model":"x"}`},
		{
			`{"input":"a b","instructions":"c","stream":true}`, `{"input":[{"role":"user","content":[{"type":"input_text","text":"\ud800 x"}]}],"max_output_tokens":1,"stream":true}`,
			`{"input":[{"role":"user","content":"a"}],"tools":[{"type":"function","name":"f"}],"stream":true}`,
		},
	} {
		for _, body := range bodies {
			f.Add(uint8(i), []byte(body))
		}
	}
	f.Add(uint8(0), []byte("\xff{[\"\\"))
	f.Fuzz(func(t *testing.T, path uint8, body []byte) {
		w := do(t, new(Echo), http.MethodPost, paths[int(path)%len(paths)], string(body))
		if w.Header().Get("Content-Type") == "text/event-stream" {
			eventsOf(t, w.Body.String())
			return
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("not JSON: %s", w.Body)
		}
		if w.Code != http.StatusOK {
			checkError(t, w)
		}
	})
}

// The scanners agree with their definitions for any text.
func FuzzText(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<10 {
			t.Skip() // checkClip is quadratic
		}
		checkClip(t, text)
		checkWords(t, text)
		checkString(t, text)
	})
}
