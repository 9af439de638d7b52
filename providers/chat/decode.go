package chat

import (
	"strconv"

	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// OpenAI decodes an answer of Chat Completions, from OpenAI or a compatible provider.
// Mistral's content may be an array, and others put reasoning into a member next to content.
type OpenAI struct {
	// NewID makes ids for calls without one. If it is nil, they are numbered.
	NewID func() string
	// Sources is set if answers list web pages in citations and search_results, next to the
	// choices. They become annotations.
	Sources bool

	usage    Raw       // of the current object, if it is not at its place
	sources  sources   // of the first choice
	calls    []calling // by choice
	answered bool      // there is a choice with content or a finish_reason
	finished bool
	ended    bool  // it ended with an error
	event    Event // the current event
}

func (d *OpenAI) emit(to Sink, e Event) {
	d.event = e
	to.Event(&d.event)
}

// Body decodes a complete answer.
func (d *OpenAI) Body(body []byte, to Sink) error { return d.object(body, to, true) }

// Message decodes a chunk.
func (d *OpenAI) Message(_ string, data []byte, to Sink) error { return d.object(data, to, false) }

// End reports whether a choice has finished, or an error was sent.
func (d *OpenAI) End(Sink) bool { return d.finished || d.ended }

func (d *OpenAI) object(body []byte, to Sink, whole bool) error {
	r := jsonscan.Bounded(body)
	d.usage = nil
	start := Event{Kind: Start}
	var choices, usage, failure, citations, results Raw
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
		case "x_groq":
			r.Object(func(key jsonscan.Key) {
				if key.Is("usage") {
					d.usage = r.Value()
				}
			})
		case "error":
			failure = r.Value()
		case "citations":
			citations = r.Value()
		case "search_results":
			results = r.Value()
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
	case isError, whole && choices == nil: // an error in Mistral's form, or not an answer
		d.ended = true
		to.Event(NoAnswer(body, "The provider's answer has no choices"))
		return nil
	}
	d.emit(to, start)
	if d.Sources {
		d.sources.list(citations, results)
	}
	c := r.Within(choices)
	c.Array(func() { d.choice(c, to, whole) })
	if err := r.Err(); err != nil {
		return err
	}
	if whole && !d.answered {
		d.ended = true
		to.Event(NoAnswer(body, "The provider's answer has no choices"))
		return nil
	}
	if usage == nil {
		usage = d.usage
	}
	if usage != nil {
		if u, ok := ReadUsage(usage); ok {
			d.emit(to, Event{Kind: UsageEvent, Usage: u})
		}
	}
	return nil
}

// ErrNoObject means that an answer, or a message of a stream, is not a JSON object.
var ErrNoObject = &jsonscan.SyntaxError{What: "expected a JSON object"}

// Int returns the integer in a JSON value, or 0 if it is not one.
func Int(v []byte) int64 {
	const most = 1 << 53 // no real count is larger, and sums of such values do not overflow
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

// ReadFailure reads a provider's error, which is an object or a string.
func ReadFailure(v []byte) *Event {
	e := readFailure(v)
	if e.Text.Empty() {
		e.Text = Literal(`"The provider answered with an error"`)
	}
	return e
}

// NoAnswer returns the failure for a body with status 200 that is not an answer: the error
// that it holds, or else a message that names the missing member.
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
				e.Text = Quote(string(v)) // Mistral: a description of each problem
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
		case "usage": // Moonshot
			d.usage = r.Value()
		}
	})
	d.answered = d.answered || len(message) > 0 && message[0] == '{' || !reason.Empty()
	if logProbs != nil {
		d.emit(to, Event{Kind: LogProbs, Choice: index, Raw: logProbs})
	}
	if message != nil {
		d.message(r.Within(message), to, index, whole)
	}
	switch {
	case reason.Empty(), reason.Is("null"): // some providers send it in every chunk
	case reason.Is("error"): // Mistral
		d.ended = true
		d.emit(to, Event{Kind: Failure, Text: Literal(`"The model ended its answer with an error"`)})
	default:
		d.finished = true
		if index == 0 {
			d.sources.annotate(func(a Raw) { d.emit(to, Event{Kind: Annotation, Raw: a}) })
		}
		d.emit(to, Event{Kind: Finish, Choice: index, Finish: reasons[reason.Text()], RawFinish: reason})
	}
}

const maxChoices = 127

// message reads a message or a delta. It emits the content in the order of an answer,
// whatever the order of the members.
func (d *OpenAI) message(r *jsonscan.Reader, to Sink, choice int, whole bool) {
	var thought, refusal Literal
	var content, annotations, calls, function Raw
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "content":
			content = r.Value()
		case "refusal":
			refusal = r.String()
		case "reasoning_content", "reasoning": // some providers send both
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
		d.emit(to, Event{Kind: ThoughtPiece, Choice: choice, Text: thought})
	}
	d.content(r, content, to, choice)
	if !refusal.Empty() {
		d.emit(to, Event{Kind: RefusalPiece, Choice: choice, Text: refusal})
	}
	if annotations != nil {
		a := r.Within(annotations)
		a.Array(func() { d.emit(to, Event{Kind: Annotation, Choice: choice, Raw: a.Raw()}) })
	}
	if calls != nil {
		c := r.Within(calls)
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
		d.emitCall(to, choice, 0, &c, whole)
	}
}

// content reads a string, or an array of text and thinking parts.
func (d *OpenAI) content(r *jsonscan.Reader, content Raw, to Sink, choice int) {
	switch {
	case len(content) == 0:
	case content[0] == '"':
		if d.Sources && choice == 0 {
			d.sources.text(Literal(content))
		}
		d.emit(to, Event{Kind: TextPiece, Choice: choice, Text: Literal(content)})
	case content[0] == '[':
		p := &parser{r: r.Within(content)}
		for _, part := range p.content() {
			switch part.Kind {
			case Thinking:
				d.emit(to, Event{Kind: ThoughtPiece, Choice: choice, Text: part.Text})
			case Text:
				d.emit(to, Event{Kind: TextPiece, Choice: choice, Text: part.Text})
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
	d.emitCall(to, choice, index, &c, whole)
}

const maxCalls = 1023 // of an index

// calling holds the calls of a choice in a stream.
type calling struct {
	byIndex map[int]openCall
	last    openCall
	count   int
}

type openCall struct {
	tool int
	id   string // empty if there was none
}

// emitCall emits a call, or a piece of one. Pieces are assigned to calls by index or, if
// the provider sends no indexes or always the same, by id.
func (d *OpenAI) emitCall(to Sink, choice, index int, c *Call, whole bool) {
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
		d.emit(to, Event{Kind: CallPiece, Choice: choice, Tool: open.tool, Text: c.Arguments})
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
	d.emit(to, Event{Kind: CallStart, Choice: choice, Tool: tool, ID: id, Name: orElse(c.Name, `""`), Signature: c.Signature})
}

// ReadUsage reads usage in the form of Chat Completions or of Responses. It is not ok if the tokens of
// the prompt or of the answer are no count: what is left would be taken for all that was used.
func ReadUsage(v []byte) (u Usage, ok bool) {
	r := jsonscan.NewReader(v)
	ok = true
	count := func() int64 {
		v := r.Value()
		n := Int(v)
		if n == 0 && string(v) != "null" {
			f, err := strconv.ParseFloat(string(v), 64)
			ok = ok && err == nil && f >= 0 && f < 1
		}
		ok = ok && n >= 0
		return n
	}
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "prompt_tokens", "input_tokens":
			u.Prompt = count()
		case "completion_tokens", "output_tokens":
			u.Completion = count()
		case "num_cached_tokens", "prompt_cache_hit_tokens", "cached_tokens": // Mistral, DeepSeek, Moonshot
			u.CacheRead = max(u.CacheRead, Int(r.Value()))
		case "total_tokens":
			u.Total = Int(r.Value())
		case "num_search_queries": // Perplexity
			u.WebSearches = Int(r.Value())
		case "server_tool_use": // OpenRouter
			r.Object(func(key jsonscan.Key) {
				if key.Is("web_search_requests") {
					u.WebSearches = Int(r.Value())
				}
			})
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
	counted := prices.Usage{Prompt: u.Prompt, Completion: u.Completion, Reasoning: u.Reasoning}
	counted.Settle(u.Total)
	u.Completion = counted.Completion
	return u, ok
}

// Interface guards
var _ Decoder = (*OpenAI)(nil)
