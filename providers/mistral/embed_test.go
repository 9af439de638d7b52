package mistral

import (
	"testing"

	"github.com/caddy-gw/gateway/providers"
)

func TestEmbedSpeaksMistralsWords(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","input":["a"],"dimensions":256,"user":"u","encoding_format":"base64"}`: `{"model":"m","input":["a"],"output_dimension":256,"encoding_format":"base64"}`,
		`{"dimensions":null,"input":"a"}`: `{"input":"a"}`,
		`{"model":"m","input":"a"}`:       "",
	} {
		r, err := embed(&providers.Call{Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if r != nil {
			got = string(r.Body)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}
