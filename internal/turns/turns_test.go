package turns

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestWhatAMessageAsksFor(t *testing.T) {
	c := conversation{id: "resp_1", base: `"resp_0"`, items: []byte(`{"role":"user","content":"a"},{"id":"o"}`)}
	for name, row := range map[string]struct{ message, body string }{
		"a text":              {`{"type":"response.create","model":"m","input":"hi"}`, `{"stream":true,"input":[{"role":"user","content":"hi"}],"model":"m"}`},
		"a list":              {`{"type":"response.create","input":[ 1, 2 ]}`, `{"stream":true,"input":[1, 2]}`},
		"no input":            {`{"type":"response.create"}`, `{"stream":true,"input":[]}`},
		"null":                {`{"type":"response.create","input":null,"previous_response_id":null}`, `{"stream":true,"input":[]}`},
		"a stored response":   {`{"type":"response.create","previous_response_id":"resp_9"}`, `{"stream":true,"input":[],"previous_response_id":"resp_9"}`},
		"the latest response": {`{"type":"response.create","input":"b","previous_response_id":"resp_1"}`, `{"stream":true,"input":[{"role":"user","content":"a"},{"id":"o"},{"role":"user","content":"b"}],"previous_response_id":"resp_0"}`},
		"escapes of its id":   {`{"type":"response.create","input":[],"previous_response_id":"resp\u005f1"}`, `{"stream":true,"input":[{"role":"user","content":"a"},{"id":"o"}],"previous_response_id":"resp_0"}`},
		"what is of the wire": {`{"event_id":"e","type":"response.create","stream":false,"background":true,"generate":true,"store":false}`, `{"stream":true,"input":[],"store":false}`},
		"odd names":           {`{"type":"response.create","a\"b":1}`, `{"stream":true,"input":[],"a\"b":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := parse([]byte(row.message))
			if err != nil {
				t.Fatal(err)
			}
			base := c.extend(r)
			if got := string(r.body(base)); got != row.body || !gjson.Valid(got) {
				t.Errorf("got %s, want %s", got, row.body)
			}
		})
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	for _, message := range []string{``, `[]`, `"response.create"`, `{}`, `{"type":"response.cancel"}`, `{"type":"response.create"} {}`, `{"type":"response.create","input":7}`, `{"type":["response.create"]}`} {
		if _, err := parse([]byte(message)); err == nil || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", message, err)
		}
	}
}

// What is made of a message is valid JSON, and has its members once.
func FuzzMessage(f *testing.F) {
	f.Add(`{"type":"response.create","model":"m","input":"hi","previous_response_id":"resp_1"}`)
	f.Add(`{"type":"response.create","input":[{"a":1}],"store":false,"x":{"y":[1,2]}}`)
	f.Fuzz(func(t *testing.T, message string) {
		r, err := parse([]byte(message))
		if err != nil {
			return
		}
		c := conversation{id: "resp_1", items: []byte(`{"a":1}`)}
		body := string(r.body(c.extend(r)))
		if !gjson.Valid(body) || !gjson.Get(body, "stream").Bool() || !gjson.Get(body, "input").IsArray() {
			t.Errorf("made %s of %s", body, message)
		}
	})
}
