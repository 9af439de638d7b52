package responses

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Response collects the events of an answer and writes it as one response. With [Events],
// it is also streamed. Its zero value, with a Style, is ready to use.
type Response struct {
	chat.Style
	model chat.Literal
	usage chat.Usage
	used  bool

	items    []item
	open     int         // index of the current message or reasoning item, plus one; 0: none
	calls    map[int]int // by tool: index of its item
	called   int         // index of the item of the last call, plus one; 0: none
	logProbs []byte      // elements of an array, for the next text
	finish   chat.FinishReason
	finished bool
	failed   *chat.Event
}

type itemKind uint8

const (
	messageItem itemKind = iota
	callItem
	customItem // a call of a custom tool
	searchItem // a search for further tools, which the caller runs
	webItem    // a search of the web, which the provider has run; its arguments are the query
	reasoningItem
)

var (
	kindNames = [...]string{messageItem: "message", callItem: "function_call", customItem: "custom_tool_call", searchItem: "tool_search_call", webItem: "web_search_call", reasoningItem: "reasoning"}
	kindIDs   = [...]string{messageItem: "msg_", callItem: "fc_", customItem: "ctc_", searchItem: "tsc_", webItem: "ws_", reasoningItem: "rs_"}
)

// An item is one element of the output.
type item struct {
	kind itemKind
	id   string
	part []part // of a message: texts and refusals, in order

	callID, name, namespace, signature chat.Literal
	arguments                          []byte // without the quotes; once it is done, the input of a custom tool

	summary  []byte // without the quotes
	seal     []byte // without the quotes
	redacted bool

	done   bool
	status string // set once it is done
}

// A part is one part of a message's content.
type part struct {
	refusal               bool
	text                  []byte // without the quotes
	annotations, logProbs []byte // elements of arrays
	cited                 int    // the number of annotations
}

func (p *part) kind() string {
	if p.refusal {
		return "refusal"
	}
	return "output_text"
}

func clone(l chat.Literal) chat.Literal { return append(chat.Literal(nil), l...) }

// note takes the metadata from an event, and reports whether that is all it has.
func (w *Response) note(e *chat.Event) bool {
	switch e.Kind {
	case chat.Start:
		if w.model == nil && !e.Model.Empty() {
			w.model = clone(e.Model)
		}
	case chat.UsageEvent:
		w.usage, w.used = e.Usage, true
	case chat.Failure:
		w.failed = &chat.Event{Kind: chat.Failure, Text: clone(e.Text), Name: clone(e.Name)}
	default:
		return e.Choice != 0 || w.finished
	}
	return true
}

// Event handles an event.
func (w *Response) Event(e *chat.Event) { w.take(e, nil) }

// take handles an event. With to, it also streams it.
func (w *Response) take(e *chat.Event, to *Events) {
	if w.note(e) {
		return
	}
	switch e.Kind {
	case chat.TextPiece, chat.RefusalPiece:
		w.addText(e, to)
	case chat.Annotation:
		w.annotate(e, to)
	case chat.WebSearch:
		w.close(to)
		it := w.add(webItem)
		it.arguments = append(it.arguments, jsonscan.Inside(e.Text)...)
		to.added(len(w.items)-1, it)
		w.end(len(w.items)-1, to)
	case chat.LogProbs:
		w.logProbs = append(w.logProbs[:0], elements(e.Raw, "content")...)
	case chat.ThoughtPiece:
		if e.Text.Empty() {
			return
		}
		it := w.thought(to)
		first := it.summary == nil
		it.summary = append(it.summary, jsonscan.Inside(e.Text)...)
		to.thought(w.open-1, it, e.Text, first)
	case chat.ThoughtSeal:
		it := w.thought(to)
		it.seal = append(it.seal, jsonscan.Inside(e.Signature)...)
	case chat.ThoughtBlob:
		w.close(to)
		it := w.thought(to)
		it.seal, it.redacted = append(it.seal, jsonscan.Inside(e.Text)...), true
	case chat.CallStart:
		w.close(to)
		w.closeCall(to)
		kind, name := callItem, clone(e.Name)
		form, formed := w.Forms[e.Name.Text()]
		switch {
		case form.Custom:
			kind = customItem
		case form.Search:
			kind = searchItem
		}
		if formed && form.Name != nil {
			name = form.Name
		}
		it := w.add(kind)
		it.callID, it.name, it.namespace, it.signature = clone(e.ID), name, form.Namespace, clone(e.Signature)
		if it.callID.Empty() {
			it.callID = chat.Quote("call_" + it.id[len(kindIDs[kind]):])
		}
		if w.calls == nil {
			w.calls = make(map[int]int)
		}
		w.calls[e.Tool], w.called = len(w.items)-1, len(w.items)
		to.added(len(w.items)-1, it)
	case chat.CallPiece:
		if at, ok := w.calls[e.Tool]; ok && !e.Text.Empty() && !w.items[at].done {
			w.items[at].arguments = append(w.items[at].arguments, jsonscan.Inside(e.Text)...)
			if w.items[at].kind == callItem { // those of others are in the whole only
				to.arguments(at, &w.items[at], e.Text)
			}
		}
	case chat.CallEnd:
		if at, ok := w.calls[e.Tool]; ok && !w.items[at].done {
			w.end(at, to)
		}
	case chat.Finish:
		w.finish, w.finished = e.Finish, true
	}
}

// add starts an item. Its id is derived from the response's.
func (w *Response) add(kind itemKind) *item {
	_, suffix, _ := strings.Cut(w.ID, "_")
	at := strconv.FormatInt(int64(len(w.items)), 16)
	if len(at) < 2 {
		at = "0" + at
	}
	w.items = append(w.items, item{kind: kind, id: kindIDs[kind] + suffix + at})
	return &w.items[len(w.items)-1]
}

// current returns the current message or reasoning item if it is of the given kind, or a
// new one.
func (w *Response) current(kind itemKind, to *Events) *item {
	if w.open > 0 && w.items[w.open-1].kind == kind {
		return &w.items[w.open-1]
	}
	w.close(to)
	it := w.add(kind)
	w.open = len(w.items)
	to.added(w.open-1, it)
	return it
}

// thought returns the current reasoning item, or a new one if there is none or it is
// sealed.
func (w *Response) thought(to *Events) *item {
	if w.open > 0 && w.items[w.open-1].seal != nil {
		w.close(to)
	}
	return w.current(reasoningItem, to)
}

// speech returns the current part of a message, or a new one.
func (w *Response) speech(refusal bool, to *Events) *part {
	it := w.current(messageItem, to)
	n := len(it.part)
	if n == 0 || it.part[n-1].refusal != refusal {
		if n > 0 {
			to.partDone(w.open-1, it, n-1)
		}
		it.part = append(it.part, part{refusal: refusal})
		n++
		to.partAdded(w.open-1, it)
	}
	return &it.part[n-1]
}

func (w *Response) addText(e *chat.Event, to *Events) {
	if e.Text.Empty() {
		return
	}
	p := w.speech(e.Kind == chat.RefusalPiece, to)
	p.text = append(p.text, jsonscan.Inside(e.Text)...)
	probabilities := w.logProbs
	if len(probabilities) > 0 {
		p.logProbs = appendElement(p.logProbs, probabilities)
	}
	to.piece(w.open-1, &w.items[w.open-1], p, e.Text, probabilities)
	w.logProbs = nil
}

func (w *Response) annotate(e *chat.Event, to *Events) {
	a := annotation(e.Raw)
	p := w.speech(false, to)
	p.annotations = appendElement(p.annotations, a)
	p.cited++
	to.annotation(w.open-1, &w.items[w.open-1], a, p.cited-1)
}

func appendElement(list, element []byte) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	return append(list, element...)
}

// annotation flattens a citation of Chat Completions, whose members are nested below its
// type.
func annotation(raw chat.Raw) []byte {
	var kind chat.Literal
	var inner chat.Raw
	r := jsonscan.NewReader(raw)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = r.String()
		case r.Kind() == jsonscan.Object:
			inner = r.Value()
		}
	})
	if kind == nil || inner == nil {
		return line(raw)
	}
	b := jsonscan.Builder(nil)
	b.Open('{')
	b.Key("type").Raw(kind)
	r = jsonscan.NewReader(inner)
	r.Object(func(key jsonscan.Key) {
		if !key.Is("type") {
			b.Raw(chat.Quote(key.String()))
			b = append(append(b, ':'), line(r.Raw())...)
		}
	})
	b.Close('}')
	return b
}

// elements returns the elements of an array that is a member of an object.
func elements(object chat.Raw, name string) (list []byte) {
	r := jsonscan.NewReader(object)
	r.Object(func(key jsonscan.Key) {
		if key.Is(name) {
			r.Array(func() { list = appendElement(list, line(r.Raw())) })
		}
	})
	return list
}

// close ends the current message or reasoning item.
func (w *Response) close(to *Events) {
	if w.open > 0 {
		w.end(w.open-1, to)
		w.open = 0
	}
}

// closeCall ends the last call before another one begins, if its arguments are complete: some
// providers interleave the pieces of several calls.
func (w *Response) closeCall(to *Events) {
	if w.called == 0 || w.items[w.called-1].done {
		return
	}
	arguments := slices.Concat([]byte{'"'}, w.items[w.called-1].arguments, []byte{'"'})
	if jsonscan.Members(chat.Literal(arguments).Bytes(), nil) == nil {
		w.end(w.called-1, to)
	}
}

// closeAll ends every item.
func (w *Response) closeAll(to *Events) {
	for i := range w.items {
		if !w.items[i].done {
			w.end(i, to)
		}
	}
	w.open = 0
}

func (w *Response) end(at int, to *Events) {
	it := &w.items[at]
	it.done, it.status = true, "completed"
	if w.failed != nil || w.finished && w.finish != chat.Stop && w.finish != chat.ToolCalls {
		it.status = "incomplete"
	}
	if it.kind == callItem && len(it.arguments) == 0 { // clients parse the arguments as JSON
		it.arguments = []byte("{}")
		to.arguments(at, it, chat.Literal(`"{}"`))
	}
	if it.kind == customItem {
		it.arguments = chat.FreeInput(it.arguments)
	}
	to.ended(at, it)
}

// Failed returns the error that the provider answered with, or nil.
func (w *Response) Failed() *chat.Event { return w.failed }
