// Package responses implements OpenAI's Responses API as a dialect of clients, for
// providers without it: requests are converted to conversations, and a model's output to a
// response, complete or as a stream. It also reads and lists the items of stored responses,
// which later ones continue.
//
// What only OpenAI supports, such as its file search, is refused and never dropped silently.
// Tools that a model can do without, such as a web search, are [chat.Tool.Optional]. The
// package is pure: it uses no HTTP, no clock and no random source.
package responses

import (
	"slices"
	"strconv"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Options are the parameters of Parse besides the body.
type Options struct {
	// Provider is the provider that the conversation is for: its own seals on reasoning are
	// restored, and others are dropped.
	Provider string
	// History has the turns of the responses that this one continues, and Tools the tools
	// that they added.
	History []chat.Message
	Tools   []chat.Tool
	// Shorten is how many times the older half of the turns is dropped (truncation: auto).
	Shorten int
}

// Parse parses the body of a call that creates a response, for other providers than OpenAI.
// An error of type *chat.Unsupported names what they do not support.
func Parse(body []byte, o Options) (*chat.Request, error) {
	p := &parser{r: jsonscan.Bounded(body), out: &chat.Request{IncludeUsage: true}, provider: o.Provider}
	p.r.Object(p.member)
	if err := p.r.Err(); err != nil {
		return nil, chat.Refused(err)
	}
	if len(p.messages) == 0 && p.fault == nil {
		p.refuse("input", "Missing required parameter: 'input'.")
		p.fault.Code = "missing_required_parameter"
	}
	if p.fault != nil {
		return nil, p.fault
	}
	if p.out.LogProbs == nil {
		p.out.TopLogProbs = nil
	}
	p.out.Tools = distinct(slices.Concat(p.out.Tools, o.Tools, p.added))
	all := make([]chat.Message, 0, 1+len(o.History)+len(p.messages))
	if !p.instructions.Empty() {
		all = append(all, chat.Message{Role: chat.System, Parts: []chat.Part{{Text: p.instructions}}})
	}
	all = append(append(all, o.History...), p.messages...)
	p.out.Messages = shorten(all, o.Shorten)
	return p.out, nil
}

type parser struct {
	r        *jsonscan.Reader
	out      *chat.Request
	provider string

	instructions chat.Literal
	messages     []chat.Message
	added        []chat.Tool       // by items of the input
	fault        *chat.Unsupported // the first error
}

// refuse records an error for something that only OpenAI supports. The first one counts.
func (p *parser) refuse(param, message string) {
	if p.fault == nil {
		p.fault = &chat.Unsupported{Param: param, Message: message}
		p.r.Fail(p.fault)
	}
}

// onlyOpenAI lists members that refer to objects stored by OpenAI.
var onlyOpenAI = map[string]string{
	"background":   "Responses in the background are made by providers that have the Responses API themselves; leave 'background' out",
	"conversation": "Conversations are held by providers that have the Responses API themselves; go on from an earlier response with 'previous_response_id'",
	"prompt":       "Stored prompts are held by providers that have the Responses API themselves; send 'instructions' and 'input'",
}

// notForwarded lists members that are handled elsewhere, or are hints for OpenAI only.
var notForwarded = []string{
	"include", "max_tool_calls", "metadata", "previous_response_id", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
	"safety_identifier", "service_tier", "store", "stream_options", "truncation",
}

func (p *parser) member(key jsonscan.Key) {
	r, out := p.r, p.out
	name := key.String()
	if to := p.value(name); to != nil {
		*to = r.Value()
		return
	}
	switch name {
	case "model":
		out.Model = r.String()
	case "instructions":
		p.instructions = r.String()
	case "input":
		p.input()
	case "tools":
		i := 0
		r.Array(func() {
			p.tool(&out.Tools, "tools["+strconv.Itoa(i)+"]", nil)
			i++
		})
	case "tool_choice":
		p.toolChoice()
	case "text":
		r.Object(func(key jsonscan.Key) {
			if key.Is("format") {
				p.format()
			}
		})
	case "reasoning":
		r.Object(func(key jsonscan.Key) {
			switch {
			case key.Is("effort"):
				out.Effort = r.String()
			case key.Is("summary"):
				out.Thoughts = !chat.Literal(r.String()).Empty()
			}
		})
	case "user":
		out.User = r.String()
	case "stream":
		out.Stream = string(r.Raw()) == "true"
	case "stop":
		out.Stop = chat.Texts(r)
	case "include":
		r.Array(func() {
			if chat.Literal(r.String()).Is("message.output_text.logprobs") {
				out.LogProbs = chat.Raw("true")
			}
		})
	default:
		v := r.Value()
		switch why := onlyOpenAI[name]; {
		case v == nil:
		case why != "" && string(v) != "false":
			p.refuse(name, why)
		case why == "" && !slices.Contains(notForwarded, name):
			if r.Spend() {
				out.Extra = append(out.Extra, chat.Member{Name: name, Value: v})
			}
		}
	}
}

// value returns where to store a member whose value is passed on unchanged. Members that
// are not part of the API can come from a config.
func (p *parser) value(name string) *chat.Raw {
	out := p.out
	switch name {
	case "max_output_tokens":
		return &out.MaxTokens
	case "temperature":
		return &out.Temperature
	case "top_p":
		return &out.TopP
	case "top_k":
		return &out.TopK
	case "top_logprobs":
		return &out.TopLogProbs
	case "seed":
		return &out.Seed
	case "frequency_penalty":
		return &out.FrequencyPenalty
	case "presence_penalty":
		return &out.PresencePenalty
	case "parallel_tool_calls":
		return &out.Parallel
	case "thinking":
		return &out.Thinking
	}
	return nil
}

func (p *parser) input() {
	if p.r.Kind() == jsonscan.String {
		p.messages = append(p.messages, chat.Message{Parts: []chat.Part{{Text: p.r.String()}}})
		return
	}
	i := 0
	p.r.Array(func() {
		p.item("input[" + strconv.Itoa(i) + "]")
		i++
	})
}

// clip bounds what an error repeats of a request.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

var formats = map[string]chat.FormatKind{"text": chat.FormatText, "json_object": chat.FormatJSON, "json_schema": chat.FormatSchema}

// format reads the format of the answer, whose fields are not nested.
func (p *parser) format() {
	p.r.Object(func(key jsonscan.Key) {
		if !key.Is("type") {
			p.out.Format.Member(p.r, key)
			return
		}
		kind := chat.Literal(p.r.String())
		var known bool
		if p.out.Format.Kind, known = formats[kind.Text()]; !known {
			p.refuse("text.format.type", "This provider takes a text format of 'text', 'json_object' or 'json_schema', not '"+clip(kind.Text())+"'")
		}
	})
}

// Turns returns the number of turns of a conversation. Each starts with a user message.
func Turns(messages []chat.Message) (n int) {
	for i := range messages {
		if messages[i].Role == chat.User {
			n++
		}
	}
	return n
}

// shorten drops the older half of the turns the given number of times, but never the latest
// turn or a system message.
func shorten(messages []chat.Message, times int) []chat.Message {
	if times == 0 {
		return messages
	}
	turns := Turns(messages)
	drop := turns - max(1, turns>>times)
	if drop <= 0 {
		return messages
	}
	kept := messages[:0:0]
	seen := 0
	for _, m := range messages {
		if m.Role == chat.User {
			seen++
		}
		if seen > drop || m.Role == chat.System {
			kept = append(kept, m)
		}
	}
	return kept
}
