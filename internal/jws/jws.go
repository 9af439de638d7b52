// Package jws reads JSON Web Signatures (RFC 7515) in their compact form, which JSON Web Tokens have.
package jws

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// ErrSpelling is the error of [Parse] for a token whose parts could also be written in another way.
var ErrSpelling = errors.New("expected parts in base64url without padding, line breaks and unused bits")

// Parse reads a token that is signed with one of the algorithms. Its signature is not verified.
//
// Decoders of base64 commonly ignore line breaks, and the bits of the last character that say nothing, so
// that one signature holds for hundreds of texts. Only one of them is read here: who counts by a token, or
// remembers it, may take its text for what it says.
func Parse(token string, algorithms []jose.SignatureAlgorithm) (*jose.JSONWebSignature, error) {
	for part := range strings.SplitSeq(token, ".") {
		if !canonical(part) {
			return nil, ErrSpelling
		}
	}
	return jose.ParseSignedCompact(token, algorithms)
}

// canonical reports whether a part is written as an encoder writes it.
func canonical(part string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
	return err == nil && base64.RawURLEncoding.EncodeToString(raw) == part
}
