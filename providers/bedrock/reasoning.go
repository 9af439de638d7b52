package bedrock

import (
	"encoding/base64"
	"slices"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// thought reads reasoning: from reasoningText in a complete answer, from deltas in a
// stream.
func (d *Decoder) thought(r *jsonscan.Reader, to chat.Sink) {
	var thinking, seal chat.Literal
	visit := func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "text":
			thinking = r.String()
		case "signature":
			seal = r.String()
		case "redactedContent":
			d.redacted(r.String(), to)
		}
	}
	r.Object(func(key jsonscan.Key) {
		if key.Is("reasoningText") {
			r.Object(visit)
			return
		}
		visit(key)
	})
	if thinking != nil {
		d.emit(to, chat.Event{Kind: chat.ThoughtPiece, Text: thinking})
	}
	if !seal.Empty() {
		d.emit(to, chat.Event{Kind: chat.ThoughtSeal, Signature: seal})
	}
}

// redacted collects redacted reasoning. Each delta is base64 of its own, so that the
// strings cannot simply be concatenated.
func (d *Decoder) redacted(piece chat.Literal, to chat.Sink) {
	blob, err := base64.StdEncoding.AppendDecode(d.blob, encoded(piece))
	if err != nil { // pass it on unchanged, so that the provider can recognise it
		d.flush(to)
		d.emit(to, chat.Event{Kind: chat.ThoughtBlob, Text: piece})
		return
	}
	if d.blob = blob; len(blob) > maxMessage {
		d.flush(to)
	}
}

// encoded returns the base64 text of a string, in which some providers escape slashes.
func encoded(l chat.Literal) []byte {
	inside := jsonscan.Inside(l)
	if slices.Contains(inside, '\\') {
		return []byte(l.Text())
	}
	return inside
}

// flush emits the redacted reasoning of a block at its end.
func (d *Decoder) flush(to chat.Sink) {
	if len(d.blob) == 0 {
		return
	}
	text := append(base64.StdEncoding.AppendEncode([]byte{'"'}, d.blob), '"')
	d.blob = d.blob[:0]
	d.emit(to, chat.Event{Kind: chat.ThoughtBlob, Text: text})
}
