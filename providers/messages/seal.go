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

// Unsealed is a body of Messages, or one that counts its tokens, without the thoughts that
// the API did not make and would refuse: the seals that other providers set on their calls,
// and thinking without a signature. A body without any is returned as it is.
func Unsealed(body []byte) []byte {
	if !bytes.Contains(body, []byte("gw:"+sealedCall+":")) && !unsigned(body) {
		return body
	}
	e := chat.Editor{Reader: jsonscan.NewReader(body), Out: make([]byte, 0, len(body))}
	e.Object(func(name string) bool {
		if name != "messages" {
			return false
		}
		e.Key(name)
		e.Array(func() {
			begun, dropped := len(e.Out), false
			e.Object(func(name string) bool {
				if name != "content" {
					return false
				}
				e.Key(name)
				e.Array(func() {
					if block := e.Reader.Raw(); foreign(block) {
						dropped = true
					} else {
						e.Out.Raw(block)
					}
				})
				dropped = dropped && bytes.HasSuffix(e.Out, []byte("[]"))
				return true
			})
			if dropped { // a message without content is refused
				e.Out = e.Out[:begun]
			}
		})
		return true
	})
	if e.Reader.Err() != nil { // whoever reads it says so
		return body
	}
	return e.Out
}

// unsigned reports whether a body has a thought without a signature.
func unsigned(body []byte) (found bool) {
	if !bytes.Contains(body, []byte(`"thinking"`)) {
		return false
	}
	r := jsonscan.NewReader(body)
	r.Object(func(key jsonscan.Key) {
		if !key.Is("messages") {
			return
		}
		r.Array(func() {
			r.Object(func(key jsonscan.Key) {
				if key.Is("content") && r.Kind() == jsonscan.Array {
					r.Array(func() { found = foreign(r.Raw()) || found })
				}
			})
		})
	})
	return found
}

// foreign reports whether a block is a thought that the API did not make.
func foreign(block []byte) bool {
	if !bytes.Contains(block, []byte("thinking")) {
		return false
	}
	var kind, data, signature chat.Literal
	r := jsonscan.NewReader(block)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = r.String()
		case key.Is("data"):
			data = r.String()
		case key.Is("signature"):
			signature = r.String()
		}
	})
	switch {
	case kind.Is("thinking"):
		return signature.Empty()
	case kind.Is("redacted_thinking"):
		return chat.Sealed(jsonscan.Inside(data), sealedCall)
	}
	return false
}
