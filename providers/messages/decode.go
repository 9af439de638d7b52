package messages

import (
	"slices"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Decoder decodes one answer of Messages.
type Decoder struct {
	usage    usage
	blocks   map[int64]*toolUse // by index
	tools    int                // number of calls so far
	answered bool               // by the call of SchemaTool
	finished bool
	ended    bool
	cited    citations
	event    chat.Event // the current event
}

// A toolUse is a block of a stream that calls a tool.
type toolUse struct {
	tool   int
	text   bool         // the call is of SchemaTool: its input is the text of the answer
	search chat.Literal // the id of a web search, which the provider runs: input has all of its input
	input  chat.Raw     // the input at its start; nil if it was empty, or deltas followed
}

func (d *Decoder) emit(to chat.Sink, e chat.Event) {
	if e.Kind == chat.TextPiece {
		d.cited.end += e.Text.Len()
	}
	d.event = e
	to.Event(&d.event)
}

// usage is the usage as Messages counts it: the input excludes cached tokens.
type usage struct{ input, output, read, write, hour, thinking, searches int64 }

var reasons = map[string]chat.FinishReason{
	"end_turn": chat.Stop, "stop_sequence": chat.Stop, "pause_turn": chat.Stop, "max_tokens": chat.Length,
	"model_context_window_exceeded": chat.Length, "tool_use": chat.ToolCalls, "refusal": chat.ContentFilter,
}

// Body decodes a complete answer.
func (d *Decoder) Body(body []byte, to chat.Sink) error {
	r := jsonscan.Bounded(body)
	start := chat.Event{Kind: chat.Start}
	var content, failure chat.Raw
	var reason chat.Literal
	used := false
	if !r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "id":
			start.ID = r.String()
		case "model":
			start.Model = r.String()
		case "content":
			content = r.Value()
		case "stop_reason":
			reason = r.String()
		case "usage":
			used = d.usage.take(r)
		case "error":
			failure = r.Value()
		}
	}) && r.Err() == nil {
		return chat.ErrNoObject
	}
	if err := r.Err(); err != nil {
		return err
	}
	switch {
	case failure != nil:
		to.Event(chat.ReadFailure(failure))
		return nil
	case len(content) == 0 || content[0] != '[', string(content) == "[]" && reason == nil:
		to.Event(chat.NoAnswer(body, "The provider's answer has no content"))
		return nil
	}
	d.emit(to, start)
	c := r.Within(content)
	c.Array(func() { d.block(c, to) })
	if err := r.Err(); err != nil {
		return err
	}
	d.finish(to, reason)
	if used {
		d.report(to)
	}
	return nil
}

func (d *Decoder) finish(to chat.Sink, reason chat.Literal) {
	d.finished = true
	if d.answered && d.tools == 0 && reason.Is("tool_use") {
		reason = chat.Quote("end_turn")
	}
	d.emit(to, chat.Event{Kind: chat.Finish, Finish: reasons[reason.Text()], RawFinish: reason})
}

// take reads the given counts. In a stream they are cumulative, and the latest one counts.
func (u *usage) take(r *jsonscan.Reader) bool {
	return r.Object(func(key jsonscan.Key) {
		var to *int64
		switch string(key.Bytes()) {
		case "input_tokens":
			to = &u.input
		case "output_tokens":
			to = &u.output
		case "cache_read_input_tokens":
			to = &u.read
		case "cache_creation_input_tokens":
			to = &u.write
		case "cache_creation":
			r.Object(func(key jsonscan.Key) {
				if key.Is("ephemeral_1h_input_tokens") {
					u.hour = chat.Int(r.Value())
				}
			})
			return
		case "server_tool_use":
			r.Object(func(key jsonscan.Key) {
				if key.Is("web_search_requests") {
					u.searches = chat.Int(r.Value())
				}
			})
			return
		case "output_tokens_details":
			r.Object(func(key jsonscan.Key) {
				if key.Is("thinking_tokens") {
					u.thinking = chat.Int(r.Value())
				}
			})
			return
		default:
			return
		}
		if v := r.Value(); v != nil {
			*to = chat.Int(v)
		}
	})
}

func (d *Decoder) report(to chat.Sink) {
	u := &d.usage
	to.Event(&chat.Event{Kind: chat.UsageEvent, Usage: chat.Usage{
		Prompt: u.input + u.read + u.write, Completion: u.output, CacheRead: u.read, CacheWrite: u.write, CacheHour: u.hour, Reasoning: u.thinking, WebSearches: u.searches,
	}})
}

// A contentBlock is a block of content, of a complete answer or of content_block_start.
type contentBlock struct {
	kind, text, id, name, signature, data chat.Literal
	input, citations                      chat.Raw
}

func readBlock(r *jsonscan.Reader) (b contentBlock) {
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			b.kind = r.String()
		case "text", "thinking":
			b.text = r.String()
		case "signature":
			b.signature = r.String()
		case "data":
			b.data = r.String()
		case "id":
			b.id = r.String()
		case "name":
			b.name = r.String()
		case "input":
			b.input = r.Value()
		case "citations":
			b.citations = r.Value()
		}
	})
	return b
}

// block reads a block of a complete answer.
func (d *Decoder) block(r *jsonscan.Reader, to chat.Sink) {
	b := readBlock(r)
	switch string(b.kind.Bytes()) {
	case "text":
		d.cited.begin()
		d.emit(to, chat.Event{Kind: chat.TextPiece, Text: b.text})
		d.cited.take(b.citations)
		d.annotate(to)
	case "thinking":
		d.emit(to, chat.Event{Kind: chat.ThoughtPiece, Text: b.text})
		if b.signature != nil {
			d.emit(to, chat.Event{Kind: chat.ThoughtSeal, Signature: b.signature})
		}
	case "redacted_thinking":
		d.emit(to, chat.Event{Kind: chat.ThoughtBlob, Text: b.data})
	case "tool_use":
		if b.name.Is(SchemaTool) {
			d.answered = true
			d.emit(to, chat.Event{Kind: chat.TextPiece, Text: chat.Quote(string(b.input))})
			return
		}
		d.emit(to, chat.Event{Kind: chat.CallStart, Tool: d.tools, ID: b.id, Name: b.name})
		if b.input != nil {
			d.emit(to, chat.Event{Kind: chat.CallPiece, Tool: d.tools, Text: chat.Quote(string(b.input))})
		}
		d.tools++
	case "server_tool_use":
		if b.name.Is("web_search") {
			d.searched(b.id, b.input, to)
		}
	}
}

// searched emits a search of the web, whose input the model has given.
func (d *Decoder) searched(id chat.Literal, input chat.Raw, to chat.Sink) {
	e := chat.Event{Kind: chat.WebSearch, ID: id}
	r := jsonscan.NewReader(input)
	r.Object(func(key jsonscan.Key) {
		if key.Is("query") {
			e.Text = r.String()
		}
	})
	d.emit(to, e)
}

// Message decodes an event of a stream, by the type in its data.
func (d *Decoder) Message(_ string, data []byte, to chat.Sink) error {
	r := jsonscan.NewReader(data)
	var kind chat.Literal
	var message, content, delta, failure chat.Raw
	index, used := int64(0), false
	if !r.Object(func(key jsonscan.Key) {
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
	}) && r.Err() == nil {
		return chat.ErrNoObject
	}
	if err := r.Err(); err != nil {
		return err
	}
	switch string(kind.Bytes()) {
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
		d.emit(to, start)
	case "content_block_start":
		d.begin(index, content, to)
	case "content_block_delta":
		d.delta(index, delta, to)
	case "message_delta":
		m := jsonscan.NewReader(delta)
		m.Object(func(key jsonscan.Key) {
			if key.Is("stop_reason") {
				if word := chat.Literal(m.String()); !word.Empty() {
					d.finish(to, word)
				}
			}
		})
	case "content_block_stop":
		d.annotate(to)
		switch b := d.blocks[index]; {
		case b == nil:
		case b.input == nil:
			d.callEnd(b, to)
		case b.search != nil:
			d.searched(b.search, b.input, to)
			b.input = nil
		default:
			d.piece(b, chat.Quote(string(b.input)), to)
			b.input = nil
			d.callEnd(b, to)
		}
	case "message_stop":
		d.ended = true
		if !d.finished {
			d.finish(to, nil)
		}
	case "error":
		d.ended = true
		to.Event(chat.ReadFailure(failure))
	}
	if used {
		d.report(to)
	}
	return nil
}

// begin reads the block of content_block_start, including any content that it already has.
func (d *Decoder) begin(index int64, content chat.Raw, to chat.Sink) {
	b := readBlock(jsonscan.NewReader(content))
	switch string(b.kind.Bytes()) {
	case "text":
		d.cited.begin()
		d.cited.take(b.citations)
		if !b.text.Empty() {
			d.emit(to, chat.Event{Kind: chat.TextPiece, Text: b.text})
		}
	case "thinking":
		if !b.text.Empty() {
			d.emit(to, chat.Event{Kind: chat.ThoughtPiece, Text: b.text})
		}
	case "redacted_thinking":
		d.emit(to, chat.Event{Kind: chat.ThoughtBlob, Text: b.data})
	case "server_tool_use":
		if b.name.Is("web_search") {
			d.note(index, &toolUse{search: slices.Clone(b.id), input: chat.Raw{}})
			if string(b.input) != "{}" {
				d.blocks[index].input = slices.Clone(b.input)
			}
		}
	case "tool_use":
		called := &toolUse{tool: d.tools}
		if b.input != nil && string(b.input) != "{}" { // some providers send no deltas
			called.input = slices.Clone(b.input)
		}
		d.note(index, called)
		if called.text = b.name.Is(SchemaTool); called.text {
			d.answered = true
			return
		}
		d.emit(to, chat.Event{Kind: chat.CallStart, Tool: d.tools, ID: b.id, Name: b.name})
		d.tools++
	}
}

func (d *Decoder) note(index int64, b *toolUse) {
	if d.blocks == nil {
		d.blocks = make(map[int64]*toolUse)
	}
	d.blocks[index] = b
}

func (d *Decoder) delta(index int64, delta chat.Raw, to chat.Sink) {
	r := jsonscan.NewReader(delta)
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "text":
			d.emit(to, chat.Event{Kind: chat.TextPiece, Text: r.String()})
		case "citation":
			d.cited.one(r.Value())
		case "thinking":
			d.emit(to, chat.Event{Kind: chat.ThoughtPiece, Text: r.String()})
		case "signature":
			d.emit(to, chat.Event{Kind: chat.ThoughtSeal, Signature: r.String()})
		case "partial_json":
			// Tools that the provider runs itself are not calls of the client's.
			switch b := d.blocks[index]; {
			case b == nil:
			case b.search != nil:
				if piece := chat.Literal(r.String()); len(b.input)+len(piece) <= maxQuery {
					b.input = append(b.input, piece.Text()...)
				}
			default:
				piece := chat.Literal(r.String())
				if !piece.Empty() {
					b.input = nil
				}
				d.piece(b, piece, to)
			}
		}
	})
}

// maxQuery bounds the input of a web search, in bytes.
const maxQuery = 64 << 10

// piece emits a piece of the input of a call.
func (d *Decoder) piece(b *toolUse, piece chat.Literal, to chat.Sink) {
	if b.text {
		d.emit(to, chat.Event{Kind: chat.TextPiece, Text: piece})
		return
	}
	d.emit(to, chat.Event{Kind: chat.CallPiece, Tool: b.tool, Text: piece})
}

// callEnd says that a call is complete, if the block is one.
func (d *Decoder) callEnd(b *toolUse, to chat.Sink) {
	if !b.text && b.search == nil {
		d.emit(to, chat.Event{Kind: chat.CallEnd, Tool: b.tool})
	}
}

// End reports whether the message is complete.
func (d *Decoder) End(chat.Sink) bool { return d.ended }

// Interface guards
var _ chat.Decoder = (*Decoder)(nil)
