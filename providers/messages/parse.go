// Package messages implements Anthropic's Messages API from both sides: as a dialect of
// clients, parsing requests and writing answers, and as a dialect of providers, writing
// requests and parsing answers.
package messages

import (
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Parse parses a Messages request for use with other providers. Tool results, which are
// part of user messages, become messages of their own. Unknown blocks of a user are kept
// unchanged ([chat.Other]). Those of an assistant record what Anthropic's own tools did,
// which the text around them describes, and are dropped. Signatures of calls are restored
// if they are the given provider's; others are dropped.
func Parse(body []byte, provider string) (*chat.Request, error) {
	p := &parser{r: jsonscan.Bounded(body), out: &chat.Request{IncludeUsage: true}, provider: provider}
	p.r.Object(p.member)
	if err := p.r.Err(); err != nil {
		return nil, chat.Refused(err)
	}
	if p.thread {
		return nil, &chat.Unsupported{Param: "thread", Message: "The provider keeps no threads: send the whole conversation in 'messages', and no 'thread'"}
	}
	p.optional()
	if len(p.system) > 0 {
		p.out.Messages = slices.Insert(p.out.Messages, 0, chat.Message{Role: chat.System, Parts: p.system})
	}
	p.out.IdentifyCalls()
	return p.out, nil
}

type parser struct {
	r        *jsonscan.Reader
	out      *chat.Request
	provider string
	system   []chat.Part
	searches bool // there is a tool that searches the web
	thread   bool // messages holds only those since the last answer
}

func (p *parser) member(key jsonscan.Key) {
	r, out := p.r, p.out
	switch string(key.Bytes()) {
	case "model":
		out.Model = r.String()
	case "max_tokens":
		out.MaxTokens = r.Value()
	case "temperature":
		out.Temperature = r.Value()
	case "top_p":
		out.TopP = r.Value()
	case "top_k":
		out.TopK = r.Value()
	case "stop_sequences":
		out.Stop = chat.Texts(r)
	case "thinking":
		out.Thinking = r.Value()
	case "stream":
		out.Stream = string(r.Raw()) == "true"
	case "metadata":
		r.Object(func(key jsonscan.Key) {
			if key.Is("user_id") {
				out.User = r.String()
			}
		})
	case "system":
		p.system, _ = p.content()
	case "messages":
		out.Messages = nil
		p.each(p.message)
	case "tools":
		out.Tools = nil
		p.each(p.tool)
	case "tool_choice":
		p.toolChoice()
	case "thread":
		p.thread = r.Value() != nil
	case "output_format":
		p.format()
	case "output_config":
		r.Object(func(key jsonscan.Key) {
			switch {
			case key.Is("format"):
				p.format()
			case key.Is("effort"):
				out.Effort = r.String()
			}
		})
	}
}

func (p *parser) each(visit func()) { chat.Objects(p.r, visit) }

func (p *parser) format() {
	p.r.Object(func(key jsonscan.Key) {
		if key.Is("type") {
			if chat.Literal(p.r.String()).Is("json_schema") {
				p.out.Format.Kind = chat.FormatSchema
			}
			return
		}
		p.out.Format.Member(p.r, key)
	})
}

func (p *parser) message() {
	var role chat.Literal
	var parts []chat.Part
	var others others
	p.r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("role"):
			role = p.r.String()
		case key.Is("content"):
			parts, others = p.content()
		}
	})
	to := &p.out.Messages
	switch {
	case role.Is("assistant"):
		*to = append(*to, turn(parts, others.calls))
	case role.Is("system"):
		*to = append(*to, chat.Message{Role: chat.System, Parts: parts})
	default:
		*to = append(*to, others.results...)
		if len(parts) > 0 || len(others.results) == 0 {
			*to = append(*to, chat.Message{Role: chat.User, Parts: parts})
		}
	}
}

// turn returns a message of an assistant, with the position of each call among the parts.
func turn(parts []chat.Part, calls []chat.Call) chat.Message {
	m := chat.Message{Role: chat.Assistant}
	next := 0
	for i := 0; i <= len(parts); i++ {
		for ; next < len(calls) && calls[next].Before == i; next++ {
			c := calls[next]
			c.Before = 0
			m.Calls = append(m.Calls, c)
		}
		if i < len(parts) && parts[i].Kind != chat.Other {
			m.Add(parts[i])
		}
	}
	return m
}

// others are the blocks of a message that become messages or calls of their own.
type others struct {
	calls   []chat.Call
	results []chat.Message
}

// content reads a string, or an array of blocks.
func (p *parser) content() (parts []chat.Part, o others) {
	r := p.r
	if r.Kind() == jsonscan.String {
		return []chat.Part{{Text: r.String()}}, o
	}
	var signature chat.Literal // of the next call
	chat.Contents(r, func() {
		if r.Kind() == jsonscan.String {
			parts = append(parts, chat.Part{Text: r.String()})
			return
		}
		start := r.Peek()
		b := p.block()
		if b.kind == "redacted_thinking" && chat.Sealed(b.part.Data, sealedCall) {
			signature = nil
			if inside := chat.Unseal(b.part.Data, sealedCall, p.provider); inside != nil {
				signature = slices.Concat([]byte{'"'}, inside, []byte{'"'})
			}
			return
		}
		switch b.kind {
		case "tool_use":
			b.call.Signature, signature = signature, nil
			b.call.Before = len(parts)
			o.calls = append(o.calls, b.call)
		case "tool_result":
			o.results = append(o.results, b.result)
		case "search_result":
			parts = append(parts, b.found())
		case "text":
			if b.part.Text != nil {
				parts = append(parts, b.part)
			}
		case "document":
			if b.parts != nil { // its source is content
				parts = append(parts, b.parts...)
				return
			}
			parts = append(parts, b.part)
		case "image", "thinking", "redacted_thinking":
			parts = append(parts, b.part)
		default:
			parts = append(parts, chat.Part{Kind: chat.Other, Other: r.Since(start)})
		}
	})
	return parts, o
}

// A block is one element of a message's content.
type block struct {
	kind   string
	part   chat.Part
	parts  []chat.Part // of a document whose source is content
	call   chat.Call
	result chat.Message
	where  chat.Literal // of a search result
}

// found returns a search result as text: its title, its location and its content.
func (b *block) found() chat.Part {
	all := []chat.Part{{Text: b.part.Name}, {Text: chat.Literal(`"\n"`)}, {Text: b.where}, {Text: chat.Literal(`"\n\n"`)}}
	return chat.Part{Text: chat.JoinText(append(all, b.result.Parts...)), Cache: b.part.Cache}
}

var kinds = map[string]chat.PartKind{
	"image": chat.Image, "document": chat.File, "thinking": chat.Thinking, "redacted_thinking": chat.Redacted,
}

func (p *parser) block() (b block) {
	r := p.r
	var data chat.Literal
	var input chat.Raw
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			b.kind = chat.Literal(r.String()).Text()
		case "text", "thinking":
			b.part.Text = r.String()
		case "signature":
			b.part.Signature = r.String()
		case "data":
			data = r.String()
		case "title":
			b.part.Name = r.String()
		case "cache_control":
			b.part.Cache = r.Value()
		case "source":
			if r.Kind() == jsonscan.String {
				b.where = r.String()
				return
			}
			b.parts = p.source(&b.part)
		case "id":
			b.call.ID = r.String()
		case "name":
			b.call.Name = r.String()
		case "input":
			input = r.Value()
		case "tool_use_id":
			b.result.CallID = r.String()
		case "is_error":
			b.result.Failed = string(r.Raw()) == "true"
		case "content":
			b.result.Parts, _ = p.content()
		}
	})
	b.part.Kind = kinds[b.kind]
	if b.kind == "redacted_thinking" {
		b.part.SetData(data)
	}
	b.call.Cache, b.result.Role = b.part.Cache, chat.ToolResult
	if input != nil && b.kind == "tool_use" {
		b.call.Arguments = chat.Quote(string(input))
	}
	if n := len(b.result.Parts); n > 0 && b.part.Cache != nil {
		b.result.Parts[n-1].Cache = b.part.Cache
	}
	return b
}

// source reads the source of an image or a document. For a document whose source is
// content, it returns the parts.
func (p *parser) source(part *chat.Part) (parts []chat.Part) {
	r := p.r
	var kind, data chat.Literal
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			kind = r.String()
		case "url":
			part.URL = r.String()
		case "file_id":
			part.FileID = r.String()
		case "media_type":
			part.MediaType = chat.MediaType(chat.Literal(r.String()).Text())
		case "data":
			data = r.String()
		case "content":
			parts, _ = p.content()
		}
	})
	switch {
	case data == nil:
	case kind.Is("text"): // a plain text document
		part.MediaType = "text/plain"
		part.SetText(data)
	default:
		part.SetData(data)
	}
	return parts
}

func (p *parser) tool() {
	r := p.r
	var t chat.Tool
	var kind chat.Literal
	start := r.Peek()
	r.Object(func(key jsonscan.Key) {
		if key.Is("type") {
			kind = r.String()
		} else {
			t.Member(r, key, "input_schema")
		}
	})
	if kind != nil && !kind.Is("custom") || t.Name == nil {
		t = chat.Tool{Other: r.Since(start), Foreign: kind != nil && !kind.Is("custom") && !kind.Is("function")} // some clients send OpenAI's form
		p.searches = p.searches || isSearch(kind)
	}
	p.out.Tools = append(p.out.Tools, t)
}

// isSearch reports whether tools of a type search the web, which a model can do without.
func isSearch(kind chat.Literal) bool { return strings.HasPrefix(kind.Text(), "web_search_") }

// optional marks the web searches that stand besides functions.
func (p *parser) optional() {
	function := func(t chat.Tool) bool { return t.Other == nil }
	if !p.searches || !slices.ContainsFunc(p.out.Tools, function) {
		return
	}
	for i := range p.out.Tools {
		t := &p.out.Tools[i]
		t.Optional = t.Other != nil && isSearch(chat.Quote(t.Kind()))
	}
}

var toolModes = map[string]chat.ToolMode{"auto": chat.Auto, "any": chat.Required, "none": chat.None, "tool": chat.Named}

func (p *parser) toolChoice() {
	r := p.r
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			p.out.ToolChoice.Mode = toolModes[chat.Literal(r.String()).Text()]
		case key.Is("name"):
			p.out.ToolChoice.Name = r.String()
		case key.Is("disable_parallel_tool_use"):
			if string(r.Raw()) == "true" {
				p.out.Parallel = chat.Raw("false")
			}
		}
	})
}
