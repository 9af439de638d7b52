package chat

import (
	"strconv"

	"github.com/caddy-gw/gateway/jsonscan"
)

// OpenAI decodes the answers of Chat Completions, as OpenAI and those who speak like it
// give them. Of Mistral, content may be an array; of others, reasoning stands in a
// member beside it. One decoder reads one answer.
type OpenAI struct {
	tools    map[int]map[int]bool // by choice and index: the calls that began
	finished bool
	ended    bool // it ended with an error
}

// Whole reads an answer in one piece.
func (d *OpenAI) Whole(body []byte, to Sink) error { return d.object(body, to, "message") }

// Message reads a chunk.
func (d *OpenAI) Message(_ string, data []byte, to Sink) error { return d.object(data, to, "delta") }

// End reports whether a choice finished, or an error was said.
func (d *OpenAI) End(Sink) bool { return d.finished || d.ended }

func (d *OpenAI) object(body []byte, to Sink, turn string) error {
	r := jsonscan.NewReader(body)
	start := Event{Kind: Start}
	var choices, usage, failure Raw
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "id":
			start.ID = r.String()
		case "model":
			start.Model = r.String()
		case "created":
			start.Created = Int(r.Value())
		case "choices":
			choices = r.Value()
		case "usage":
			usage = r.Value()
		case "error":
			failure = r.Value()
		}
	})
	if err := r.Err(); err != nil {
		return err
	}
	if failure != nil && choices == nil {
		d.ended = true
		to.Event(ReadFailure(failure))
		return nil
	}
	to.Event(&start)
	c := jsonscan.NewReader(choices)
	c.Array(func() { d.choice(c, to, turn) })
	if usage != nil {
		to.Event(&Event{Kind: UsageEvent, Usage: ReadUsage(usage)})
	}
	return nil
}

// Int is the whole number in a value, 0 if it is none.
func Int(v []byte) int64 {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f > 1<<53 || f < -1<<53 {
		return 0
	}
	return int64(f)
}

// ReadFailure reads an error of a provider's, an object or a text.
func ReadFailure(v []byte) *Event {
	e := &Event{Kind: Failure}
	r := jsonscan.NewReader(v)
	if r.Kind() == jsonscan.String {
		e.Text = r.String()
		return e
	}
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "message":
			e.Text = r.String()
		case "type", "code", "status":
			if s := r.String(); s != nil && e.Name == nil {
				e.Name = s
			}
		}
	})
	return e
}

var reasons = map[string]FinishReason{
	"stop": Stop, "length": Length, "model_length": Length, "max_tokens": Length, "tool_calls": ToolCalls, "function_call": ToolCalls,
	"content_filter": ContentFilter,
}

func (d *OpenAI) choice(r *jsonscan.Reader, to Sink, turn string) {
	var message, reason, logProbs Raw
	index := 0
	r.Object(func(key jsonscan.Key) {
		switch name := string(key.Bytes()); name {
		case "index":
			index = int(min(max(Int(r.Value()), 0), maxChoices))
		case "message", "delta":
			if v := r.Value(); name == turn || message == nil {
				message = v
			}
		case "finish_reason":
			reason = r.Value()
		case "logprobs":
			logProbs = r.Value()
		}
	})
	if logProbs != nil {
		to.Event(&Event{Kind: LogProbs, Choice: index, Raw: logProbs})
	}
	if message != nil {
		d.message(jsonscan.NewReader(message), to, index)
	}
	if reason != nil {
		d.finished = true
		word := Literal(reason)
		if word.Is("error") { // of Mistral
			d.ended = true
			to.Event(&Event{Kind: Failure, Text: Literal(`"The model ended its answer with an error"`)})
			return
		}
		to.Event(&Event{Kind: Finish, Choice: index, Finish: reasons[word.Text()], RawFinish: word})
	}
}

const maxChoices = 127

func (d *OpenAI) message(r *jsonscan.Reader, to Sink, choice int) {
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "content":
			d.content(r, to, choice)
		case "refusal":
			if s := Literal(r.String()); !s.Empty() {
				to.Event(&Event{Kind: RefusalPiece, Choice: choice, Text: s})
			}
		case "reasoning_content", "reasoning":
			if s := Literal(r.String()); !s.Empty() {
				to.Event(&Event{Kind: ThoughtPiece, Choice: choice, Text: s})
			}
		case "annotations":
			r.Array(func() { to.Event(&Event{Kind: Annotation, Choice: choice, Raw: r.Raw()}) })
		case "tool_calls":
			position := 0
			r.Array(func() {
				d.call(r, to, choice, position)
				position++
			})
		case "function_call":
			c := Call{ID: Quote("call_0")}
			r.Object(func(key jsonscan.Key) { readFunction(r, key, &c) })
			d.emit(to, choice, 0, &c)
		}
	})
}

// content is a text, or an array of texts and thoughts.
func (d *OpenAI) content(r *jsonscan.Reader, to Sink, choice int) {
	if r.Kind() != jsonscan.Array {
		if s := r.String(); s != nil {
			to.Event(&Event{Kind: TextPiece, Choice: choice, Text: s})
		}
		return
	}
	p := &parser{r: r}
	for _, part := range p.content() {
		switch part.Kind {
		case Thinking:
			to.Event(&Event{Kind: ThoughtPiece, Choice: choice, Text: part.Text})
		case Text:
			to.Event(&Event{Kind: TextPiece, Choice: choice, Text: part.Text})
		}
	}
}

func readFunction(r *jsonscan.Reader, key jsonscan.Key, c *Call) {
	switch string(key.Bytes()) {
	case "name":
		c.Name = r.String()
	case "arguments":
		if v := r.Value(); v != nil && v[0] != '"' {
			c.Arguments = Quote(string(v))
		} else {
			c.Arguments = v
		}
	}
}

func (d *OpenAI) call(r *jsonscan.Reader, to Sink, choice, position int) {
	var c Call
	index := position
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "index":
			if v := r.Value(); v != nil {
				index = int(min(max(Int(v), 0), maxChoices))
			}
		case "id":
			c.ID = r.String()
		case "function":
			r.Object(func(key jsonscan.Key) { readFunction(r, key, &c) })
		case "extra_content":
			c.Signature = ThoughtSignature(r.Value())
		}
	})
	d.emit(to, choice, index, &c)
}

func (d *OpenAI) emit(to Sink, choice, index int, c *Call) {
	if d.tools == nil {
		d.tools = make(map[int]map[int]bool)
	}
	if d.tools[choice] == nil {
		d.tools[choice] = make(map[int]bool)
	}
	if !d.tools[choice][index] {
		d.tools[choice][index] = true
		id, name := c.ID, c.Name
		if id == nil {
			id = Quote("call_" + strconv.Itoa(index))
		}
		if name == nil {
			name = Literal(`""`)
		}
		to.Event(&Event{Kind: CallStart, Choice: choice, Tool: index, ID: id, Name: name, Signature: c.Signature})
	}
	if !c.Arguments.Empty() {
		to.Event(&Event{Kind: CallPiece, Choice: choice, Tool: index, Text: c.Arguments})
	}
}

// ReadUsage reads a usage as Chat Completions has it, and as Responses has it.
func ReadUsage(v []byte) (u Usage) {
	r := jsonscan.NewReader(v)
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "prompt_tokens", "input_tokens":
			u.Prompt = Int(r.Value())
		case "completion_tokens", "output_tokens":
			u.Completion = Int(r.Value())
		case "num_cached_tokens": // of Mistral
			u.CacheRead = Int(r.Value())
		case "total_tokens":
			u.Total = Int(r.Value())
		case "prompt_tokens_details", "input_tokens_details", "completion_tokens_details", "output_tokens_details":
			r.Object(func(key jsonscan.Key) {
				switch string(key.Bytes()) {
				case "cached_tokens":
					u.CacheRead = Int(r.Value())
				case "cache_write_tokens":
					u.CacheWrite = Int(r.Value())
				case "reasoning_tokens":
					u.Reasoning = Int(r.Value())
				}
			})
		}
	})
	return u
}

// Interface guards
var _ Decoder = (*OpenAI)(nil)
