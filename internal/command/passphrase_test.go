package command

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/manifest"
)

// The cost of a passphrase is tested here. Elsewhere it would be most of the time of the tests.
func init() { newN = 1 << 10 }

func TestAPassphraseIsExpensiveToGuess(t *testing.T) {
	defer func(n int) { newN = n }(newN)
	newN = defaultN
	s, key, err := newSealing("correct horse battery staple")
	if err != nil {
		t.Fatal(err)
	}
	// What OWASP recommends for scrypt: 128 MiB of memory for each guess.
	if memory := 128 * s.N * s.R; memory < 128<<20 || len(key) != manifest.KeySize {
		t.Errorf("a guess takes %d bytes, and a key has %d", memory, len(key))
	}
	if again, err := s.open("correct horse battery staple"); err != nil || string(again) != string(key) {
		t.Error("the key is another one", err)
	}
}
