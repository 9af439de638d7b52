package jws

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var algorithms = []jose.SignatureAlgorithm{jose.EdDSA}

// signed returns a token with a payload.
func signed(tb testing.TB, payload string) (string, ed25519.PublicKey) {
	tb.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := signer.Sign([]byte(payload))
	if err != nil {
		tb.Fatal(err)
	}
	token, err := s.CompactSerialize()
	if err != nil {
		tb.Fatal(err)
	}
	return token, key.Public().(ed25519.PublicKey)
}

// Of all texts that decode to the same three parts, one is read.
func TestATokenHasOneSpelling(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "a", "ab", "abc", `{"iss":"x"}`} {
		token, public := signed(t, payload)
		s, err := Parse(token, algorithms)
		if err != nil {
			t.Fatalf("%q: %v", payload, err)
		}
		if got, err := s.Verify(public); err != nil || string(got) != payload {
			t.Errorf("%q: %q, %v", payload, got, err)
		}
		parts := strings.Split(token, ".")
		for n, part := range parts {
			spell := func(other string) {
				t.Helper()
				of := append([]string{}, parts...)
				of[n] = other
				if _, err := Parse(strings.Join(of, "."), algorithms); !errors.Is(err, ErrSpelling) {
					t.Errorf("part %d as %q: %v", n, other, err)
				}
			}
			for _, more := range []string{"=", "==", "\n", "\r", "\r\n", " ", "A"} {
				if more != "A" || len(part)%4 == 0 {
					spell(part + more)
				}
			}
			if part == "" {
				continue
			}
			spell(part[:1] + "\n" + part[1:])
			raw, err := base64.RawURLEncoding.DecodeString(part)
			if err != nil {
				t.Fatal(err)
			}
			for _, last := range alphabet {
				other := part[:len(part)-1] + string(last)
				if same, err := base64.RawURLEncoding.DecodeString(other); err == nil && string(same) == string(raw) && other != part {
					spell(other)
				}
			}
		}
	}
}

func TestOtherFormsAreNotRead(t *testing.T) {
	t.Parallel()
	token, _ := signed(t, "abc")
	parts := strings.Split(token, ".")
	for _, other := range []string{"", ".", "..", token + ".", token + ".YQ", parts[0] + "." + parts[1], "." + parts[1] + "." + parts[2], `{"payload":"YQ"}`} {
		if _, err := Parse(other, algorithms); err == nil {
			t.Errorf("%q is read", other)
		}
	}
	if _, err := Parse(token, []jose.SignatureAlgorithm{jose.RS256}); err == nil || errors.Is(err, ErrSpelling) {
		t.Errorf("another algorithm: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	token, _ := signed(f, "abcd")
	f.Add(token)
	f.Add(strings.ReplaceAll(token, ".", "\n."))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text, algorithms)
		if err != nil {
			return
		}
		if again, err := s.CompactSerialize(); err != nil || again != text {
			t.Errorf("%q is read, and written as %q, %v", text, again, err)
		}
	})
}
