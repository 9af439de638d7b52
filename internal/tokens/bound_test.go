package tokens

import (
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// parts of texts, of which any sequence is one.
var textParts = []string{
	"Hello", " world", ",", ".", "\n", "\n\n", " ", "   ", "\t\tif x := \"y\" {", "'s", "’s", "'", " Größe", "お誕生日", "。", "你好", " \U0001f600", "e\u0301", "123456", " 7", "\\", "%",
	"don't", "ΑΒΓ", " ΑΒΓ", "//", "\r\n", "\u3000", "\u00a0", "x", strings.Repeat("a", 1500), strings.Repeat("Zm9v4", 400), strings.Repeat(" \n", 300), strings.Repeat("б", 900),
}

// No text has more tokens than its bound, which is what it has where parts are counted.
func TestNoTextHasMoreTokensThanItsBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(textParts), 1, 60).Draw(rt, "parts"), "")
		e := rapid.SampledFrom([]Encoding{O200k, Cl100k}).Draw(rt, "encoding")
		n, _ := Count(e, text)
		if most := Bound(e, []byte(text)); n > most || most > int64(len(text)) {
			rt.Fatalf("%d tokens, at most %d of %d bytes", n, most, len(text))
		}
		if most := Bound(Unknown, []byte(text)); most < n && e == O200k || most > int64(len(text)) {
			rt.Fatalf("%d tokens, at most %d of an unknown encoding", n, most)
		}
	})
}

// The bound of prose and code is what they have.
func TestTheBoundOfUsualTextIsItsTokens(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../../README.md", "bound_test.go", "../../docs/limits.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for e := range map[Encoding]bool{O200k: true, Cl100k: true} {
			n, _ := Count(e, string(text))
			if most := Bound(e, text); most < n || most > n+n/100 {
				t.Errorf("%s: at most %d, has %d", file, most, n)
			}
		}
		n, _ := Count(O200k, string(text))
		if most := Bound(Unknown, text); most < 2*n || most > 2*n+512+n/50 {
			t.Errorf("%s: at most %d of an unknown encoding, has %d", file, most, n)
		}
	}
}

// No text takes much longer than others.
func TestTheBoundOfAnyTextTakesLinearTime(t *testing.T) {
	t.Parallel()
	took := func(part string) time.Duration {
		text := []byte(strings.Repeat(part, (64<<10)/len(part)+1)[:64<<10])
		least := time.Hour
		for range 3 {
			begun := time.Now()
			Bound(O200k, text)
			least = min(least, time.Since(begun))
		}
		return least
	}
	usual := took("It is a text of words, which are usual. ")
	for _, part := range []string{" \n", "\t\r\n", "a \n", " \n\n  a", "\u3000\n", "a", "Zm9v4", "б", "\U0001f600", strings.Repeat(" \n", 255) + strings.Repeat("a", 514)} {
		if d := took(part); d > 40*usual {
			t.Errorf("%.20q took %v, usual text %v", part, d, usual)
		}
	}
}

func BenchmarkBound(b *testing.B) {
	text, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Bound(O200k, text)
	}
}
