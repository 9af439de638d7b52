package bedrock

import (
	"encoding/base64"
	"slices"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers/chat"
)

// thought reads reasoning: of a whole answer in reasoningText, of a stream in pieces.
func (d *Decoder) thought(r *jsonscan.Reader, to chat.Sink) {
	var said, seal chat.Literal
	visit := func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "text":
			said = r.String()
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
	if said != nil {
		d.emit(to, chat.Event{Kind: chat.ThoughtPiece, Text: said})
	}
	if !seal.Empty() {
		d.emit(to, chat.Event{Kind: chat.ThoughtSeal, Signature: seal})
	}
}

// redacted takes a piece of redacted reasoning. It is bytes in base64, each piece on its
// own, so that pieces cannot be joined as they stand.
func (d *Decoder) redacted(piece chat.Literal, to chat.Sink) {
	blob, err := base64.StdEncoding.AppendDecode(d.blob, encoded(piece))
	if err != nil { // whatever it is, the provider may know it again
		d.flush(to)
		d.emit(to, chat.Event{Kind: chat.ThoughtBlob, Text: piece})
		return
	}
	if d.blob = blob; len(blob) > maxMessage {
		d.flush(to)
	}
}

// encoded is the base64 in a string, in which some escape slashes.
func encoded(l chat.Literal) []byte {
	inside := jsonscan.Inside(l)
	if slices.Contains(inside, '\\') {
		return []byte(l.Text())
	}
	return inside
}

// flush passes on what came of redacted reasoning, when its block is over.
func (d *Decoder) flush(to chat.Sink) {
	if len(d.blob) == 0 {
		return
	}
	text := append(base64.StdEncoding.AppendEncode([]byte{'"'}, d.blob), '"')
	d.blob = d.blob[:0]
	d.emit(to, chat.Event{Kind: chat.ThoughtBlob, Text: text})
}
