package exchange

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/tokens"
)

// The text of a body has no fewer tokens than the texts of its messages, and what stands around each.
func TestTheTextOfABodyHasTheTokensOfItsMessages(t *testing.T) {
	t.Parallel()
	const around = 4 // tokens of each message
	parts := []string{"Hello", " world", ", ", "\n", "\n\n\t", "\"quoted\"", "\\", "Größe", "お誕生日", "\U0001f600", "123", "<br/>", " ", "    ", "it's", "\u2028", "é"}
	image := "iVBORw0KGgo=" + strings.Repeat("QUJD", 397)
	rapid.Check(t, func(r *rapid.T) {
		var want int64
		var messages []any
		files := 0
		for range rapid.IntRange(1, 8).Draw(r, "messages") {
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 30).Draw(r, "text"), "")
			n, _ := tokens.Count(tokens.O200k, text)
			want += n + around
			content := any(text)
			if rapid.Bool().Draw(r, "an image") {
				content = []any{map[string]any{"type": "text", "text": text}, map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64," + image}}}
				files++
			}
			messages = append(messages, map[string]any{"role": "user", "content": content})
		}
		body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
		if err != nil {
			r.Fatal(err)
		}
		var n, length int64
		texts := textsOf(body)
		n = tokensOfTexts(tokens.O200k, texts)
		for _, text := range texts {
			length += int64(len(text))
		}
		if n < want || n > int64(len(body)-files*len(image)) || length != contentOf(body).text {
			r.Fatalf("%d tokens of %d bytes, want %d of %d", n, length, want, contentOf(body).text)
		}
	})
}

// Text that is too long to be counted has a token for each byte, and no escape is cut.
func TestTextBeyondTheBoundIsNotCounted(t *testing.T) {
	t.Parallel()
	for _, word := range []string{`abc \n`, `\n\n`, ` \u00e9`} {
		text := []byte(strings.Repeat(word, tokens.MaxCounted/len(word)+100))
		if n := tokensOfTexts(tokens.Unknown, [][]byte{text}); n > int64(len(text)) || n < 100*int64(len(word))/2 {
			t.Errorf("%q: %d tokens of %d bytes", word, n, len(text))
		}
		// Of many parts, no more is counted than of one.
		if n := tokensOfTexts(tokens.Unknown, [][]byte{text, text}); n < int64(len(text)) {
			t.Errorf("%q, twice: %d tokens of %d bytes", word, n, 2*len(text))
		}
	}
}
