package inference

import (
	"mime"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/alloctest"
)

// What package mime takes for a media type is the same here. Of parameters nothing is known
// here, not even that one comes twice.
func TestMediaTypesAreThoseOfPackageMime(t *testing.T) {
	part := rapid.StringMatching(`[ \t]*[a-zA-Z0-9.+*-]{0,6}/?[a-z0-9A-Z.+/-]{0,6}[ \t]*`)
	parameters := rapid.StringMatching(`(;|; ?charset=("utf-8"|utf-8| )| ?;q)?`)
	rapid.Check(t, func(t *rapid.T) {
		value := part.Draw(t, "media") + parameters.Draw(t, "parameters")
		want, _, _ := mime.ParseMediaType(value)
		if got := mediaTypeOf(value); got != want {
			t.Fatalf("%q: got %q, want %q", value, got, want)
		}
	})
	for _, value := range []string{"application/json", "text/event-stream; charset=utf-8", "Application/JSON", "", "audio/mpeg ", "a/b/c", "/json", "text/", "text"} {
		want, _, _ := mime.ParseMediaType(value)
		if got := mediaTypeOf(value); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
	alloctest.AtMost(t, 0, 100, func() { mediaTypeOf("application/json; charset=utf-8") })
}
