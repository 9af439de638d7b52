package messages

import (
	"github.com/caddy-gw/gateway/jsonscan"
	"github.com/caddy-gw/gateway/providers/chat"
)

// A Decoder decodes the answers of Messages. One reads one answer.
type Decoder struct {
	usage  usage
	blocks map[int64]int // by index: the tool that the block calls, or -1
	tools  int           // that were called
	ended  bool
}

// usage is as Messages counts: the input excludes what came from caches.
type usage struct{ input, output, read, write, thinking int64 }

var reasons = map[string]chat.FinishReason{
	"end_turn": chat.Stop, "stop_sequence": chat.Stop, "pause_turn": chat.Stop, "max_tokens": chat.Length,
	"model_context_window_exceeded": chat.Length, "tool_use": chat.ToolCalls, "refusal": chat.ContentFilter,
}

// Whole reads an answer in one piece.
func (d *Decoder) Whole(body []byte, to chat.Sink) error {
	r := jsonscan.NewReader(body)
	start := chat.Event{Kind: chat.Start}
	var content, reason, failure chat.Raw
	used := false
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "id":
			start.ID = r.String()
		case "model":
			start.Model = r.String()
		case "content":
			content = r.Value()
		case "stop_reason":
			reason = r.Value()
		case "usage":
			used = d.usage.take(r)
		case "error":
			failure = r.Value()
		}
	})
	if err := r.Err(); err != nil {
		return err
	}
	if failure != nil {
		to.Event(chat.ReadFailure(failure))
		return nil
	}
	to.Event(&start)
	c := jsonscan.NewReader(content)
	c.Array(func() { d.block(c, to) })
	d.finish(to, reason)
	if used {
		d.report(to)
	}
	return nil
}

func (d *Decoder) finish(to chat.Sink, reason chat.Raw) {
	word := chat.Literal(reason)
	to.Event(&chat.Event{Kind: chat.Finish, Finish: reasons[word.Text()], RawFinish: word})
}

// take takes the figures that are given: those of a stream are cumulative, and the
// latest counts.
func (u *usage) take(r *jsonscan.Reader) bool {
	return r.Object(func(key jsonscan.Key) {
		to := map[string]*int64{
			"input_tokens": &u.input, "output_tokens": &u.output, "cache_read_input_tokens": &u.read, "cache_creation_input_tokens": &u.write,
		}[string(key.Bytes())]
		switch {
		case to != nil:
			if v := r.Value(); v != nil {
				*to = chat.Int(v)
			}
		case key.Is("output_tokens_details"):
			r.Object(func(key jsonscan.Key) {
				if key.Is("thinking_tokens") {
					u.thinking = chat.Int(r.Value())
				}
			})
		}
	})
}

func (d *Decoder) report(to chat.Sink) {
	u := &d.usage
	to.Event(&chat.Event{Kind: chat.UsageEvent, Usage: chat.Usage{
		Prompt: u.input + u.read + u.write, Completion: u.output, CacheRead: u.read, CacheWrite: u.write, Reasoning: u.thinking,
	}})
}

// block reads a block of a whole answer.
func (d *Decoder) block(r *jsonscan.Reader, to chat.Sink) {
	var kind, text, id, name, signature, data chat.Literal
	var input chat.Raw
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			kind = r.String()
		case "text", "thinking":
			text = r.String()
		case "signature":
			signature = r.String()
		case "data":
			data = r.String()
		case "id":
			id = r.String()
		case "name":
			name = r.String()
		case "input":
			input = r.Value()
		}
	})
	switch kind.Text() {
	case "text":
		to.Event(&chat.Event{Kind: chat.TextPiece, Text: text})
	case "thinking":
		to.Event(&chat.Event{Kind: chat.ThoughtPiece, Text: text})
		if signature != nil {
			to.Event(&chat.Event{Kind: chat.ThoughtSeal, Signature: signature})
		}
	case "redacted_thinking":
		to.Event(&chat.Event{Kind: chat.ThoughtBlob, Text: data})
	case "tool_use":
		to.Event(&chat.Event{Kind: chat.CallStart, Tool: d.tools, ID: id, Name: name})
		if input != nil {
			to.Event(&chat.Event{Kind: chat.CallPiece, Tool: d.tools, Text: chat.Quote(string(input))})
		}
		d.tools++
	}
}

// Message reads an event of a stream, by the type in its data.
func (d *Decoder) Message(_ string, data []byte, to chat.Sink) error {
	r := jsonscan.NewReader(data)
	var kind chat.Literal
	var message, content, delta, failure chat.Raw
	index, used := int64(0), false
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			kind = r.String()
		case "index":
			index = chat.Int(r.Value())
		case "message":
			message = r.Value()
		case "content_block":
			content = r.Value()
		case "delta":
			delta = r.Value()
		case "usage":
			used = d.usage.take(r)
		case "error":
			failure = r.Value()
		}
	})
	if err := r.Err(); err != nil {
		return err
	}
	switch kind.Text() {
	case "message_start":
		start := chat.Event{Kind: chat.Start}
		m := jsonscan.NewReader(message)
		m.Object(func(key jsonscan.Key) {
			switch string(key.Bytes()) {
			case "id":
				start.ID = m.String()
			case "model":
				start.Model = m.String()
			case "usage":
				used = d.usage.take(m)
			}
		})
		to.Event(&start)
	case "content_block_start":
		d.begin(index, content, to)
	case "content_block_delta":
		d.delta(index, delta, to)
	case "message_delta":
		m := jsonscan.NewReader(delta)
		m.Object(func(key jsonscan.Key) {
			if key.Is("stop_reason") {
				if v := m.Value(); v != nil {
					d.finish(to, v)
				}
			}
		})
	case "message_stop":
		d.ended = true
	case "error":
		d.ended = true
		to.Event(chat.ReadFailure(failure))
	}
	if used {
		d.report(to)
	}
	return nil
}

// begin reads the block that a stream begins. What it holds already counts.
func (d *Decoder) begin(index int64, content chat.Raw, to chat.Sink) {
	r := jsonscan.NewReader(content)
	var kind, text, id, name, data chat.Literal
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			kind = r.String()
		case "text", "thinking":
			text = r.String()
		case "data":
			data = r.String()
		case "id":
			id = r.String()
		case "name":
			name = r.String()
		}
	})
	switch kind.Text() {
	case "text":
		if !text.Empty() {
			to.Event(&chat.Event{Kind: chat.TextPiece, Text: text})
		}
	case "thinking":
		if !text.Empty() {
			to.Event(&chat.Event{Kind: chat.ThoughtPiece, Text: text})
		}
	case "redacted_thinking":
		to.Event(&chat.Event{Kind: chat.ThoughtBlob, Text: data})
	case "tool_use":
		if d.blocks == nil {
			d.blocks = make(map[int64]int)
		}
		d.blocks[index] = d.tools
		to.Event(&chat.Event{Kind: chat.CallStart, Tool: d.tools, ID: id, Name: name})
		d.tools++
	}
}

func (d *Decoder) delta(index int64, delta chat.Raw, to chat.Sink) {
	r := jsonscan.NewReader(delta)
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "text":
			to.Event(&chat.Event{Kind: chat.TextPiece, Text: r.String()})
		case "thinking":
			to.Event(&chat.Event{Kind: chat.ThoughtPiece, Text: r.String()})
		case "signature":
			to.Event(&chat.Event{Kind: chat.ThoughtSeal, Signature: r.String()})
		case "partial_json":
			// Of a tool that the provider runs itself there is no call.
			if tool, ok := d.blocks[index]; ok {
				to.Event(&chat.Event{Kind: chat.CallPiece, Tool: tool, Text: r.String()})
			}
		}
	})
}

// End reports whether the message came to its end.
func (d *Decoder) End(chat.Sink) bool { return d.ended }

// Interface guards
var _ chat.Decoder = (*Decoder)(nil)
