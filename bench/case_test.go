package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestBodiesAreOfTheirSize(t *testing.T) {
	for _, c := range cases {
		body := c.body()
		if c.size != 0 && len(body) != c.size {
			t.Errorf("%s: %d bytes; want %d", c.name, len(body), c.size)
		}
		if !json.Valid(body) {
			t.Errorf("%s: not JSON: %.100s", c.name, body)
		}
	}
}

func TestCasesAreChosenByName(t *testing.T) {
	chosen, err := casesOf([]string{"stream", "2KB"})
	if err != nil || len(chosen) != 2 || chosen[0].name != "stream" || chosen[1].name != "2KB" {
		t.Errorf("got %v, %v", chosen, err)
	}
	if _, err := casesOf([]string{"2kb"}); err == nil || !strings.Contains(err.Error(), "2KB, 20KB, 200KB, 2MB, stream, paced") {
		t.Errorf("an unknown case: %v", err)
	}
}

func TestAnswersAreChecked(t *testing.T) {
	whole, stream := cases[0], benchCase{words: 2, stream: true}
	const chunk = "data: {\"choices\":[]}\n\n"
	for _, test := range []struct {
		name   string
		c      benchCase
		status int
		body   string
		fault  string // part of the error; empty: no error
	}{
		{"echoed", whole, 200, `{"message":{"content":"word word word"}}`, ""},
		{"other text", whole, 200, `{"message":{"content":"word"}}`, "does not echo"},
		{"refused", whole, 429, `{"error":{"message":"slow down"}}`, "slow down"},
		{"stream", stream, 200, chunk + ": ping\n\n" + chunk + "data: [DONE]\n\n", ""},
		{"CRLF and no space", stream, 200, "data:{}\r\n\r\ndata:{}\r\n\r\ndata:[DONE]\r\n\r\n", ""},
		{"text of Anthropic's", whole, 200, `{"content":[{"type":"text","text":"word word word"}]}`, ""},
		{"events of Anthropic's", stream, 200, "event: a\n" + chunk + "event: a\n" + chunk + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", ""},
		{"no end", stream, 200, chunk + chunk, "without [DONE]"},
		{"half a line", stream, 200, chunk + chunk + "data: [DO", "inside the line"},
		{"too short", stream, 200, chunk + "data: [DONE]\n\n", "1 events"},
		{"error event", stream, 200, chunk + "data: {\"error\":{}}\n\ndata: [DONE]\n\n", "an error"},
		{"after the end", stream, 200, chunk + chunk + "data: [DONE]\n\n" + chunk, "after the end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.c.check(&http.Response{
				StatusCode: test.status, Status: http.StatusText(test.status), Body: io.NopCloser(strings.NewReader(test.body)),
			})
			if test.fault == "" && err != nil || test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
				t.Errorf("got %v; want %q", err, test.fault)
			}
		})
	}
}
