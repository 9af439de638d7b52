package chat

import (
	"bytes"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A seal wraps data that a provider expects back, such as a signature, in a member of a
// client's dialect that has no place of its own for it: gw:<kind>:<provider>:<data>. It
// names the provider, because providers refuse data that is not theirs.
const sealMark = "gw:"

// AppendSeal appends a seal of the given kind, without quotes. inside is the data to seal,
// an encoded string without its quotes.
func AppendSeal(dst []byte, kind, provider string, inside []byte) []byte {
	dst = append(append(append(dst, sealMark...), kind...), ':')
	dst = append(jsonscan.AppendEscaped(dst, provider), ':')
	return append(dst, inside...)
}

// Unseal returns the data of a seal, an encoded string without its quotes. It returns nil
// if it is not a seal of this kind and provider.
func Unseal(seal []byte, kind, provider string) []byte {
	rest, ok := bytes.CutPrefix(seal, AppendSeal(nil, kind, provider, nil))
	if !ok || len(rest) == 0 {
		return nil
	}
	return rest
}

// Sealed reports whether an encoded string, without its quotes, is a seal of the given
// kind, of any provider.
func Sealed(inside []byte, kind string) bool {
	rest, ok := bytes.CutPrefix(inside, []byte(sealMark))
	return ok && bytes.HasPrefix(rest, append([]byte(kind), ':'))
}
