package embedding

import (
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
	const noNumbers = "an embedding that is not a list of numbers"
	for _, c := range []struct {
		want    string
		vectors []chat.Raw
	}{
		{"0 embeddings of 2 inputs", nil},
		{"1 embeddings of 2 inputs", []chat.Raw{chat.Raw("[1]")}},
		{noNumbers, []chat.Raw{chat.Raw("[1]"), chat.Raw("null")}},
		{noNumbers, []chat.Raw{chat.Raw("[1]"), nil}},
		{noNumbers, []chat.Raw{chat.Raw("[1]"), chat.Raw("[]")}},
		{`strconv.ParseFloat: parsing "1e999": value out of range`, []chat.Raw{chat.Raw("[1e999]"), chat.Raw("[1]")}},
	} {
		if _, err := r.Append(nil, c.vectors, 1, "example"); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.vectors, err, c.want)
		}
	}
	r.Base64 = false
	if _, err := r.Append(nil, []chat.Raw{chat.Raw("[1]"), nil}, 1, "example"); err == nil {
		t.Error("a vector that is missing is an answer")
	}
}
