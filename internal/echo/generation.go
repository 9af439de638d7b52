package echo

import (
	"math"
	"strconv"

	"github.com/tidwall/gjson"
)

const (
	maxChoices = 128      // of n
	maxAnswer  = 64 << 20 // bytes of text in all choices

	finishStop   = "stop"
	finishLength = "length"
	finishTools  = "tool_calls"
)

// options are the fields that chat and text completion requests share.
type options struct {
	model         string
	n             int
	maxTokens     int
	maxCompletion int // takes precedence over maxTokens
	stream        bool
	includeUsage  bool
}

func defaultOptions() options {
	return options{model: "echo", n: 1, maxTokens: unlimited, maxCompletion: unlimited}
}

// set sets a field of a request. Fields without a meaning for an echo are ignored.
func (o *options) set(name string, v gjson.Result) error {
	switch name {
	case "model":
		return setString(&o.model, name, v)
	case "n":
		return setInt(&o.n, name, v, 1, maxChoices)
	case "max_tokens":
		return setInt(&o.maxTokens, name, v, 0, math.MaxInt32)
	case "max_completion_tokens":
		return setInt(&o.maxCompletion, name, v, 0, math.MaxInt32)
	case "stream":
		return setBool(&o.stream, name, v)
	case "stream_options":
		return eachMember(v, func(name string, v gjson.Result) error {
			if name != "include_usage" {
				return nil
			}
			return setBool(&o.includeUsage, "stream_options.include_usage", v)
		})
	}
	return nil
}

func (o *options) limit() int {
	if o.maxCompletion != unlimited {
		return o.maxCompletion
	}
	return o.maxTokens
}

// A generation is a chat or text completion, before it is encoded as JSON or as a
// stream.
type generation struct {
	options
	id           string
	created      int64
	object       string // the object name of an answer
	chunk        string // the object name of an event
	choice       choiceShape
	outputs      []output // n choices each
	promptTokens int
}

// An output is the text of a choice and its finish reason.
type output struct {
	counted
	finish string
}

// A choiceShape writes the fields in which the choices of a chat message, a tool call
// and a text completion differ, which are all but index and finish_reason.
type choiceShape interface {
	// whole appends the fields of choice i.
	complete(b []byte, i int, text string) []byte
	// opening returns the fields of the first event of choice i, or "" if there is no
	// such event.
	first(i int) string
	// piece appends the fields of an event with a part of the text.
	delta(b []byte, text string) []byte
	// closing returns the fields of the event with the finish_reason.
	last() string
}

// echo sets the outputs to the texts, cut to the limit of tokens.
func (g *generation) echo(texts ...counted) error {
	size, limit := 0, g.limit()
	g.outputs = make([]output, len(texts))
	for i, text := range texts {
		out := output{text, finishStop}
		if text.tokens > limit {
			out.text, out.tokens = clip(text.text, limit)
			out.finish = finishLength
		}
		g.outputs[i] = out
		size += len(out.text)
	}
	if size > maxAnswer/g.n {
		return badRequest("the text of all choices has more than %d bytes", maxAnswer)
	}
	return nil
}

func (g *generation) answer() answer {
	if g.stream {
		return answer{events: g.events}
	}
	return answer{body: g.json()}
}

func (g *generation) json() []byte {
	size := 512
	for _, out := range g.outputs {
		size += g.n * (len(out.text) + len(out.text)/8 + 128)
	}
	b := g.appendHead(make([]byte, 0, size), g.object)
	for i := range g.n * len(g.outputs) {
		if i > 0 {
			b = append(b, ',')
		}
		out := g.outputs[i/g.n]
		b = appendIndex(b, i)
		b = g.choice.complete(b, i, out.text)
		b = appendFinish(b, out.finish)
	}
	b = append(b, `],"usage":`...)
	return append(g.appendUsage(b), '}')
}

// events yields the data of the stream's events without [DONE].
func (g *generation) events(yield func([]byte) bool) {
	head := g.appendHead(nil, g.chunk)
	tail := "]}"
	if g.includeUsage {
		tail = `],"usage":null}`
	}

	b := head
	begin := func(i int) { b = appendIndex(b[:len(head)], i) }
	send := func(finish string) bool {
		b = append(appendFinish(b, finish), tail...)
		return yield(b)
	}
	for i := range g.n * len(g.outputs) {
		out := g.outputs[i/g.n]
		if opening := g.choice.first(i); opening != "" {
			begin(i)
			b = append(b, opening...)
			if !send("") {
				return
			}
		}
		for word := range words(out.text) {
			begin(i)
			b = g.choice.delta(b, word)
			if !send("") {
				return
			}
		}
		begin(i)
		b = append(b, g.choice.last()...)
		if !send(out.finish) {
			return
		}
	}
	if g.includeUsage {
		b = append(b[:len(head)], `],"usage":`...)
		yield(append(g.appendUsage(b), '}'))
	}
}

// appendHead appends the beginning of an answer, up to the first choice.
func (g *generation) appendHead(b []byte, object string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, g.id...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, g.created, 10)
	b = append(b, `,"model":`...)
	b = appendString(b, g.model)
	return append(b, `,"choices":[`...)
}

func appendIndex(b []byte, i int) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(i), 10)
	return append(b, ',')
}

// appendFinish appends the finish reason and the end of a choice; "" becomes null.
func appendFinish(b []byte, reason string) []byte {
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	if reason == "" {
		return append(b, "null}"...)
	}
	b = append(b, '"')
	b = append(b, reason...)
	return append(b, `"}`...)
}

func (g *generation) appendUsage(b []byte) []byte {
	completion := 0
	for _, out := range g.outputs {
		completion += g.n * out.tokens
	}
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(g.promptTokens), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(completion), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(g.promptTokens+completion), 10)
	return append(b, '}')
}
