package messages

import (
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
