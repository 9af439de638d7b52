package cohere

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A decoder decodes one answer of /v2/chat.
type decoder struct {
	tools map[int]int // in a stream: the number of a call by its index
	calls int
	ended bool
	event chat.Event // the current event
}

func (d *decoder) emit(to chat.Sink, e chat.Event) {
	d.event = e
	to.Event(&d.event)
}

var reasons = map[string]chat.FinishReason{
	"COMPLETE": chat.Stop, "STOP_SEQUENCE": chat.Stop, "MAX_TOKENS": chat.Length, "TOOL_CALL": chat.ToolCalls,
}

// fields are the members that are read from a message, an answer or an event.
type fields struct {
	kind, id, reason, text chat.Literal
	index                  int
	message, delta, usage  chat.Raw
}

func read(r *jsonscan.Reader) (f fields, ok bool) {
	ok = r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			f.kind = r.String()
		case "id":
			f.id = r.String()
		case "index":
			f.index = int(min(max(chat.Int(r.Value()), 0), maxTools))
		case "finish_reason":
			f.reason = r.String()
		case "message":
			if f.message = r.Value(); len(f.message) > 0 && f.message[0] == '"' {
				f.text = chat.Literal(f.message)
			}
		case "error":
			f.text = r.String()
		case "delta":
			f.delta = r.Value()
		case "usage":
			f.usage = r.Value()
		}
	})
	return f, ok
}

const maxTools = 1023

// object reads the members of an answer or an event.
func object(r *jsonscan.Reader) (f fields, err error) {
	f, ok := read(r)
	if err = r.Err(); err == nil && !ok {
		err = chat.ErrNoObject
	}
	return f, err
}

// Body decodes a complete answer.
func (d *decoder) Body(body []byte, to chat.Sink) error {
	r := jsonscan.Bounded(body)
	f, err := object(r)
	switch {
	case err != nil:
		return err
	case f.reason == nil && !f.text.Empty():
		d.fail(to, f.text, nil)
		return nil
	case f.reason == nil && !hasContent(f.message):
		d.fail(to, chat.Literal(`"The provider's answer has no message"`), nil)
		return nil
	}
	d.emit(to, chat.Event{Kind: chat.Start, ID: f.id})
	var plan chat.Literal
	var content, calls chat.Raw
	m := r.Within(f.message)
	m.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "tool_plan":
			plan = m.String()
		case "content":
			content = m.Value()
		case "tool_calls":
			calls = m.Value()
		}
	})
	d.plan(plan, to)
	if len(content) > 0 && content[0] == '"' {
		d.emit(to, chat.Event{Kind: chat.TextPiece, Text: chat.Literal(content)})
	} else {
		c := r.Within(content)
		c.Array(func() { d.piece(c, to) })
	}
	c := r.Within(calls)
	c.Array(func() {
		if c.Kind() == jsonscan.Object {
			d.call(c, to, d.begin(0), true)
		}
	})
	if err := r.Err(); err != nil {
		return err
	}
	d.finish(&f, to)
	return nil
}

// hasContent reports whether a message has any content.
func hasContent(message chat.Raw) (ok bool) {
	m := jsonscan.NewReader(message)
	m.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "content", "tool_calls", "tool_plan":
			v := m.Value()
			ok = ok || len(v) > len("[]")
		}
	})
	return ok
}

// plan emits tool_plan, which the model writes before it calls tools, as reasoning.
func (d *decoder) plan(text chat.Literal, to chat.Sink) {
	if !text.Empty() {
		d.emit(to, chat.Event{Kind: chat.ThoughtPiece, Text: text})
	}
}

// piece reads a text or thinking item, of a complete answer or a stream.
func (d *decoder) piece(r *jsonscan.Reader, to chat.Sink) {
	r.Object(func(key jsonscan.Key) {
		kind := chat.TextPiece
		switch string(key.Bytes()) {
		case "thinking":
			kind = chat.ThoughtPiece
		case "text":
		default:
			return
		}
		if s := chat.Literal(r.String()); !s.Empty() {
			d.emit(to, chat.Event{Kind: kind, Text: s})
		}
	})
}

// begin registers the call with an index. Calls are numbered in order of arrival.
func (d *decoder) begin(index int) (tool int) {
	if d.tools == nil {
		d.tools = make(map[int]int)
	}
	tool = d.calls
	d.tools[index] = tool
	d.calls++
	return tool
}

func (d *decoder) call(r *jsonscan.Reader, to chat.Sink, tool int, begins bool) {
	var id, name, arguments chat.Literal
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("id"):
			id = r.String()
		case key.Is("function"):
			r.Object(func(key jsonscan.Key) {
				switch {
				case key.Is("name"):
					name = r.String()
				case key.Is("arguments"):
					arguments = r.String()
				}
			})
		}
	})
	if begins {
		d.emit(to, chat.Event{Kind: chat.CallStart, Tool: tool, ID: id, Name: name})
	}
	if !arguments.Empty() {
		d.emit(to, chat.Event{Kind: chat.CallPiece, Tool: tool, Text: arguments})
	}
}

func (d *decoder) fail(to chat.Sink, text, name chat.Literal) {
	d.ended = true
	d.emit(to, chat.Event{Kind: chat.Failure, Text: text, Name: name})
}

// finish emits the finish reason and the usage.
func (d *decoder) finish(f *fields, to chat.Sink) {
	d.ended = true
	if f.reason.Is("ERROR") || f.reason.Is("TIMEOUT") || f.reason.Is("ERROR_TOXIC") || f.reason.Is("ERROR_LIMIT") {
		text := f.text
		if text.Empty() {
			text = chat.Quote("Cohere ended the answer with " + f.reason.Text())
		}
		d.fail(to, text, f.reason)
		return
	}
	d.emit(to, chat.Event{Kind: chat.Finish, Finish: reasons[f.reason.Text()], RawFinish: f.reason})
	if f.usage != nil {
		d.emit(to, chat.Event{Kind: chat.UsageEvent, Usage: usage(f.usage)})
	}
}

// usage reads the number of tokens, or else the billed units.
func usage(v chat.Raw) (u chat.Usage) {
	var tokens, billed [2]int64
	given := false
	r := jsonscan.NewReader(v)
	pair := func(to *[2]int64) {
		r.Object(func(key jsonscan.Key) {
			switch {
			case key.Is("input_tokens"):
				to[0] = chat.Int(r.Value())
			case key.Is("output_tokens"):
				to[1] = chat.Int(r.Value())
			}
		})
	}
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "tokens":
			given = r.Kind() == jsonscan.Object
			pair(&tokens)
		case "billed_units":
			pair(&billed)
		case "cached_tokens":
			u.CacheRead = chat.Int(r.Value())
		}
	})
	if !given {
		tokens = billed
	}
	u.Prompt, u.Completion = tokens[0], tokens[1]
	return u
}

// Message decodes an event of a stream, by the type in its data.
func (d *decoder) Message(_ string, data []byte, to chat.Sink) error {
	r := jsonscan.Bounded(data)
	f, err := object(r)
	if err != nil {
		return err
	}
	switch string(f.kind.Bytes()) {
	case "message-start":
		d.emit(to, chat.Event{Kind: chat.Start, ID: f.id})
	case "content-start", "content-delta":
		d.each(r, f.delta, "content", func(r *jsonscan.Reader) { d.piece(r, to) })
	case "tool-plan-delta":
		d.each(r, f.delta, "tool_plan", func(r *jsonscan.Reader) { d.plan(r.String(), to) })
	case "tool-call-start":
		d.each(r, f.delta, "tool_calls", func(r *jsonscan.Reader) {
			d.call(r, to, d.begin(f.index), true)
		})
	case "tool-call-delta":
		tool, known := d.tools[f.index]
		d.each(r, f.delta, "tool_calls", func(r *jsonscan.Reader) {
			if known {
				d.call(r, to, tool, false)
			}
		})
	case "message-end":
		end, _ := read(jsonscan.NewReader(f.delta))
		d.finish(&end, to)
	case "", "error":
		if !f.text.Empty() { // an error instead of an event
			d.fail(to, f.text, nil)
		}
	}
	return r.Err()
}

// each visits a member of a delta's message, which is one object or a list.
func (d *decoder) each(event *jsonscan.Reader, delta chat.Raw, name string, visit func(*jsonscan.Reader)) {
	r := event.Within(delta)
	r.Object(func(key jsonscan.Key) {
		if !key.Is("message") {
			return
		}
		r.Object(func(key jsonscan.Key) {
			switch {
			case !key.Is(name):
			case r.Kind() == jsonscan.Array:
				r.Array(func() { visit(r) })
			case r.Kind() != jsonscan.Null:
				visit(r)
			}
		})
	})
}

// End reports whether the message is complete.
func (d *decoder) End(chat.Sink) bool { return d.ended }

// Interface guards
var _ chat.Decoder = (*decoder)(nil)
