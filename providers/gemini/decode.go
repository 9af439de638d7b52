package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Decoder decodes one answer of generateContent, complete or as a stream, each message of
// which is an answer with the next pieces.
type Decoder struct {
	newID   func() string // makes the ids of calls, which the API may leave out
	choices []choice
	failed  bool
	// answered is set once a candidate has content or a finish reason.
	answered bool

	message, inner jsonscan.Reader
	event          chat.Event
}

// A choice is the state of a candidate. Its finish reason is emitted at the end of the
// answer, because it may occur in every piece of a stream.
type choice struct {
	calls    int
	seen     bool
	finished bool
	blocked  bool // by a filter, for which reason is word
	reason   chat.FinishReason
	word     chat.Literal

	grounding  chat.Raw // the grounding metadata
	hasContent bool     // a text or a call came
}

// failureReasons lists the finish reasons that mean that the model failed. If there is no
// content, the answer is then an error.
var failureReasons = map[string]bool{
	"MALFORMED_FUNCTION_CALL": true, "UNEXPECTED_TOOL_CALL": true, "TOO_MANY_TOOL_CALLS": true, "MALFORMED_RESPONSE": true,
	"MISSING_THOUGHT_SIGNATURE": true, "OTHER": true, "IMAGE_OTHER": true, "NO_IMAGE": true, "FINISH_REASON_UNSPECIFIED": true,
}

// emitFailure emits a failure if every candidate failed.
func (d *Decoder) emitFailure(to chat.Sink) bool {
	for i := range d.choices {
		if c := &d.choices[i]; c.hasContent || c.blocked || !failureReasons[c.word.Text()] {
			return false
		}
	}
	if len(d.choices) == 0 {
		return false
	}
	d.failed = true
	word := d.choices[0].word.Text()
	to.Event(&chat.Event{Kind: chat.Failure, Name: chat.Literal(`"provider_error"`), Text: chat.Quote("The model ended its answer with " + word + " and said nothing")})
	return true
}

// NewDecoder returns a decoder for one answer.
func NewDecoder(c *providers.Call) chat.Decoder { return &Decoder{newID: c.NewID} }

// maxChoices bounds the index of a candidate.
const maxChoices = 127

var reasons = map[string]chat.FinishReason{
	"MAX_TOKENS": chat.Length,
	"SAFETY":     chat.ContentFilter, "RECITATION": chat.ContentFilter, "BLOCKLIST": chat.ContentFilter, "PROHIBITED_CONTENT": chat.ContentFilter,
	"SPII": chat.ContentFilter, "LANGUAGE": chat.ContentFilter, "MODEL_ARMOR": chat.ContentFilter, "IMAGE_SAFETY": chat.ContentFilter,
	"IMAGE_PROHIBITED_CONTENT": chat.ContentFilter, "IMAGE_RECITATION": chat.ContentFilter,
}

// Body decodes a complete answer.
func (d *Decoder) Body(body []byte, to chat.Sink) error {
	if err := d.answer(body, to); err != nil || d.failed {
		return err
	}
	if !d.answered { // not an answer: a blocked prompt would have a reason
		d.failed = true
		to.Event(chat.NoAnswer(body, "The provider's answer has no candidates"))
		return nil
	}
	d.finish(to)
	return nil
}

// Message decodes the next piece of a stream.
func (d *Decoder) Message(_ string, data []byte, to chat.Sink) error { return d.answer(data, to) }

// End reports whether every candidate is complete.
func (d *Decoder) End(to chat.Sink) bool {
	if d.failed {
		return true
	}
	if len(d.choices) == 0 {
		return false
	}
	for i := range d.choices {
		if c := &d.choices[i]; c.seen && !c.finished {
			return false
		}
	}
	d.finish(to)
	return true
}

func (d *Decoder) finish(to chat.Sink) {
	if d.emitFailure(to) {
		return
	}
	for i := range d.choices {
		c := &d.choices[i]
		d.citations(c.grounding, i, to)
		d.emit(to, chat.Event{Kind: chat.Finish, Choice: i, Finish: c.reason, RawFinish: c.word})
	}
}

// emit passes an event on. It reuses one event, to avoid allocations.
func (d *Decoder) emit(to chat.Sink, e chat.Event) {
	d.event = e
	to.Event(&d.event)
}

func (d *Decoder) at(index int) *choice {
	for len(d.choices) <= index {
		d.choices = append(d.choices, choice{})
	}
	d.choices[index].seen = true
	return &d.choices[index]
}

var errNoAnswer = errors.New("neither an object nor a list of objects")

// answer reads an answer, or a list of pieces, which is how a stream without alt=sse is
// sent.
func (d *Decoder) answer(body []byte, to chat.Sink) error {
	r := &d.message
	r.ResetBounded(body)
	// Check the syntax of all of it before emitting anything.
	switch r.Kind() {
	case jsonscan.Object, jsonscan.Array:
		r.Raw()
	default:
		return errNoAnswer
	}
	if err := r.Err(); err != nil {
		return err
	}
	r.Reset(body)
	if r.Kind() == jsonscan.Object {
		d.piece(r.Raw(), to)
		return r.BodyErr()
	}
	pieces := r.Within(body)
	pieces.Array(func() { d.piece(pieces.Raw(), to) })
	return pieces.BodyErr()
}

// piece reads one object, whose syntax was checked.
func (d *Decoder) piece(body []byte, to chat.Sink) {
	if d.failed {
		return
	}
	r := &d.message
	r.Reset(body)
	var id, model, created, blocked chat.Literal
	var candidates, usage, failure chat.Raw
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "responseId":
			id = r.String()
		case "modelVersion":
			model = r.String()
		case "createTime":
			created = r.String()
		case "candidates":
			candidates = r.Value()
		case "usageMetadata":
			usage = r.Value()
		case "error":
			failure = r.Value()
		case "promptFeedback":
			r.Object(func(key jsonscan.Key) {
				if key.Is("blockReason") {
					blocked = r.String()
				}
			})
		}
	})
	if failure != nil {
		d.failed = true
		to.Event(chat.ReadFailure(failure))
		return
	}
	if usage != nil { // first, because some clients expect the prompt's tokens at the start
		d.emit(to, chat.Event{Kind: chat.UsageEvent, Usage: readUsage(usage)})
	}
	d.emit(to, chat.Event{Kind: chat.Start, ID: id, Model: model, Created: seconds(created)})
	r.Reset(candidates)
	position := 0
	r.Array(func() {
		d.candidate(r.Raw(), position, to)
		position++
	})
	if !blocked.Empty() {
		d.block(blocked)
	}
}

// block ends an answer that was blocked, or whose prompt was.
func (d *Decoder) block(word chat.Literal) {
	d.answered = true
	if len(d.choices) == 0 {
		d.at(0)
	}
	for i := range d.choices {
		if c := &d.choices[i]; !c.finished {
			c.finished, c.blocked, c.reason, c.word = true, true, chat.ContentFilter, bytes.Clone(word)
		}
	}
}

func seconds(at chat.Literal) int64 {
	if at == nil {
		return 0
	}
	t, err := time.Parse(time.RFC3339, at.Text())
	if err != nil {
		return 0
	}
	return t.Unix()
}

// readUsage reads the token counts. The prompt's include cached tokens; the candidates'
// exclude thinking.
func readUsage(v []byte) (u chat.Usage) {
	r := jsonscan.NewReader(v)
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "promptTokenCount":
			u.Prompt += chat.Int(r.Value())
		case "toolUsePromptTokenCount": // results of the API's own tools, which the model read
			u.Prompt += chat.Int(r.Value())
		case "candidatesTokenCount":
			u.Completion += chat.Int(r.Value())
		case "thoughtsTokenCount":
			u.Reasoning = chat.Int(r.Value())
		case "promptTokensDetails":
			u.AudioIn, _ = modalities(r)
		case "candidatesTokensDetails":
			u.AudioOut, u.ImageOut = modalities(r)
		case "cachedContentTokenCount":
			u.CacheRead = chat.Int(r.Value())
		case "totalTokenCount":
			u.Total = chat.Int(r.Value())
		}
	})
	u.Completion += u.Reasoning
	return u
}

// modalities reads the number of audio and image tokens, whose prices differ from those of
// text.
func modalities(r *jsonscan.Reader) (audio, images int64) {
	r.Array(func() {
		var kind string
		var n int64
		r.Object(func(key jsonscan.Key) {
			switch string(key.Bytes()) {
			case "modality":
				kind = chat.Literal(r.Value()).Text()
			case "tokenCount":
				n = chat.Int(r.Value())
			}
		})
		switch kind {
		case "AUDIO":
			audio += n
		case "IMAGE":
			images += n
		}
	})
	return audio, images
}

func (d *Decoder) candidate(body []byte, position int, to chat.Sink) {
	r := &d.inner
	r.ResetWithin(&d.message, body)
	index := position
	var parts, logProbs, grounding chat.Raw
	var reason chat.Literal
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "index":
			index = int(chat.Int(r.Value()))
		case "content":
			r.Object(func(key jsonscan.Key) {
				if key.Is("parts") {
					parts = r.Value()
				}
			})
		case "finishReason":
			reason = r.String()
		case "logprobsResult":
			logProbs = r.Value()
		case "groundingMetadata":
			grounding = r.Value()
		}
	})
	index = min(max(index, 0), maxChoices)
	c := d.at(index)
	if logProbs != nil {
		if content := appendLogProbs(nil, r.Within(logProbs)); content != nil {
			d.emit(to, chat.Event{Kind: chat.LogProbs, Choice: index, Raw: content})
		}
	}
	r.Reset(parts)
	r.Array(func() { d.part(r, index, to) })
	if bytes.Contains(grounding, []byte(`"groundingChunks"`)) {
		c.grounding = bytes.Clone(grounding) // the latest replaces earlier ones
	}
	d.answered = d.answered || parts != nil || !reason.Empty()
	if !reason.Empty() {
		// Callers would not know an unknown reason either.
		c.finished, c.reason, c.word = true, reasons[reason.Text()], bytes.Clone(reason)
	}
}

// part reads one part. The parts of the API's own tools are not content of the answer.
func (d *Decoder) part(r *jsonscan.Reader, index int, to chat.Sink) {
	var text, id, name, signature, media, data chat.Literal
	var arguments chat.Raw
	var thought, call bool
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "text":
			text = r.String()
		case "thought":
			thought = string(r.Raw()) == "true"
		case "thoughtSignature":
			signature = r.String()
		case "functionCall":
			call = r.Object(func(key jsonscan.Key) {
				switch string(key.Bytes()) {
				case "id":
					id = r.String()
				case "name":
					name = r.String()
				case "args":
					arguments = r.Value()
				}
			})
		case "inlineData":
			r.Object(func(key jsonscan.Key) {
				switch string(key.Bytes()) {
				case "mimeType":
					media = r.String()
				case "data":
					data = r.String()
				}
			})
		}
	})
	d.choices[index].hasContent = d.choices[index].hasContent || call || !thought && (!text.Empty() || !data.Empty())
	kind := chat.TextPiece
	if thought {
		kind = chat.ThoughtPiece
	}
	if !text.Empty() {
		d.emit(to, chat.Event{Kind: kind, Choice: index, Text: text})
	}
	if !data.Empty() && !thought {
		d.emit(to, chat.Event{Kind: kind, Choice: index, Text: picture(media, data)})
	}
	if !signature.Empty() && !call && !thought && data.Empty() {
		d.emit(to, chat.Event{Kind: chat.TextSeal, Choice: index, Signature: signature})
	}
	if call {
		d.call(to, index, id, name, signature, arguments)
	}
}

// call emits a call, which is always complete.
func (d *Decoder) call(to chat.Sink, index int, id, name, signature chat.Literal, arguments chat.Raw) {
	c := &d.choices[index]
	if id.Empty() {
		id = chat.Quote("call_" + d.newID())
	}
	if name == nil {
		name = chat.Literal(`""`)
	}
	if signature.Empty() {
		signature = nil
	}
	d.emit(to, chat.Event{Kind: chat.CallStart, Choice: index, Tool: c.calls, ID: id, Name: name, Signature: signature})
	if arguments != nil {
		d.emit(to, chat.Event{Kind: chat.CallPiece, Choice: index, Tool: c.calls, Text: compact(arguments)})
	}
	c.calls++
}

// compact returns a JSON value as a literal, without white space between tokens.
func compact(v chat.Raw) chat.Literal {
	if bytes.IndexByte(v, '\n') >= 0 {
		var b bytes.Buffer
		if json.Compact(&b, v) == nil {
			v = b.Bytes()
		}
	}
	return jsonscan.AppendQuoted(make([]byte, 0, len(v)+16), v)
}

// picture returns a generated image as Markdown with a data URI, because the content of an
// answer can only be text.
func picture(media, data chat.Literal) chat.Literal {
	uri := append([]byte(`"![image](data:`), jsonscan.Inside(media)...)
	uri = append(append(uri, ";base64,"...), jsonscan.Inside(data)...)
	return append(uri, `)"`...)
}

// Interface guards
var _ chat.Decoder = (*Decoder)(nil)
