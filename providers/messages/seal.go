package messages

import (
	"bytes"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers/chat"
)

// sealedCall is the kind of seals on calls: the signature of the thought that led to one,
// which the API has no place for. It comes in a block of redacted thinking before the
// block of the call. Clients send such blocks back as they came.
const sealedCall = "call"

// appendSeal is the data of such a block, as a string.
func appendSeal(provider string, signature chat.Literal) chat.Literal {
	return append(chat.AppendSeal([]byte{'"'}, sealedCall, provider, jsonscan.Inside(signature)), '"')
}

// Unsealed is a body of Messages, or one that counts its tokens, without the seals that
// other providers set on their calls: whose API this is would refuse them. A body
// without any is returned as it is.
func Unsealed(body []byte) []byte {
	if !bytes.Contains(body, []byte("gw:"+sealedCall+":")) {
		return body
	}
	r := jsonscan.NewReader(body)
	b := jsonscan.Builder(make([]byte, 0, len(body)))
	object(&b, r, "messages", func() {
		array(&b, r, func() {
			object(&b, r, "content", func() {
				array(&b, r, func() {
					if block := r.Raw(); !sealed(block) {
						b.Raw(block)
					}
				})
			})
		})
	})
	if r.Err() != nil { // whoever reads it says so
		return body
	}
	return b
}

// sealed reports whether a block is one that holds a seal.
func sealed(block []byte) bool {
	var kind, data chat.Literal
	r := jsonscan.NewReader(block)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = r.String()
		case key.Is("data"):
			data = r.String()
		}
	})
	return kind.Is("redacted_thinking") && chat.Sealed(jsonscan.Inside(data), sealedCall)
}

// object copies an object, of which a member is written by who knows more. What is none
// is copied as it stands.
func object(b *jsonscan.Builder, r *jsonscan.Reader, name string, member func()) {
	if r.Kind() != jsonscan.Object {
		b.Raw(r.Raw())
		return
	}
	b.Open('{')
	r.Object(func(key jsonscan.Key) {
		b.Raw(jsonscan.AppendQuoted(nil, key.Bytes()))
		*b = append(*b, ':')
		if key.Is(name) {
			member()
		} else {
			b.Raw(r.Raw())
		}
	})
	b.Close('}')
}

// array is the same for the elements of an array.
func array(b *jsonscan.Builder, r *jsonscan.Reader, element func()) {
	if r.Kind() != jsonscan.Array {
		b.Raw(r.Raw())
		return
	}
	b.Open('[')
	r.Array(element)
	b.Close(']')
}
