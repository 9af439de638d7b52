package credentials

import (
	"bytes"
	"crypto/rand"
	"errors"
	"hash/crc32"
	"io"
	"math/big"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/alloctest"
)

func TestNewTokenIsPrefixRandomPartAndChecksum(t *testing.T) {
	for _, prefix := range []string{DefaultKeyPrefix, "", "acme_live_"} {
		token, err := NewToken(rand.Reader, prefix)
		if err != nil {
			t.Fatal(err)
		}
		text := token.Reveal()
		rest, ok := strings.CutPrefix(text, prefix)
		if !ok || len(rest) != tokenDigits+checksumSize {
			t.Errorf("prefix %q: got %d characters", prefix, len(text))
		}
		if strings.Trim(rest, digits) != "" {
			t.Errorf("prefix %q: characters outside base 62", prefix)
		}
		if !wholeToken(text) {
			t.Errorf("prefix %q: the checksum is wrong", prefix)
		}
	}
}

// wholeToken verifies a checksum the way a scanner for leaked keys would, which
// knows no more than the form.
func wholeToken(text string) bool {
	body, sum := text[:len(text)-checksumSize], text[len(text)-checksumSize:]
	n := new(big.Int)
	for _, c := range sum {
		n.Mul(n, big.NewInt(62)).Add(n, big.NewInt(int64(strings.IndexRune(digits, c))))
	}
	return n.Cmp(big.NewInt(int64(crc32.ChecksumIEEE([]byte(body))))) == 0
}

func TestNewTokenChecksumTellsAMistypedKey(t *testing.T) {
	token, err := NewToken(rand.Reader, DefaultKeyPrefix)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(token.Reveal())
	for i := range text {
		mistyped := bytes.Clone(text)
		if mistyped[i]++; strings.IndexByte(digits, mistyped[i]) < 0 {
			mistyped[i] = '0'
		}
		if !bytes.Equal(mistyped, text) && wholeToken(string(mistyped)) {
			t.Errorf("character %d may be mistyped unnoticed", i)
		}
	}
}

func TestNewTokenKeepsEveryBitOfItsRandomness(t *testing.T) {
	for _, fill := range []byte{0x00, 0x01, 0x80, 0xff} {
		random := bytes.Repeat([]byte{fill}, tokenBytes)
		token, err := NewToken(bytes.NewReader(random), "")
		if err != nil {
			t.Fatal(err)
		}
		n := new(big.Int)
		for _, c := range token.Reveal()[:tokenDigits] {
			n.Mul(n, big.NewInt(62)).Add(n, big.NewInt(int64(strings.IndexRune(digits, c))))
		}
		if got := n.FillBytes(make([]byte, tokenBytes)); !bytes.Equal(got, random) {
			t.Errorf("%x: the token says %x", random, got)
		}
	}
}

func TestNewTokenNeverRepeats(t *testing.T) {
	seen := make(map[string]bool)
	for range 5000 {
		token, err := NewToken(rand.Reader, DefaultKeyPrefix)
		if err != nil {
			t.Fatal(err)
		}
		if seen[token.Reveal()] {
			t.Fatal("a token came twice")
		}
		seen[token.Reveal()] = true
	}
}

func TestNewTokenFailsWithoutEnoughRandomness(t *testing.T) {
	broken := errors.New("no entropy")
	for name, random := range map[string]io.Reader{
		"short":  bytes.NewReader(make([]byte, tokenBytes-1)),
		"broken": iotest.ErrReader(broken),
	} {
		if token, err := NewToken(random, DefaultKeyPrefix); err == nil || !token.Empty() {
			t.Errorf("%s: got a token, %v", name, err)
		}
	}
}

func TestATokenIsFoundWhateverIsAroundIt(t *testing.T) {
	for _, prefix := range []string{DefaultKeyPrefix, "", "acme_live_", strings.Repeat("p", maxPrefix)} {
		token, err := NewToken(rand.Reader, prefix)
		if err != nil {
			t.Fatal(err)
		}
		text := token.Reveal()
		for _, around := range [][2]string{{"", ""}, {"xx", ""}, {"", "xx"}, {"a=", ","}, {strings.Repeat("A", 200), strings.Repeat("z", 200)}, {"Bearer ", "\n"}} {
			if !HoldsToken(around[0] + text + around[1]) {
				t.Errorf("prefix %q: not found between %q and %q", prefix, around[0], around[1])
			}
		}
		for i := len(prefix); i < len(text); i++ {
			b := []byte(text)
			b[i] = '-'
			if HoldsToken(string(b)) {
				t.Errorf("prefix %q: found without its character %d", prefix, i)
			}
		}
	}
	for _, text := range []string{"", "gw-", strings.Repeat("a", 1000), strings.Repeat("0", 48)} {
		if HoldsToken(text) {
			t.Errorf("found in %q", text)
		}
	}
}

// holdsToken is what HoldsToken is, without leaving anything out.
func holdsToken(text string) bool {
	for end := tokenDigits + checksumSize; end <= len(text); end++ {
		for start := max(0, end-tokenDigits-checksumSize-maxPrefix); start <= end-tokenDigits-checksumSize; start++ {
			body, sum := text[start:end-checksumSize], text[end-checksumSize:end]
			if strings.Trim(text[end-tokenDigits-checksumSize:end], digits) == "" && sum == base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(body)))), checksumSize) {
				return true
			}
		}
	}
	return false
}

func TestNextTokenLeavesNothingOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(
			rapid.StringMatching(`[0-9A-Za-z]{1,70}`), rapid.SampledFrom([]string{"-", " ", "/", "é", "gw-"}),
			rapid.Custom(func(t *rapid.T) string {
				prefix := rapid.SampledFrom([]string{"", "gw-", "a_b"}).Draw(t, "prefix")
				token, err := NewToken(bytes.NewReader(rapid.SliceOfN(rapid.Byte(), tokenBytes, tokenBytes).Draw(t, "random")), prefix)
				if err != nil {
					t.Fatal(err)
				}
				text := token.Reveal()
				if rapid.IntRange(0, 3).Draw(t, "broken") == 0 {
					text = text[:len(text)-1]
				}
				return text
			}),
		)
		text := strings.Join(rapid.SliceOfN(part, 0, 6).Draw(t, "parts"), "")
		token, rest := NextToken(text)
		if got, want := token != "", holdsToken(text); got != want {
			t.Fatalf("%q holds a token: %v, want %v", text, got, want)
		}
		if token != "" && (!holdsToken(token) || !strings.HasSuffix(text, token+rest)) {
			t.Fatalf("%q: got %q, and %q follows", text, token, rest)
		}
	})
}

func TestNextTokenFindsEachOfSeveral(t *testing.T) {
	var want []string
	for _, prefix := range []string{"gw-", "", "acme_"} {
		token, err := NewToken(rand.Reader, prefix)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, token.Reveal())
	}
	rest := strings.Join(want, ", ")
	for _, w := range want {
		var token string
		if token, rest = NextToken(rest); token != w {
			t.Fatalf("got %q, want %q", token, w)
		}
	}
	if token, _ := NextToken(rest); token != "" {
		t.Errorf("and %q", token)
	}
}

func TestTextsWithoutTokensCostNoMemory(t *testing.T) {
	text := "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
	alloctest.AtMost(t, 0, 100, func() { HoldsToken(text) })
}

// BenchmarkHoldsToken looks through a query that is one long word.
func BenchmarkHoldsToken(b *testing.B) {
	token, err := NewToken(rand.Reader, "")
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat(token.Reveal()[:48]+"x", 170) // 8 KiB
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if HoldsToken(text) {
			b.Fatal("found")
		}
	}
}

// BenchmarkHoldsTokenNot looks through a header of the usual kind.
func BenchmarkHoldsTokenNot(b *testing.B) {
	text := "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
	b.ReportAllocs()
	for b.Loop() {
		if HoldsToken(text) {
			b.Fatal("found")
		}
	}
}
