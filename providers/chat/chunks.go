package chat

import (
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Chunks writes the events of a stream as server-sent events of Chat Completions, one chunk
// for each piece. Usage is sent in a final chunk of its own. The zero value, with a Style,
// is ready to use.
type Chunks struct {
	Style
	Heading
	out     []byte
	choices []chunkChoice
	failed  bool

	opening []byte // what open wrote last, which most chunks repeat
	opened  int    // the choice that it is of
}

// A chunkChoice is the state of one choice of a stream.
type chunkChoice struct {
	begun, called, finished bool
	blocks                  int // index of the current content block, plus one
	kind                    PartKind
	sealed                  bool
	logProbs                Raw       // for the next piece
	empty                   []bool    // by tool: no arguments yet
	held                    *Event    // the start of a call, until its first arguments
	unplaced                []Literal // ids of calls without a place among the content blocks
}

// Begin makes the writer append to dst. Take returns the result.
func (c *Chunks) Begin(dst []byte) { c.out = dst }

// Take returns the buffer that was passed to Begin, with what was appended.
func (c *Chunks) Take() []byte { return c.out }

// Event writes an event.
func (c *Chunks) Event(e *Event) {
	if c.failed { // nothing follows an error
		return
	}
	c.note(e)
	switch e.Kind {
	case UsageEvent:
		return
	case Failure:
		for i := range c.choices {
			c.release(&c.choices[i])
		}
		c.failed = true
		c.out = appendFailure(c.out, e, c.Provider)
		return
	}
	for len(c.choices) <= e.Choice {
		c.choices = append(c.choices, chunkChoice{})
	}
	ch := &c.choices[e.Choice]
	if ch.finished || e.Kind == Start && ch.begun || e.Kind == CallEnd {
		return
	}
	if !ch.begun {
		ch.begun = true
		b := c.open(e.Choice)
		b.Key("role").Text("assistant")
		b.Key("content").Text("")
		c.close(b, "", nil)
	}
	if e.Kind != CallPiece && e.Kind != Finish {
		c.release(ch)
	}
	switch e.Kind {
	case TextPiece:
		if e.Text.Empty() {
			return
		}
		b := c.open(e.Choice)
		b.Key("content").Raw(e.Text)
		if !c.Strict {
			ch.block(b, Text, "text", e.Text)
		}
		c.close(b, "", ch.takeLogProbs())
	case TextSeal:
		if c.Strict || e.Signature.Empty() {
			return
		}
		b := c.open(e.Choice)
		ch.sealed = true
		ch.block(b, Text, "text", Literal(`""`), Member{"signature", Raw(e.Signature)})
		ch.sealed = true
		c.close(b, "", nil)
	case RefusalPiece:
		if e.Text.Empty() {
			return
		}
		b := c.open(e.Choice)
		b.Key("refusal").Raw(e.Text)
		c.close(b, "", nil)
	case ThoughtPiece:
		c.thought(e, ch, Thinking, "thinking", e.Text)
	case ThoughtSeal:
		c.thought(e, ch, Thinking, "signature", e.Signature)
		ch.sealed = true
	case ThoughtBlob:
		ch.kind = Text
		c.thought(e, ch, Redacted, "data", e.Text)
	case CallStart:
		if c.Functions && e.Tool > 0 {
			return
		}
		ch.called = true
		for len(ch.empty) <= e.Tool {
			ch.empty = append(ch.empty, true)
		}
		if !c.Strict {
			ch.unplaced = append(ch.unplaced, clone(e.ID))
		}
		ch.held = &Event{Kind: CallStart, Choice: e.Choice, Tool: e.Tool, ID: clone(e.ID), Name: clone(e.Name), Signature: clone(e.Signature)}
	case CallPiece:
		if e.Text.Empty() || e.Tool >= len(ch.empty) {
			return
		}
		ch.empty[e.Tool] = false
		c.arguments(ch, e, e.Text)
	case LogProbs:
		ch.logProbs = append(ch.logProbs[:0], e.Raw...)
	case Annotation:
		b := c.open(e.Choice)
		b.Key("annotations").Open('[')
		b.Raw(e.Raw)
		b.Close(']')
		c.close(b, "", nil)
	case Finish:
		for tool, empty := range ch.empty {
			if empty { // a tool without parameters: clients parse the arguments as JSON
				c.arguments(ch, &Event{Kind: CallPiece, Choice: e.Choice, Tool: tool}, Literal(`"{}"`))
			}
		}
		c.release(ch)
		ch.finished = true
		c.close(c.open(e.Choice), c.finishReason(e.Finish, ch.called), ch.takeLogProbs())
	}
}

func (ch *chunkChoice) takeLogProbs() Raw {
	raw := ch.logProbs
	ch.logProbs = nil
	return raw
}

// block writes a piece of a content block into a delta.
func (ch *chunkChoice) block(b *jsonscan.Builder, kind PartKind, name string, piece Literal, more ...Member) {
	b.Key("content_blocks").Open('[')
	for _, id := range ch.unplaced {
		ch.blocks++
		ch.kind, ch.sealed = Other, false
		b.Open('{')
		b.Key("index").Int(int64(ch.blocks - 1))
		b.Key("delta")
		appendPlace(b, id)
		b.Close('}')
	}
	ch.unplaced = nil
	if ch.blocks == 0 || ch.kind != kind || kind == Redacted || ch.sealed {
		ch.blocks++
		ch.kind, ch.sealed = kind, false
	}
	b.Open('{')
	b.Key("index").Int(int64(ch.blocks - 1))
	b.Key("delta").Open('{')
	b.Key(name).Raw(piece)
	for _, m := range more {
		b.Member(m.Name, m.Value)
	}
	b.Close('}')
	b.Close('}')
	b.Close(']')
}

func (c *Chunks) thought(e *Event, ch *chunkChoice, kind PartKind, name string, piece Literal) {
	if c.Strict || piece.Empty() {
		return
	}
	b := c.open(e.Choice)
	ch.block(b, kind, name, piece)
	c.close(b, "", nil)
}

// arguments writes a piece of a call's arguments. The first piece is sent together with the
// start of the call, so that calls that arrive complete are sent complete, as clients of
// such providers expect.
func (c *Chunks) arguments(ch *chunkChoice, e *Event, piece Literal) {
	if h := ch.held; h != nil && h.Tool == e.Tool {
		ch.held = nil
		c.start(h, piece)
		return
	}
	c.release(ch)
	b := c.call(e)
	b.Key("arguments").Raw(piece)
	c.closeCall(b, nil)
}

// release writes the start of a call that is not directly followed by its arguments.
func (c *Chunks) release(ch *chunkChoice) {
	if h := ch.held; h != nil {
		ch.held = nil
		c.start(h, Literal(`""`))
	}
}

// start writes the start of a call.
func (c *Chunks) start(e *Event, arguments Literal) {
	b := c.call(e)
	b.Key("name").Raw(orElse(e.Name, `""`))
	b.Key("arguments").Raw(arguments)
	c.closeCall(b, e.Signature)
}

// call writes a chunk up to the members of a call's function. The first chunk of a call has
// its id.
func (c *Chunks) call(e *Event) *jsonscan.Builder {
	b := c.open(e.Choice)
	if c.Functions {
		b.Key("function_call").Open('{')
		return b
	}
	b.Key("tool_calls").Open('[')
	b.Open('{')
	b.Key("index").Int(int64(e.Tool))
	if e.Kind == CallStart {
		b.Key("id").Raw(orElse(e.ID, `""`))
		b.Key("type").Text("function")
	}
	b.Key("function").Open('{')
	return b
}

func (c *Chunks) closeCall(b *jsonscan.Builder, signature Literal) {
	b.Close('}')
	if !c.Functions {
		extraContent(b, signature)
		b.Close('}')
		b.Close(']')
	}
	c.close(b, "", nil)
}

// head writes a chunk up to its choices.
func (c *Chunks) head() *jsonscan.Builder {
	c.settle(&c.Style)
	c.out = append(c.out, "data: "...)
	b := (*jsonscan.Builder)(&c.out)
	b.Open('{')
	b.Key("id").Raw(c.id)
	b.Key("object").Text("chat.completion.chunk")
	b.Key("created").Int(c.created)
	b.Key("model").Raw(c.model)
	if c.Provider != "" {
		b.Key("provider").Text(c.Provider)
	}
	return b
}

// open writes a chunk up to the members of its delta.
func (c *Chunks) open(choice int) *jsonscan.Builder {
	if c.opening != nil && c.opened == choice {
		c.out = append(c.out, c.opening...)
		return (*jsonscan.Builder)(&c.out)
	}
	from := len(c.out)
	b := c.head()
	b.Key("choices").Open('[')
	b.Open('{')
	b.Key("index").Int(int64(choice))
	b.Key("delta").Open('{')
	c.opening, c.opened = append(c.opening[:0], c.out[from:]...), choice
	return b
}

func (c *Chunks) close(b *jsonscan.Builder, finish string, logProbs Raw) {
	b.Close('}')
	if logProbs != nil {
		b.Key("logprobs").Raw(logProbs)
	}
	if finish == "" {
		b.Key("finish_reason").Raw([]byte("null"))
	} else {
		b.Key("finish_reason").Text(finish)
	}
	b.Close('}')
	b.Close(']')
	c.end(b)
}

func (c *Chunks) end(b *jsonscan.Builder) {
	b.Close('}')
	c.out = append(c.out, "\n\n"...)
}

// End writes what follows the last event of a complete stream. Nothing follows an error.
func (c *Chunks) End() {
	if c.failed {
		return
	}
	if c.used {
		b := c.head()
		b.Key("choices").Open('[')
		b.Close(']')
		b.Key("usage")
		c.usage.append(b)
		c.end(b)
	}
	c.out = append(c.out, "data: [DONE]\n\n"...)
}

// appendFailure appends a provider's error as an event.
func appendFailure(dst []byte, e *Event, provider string) []byte {
	b := jsonscan.Builder(append(dst, "data: "...))
	b.Open('{')
	b.Key("error").Open('{')
	b.Key("message").Raw(orElse(e.Text, `"The provider ended the stream with an error"`))
	b.Key("type").Raw(orElse(e.Name, `"provider_error"`))
	b.Key("param").Raw([]byte("null"))
	b.Key("code").Raw(orElse(e.Name, `"provider_error"`))
	b.Close('}')
	if provider != "" {
		b.Key("provider").Text(provider)
	}
	b.Close('}')
	return append(b, "\n\n"...)
}

func orElse(l Literal, other string) []byte {
	if l.Empty() {
		return []byte(other)
	}
	return l
}

// Interface guards
var _ StreamWriter = (*Chunks)(nil)
