package echo

import (
	"net/http"
	"strings"
	"testing"
)

func TestCompletionEchoesThePrompt(t *testing.T) {
	for name, test := range map[string]struct{ request, texts, finishes, usage string }{
		"string":       {`{"prompt":"Say \"hi\""}`, `["Say \"hi\""]`, `["stop"]`, "4 4 8"},
		"strings":      {`{"prompt":["a","b c"]}`, `["a","b c"]`, `["stop","stop"]`, "3 3 6"},
		"tokens":       {`{"prompt":[1,22,333]}`, `["1 22 333"]`, `["stop"]`, "3 3 6"},
		"token arrays": {`{"prompt":[[1,2],[3]]}`, `["1 2","3"]`, `["stop","stop"]`, "3 3 6"},
		"n of each":    {`{"n":2,"prompt":["a","b c"]}`, `["a","a","b c","b c"]`, `["stop","stop","stop","stop"]`, "3 6 9"},
		"limit":        {`{"max_tokens":1,"prompt":["a","b c"]}`, `["a","b"]`, `["stop","length"]`, "3 2 5"},
		"no prompt":    {`{}`, `[""]`, `["stop"]`, "0 0 0"},
		"longer than OpenAI's default limit": {
			`{"prompt":"` + strings.Repeat("a ", 20) + `"}`, `["` + strings.Repeat("a ", 20) + `"]`, `["stop"]`, "20 20 40",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := post(t, "/v1/completions", test.request)
			if !strings.HasPrefix(got.Get("id").Str, "cmpl-echo-") || got.Get("object").Str != "text_completion" ||
				got.Get("created").Int() == 0 || got.Get("model").Str != "echo" {
				t.Errorf("%s", got.Raw)
			}
			if texts := got.Get("choices.#.text").Raw; texts != test.texts {
				t.Errorf("texts %s, want %s", texts, test.texts)
			}
			if finishes := got.Get("choices.#.finish_reason").Raw; finishes != test.finishes {
				t.Errorf("finish reasons %s, want %s", finishes, test.finishes)
			}
			checkUsage(t, got.Get("usage"), test.usage)
		})
	}
}

func TestCompletionStream(t *testing.T) {
	events := stream(t, "/v1/completions",
		`{"model":"m","stream":true,"stream_options":{"include_usage":true},"prompt":["Hello big world","x"],"max_tokens":2}`)
	texts := map[int64]string{}
	finishes := map[int64]string{}
	for _, event := range events {
		if event.Get("object").Str != "text_completion" || event.Get("model").Str != "m" {
			t.Errorf("event %s", event.Raw)
		}
		for _, choice := range event.Get("choices").Array() {
			texts[choice.Get("index").Int()] += choice.Get("text").Str
			finishes[choice.Get("index").Int()] += choice.Get("finish_reason").Str
		}
	}
	if texts[0] != "Hello big" || texts[1] != "x" || finishes[0] != "length" || finishes[1] != "stop" {
		t.Errorf("%v %v", texts, finishes)
	}
	checkUsage(t, events[len(events)-1].Get("usage"), "4 3 7")
}

// The rules for prompts apply to the input of embeddings and moderations, too.
func TestInputsRefused(t *testing.T) {
	for name, value := range map[string]string{
		"number":           `7`,
		"object":           `{"a":"b"}`,
		"true":             `true`,
		"empty array":      `[]`,
		"array of objects": `[{}]`,
		"array of nulls":   `[null]`,
		"empty tokens":     `[[]]`,
		"mixed tokens":     `[1,"a"]`,
		"negative token":   `[-1]`,
		"fraction":         `[[1.5]]`,
		"too many":         `["a"` + strings.Repeat(`,"a"`, maxInputs) + `]`,
	} {
		for path, member := range map[string]string{"completions": "prompt", "embeddings": "input", "moderations": "input"} {
			w := do(t, new(Echo), http.MethodPost, "/v1/"+path, `{"`+member+`":`+value+`}`)
			if w.Code != http.StatusBadRequest {
				t.Errorf("%s to %s: status %d", name, path, w.Code)
			}
			checkError(t, w)
		}
	}
	for _, path := range []string{"/embeddings", "/moderations"} {
		if w := do(t, new(Echo), http.MethodPost, path, `{}`); w.Code != http.StatusBadRequest {
			t.Errorf("%s without an input: status %d", path, w.Code)
		}
	}
}
