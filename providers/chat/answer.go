package chat

import (
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Style holds what the writer of an answer adds to the model's output.
type Style struct {
	ID       string // used if the provider's answer has none
	Created  int64  // Unix seconds; likewise
	Model    string // likewise: the requested model
	Provider string // as the caller knows it
	Dialect  string // the provider's own name, to which its seals are bound
	// Echo holds the members of the request that the answer repeats, if any.
	Echo []byte
	// Keep stores a response before its stream reports it as complete. If it is nil, the
	// response is not stored. The response is valid until Keep returns.
	Keep func(response []byte) error
	// Strict restricts the answer to OpenAI's own fields. Otherwise, reasoning and its
	// signatures are returned in content_blocks.
	Strict bool
	// Functions is set if the caller uses functions instead of tools. The answer then has
	// at most one function call, the first ([Request.Functions]).
	Functions bool
	// Forms are those of the tools that the caller does not know as functions ([Request.Forms]).
	Forms map[string]Form
}

// A Completion collects the events of an answer and writes it as a Chat Completions object.
// Its zero value, with a Style, is ready to use.
type Completion struct {
	Style
	Heading
	choices []choice
	failed  *Event
}

// A Heading holds the metadata of an answer.
type Heading struct {
	id, model Literal
	created   int64
	usage     Usage
	used      bool
}

// note takes the metadata from an event.
func (h *Heading) note(e *Event) {
	if h.id == nil && !e.ID.Empty() && e.Kind == Start {
		h.id = clone(e.ID)
	}
	if h.model == nil && !e.Model.Empty() {
		h.model = clone(e.Model)
	}
	if h.created == 0 {
		h.created = e.Created
	}
	if e.Kind == UsageEvent {
		h.usage, h.used = e.Usage, true
	}
}

func clone(l Literal) Literal { return append(Literal(nil), l...) }

// settle fills in what the provider left out.
func (h *Heading) settle(s *Style) {
	if h.id == nil {
		h.id = Quote(s.ID)
	}
	if h.model == nil {
		h.model = Quote(s.Model)
	}
	if h.created == 0 {
		h.created = s.Created
	}
}

// A choice collects one choice of an answer.
type choice struct {
	text, refusal []byte // without the quotes
	saidText      bool
	blocks        []block
	calls         []Call
	placed        int      // number of calls that have a place among the blocks
	arguments     [][]byte // of the calls, without the quotes
	annotations   []byte   // elements of an array
	logProbs      Raw
	reason        FinishReason
	begun         bool
}

// A block is a piece of text or reasoning, in order of arrival, or stands for a call among
// them.
type block struct {
	kind      PartKind
	text      []byte // without the quotes
	signature []byte
	call      int // the number of the call that it stands for; 0: none
}

// Event takes an event.
func (c *Completion) Event(e *Event) {
	c.note(e)
	switch e.Kind {
	case Start, UsageEvent:
		return
	case Failure:
		c.failed = &Event{Kind: Failure, Text: clone(e.Text), Name: clone(e.Name)}
		return
	}
	for len(c.choices) <= e.Choice {
		c.choices = append(c.choices, choice{})
	}
	c.choices[e.Choice].take(e)
}

func (c *choice) take(e *Event) {
	c.begun = true
	if e.Kind.Block() && (!e.Text.Empty() || !e.Signature.Empty()) { // blocks record a call only if content follows it
		for ; c.placed < len(c.calls); c.placed++ {
			c.blocks = append(c.blocks, block{call: c.placed + 1})
		}
	}
	switch e.Kind {
	case TextPiece:
		c.saidText = true
		c.text = append(c.text, jsonscan.Inside(e.Text)...)
		if !e.Text.Empty() {
			c.piece(Text, e.Text)
		}
	case TextSeal: // in a block of its own, because it need not cover all of the text
		c.blocks = append(c.blocks, block{kind: Text, signature: append([]byte(nil), jsonscan.Inside(e.Signature)...)})
	case RefusalPiece:
		c.refusal = append(c.refusal, jsonscan.Inside(e.Text)...)
	case ThoughtPiece:
		c.piece(Thinking, e.Text)
	case ThoughtSeal:
		if n := len(c.blocks); n > 0 && c.blocks[n-1].kind == Thinking {
			c.blocks[n-1].signature = append(c.blocks[n-1].signature, jsonscan.Inside(e.Signature)...)
		} else {
			c.blocks = append(c.blocks, block{kind: Thinking, signature: append([]byte(nil), jsonscan.Inside(e.Signature)...)})
		}
	case ThoughtBlob:
		c.blocks = append(c.blocks, block{kind: Redacted, text: append([]byte(nil), jsonscan.Inside(e.Text)...)})
	case CallStart:
		for len(c.calls) <= e.Tool {
			c.calls = append(c.calls, Call{})
			c.arguments = append(c.arguments, nil)
		}
		c.calls[e.Tool] = Call{ID: clone(e.ID), Name: clone(e.Name), Signature: clone(e.Signature)}
	case CallPiece:
		if e.Tool < len(c.arguments) {
			c.arguments[e.Tool] = append(c.arguments[e.Tool], jsonscan.Inside(e.Text)...)
		}
	case LogProbs:
		c.logProbs = append(c.logProbs, e.Raw...)
	case Annotation:
		if len(c.annotations) > 0 {
			c.annotations = append(c.annotations, ',')
		}
		c.annotations = append(c.annotations, e.Raw...)
	case Finish:
		c.reason = e.Finish
	}
}

func (c *choice) piece(kind PartKind, text Literal) {
	n := len(c.blocks)
	if n == 0 || c.blocks[n-1].kind != kind || c.blocks[n-1].signature != nil || c.blocks[n-1].call > 0 {
		c.blocks = append(c.blocks, block{kind: kind})
		n++
	}
	c.blocks[n-1].text = append(c.blocks[n-1].text, jsonscan.Inside(text)...)
}

// Failed returns the error that the provider answered with, or nil.
func (c *Completion) Failed() *Event { return c.failed }

// Append appends the answer to dst.
func (c *Completion) Append(dst []byte) []byte {
	c.settle(&c.Style)
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("id").Raw(c.id)
	b.Key("object").Text("chat.completion")
	b.Key("created").Int(c.created)
	b.Key("model").Raw(c.model)
	if c.Provider != "" {
		b.Key("provider").Text(c.Provider)
	}
	b.Key("choices").Open('[')
	for i := range c.choices {
		if !c.choices[i].begun {
			continue
		}
		b.Open('{')
		b.Key("index").Int(int64(i))
		b.Key("message").Open('{')
		c.choices[i].message(&b, &c.Style)
		b.Close('}')
		if c.choices[i].logProbs != nil {
			b.Key("logprobs").Raw(c.choices[i].logProbs)
		} else {
			b.Key("logprobs").Raw([]byte("null"))
		}
		b.Key("finish_reason").Text(c.finishReason(c.choices[i].reason, len(c.choices[i].calls) > 0))
		b.Close('}')
	}
	b.Close(']')
	if c.used {
		b.Key("usage")
		c.usage.append(&b)
	}
	b.Close('}')
	return b
}

func (c *choice) message(b *jsonscan.Builder, s *Style) {
	b.Key("role").Text("assistant")
	switch {
	case c.saidText || len(c.calls) == 0 && c.refusal == nil:
		b.Key("content").Quoted(c.text)
	default:
		b.Key("content").Raw([]byte("null"))
	}
	if c.refusal != nil {
		b.Key("refusal").Quoted(c.refusal)
	} else {
		b.Key("refusal").Raw([]byte("null"))
	}
	if len(c.annotations) > 0 {
		b.Key("annotations").Open('[')
		*b = append(*b, c.annotations...)
		b.Close(']')
	}
	switch {
	case len(c.calls) == 0:
	case s.Functions:
		b.Key("function_call")
		c.function(b, 0)
	default:
		b.Key("tool_calls").Open('[')
		for i := range c.calls {
			b.Open('{')
			b.Key("id").Raw(orElse(c.calls[i].ID, `""`))
			b.Key("type").Text("function")
			b.Key("function")
			c.function(b, i)
			extraContent(b, c.calls[i].Signature)
			b.Close('}')
		}
		b.Close(']')
	}
	if !s.Strict && len(c.blocks) > 0 {
		b.Key("content_blocks").Open('[')
		for i := range c.blocks {
			if n := c.blocks[i].call; n > 0 {
				appendPlace(b, c.calls[n-1].ID)
				continue
			}
			c.blocks[i].append(b)
		}
		b.Close(']')
	}
}

// function writes the function of a call.
func (c *choice) function(b *jsonscan.Builder, call int) {
	b.Open('{')
	b.Key("name").Raw(orElse(c.calls[call].Name, `""`))
	b.Key("arguments")
	if len(c.arguments[call]) == 0 {
		b.Text("{}")
	} else {
		b.Quoted(c.arguments[call])
	}
	b.Close('}')
}

// appendPlace appends a block that stands for a call, because more content followed it.
func appendPlace(b *jsonscan.Builder, id Literal) {
	b.Open('{')
	b.Key("type").Text("tool_use")
	b.Key("id").Raw(orElse(id, `""`))
	b.Close('}')
}

func (k *block) append(b *jsonscan.Builder) {
	b.Open('{')
	switch k.kind {
	case Thinking:
		b.Key("type").Text("thinking")
		b.Key("thinking").Quoted(k.text)
		if k.signature != nil {
			b.Key("signature").Quoted(k.signature)
		}
	case Redacted:
		b.Key("type").Text("redacted_thinking")
		b.Key("data").Quoted(k.text)
	default:
		b.Key("type").Text("text")
		b.Key("text").Quoted(k.text)
		if k.signature != nil {
			b.Key("signature").Quoted(k.signature)
		}
	}
	b.Close('}')
}

// extraContent writes the signature of the reasoning that led to a call, in the same form
// as Google's OpenAI-compatible endpoint. Google's models expect it back.
func extraContent(b *jsonscan.Builder, signature Literal) {
	if signature.Empty() {
		return
	}
	b.Key("extra_content").Open('{')
	b.Key("google").Open('{')
	b.Key("thought_signature").Raw(signature)
	b.Close('}')
	b.Close('}')
}

func (s *Style) finishReason(reason FinishReason, called bool) string {
	if called && reason == Stop {
		reason = ToolCalls
	}
	if s.Functions && reason == ToolCalls {
		return "function_call"
	}
	return reason.String()
}

// AppendPromptDetails writes the known details of the prompt's tokens besides the cached
// ones.
func (u *Usage) AppendPromptDetails(b *jsonscan.Builder) {
	appendCounts(b, count{"cache_write_tokens", u.CacheWrite}, count{"cache_write_1h_tokens", u.CacheHour}, count{"audio_tokens", u.AudioIn})
}

// AppendCompletionDetails writes the known details of the completion's tokens besides those
// of reasoning.
func (u *Usage) AppendCompletionDetails(b *jsonscan.Builder) {
	appendCounts(b, count{"audio_tokens", u.AudioOut}, count{"image_tokens", u.ImageOut})
}

type count struct {
	key string
	n   int64
}

func appendCounts(b *jsonscan.Builder, counts ...count) {
	for _, c := range counts {
		if c.n > 0 {
			b.Key(c.key).Int(c.n)
		}
	}
}

// append writes the usage in the form of Chat Completions.
func (u *Usage) append(b *jsonscan.Builder) {
	total := u.Total
	if total == 0 {
		total = u.Prompt + u.Completion
	}
	b.Open('{')
	b.Key("prompt_tokens").Int(u.Prompt)
	b.Key("completion_tokens").Int(u.Completion)
	b.Key("total_tokens").Int(total)
	b.Key("prompt_tokens_details").Open('{')
	b.Key("cached_tokens").Int(u.CacheRead)
	u.AppendPromptDetails(b)
	b.Close('}')
	b.Key("completion_tokens_details").Open('{')
	b.Key("reasoning_tokens").Int(u.Reasoning)
	u.AppendCompletionDetails(b)
	b.Close('}')
	u.AppendSearches(b)
	b.Close('}')
}

// AppendSearches writes how often the provider has searched the web, if it has, as Anthropic does.
func (u *Usage) AppendSearches(b *jsonscan.Builder) {
	if u.WebSearches > 0 {
		b.Key("server_tool_use").Open('{')
		b.Key("web_search_requests").Int(u.WebSearches)
		b.Close('}')
	}
}

// Interface guards
var _ Sink = (*Completion)(nil)
