package chat

import (
	"bytes"

	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// A seal is what a provider wants back of an answer, as it stands in a caller's dialect
// that has no place of its own for it: gw:<kind>:<provider>:<what it is>. It says whose
// it is, as providers refuse what is not theirs.
const sealMark = "gw:"

// AppendSeal appends a seal of a kind as it stands between quotes. inside is what is
// sealed, likewise.
func AppendSeal(dst []byte, kind, provider string, inside []byte) []byte {
	dst = append(append(append(dst, sealMark...), kind...), ':')
	dst = append(jsonscan.AppendEscaped(dst, provider), ':')
	return append(dst, inside...)
}

// Unseal returns what a seal of a kind holds, as it stands between quotes; nil where it is
// another's, or none.
func Unseal(seal []byte, kind, provider string) []byte {
	rest, ok := bytes.CutPrefix(seal, AppendSeal(nil, kind, provider, nil))
	if !ok || len(rest) == 0 {
		return nil
	}
	return rest
}

// Sealed reports whether a text, as it stands between quotes, is a seal of a kind,
// whosever it is.
func Sealed(inside []byte, kind string) bool {
	rest, ok := bytes.CutPrefix(inside, []byte(sealMark))
	return ok && bytes.HasPrefix(rest, append([]byte(kind), ':'))
}
