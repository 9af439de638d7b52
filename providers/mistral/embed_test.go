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

// Errors that come with status 200 are none of the answers that they stand in for.
func TestAnswersWithoutWhatWasAskedForAreErrors(t *testing.T) {
	for _, c := range []struct {
		of     providers.Endpoint
		answer string
		want   string // "": it passes
	}{
		{embed, `{"object":"error","message":"hidden"}`, "no embeddings: hidden"},
		{embed, `{ "data":[] }`, "no embeddings: it has no data"},
		{embed, `{"data":[{"embedding":[]}]}`, "an embedding that is not a list of numbers"},
		{embed, `{"data":[{"embedding":[1]},{"embedding":null}]}`, "an embedding that is not a list of numbers"},
		{embed, `{ "data":[{"embedding":[0.1]},{"embedding":"AACAPw=="}] }`, ""},
		{moderate, `{"object":"error","message":"hidden"}`, "no results: hidden"},
		{moderate, `[]`, "no results: it has none"},
		{moderate, `{"results":[]}`, ""},
	} {
		r, err := c.of(&providers.Call{Body: []byte(`{"input":"a"}`)})
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.Answer.Body(nil, []byte(c.answer), nil)
		if c.want == "" && (err != nil || string(out) != c.answer) || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s: got %s, %v", c.answer, out, err)
		}
	}
}
