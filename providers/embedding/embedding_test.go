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
