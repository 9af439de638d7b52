package bedrock

import (
	"errors"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/messages"
)

// A Decoder decodes one answer of Converse or ConverseStream.
type Decoder struct {
	r          jsonscan.Reader
	event      chat.Event
	tools      int           // that were called
	answered   bool          // by a call of messages.SchemaTool
	blocks     map[int64]int // by index: the tool that the block calls, or answerTool
	index      int64         // of the block of the latest delta
	blob       []byte        // redacted reasoning collected so far for that block
	ended      bool
	hasContent bool // a text or a call came
	cited      citations
	textBlock  int64 // 1 + the index of the latest block with text
}

// answerTool is the tool of a block whose input is the text of the answer.
const answerTool = -1

var reasons = map[string]chat.FinishReason{
	"end_turn": chat.Stop, "stop_sequence": chat.Stop, "max_tokens": chat.Length, "model_context_window_exceeded": chat.Length,
	"tool_use": chat.ToolCalls, "guardrail_intervened": chat.ContentFilter, "content_filtered": chat.ContentFilter,
}

// failureReasons lists the stop reasons that mean that the model failed. If there is no
// content, the answer is then an error.
var failureReasons = map[string]bool{"malformed_model_output": true, "malformed_tool_use": true}

// emit passes an event on. The event is valid until the next one.
func (d *Decoder) emit(to chat.Sink, e chat.Event) {
	switch e.Kind {
	case chat.TextPiece:
		d.hasContent = d.hasContent || !e.Text.Empty()
	case chat.CallStart:
		d.hasContent = true
	case chat.Finish:
		if word := e.RawFinish.Text(); !d.hasContent && failureReasons[word] {
			e = chat.Event{Kind: chat.Failure, Name: chat.Literal(`"provider_error"`), Text: chat.Quote("The model ended its answer with " + word + " and said nothing")}
		}
	}
	d.event = e
	to.Event(&d.event)
}

// Body decodes a complete answer.
func (d *Decoder) Body(body []byte, to chat.Sink) error {
	r := jsonscan.Bounded(body)
	var content, usage chat.Raw
	var reason chat.Literal
	ok := r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "output":
			content = member(r, "message", "content")
		case "stopReason":
			reason = r.String()
		case "usage":
			usage = r.Value()
		}
	})
	if err := r.Err(); err != nil {
		return err
	}
	if !ok {
		return errors.New("it is not a JSON object")
	}
	if content == nil && reason.Empty() { // an error, or no answer at all
		to.Event(chat.NoAnswer(body, "The provider's answer has no content"))
		return nil
	}
	d.emit(to, chat.Event{Kind: chat.Start})
	c := r.Within(content)
	c.Array(func() { d.block(c, to) })
	if err := r.Err(); err != nil {
		return err
	}
	d.finish(to, reason)
	if usage != nil {
		d.emit(to, chat.Event{Kind: chat.UsageEvent, Usage: readUsage(jsonscan.NewReader(usage))})
	}
	return nil
}

// finish emits the end of the answer. A call that is the answer is none to the caller.
func (d *Decoder) finish(to chat.Sink, reason chat.Literal) {
	if d.answered && d.tools == 0 && reason.Is("tool_use") {
		reason = chat.Quote("end_turn")
	}
	d.emit(to, chat.Event{Kind: chat.Finish, Finish: reasons[reason.Text()], RawFinish: reason})
}

// member reads the next value and returns its member at the path given by names.
func member(r *jsonscan.Reader, names ...string) (v chat.Raw) {
	if len(names) == 0 {
		return r.Value()
	}
	r.Object(func(key jsonscan.Key) {
		if key.Is(names[0]) {
			v = member(r, names[1:]...)
		}
	})
	return v
}

// block reads a content block of a complete answer.
func (d *Decoder) block(r *jsonscan.Reader, to chat.Sink) {
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "text":
			text := orEmpty(r.String())
			d.cited.text(text, true)
			d.emit(to, chat.Event{Kind: chat.TextPiece, Text: text})
		case "citationsContent":
			from := d.cited.end
			r.Object(func(key jsonscan.Key) {
				switch {
				case key.Is("content"):
					r.Array(func() { d.block(r, to) })
				case key.Is("citations"):
					r.Array(func() { d.cited.one(r) })
				}
			})
			if d.cited.end > from {
				d.cited.start = from
			}
			d.annotate(to)
		case "reasoningContent":
			d.thought(r, to)
			d.flush(to)
		case "toolUse":
			var t tool
			r.Object(func(key jsonscan.Key) { t.member(r, key) })
			if t.server {
				return
			}
			if t.name.Is(messages.SchemaTool) {
				d.answered = true
				d.emit(to, chat.Event{Kind: chat.TextPiece, Text: chat.Quote(string(t.input))})
				return
			}
			d.emit(to, chat.Event{Kind: chat.CallStart, Tool: d.tools, ID: orEmpty(t.id), Name: orEmpty(t.name)})
			if t.input != nil {
				d.emit(to, chat.Event{Kind: chat.CallPiece, Tool: d.tools, Text: chat.Quote(string(t.input))})
			}
			d.tools++
		}
	})
}

// A tool is the content of a toolUse block.
type tool struct {
	id, name chat.Literal
	input    chat.Raw
	server   bool // the provider runs it itself
}

func (t *tool) member(r *jsonscan.Reader, key jsonscan.Key) {
	switch string(key.Bytes()) {
	case "toolUseId":
		t.id = r.String()
	case "name":
		t.name = r.String()
	case "input":
		t.input = r.Value()
	case "type":
		t.server = chat.Literal(r.String()).Is("server_tool_use")
	}
}

// readUsage reads the usage. The input tokens exclude those that were read from or written
// to caches.
func readUsage(r *jsonscan.Reader) (u chat.Usage) {
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "inputTokens":
			u.Prompt = chat.Int(r.Value())
		case "outputTokens":
			u.Completion = chat.Int(r.Value())
		case "totalTokens":
			u.Total = chat.Int(r.Value())
		case "cacheReadInputTokens":
			u.CacheRead = chat.Int(r.Value())
		case "cacheWriteInputTokens":
			u.CacheWrite = chat.Int(r.Value())
		}
	})
	u.Prompt += u.CacheRead + u.CacheWrite
	return u
}

// Message decodes an event of a stream.
func (d *Decoder) Message(name string, data []byte, to chat.Sink) error {
	if exception, ok := strings.CutPrefix(name, failed); ok {
		d.flush(to)
		if !d.ended {
			d.emit(to, failureEvent(exception, data))
		}
		d.ended = true
		return nil
	}
	r := &d.r
	r.ResetBounded(data)
	var index int64
	var start, delta, usage chat.Raw
	var reason chat.Literal
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "contentBlockIndex":
			index = chat.Int(r.Value())
		case "start":
			start = r.Value()
		case "delta":
			delta = r.Value()
		case "stopReason":
			reason = r.String()
		case "usage":
			usage = r.Value()
		}
	})
	if err := r.Err(); err != nil {
		return err
	}
	if name != "contentBlockDelta" || index != d.index {
		d.flush(to)
		d.annotate(to)
	}
	switch name {
	case "messageStart":
		d.emit(to, chat.Event{Kind: chat.Start})
	case "contentBlockStart":
		r.Reset(start)
		d.begin(r, index, to)
	case "contentBlockDelta":
		d.index = index
		r.Reset(delta)
		d.delta(r, index, to)
	case "contentBlockStop":
		if n, ok := d.blocks[index]; ok && n != answerTool {
			d.emit(to, chat.Event{Kind: chat.CallEnd, Tool: n})
		}
	case "messageStop":
		d.ended = true
		d.finish(to, reason)
	case "metadata": // follows messageStop
		if usage != nil {
			r.Reset(usage)
			d.emit(to, chat.Event{Kind: chat.UsageEvent, Usage: readUsage(r)})
		}
	}
	return nil
}

// begin reads the start of a block, which has content only for a tool call.
func (d *Decoder) begin(r *jsonscan.Reader, index int64, to chat.Sink) {
	r.Object(func(key jsonscan.Key) {
		if !key.Is("toolUse") {
			return
		}
		var t tool
		r.Object(func(key jsonscan.Key) { t.member(r, key) })
		if t.server {
			return
		}
		if d.blocks == nil {
			d.blocks = make(map[int64]int)
		}
		if t.name.Is(messages.SchemaTool) {
			d.answered, d.blocks[index] = true, answerTool
			return
		}
		d.blocks[index] = d.tools
		d.emit(to, chat.Event{Kind: chat.CallStart, Tool: d.tools, ID: orEmpty(t.id), Name: orEmpty(t.name)})
		d.tools++
	})
}

func (d *Decoder) delta(r *jsonscan.Reader, index int64, to chat.Sink) {
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "text":
			if s := r.String(); s != nil {
				d.cited.text(s, d.textBlock != index+1)
				d.textBlock = index + 1
				d.emit(to, chat.Event{Kind: chat.TextPiece, Text: s})
			}
		case "citation":
			d.cited.one(r)
		case "reasoningContent":
			d.thought(r, to)
		case "toolUse":
			piece := chat.Literal(member(r, "input"))
			// Tools that the provider runs itself are not calls of the client's.
			n, ok := d.blocks[index]
			switch {
			case !ok || len(piece) < 2 || piece[0] != '"':
			case n == answerTool:
				d.emit(to, chat.Event{Kind: chat.TextPiece, Text: piece})
			default:
				d.emit(to, chat.Event{Kind: chat.CallPiece, Tool: n, Text: piece})
			}
		}
	})
}

// End reports whether the message is complete.
func (d *Decoder) End(chat.Sink) bool { return d.ended }

func orEmpty(l chat.Literal) chat.Literal {
	if l == nil {
		return chat.Literal(`""`)
	}
	return l
}

// Interface guards
var _ chat.Decoder = (*Decoder)(nil)
