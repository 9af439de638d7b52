package messages

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Events writes the events of a stream as server-sent events of Messages.
type Events struct {
	chat.Style
	out []byte

	id, model chat.Literal
	usage     chat.Usage
	finish    chat.FinishReason
	called    bool
	refused   bool

	begun, failed bool
	current       blockKind
	index         int  // of the current block
	sealed        bool // the current block has its signature
	calls         calls
}

// Begin makes the writer append to dst. Take returns the result.
func (w *Events) Begin(dst []byte) { w.out = dst }

// Take returns the buffer that was passed to Begin, with what was appended.
func (w *Events) Take() []byte { return w.out }

// note takes the metadata from an event, and reports whether that is all it has.
func (w *Events) note(e *chat.Event) bool {
	switch e.Kind {
	case chat.Start:
		if w.id == nil && !e.ID.Empty() {
			w.id = append(chat.Literal(nil), e.ID...)
		}
		if w.model == nil && !e.Model.Empty() {
			w.model = append(chat.Literal(nil), e.Model...)
		}
	case chat.UsageEvent:
		w.usage = e.Usage
		return true
	case chat.RefusalPiece:
		w.refused = true
	case chat.Finish:
		w.finish = e.Finish
	}
	return false
}

// reason returns the stop_reason.
func (w *Events) reason() string {
	switch {
	case w.finish != chat.Stop:
	case w.called:
		return "tool_use"
	case w.refused:
		return "refusal"
	}
	return [...]string{chat.Stop: "end_turn", chat.Length: "max_tokens", chat.ToolCalls: "tool_use", chat.ContentFilter: "refusal"}[w.finish]
}

// head writes a message up to its content.
func (w *Events) head(b *jsonscan.Builder) {
	if w.id == nil {
		w.id = chat.Quote(w.ID)
	}
	if w.model == nil {
		w.model = chat.Quote(w.Model)
	}
	b.Open('{')
	b.Key("id").Raw(w.id)
	b.Key("type").Text("message")
	b.Key("role").Text("assistant")
	b.Key("model").Raw(w.model)
}

// event starts an event of a type.
func (w *Events) event(name string) *jsonscan.Builder {
	w.out = append(append(append(w.out, "event: "...), name...), "\ndata: "...)
	b := (*jsonscan.Builder)(&w.out)
	b.Open('{')
	b.Key("type").Text(name)
	return b
}

func (w *Events) end(b *jsonscan.Builder) {
	b.Close('}')
	w.out = append(w.out, "\n\n"...)
}

// Event writes an event.
func (w *Events) Event(e *chat.Event) {
	if w.failed || e.Choice != 0 || w.note(e) { // a message has one choice, and nothing follows an error
		return
	}
	if e.Kind == chat.Failure {
		w.failed = true
		b := w.event("error")
		b.Key("error").Open('{')
		b.Key("type").Text(ErrorType(e.Name.Text(), 0))
		b.Key("message").Raw(orElse(e.Text, `"The provider ended the stream with an error"`))
		b.Close('}')
		w.end(b)
		return
	}
	if !w.begun {
		w.begun = true
		b := w.event("message_start")
		b.Key("message")
		w.head(b)
		b.Key("content").Open('[')
		b.Close(']')
		b.Key("stop_reason").Raw([]byte("null"))
		b.Key("stop_sequence").Raw([]byte("null"))
		b.Key("usage")
		appendUsage(b, w.usage)
		b.Close('}')
		w.end(b)
	}
	if e.Kind.Block() && (!e.Text.Empty() || !e.Signature.Empty()) {
		w.release()
	}
	switch e.Kind {
	case chat.TextPiece, chat.RefusalPiece:
		if !e.Text.Empty() {
			w.open(textBlock, nil)
			w.delta(w.index, "text_delta", "text", e.Text)
		}
	case chat.ThoughtPiece:
		if !e.Text.Empty() {
			w.open(thinkingBlock, nil)
			w.delta(w.index, "thinking_delta", "thinking", e.Text)
		}
	case chat.ThoughtSeal:
		if e.Signature.Empty() {
			return
		}
		w.open(thinkingBlock, nil)
		w.delta(w.index, "signature_delta", "signature", e.Signature)
		w.sealed = true
	case chat.ThoughtBlob:
		w.open(redactedBlock, e)
	case chat.CallStart:
		w.called = true
		w.call(e)
	case chat.CallPiece:
		w.arguments(e)
	case chat.Finish:
		w.release()
		w.close()
	}
}

// open starts a block, unless the current one can be continued.
func (w *Events) open(kind blockKind, e *chat.Event) {
	if w.current == kind && kind != toolBlock && kind != redactedBlock && (kind != thinkingBlock || !w.sealed) {
		return
	}
	w.close()
	w.current, w.sealed = kind, false
	b := w.event("content_block_start")
	b.Key("index").Int(int64(w.index))
	b.Key("content_block").Open('{')
	b.Key("type").Text(kind.String())
	switch kind {
	case textBlock:
		b.Key("text").Text("")
	case thinkingBlock:
		b.Key("thinking").Text("")
		b.Key("signature").Text("")
	case redactedBlock:
		b.Key("data").Raw(text(e.Text))
	case toolBlock:
		b.Key("id").Raw(text(e.ID))
		b.Key("name").Raw(text(e.Name))
		b.Key("input").Raw([]byte("{}"))
	}
	b.Close('}')
	w.end(b)
}

func (w *Events) delta(index int, kind, name string, piece chat.Literal) {
	b := w.event("content_block_delta")
	b.Key("index").Int(int64(index))
	b.Key("delta").Open('{')
	b.Key("type").Text(kind)
	b.Key(name).Raw(piece)
	b.Close('}')
	w.end(b)
}

// close ends the current block.
func (w *Events) close() {
	if w.current == noBlock {
		return
	}
	b := w.event("content_block_stop")
	b.Key("index").Int(int64(w.index))
	w.end(b)
	w.current = noBlock
	w.index++
}

// End writes what follows the last event of a complete stream.
func (w *Events) End() {
	if w.failed || !w.begun {
		return
	}
	w.release()
	w.close()
	b := w.event("message_delta")
	b.Key("delta").Open('{')
	b.Key("stop_reason").Text(w.reason())
	b.Key("stop_sequence").Raw([]byte("null"))
	b.Close('}')
	b.Key("usage")
	appendUsage(b, w.usage)
	w.end(b)
	w.end(w.event("message_stop"))
}

func orElse(l chat.Literal, other string) []byte {
	if l.Empty() {
		return []byte(other)
	}
	return l
}

// Interface guards
var _ chat.StreamWriter = (*Events)(nil)
