package exchange

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A member that a decoder would find, whatever the case, is never missed.
func TestMembersThatMayBeAModelAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`[]`: false, `[{"model":1}]`: true, `[{"MoDeL":1}]`: true, `[{"MODEL":1}]`: true, `[{"mod\u0065l":1}]`: true,
		`[{"models":1}]`: false, `[{"a":"a model"}]`: false, `[{"remodel":1}]`: false, `model"`: false, `"model"`: true,
	} {
		if got := mayNameModel(text); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := []byte("model")
		for i := range name {
			if rapid.Bool().Draw(t, "capital") {
				name[i] -= 'a' - 'A'
			}
		}
		text := rapid.StringOf(rapid.SampledFrom([]rune(`lL"model{}:,`))).Draw(t, "before") + `"` + string(name) + `"` + rapid.StringOf(rapid.SampledFrom([]rune(`lL"model{}:,`))).Draw(t, "behind")
		if !mayNameModel(text) {
			t.Fatal(text)
		}
	})
}

func BenchmarkMayName(b *testing.B) {
	text := strings.Repeat(`{"type":"function","name":"look_up","parameters":{"properties":{"email":{"type":"string","description":"whose"},"url":{"type":"string"}}}},`, 70)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if mayNameModel(text) {
			b.Fatal("found")
		}
	}
}
