package chat

import (
	"strconv"

	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// OpenAI decodes the answers of Chat Completions, as OpenAI and those who speak like it
// give them. Of Mistral, content may be an array; of others, reasoning stands in a
// member beside it. One decoder reads one answer.
type OpenAI struct {
	// NewID makes ids of calls to which the provider gives none; nil: by their place.
	NewID func() string

	calls    []calling // by choice
	answered bool      // a choice says something, or that it ended
	finished bool
	ended    bool  // it ended with an error
	event    Event // the one that is said
}

func (d *OpenAI) say(to Sink, e Event) {
	d.event = e
	to.Event(&d.event)
}

// Whole reads an answer in one piece.
func (d *OpenAI) Whole(body []byte, to Sink) error { return d.object(body, to, true) }

// Message reads a chunk.
func (d *OpenAI) Message(_ string, data []byte, to Sink) error { return d.object(data, to, false) }

// End reports whether a choice finished, or an error was said.
func (d *OpenAI) End(Sink) bool { return d.finished || d.ended }

func (d *OpenAI) object(body []byte, to Sink, whole bool) error {
	r := jsonscan.NewReader(body)
	start := Event{Kind: Start}
	var choices, usage, failure Raw
	isError := false
	if !r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "id":
			start.ID = r.String()
		case "model":
			start.Model = r.String()
		case "created":
			start.Created = Int(r.Value())
		case "object":
			isError = Literal(r.String()).Is("error")
		case "choices":
			choices = r.Value()
		case "usage":
			usage = r.Value()
		case "error":
			failure = r.Value()
		}
	}) && r.Err() == nil {
		return ErrNoObject
	}
	if err := r.Err(); err != nil {
		return err
	}
	switch {
	case len(failure) > 2 && (failure[0] == '{' || failure[0] == '"'):
		d.ended = true
		to.Event(ReadFailure(failure))
		return nil
	case isError, whole && choices == nil: // as Mistral has errors; or it is no answer
		d.ended = true
		to.Event(NoAnswer(body, "The provider's answer has no choices"))
		return nil
	}
	d.say(to, start)
	c := jsonscan.NewReader(choices)
	c.Array(func() { d.choice(c, to, whole) })
	if whole && !d.answered {
		d.ended = true
		to.Event(NoAnswer(body, "The provider's answer has no choices"))
		return nil
	}
	if usage != nil {
		d.say(to, Event{Kind: UsageEvent, Usage: ReadUsage(usage)})
	}
	return nil
}

// ErrNoObject is that an answer, or a message of a stream, is JSON but no object.
var ErrNoObject = &jsonscan.SyntaxError{What: "expected a JSON object"}

// Int is the whole number in a value, 0 if it is none.
func Int(v []byte) int64 {
	const most = 1 << 53 // no count is more, and sums of them do not overflow
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || f > most || f < -most {
			return 0
		}
		n = int64(f)
	}
	if n > most || n < -most {
		return 0
	}
	return n
}

// ReadFailure reads an error of a provider's, an object or a text.
func ReadFailure(v []byte) *Event {
	e := readFailure(v)
	if e.Text.Empty() {
		e.Text = Literal(`"The provider answered with an error"`)
	}
	return e
}

// NoAnswer is the failure that a body is which came as an answer and is none: the error
// that it tells of, or else what is missing.
func NoAnswer(body []byte, missing string) *Event {
	e := readFailure(body)
	if e.Text.Empty() {
		return &Event{Kind: Failure, Text: Quote(missing)}
	}
	return e
}

func readFailure(v []byte) *Event {
	e := &Event{Kind: Failure}
	r := jsonscan.NewReader(v)
	if r.Kind() == jsonscan.String {
		e.Text = r.String()
		return e
	}
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "message", "Message":
			if v := r.Value(); v != nil && v[0] != '"' {
				e.Text = Quote(string(v)) // of Mistral: what is wrong where
			} else {
				e.Text = v
			}
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

func (d *OpenAI) choice(r *jsonscan.Reader, to Sink, whole bool) {
	var message, logProbs Raw
	var reason Literal
	index := 0
	turn := "delta"
	if whole {
		turn = "message"
	}
	r.Object(func(key jsonscan.Key) {
		switch name := string(key.Bytes()); name {
		case "index":
			index = int(min(max(Int(r.Value()), 0), maxChoices))
		case "message", "delta":
			if v := r.Value(); name == turn || message == nil {
				message = v
			}
		case "finish_reason":
			reason = r.String()
		case "logprobs":
			logProbs = r.Value()
		}
	})
	d.answered = d.answered || len(message) > 0 && message[0] == '{' || !reason.Empty()
	if logProbs != nil {
		d.say(to, Event{Kind: LogProbs, Choice: index, Raw: logProbs})
	}
	if message != nil {
		d.message(jsonscan.NewReader(message), to, index, whole)
	}
	switch {
	case reason.Empty(), reason.Is("null"): // in every chunk of some
	case reason.Is("error"): // of Mistral
		d.ended = true
		d.say(to, Event{Kind: Failure, Text: Literal(`"The model ended its answer with an error"`)})
	default:
		d.finished = true
		d.say(to, Event{Kind: Finish, Choice: index, Finish: reasons[reason.Text()], RawFinish: reason})
	}
}

const maxChoices = 127

// message reads a message or a delta, and says what is in it in the order of an answer,
// whatever the order of its members is.
func (d *OpenAI) message(r *jsonscan.Reader, to Sink, choice int, whole bool) {
	var thought, refusal Literal
	var content, annotations, calls, function Raw
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "content":
			content = r.Value()
		case "refusal":
			refusal = r.String()
		case "reasoning_content", "reasoning": // some send both
			if s := Literal(r.String()); thought.Empty() {
				thought = s
			}
		case "annotations":
			annotations = r.Value()
		case "tool_calls":
			calls = r.Value()
		case "function_call":
			function = r.Value()
		}
	})
	if !thought.Empty() {
		d.say(to, Event{Kind: ThoughtPiece, Choice: choice, Text: thought})
	}
	d.content(content, to, choice)
	if !refusal.Empty() {
		d.say(to, Event{Kind: RefusalPiece, Choice: choice, Text: refusal})
	}
	if annotations != nil {
		a := jsonscan.NewReader(annotations)
		a.Array(func() { d.say(to, Event{Kind: Annotation, Choice: choice, Raw: a.Raw()}) })
	}
	if calls != nil {
		c := jsonscan.NewReader(calls)
		c.Array(func() {
			if c.Kind() == jsonscan.Object {
				d.call(c, to, choice, whole)
			}
		})
	}
	if function != nil {
		var c Call
		f := jsonscan.NewReader(function)
		f.Object(func(key jsonscan.Key) { readFunction(f, key, &c) })
		d.emit(to, choice, 0, &c, whole)
	}
}

// content is a text, or an array of texts and thoughts.
func (d *OpenAI) content(content Raw, to Sink, choice int) {
	switch {
	case len(content) == 0:
	case content[0] == '"':
		d.say(to, Event{Kind: TextPiece, Choice: choice, Text: Literal(content)})
	case content[0] == '[':
		p := &parser{r: jsonscan.NewReader(content)}
		for _, part := range p.content() {
			switch part.Kind {
			case Thinking:
				d.say(to, Event{Kind: ThoughtPiece, Choice: choice, Text: part.Text})
			case Text:
				d.say(to, Event{Kind: TextPiece, Choice: choice, Text: part.Text})
			}
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

func (d *OpenAI) call(r *jsonscan.Reader, to Sink, choice int, whole bool) {
	var c Call
	index := -1
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "index":
			if v := r.Value(); v != nil {
				index = int(min(max(Int(v), 0), maxCalls))
			}
		case "id":
			c.ID = r.String()
		case "function":
			r.Object(func(key jsonscan.Key) { readFunction(r, key, &c) })
		case "extra_content":
			c.Signature = ThoughtSignature(r.Value())
		}
	})
	d.emit(to, choice, index, &c, whole)
}

const maxCalls = 1023 // of an index

// calling are the calls of a choice as its stream tells them.
type calling struct {
	byIndex map[int]openCall
	last    openCall
	count   int
}

type openCall struct {
	tool int
	id   string // "" where none came
}

// emit says a call, or a piece of one. Which call a piece belongs to the index says, and
// where a provider gives none, or the same to all, the id.
func (d *OpenAI) emit(to Sink, choice, index int, c *Call, whole bool) {
	for len(d.calls) <= choice {
		d.calls = append(d.calls, calling{byIndex: make(map[int]openCall)})
	}
	s := &d.calls[choice]
	id := c.ID.Text()
	open, goesOn := s.byIndex[index]
	switch {
	case index >= 0:
		goesOn = goesOn && (id == "" || open.id == "" || id == open.id)
	case id != "":
		open, goesOn = s.last, s.count > 0 && id == s.last.id
	default:
		open, goesOn = s.last, s.count > 0 && c.Name.Empty()
	}
	if whole || !goesOn {
		open = openCall{s.count, id}
		s.count++
		d.begin(to, choice, open.tool, c)
	}
	s.last = open
	if index >= 0 {
		s.byIndex[index] = open
	}
	if !c.Arguments.Empty() {
		d.say(to, Event{Kind: CallPiece, Choice: choice, Tool: open.tool, Text: c.Arguments})
	}
}

func (d *OpenAI) begin(to Sink, choice, tool int, c *Call) {
	id := c.ID
	switch {
	case !id.Empty():
	case d.NewID != nil:
		id = Quote("call_" + d.NewID())
	default:
		id = Quote("call_" + strconv.Itoa(tool))
	}
	d.say(to, Event{Kind: CallStart, Choice: choice, Tool: tool, ID: id, Name: orElse(c.Name, `""`), Signature: c.Signature})
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
		case "prompt_tokens_details", "input_tokens_details":
			r.Object(func(key jsonscan.Key) {
				switch string(key.Bytes()) {
				case "cached_tokens":
					u.CacheRead = Int(r.Value())
				case "cache_write_tokens":
					u.CacheWrite = Int(r.Value())
				case "audio_tokens":
					u.AudioIn = Int(r.Value())
				}
			})
		case "completion_tokens_details", "output_tokens_details":
			r.Object(func(key jsonscan.Key) {
				switch string(key.Bytes()) {
				case "reasoning_tokens":
					u.Reasoning = Int(r.Value())
				case "audio_tokens":
					u.AudioOut = Int(r.Value())
				}
			})
		}
	})
	u.Settle(u.Total)
	return u
}

// Interface guards
var _ Decoder = (*OpenAI)(nil)
