package embedding

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
)

func TestTheAnswerIsWrittenWhenTheBodyIsGone(t *testing.T) {
	body := []byte(`{"model":"m-1","input":"a"}`)
	r, err := Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 'x'
	}
	out, err := r.Append(nil, []chat.Raw{chat.Raw("[1]")}, 1, "example")
	if err != nil || !strings.Contains(string(out), `"model":"m-1"`) {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestVectorsThatAreNotThoseOfTheInputsAreAnError(t *testing.T) {
	r, err := Parse([]byte(`{"input":["x"],"input":["a","b"],"encoding_format":"base64"}`))
	if err != nil {
		t.Fatal(err)
	}
	for want, vectors := range map[string][]chat.Raw{
		"1 embeddings of 2 inputs":                                {chat.Raw("[1]")},
		"an embedding that is no list of numbers":                 {chat.Raw("[1]"), chat.Raw("null")},
		`strconv.ParseFloat: parsing "1e999": value out of range`: {chat.Raw("[1e999]"), chat.Raw("[1]")},
	} {
		if _, err := r.Append(nil, vectors, 1, "example"); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	out, err := r.Append(nil, []chat.Raw{chat.Raw("[1]"), chat.Raw("[]")}, 1, "example")
	if err != nil || !json.Valid(out) {
		t.Errorf("got %s, %v", out, err)
	}
}
