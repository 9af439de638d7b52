package messages

import (
	"bytes"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// sealedCall is the kind of seals on calls, which hold the signature of the reasoning that
// led to a call. The API has no place for it, so it is sent in a redacted thinking block
// before the call's block. Clients send such blocks back unchanged.
const sealedCall = "call"

// appendSeal returns the data of such a block, as a string.
func appendSeal(provider string, signature chat.Literal) chat.Literal {
	return append(chat.AppendSeal([]byte{'"'}, sealedCall, provider, jsonscan.Inside(signature)), '"')
}

// StripForeign returns a body of Messages, or one whose tokens are to be counted, without
// the thinking that the API did not create and would refuse: seals of other providers'
// calls, and thinking without a signature. If there is none, the body is returned
// unchanged.
func StripForeign(body []byte) []byte {
	if !jsonscan.Mentions(body, "gw:"+sealedCall+":") && !unsigned(body) {
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
			if dropped { // messages without content are refused
				e.Out = e.Out[:begun]
			}
		})
		return true
	})
	if e.Reader.Err() != nil { // the caller of the reader reports it
		return body
	}
	return e.Out
}

// unsigned reports whether a body has thinking without a signature.
func unsigned(body []byte) (found bool) {
	if !jsonscan.Mentions(body, `thinking"`) {
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

// foreign reports whether a block is thinking that the API did not create.
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
