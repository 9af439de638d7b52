package messages

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// calls are the calls of a stream. In Messages, only one block is open at a time, but some
// providers interleave the pieces of several calls. The pieces of a call are kept until the
// blocks before it are complete.
type calls struct {
	open    int // the tool whose block is open
	input   objectEnd
	waiting []waitingCall
}

// A waitingCall is a call whose block has not been started.
type waitingCall struct {
	start     chat.Event
	arguments []byte // without the quotes
}

// call starts the block of a call, or queues the call if another block is open.
func (w *Events) call(e *chat.Event) {
	start := chat.Event{Kind: chat.CallStart, Tool: e.Tool, ID: e.ID, Name: e.Name, Signature: e.Signature}
	if w.current != toolBlock || w.calls.input.over && len(w.calls.waiting) == 0 {
		w.begin(&start)
		return
	}
	start.ID, start.Name, start.Signature = clone(e.ID), clone(e.Name), clone(e.Signature)
	w.calls.waiting = append(w.calls.waiting, waitingCall{start: start})
}

func clone(l chat.Literal) chat.Literal { return append(chat.Literal(nil), l...) }

func (w *Events) begin(e *chat.Event) {
	if !e.Signature.Empty() {
		w.open(redactedBlock, &chat.Event{Text: appendSeal(w.Dialect, e.Signature)})
	}
	w.open(toolBlock, e)
	w.calls.open, w.calls.input = e.Tool, objectEnd{}
}

// arguments writes a piece of a call's arguments, or keeps it if the call is waiting.
func (w *Events) arguments(e *chat.Event) {
	if e.Text.Empty() {
		return
	}
	for w.current == toolBlock && w.calls.input.over && e.Tool != w.calls.open && len(w.calls.waiting) > 0 {
		w.next()
	}
	if w.current == toolBlock && e.Tool == w.calls.open {
		w.delta(w.index, "input_json_delta", "partial_json", e.Text)
		w.calls.input.push(jsonscan.Inside(e.Text))
		return
	}
	for i := range w.calls.waiting {
		if c := &w.calls.waiting[i]; c.start.Tool == e.Tool {
			c.arguments = append(c.arguments, jsonscan.Inside(e.Text)...)
		}
	}
}

// next writes what has arrived of the call that has waited longest.
func (w *Events) next() {
	c := w.calls.waiting[0]
	w.calls.waiting = w.calls.waiting[1:]
	w.begin(&c.start)
	if len(c.arguments) > 0 {
		piece := append(append([]byte{'"'}, c.arguments...), '"')
		w.delta(w.index, "input_json_delta", "partial_json", piece)
		w.calls.input.push(c.arguments)
	}
}

// release writes all waiting calls.
func (w *Events) release() {
	for len(w.calls.waiting) > 0 {
		w.next()
	}
}

// An objectEnd detects the end of a JSON object that arrives in pieces of an encoded
// string.
type objectEnd struct {
	depth           int
	inText, escaped bool
	over            bool
}

// push takes a piece, without the quotes.
func (o *objectEnd) push(piece []byte) {
	for i := 0; i < len(piece); i++ {
		c := piece[i]
		if c == '\\' && i+1 < len(piece) {
			i++
			switch c = piece[i]; {
			case c == 'u' && i+4 < len(piece):
				c = character(piece[i+1 : i+5])
				i += 4
			case c != '"' && c != '\\' && c != '/': // a control character
				c = ' '
			}
		}
		o.take(c)
	}
}

// character returns the character with the given hexadecimal digits if it is below 256, and
// otherwise 0.
func character(digits []byte) (c byte) {
	if digits[0] != '0' || digits[1] != '0' {
		return 0
	}
	for _, d := range digits[2:] {
		switch {
		case d >= 'a':
			d -= 'a' - 10
		case d >= 'A':
			d -= 'A' - 10
		default:
			d -= '0'
		}
		c = c<<4 | d&15
	}
	return c
}

func (o *objectEnd) take(c byte) {
	switch {
	case o.escaped:
		o.escaped = false
	case o.inText && c == '\\':
		o.escaped = true
	case c == '"':
		o.inText = !o.inText
	case o.inText:
	case c == '{', c == '[':
		o.depth++
	case c == '}', c == ']':
		o.depth--
		o.over = o.depth == 0
	}
}
