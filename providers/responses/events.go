package responses

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Events writes the events of a stream as server-sent events of Responses, each with its
// name and its number. The last one holds the complete response. If the response is to be
// stored, that is done before the last event is sent.
type Events struct {
	Response
	out           []byte
	number        int64
	begun, closed bool
}

// Begin makes the writer append to dst. Take returns the result.
func (w *Events) Begin(dst []byte) { w.out = dst }

// Take returns the buffer that was passed to Begin, with what was appended.
func (w *Events) Take() []byte { return w.out }

// event starts an event of a type.
func (w *Events) event(name string) *jsonscan.Builder {
	w.out = append(append(append(w.out, "event: "...), name...), "\ndata: "...)
	b := (*jsonscan.Builder)(&w.out)
	b.Open('{')
	b.Key("type").Text(name)
	b.Key("sequence_number").Int(w.number)
	w.number++
	return b
}

func (w *Events) end(b *jsonscan.Builder) {
	b.Close('}')
	w.out = append(w.out, "\n\n"...)
}

// Event writes an event.
func (w *Events) Event(e *chat.Event) {
	if w.closed {
		return
	}
	if e.Kind == chat.Start { // its content is part of the first event
		w.note(e)
	}
	w.begin()
	w.take(e, w)
	if w.failed != nil {
		w.last()
	}
}

func (w *Events) begin() {
	if w.begun {
		return
	}
	w.begun = true
	for _, name := range []string{"response.created", "response.in_progress"} {
		b := w.event(name)
		w.object(b.Key("response"), "in_progress")
		w.end(b)
	}
}

// End writes what follows the last event of a complete stream.
func (w *Events) End() {
	if w.closed {
		return
	}
	w.begin()
	w.last()
}

// last ends all items and the response.
func (w *Events) last() {
	w.closed = true
	if w.failed == nil {
		w.closeAll(w)
	} else {
		w.closeAll(nil)
	}
	status := w.status()
	object := jsonscan.Builder(nil)
	w.object(&object, status)
	if w.Keep != nil {
		if err := w.Keep(object); err != nil {
			w.failed = &chat.Event{Name: chat.Literal(`"server_error"`), Text: chat.Quote(err.Error())}
			status, object = "failed", nil
			w.object(&object, status)
		}
	}
	b := w.event("response." + status)
	b.Key("response").Raw(object)
	w.end(b)
}

// of starts an event of an item. This and the following methods do nothing if the receiver
// is nil.
func (w *Events) of(name string, at int, it *item) *jsonscan.Builder {
	b := w.event(name)
	b.Key("item_id").Text(it.id)
	b.Key("output_index").Int(int64(at))
	return b
}

// ofPart starts an event of a message's part.
func (w *Events) ofPart(name string, at int, it *item, part int) *jsonscan.Builder {
	b := w.of(name, at, it)
	b.Key("content_index").Int(int64(part))
	return b
}

// ofSummary starts an event of the summary of reasoning, which has one part.
func (w *Events) ofSummary(name string, at int, it *item) *jsonscan.Builder {
	b := w.of(name, at, it)
	b.Key("summary_index").Int(0)
	return b
}

func (w *Events) whole(name string, at int, it *item) {
	b := w.event(name)
	b.Key("output_index").Int(int64(at))
	b.Key("item")
	w.item(b, it)
	w.end(b)
}

func (w *Events) added(at int, it *item) {
	if w != nil {
		w.whole("response.output_item.added", at, it)
	}
}

func (w *Events) partAdded(at int, it *item) {
	if w == nil {
		return
	}
	last := len(it.part) - 1
	b := w.ofPart("response.content_part.added", at, it, last)
	b.Key("part")
	it.part[last].append(b)
	w.end(b)
}

func (w *Events) piece(at int, it *item, p *part, text chat.Literal, logProbs []byte) {
	if w == nil {
		return
	}
	name := "response.output_text.delta"
	if p.refusal {
		name = "response.refusal.delta"
	}
	b := w.ofPart(name, at, it, len(it.part)-1)
	b.Key("delta").Raw(text)
	if !p.refusal {
		array(b.Key("logprobs"), logProbs)
	}
	w.end(b)
}

func (w *Events) annotation(at int, it *item, annotation []byte, index int) {
	if w == nil {
		return
	}
	b := w.ofPart("response.output_text.annotation.added", at, it, len(it.part)-1)
	b.Key("annotation_index").Int(int64(index))
	b.Key("annotation").Raw(annotation)
	w.end(b)
}

func (w *Events) partDone(at int, it *item, part int) {
	if w == nil {
		return
	}
	p := &it.part[part]
	if p.refusal {
		b := w.ofPart("response.refusal.done", at, it, part)
		b.Key("refusal").Quoted(p.text)
		w.end(b)
	} else {
		b := w.ofPart("response.output_text.done", at, it, part)
		b.Key("text").Quoted(p.text)
		array(b.Key("logprobs"), p.logProbs)
		w.end(b)
	}
	b := w.ofPart("response.content_part.done", at, it, part)
	b.Key("part")
	p.append(b)
	w.end(b)
}

func (w *Events) arguments(at int, it *item, piece chat.Literal) {
	if w == nil {
		return
	}
	b := w.of("response.function_call_arguments.delta", at, it)
	b.Key("delta").Raw(piece)
	w.end(b)
}

func (w *Events) thought(at int, it *item, piece chat.Literal, first bool) {
	if w == nil {
		return
	}
	if first {
		b := w.ofSummary("response.reasoning_summary_part.added", at, it)
		summaryPart(b.Key("part"), nil)
		w.end(b)
	}
	b := w.ofSummary("response.reasoning_summary_text.delta", at, it)
	b.Key("delta").Raw(piece)
	w.end(b)
}

// ended reports that an item is done.
func (w *Events) ended(at int, it *item) {
	if w == nil {
		return
	}
	switch it.kind {
	case messageItem:
		if n := len(it.part); n > 0 {
			w.partDone(at, it, n-1)
		}
	case callItem:
		b := w.of("response.function_call_arguments.done", at, it)
		b.Key("name").Raw(orElse(it.name, `""`))
		b.Key("arguments").Quoted(it.arguments)
		w.end(b)
	case customItem:
		b := w.of("response.custom_tool_call_input.delta", at, it)
		b.Key("delta").Quoted(it.arguments)
		w.end(b)
		b = w.of("response.custom_tool_call_input.done", at, it)
		b.Key("input").Quoted(it.arguments)
		w.end(b)
	case webItem:
		for _, state := range []string{"in_progress", "searching", "completed"} {
			w.end(w.of("response.web_search_call."+state, at, it))
		}
	case reasoningItem:
		if it.summary != nil {
			b := w.ofSummary("response.reasoning_summary_text.done", at, it)
			b.Key("text").Quoted(it.summary)
			w.end(b)
			b = w.ofSummary("response.reasoning_summary_part.done", at, it)
			summaryPart(b.Key("part"), it.summary)
			w.end(b)
		}
	}
	w.whole("response.output_item.done", at, it)
}

// Interface guards
var (
	_ chat.StreamWriter = (*Events)(nil)
	_ chat.Sink         = (*Response)(nil)
)
