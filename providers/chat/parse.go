package chat

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/jsonscan"
)

// Parse reads the body of a call of Chat Completions (the interface, "Chat completion
// request"). What was deprecated is read as what took its place: functions as tools,
// max_tokens where there is no max_completion_tokens.
func Parse(body []byte) (*Request, error) {
	p := &parser{r: jsonscan.NewReader(body), out: new(Request)}
	p.r.Object(p.member)
	if err := p.r.Err(); err != nil {
		return nil, err
	}
	if p.maxTokens != nil && p.out.MaxTokens == nil {
		p.out.MaxTokens = p.maxTokens
	}
	if p.functionChoice.Mode != Unset && p.out.ToolChoice.Mode == Unset {
		p.out.ToolChoice = p.functionChoice
	}
	return p.out, nil
}

type parser struct {
	r   *jsonscan.Reader
	out *Request

	maxTokens      Raw // the deprecated one
	functionChoice ToolChoice
	legacy         Literal // id made up for the latest function_call
}

func (p *parser) member(key jsonscan.Key) {
	r, out := p.r, p.out
	if to := p.value(string(key.Bytes())); to != nil {
		*to = r.Value()
		return
	}
	switch name := key.String(); name {
	case "model":
		out.Model = r.String()
	case "messages":
		r.Array(p.message)
	case "tools":
		r.Array(func() { out.Tools = append(out.Tools, p.tool()) })
	case "functions":
		r.Array(func() { out.Tools = append(out.Tools, p.function()) })
	case "tool_choice":
		out.ToolChoice = p.toolChoice()
	case "function_call":
		p.functionChoice = p.toolChoice()
	case "stop":
		out.Stop = Texts(r)
	case "response_format":
		out.Format = p.format()
	case "reasoning_effort":
		out.Effort = r.String()
	case "user":
		out.User = r.String()
	case "stream":
		out.Stream = string(r.Raw()) == "true"
	case "stream_options":
		r.Object(func(key jsonscan.Key) {
			if key.Is("include_usage") {
				out.IncludeUsage = string(r.Raw()) == "true"
			}
		})
	default:
		if v := r.Value(); v != nil {
			out.Extra = append(out.Extra, Member{name, v})
		}
	}
}

// value is where a member goes whose value is passed on as it stands.
func (p *parser) value(name string) *Raw {
	out := p.out
	switch name {
	case "max_completion_tokens":
		return &out.MaxTokens
	case "max_tokens":
		return &p.maxTokens
	case "temperature":
		return &out.Temperature
	case "top_p":
		return &out.TopP
	case "top_k":
		return &out.TopK
	case "seed", "random_seed": // OpenAI's and Mistral's
		return &out.Seed
	case "n":
		return &out.N
	case "frequency_penalty":
		return &out.FrequencyPenalty
	case "presence_penalty":
		return &out.PresencePenalty
	case "logit_bias":
		return &out.LogitBias
	case "logprobs":
		return &out.LogProbs
	case "top_logprobs":
		return &out.TopLogProbs
	case "parallel_tool_calls":
		return &out.Parallel
	case "thinking":
		return &out.Thinking
	case "metadata":
		return &out.Metadata
	}
	return nil
}

// Texts reads a string, or the strings of an array.
func Texts(r *jsonscan.Reader) (texts []Literal) {
	if r.Kind() == jsonscan.String {
		return []Literal{r.String()}
	}
	r.Array(func() {
		if s := r.String(); s != nil {
			texts = append(texts, s)
		}
	})
	return texts
}

var roles = map[string]Role{
	"system": System, "developer": System, "user": User, "assistant": Assistant, "tool": ToolResult, "function": ToolResult,
}

func (p *parser) message() {
	r := p.r
	var m Message
	var role, name Literal
	var blocks []Part
	var cache Raw
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "role":
			role = r.String()
		case "content":
			m.Parts = append(p.content(), m.Parts...)
		case "refusal":
			if s := r.String(); s != nil {
				m.Parts = append(m.Parts, Part{Kind: Refusal, Text: s})
			}
		case "tool_calls":
			r.Array(func() { m.Calls = append(m.Calls, p.call()) })
		case "function_call":
			var c Call
			if r.Object(func(key jsonscan.Key) { p.callMember(&c, key) }) {
				p.legacy = Quote("call_" + strconv.Itoa(len(p.out.Messages)))
				c.ID = p.legacy
				m.Calls = append(m.Calls, c)
			}
		case "tool_call_id":
			m.CallID = r.String()
		case "name":
			name = r.String()
		case "content_blocks":
			blocks = p.content()
		case "cache_control":
			cache = r.Value()
		}
	})
	m.Role = roles[role.Text()]
	switch m.Role {
	case ToolResult:
		m.Name = name
		if m.CallID == nil {
			m.CallID = p.legacy
		}
	case Assistant:
		m.Parts = thoughtsFirst(m.Parts, blocks)
	}
	if n := len(m.Parts); cache != nil && n > 0 {
		m.Parts[n-1].Cache = cache
	}
	p.out.Messages = append(p.out.Messages, m)
}

// thoughtsFirst adds the thinking of a message's content blocks, in which an answer of
// this gateway's carries it, to its parts: before them, as it was thought before.
func thoughtsFirst(parts, blocks []Part) []Part {
	if slices.ContainsFunc(parts, Part.thought) {
		return parts
	}
	blocks = slices.DeleteFunc(blocks, func(b Part) bool { return !b.thought() })
	return append(blocks, parts...)
}

func (p Part) thought() bool { return p.Kind == Thinking || p.Kind == Redacted }

// content reads a text, or an array of parts.
func (p *parser) content() (parts []Part) {
	r := p.r
	switch r.Kind() {
	case jsonscan.String:
		return []Part{{Text: r.String()}}
	case jsonscan.Array:
		r.Array(func() {
			if r.Kind() == jsonscan.String {
				parts = append(parts, Part{Text: r.String()})
				return
			}
			if part, ok := p.part(); ok {
				parts = append(parts, part)
			}
		})
	}
	return parts
}

var partKinds = map[string]PartKind{
	"text": Text, "input_text": Text, "output_text": Text, "image_url": Image, "file": File, "input_audio": Audio,
	"thinking": Thinking, "redacted_thinking": Redacted, "refusal": Refusal,
}

// part reads one part of a content array; ok tells that it is of a kind that is known.
func (p *parser) part() (part Part, ok bool) {
	r := p.r
	var kind, url, data Literal
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			kind = r.String()
		case "text", "refusal":
			part.Text = r.String()
		case "thinking":
			if r.Kind() == jsonscan.Array { // of Mistral
				r.Array(func() {
					if t, ok := p.part(); ok {
						part.Text = Join(part.Text, t.Text)
					}
				})
				return
			}
			part.Text = r.String()
		case "signature":
			part.Signature = r.String()
		case "data":
			data = r.String()
		case "cache_control":
			part.Cache = r.Value()
		case "image_url":
			if r.Kind() == jsonscan.String {
				url = r.String()
				return
			}
			r.Object(func(key jsonscan.Key) {
				switch {
				case key.Is("url"):
					url = r.String()
				case key.Is("detail"):
					part.Detail = r.String()
				}
			})
		case "file":
			r.Object(func(key jsonscan.Key) {
				switch string(key.Bytes()) {
				case "file_data", "file_url":
					url = r.String()
				case "file_id":
					part.FileID = r.String()
				case "filename":
					part.Name = r.String()
				case "mime_type":
					part.MediaType = Literal(r.String()).Text()
				}
			})
		case "input_audio":
			r.Object(func(key jsonscan.Key) {
				switch {
				case key.Is("data"):
					data = r.String()
				case key.Is("format"):
					part.MediaType = "audio/" + Literal(r.String()).Text()
				}
			})
		}
	})
	part.Kind, ok = partKinds[kind.Text()]
	if data != nil {
		part.SetData(data)
	}
	part.SetURL(url)
	return part, ok
}

// SetURL makes a URL the source of a part: its data, where it is a data URI.
func (p *Part) SetURL(source Literal) {
	inside := jsonscan.Inside(source)
	if len(inside) < 5 || !strings.EqualFold(string(inside[:5]), "data:") {
		switch {
		case source == nil:
		case p.Kind == File && !isURL(inside): // bare base64, as some send it
			p.SetData(source)
		default:
			p.URL = source
		}
		return
	}
	media, data, _ := cut(inside[5:], ',')
	mediaType, isBase64 := strings.CutSuffix(string(media), ";base64")
	if mediaType, _, _ = strings.Cut(mediaType, ";"); mediaType != "" {
		p.MediaType = strings.ReplaceAll(mediaType, `\/`, "/")
	} else if p.MediaType == "" {
		p.MediaType = "text/plain"
	}
	if isBase64 {
		p.Data = unescaped(data)
		return
	}
	text, err := url.PathUnescape(plain(data))
	if err != nil {
		text = string(data)
	}
	p.Data = []byte(base64.StdEncoding.EncodeToString([]byte(text)))
}

// SetData makes base64, as a string of a body has it, the content of a part.
func (p *Part) SetData(l Literal) { p.Data = unescaped(jsonscan.Inside(l)) }

// SetText makes a text the content of a document.
func (p *Part) SetText(l Literal) {
	p.Data = []byte(base64.StdEncoding.EncodeToString([]byte(l.Text())))
}

func isURL(s []byte) bool { return strings.Contains(string(s[:min(len(s), 16)]), ":") }

func cut(b []byte, sep byte) (before, after []byte, found bool) {
	if i := slices.Index(b, sep); i >= 0 {
		return b[:i], b[i+1:], true
	}
	return b, nil, false
}

// unescaped is the inside of a string with no escapes but those that it needs: of base64,
// whose slashes some escape, none. What is no base64 stays inside of its quotes.
func unescaped(inside []byte) []byte {
	if slices.Index(inside, '\\') < 0 {
		return inside
	}
	return jsonscan.AppendEscaped(nil, plain(inside))
}

// plain is the text of which inside is what stands between the quotes.
func plain(inside []byte) string {
	return jsonscan.Unquote(slices.Concat([]byte{'"'}, inside, []byte{'"'}))
}

// Join is the text of a followed by that of b.
func Join(a, b Literal) Literal {
	switch {
	case len(a) < 2:
		return b
	case len(b) < 2:
		return a
	}
	return slices.Concat(a[:len(a)-1], b[1:])
}

func (p *parser) call() (c Call) {
	r := p.r
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "id":
			c.ID = r.String()
		case "function", "custom":
			r.Object(func(key jsonscan.Key) { p.callMember(&c, key) })
		case "extra_content":
			if s := ThoughtSignature(r.Value()); s != nil {
				c.Signature = s
			}
		case "cache_control":
			c.Cache = r.Value()
		}
	})
	return c
}

// ThoughtSignature is the signature in the extra_content of a call: Google's name for
// what its models want back with it.
func ThoughtSignature(extra []byte) (s Literal) {
	if extra == nil {
		return nil
	}
	r := jsonscan.NewReader(extra)
	r.Object(func(key jsonscan.Key) {
		if key.Is("google") {
			r.Object(func(key jsonscan.Key) {
				if key.Is("thought_signature") {
					s = r.String()
				}
			})
		}
	})
	return s
}

func (p *parser) callMember(c *Call, key jsonscan.Key) {
	switch string(key.Bytes()) {
	case "name":
		c.Name = p.r.String()
	case "arguments", "input":
		if v := p.r.Value(); v != nil && v[0] != '"' {
			c.Arguments = Quote(string(v)) // an object, as some send it
		} else {
			c.Arguments = v
		}
	case "thought_signature":
		c.Signature = p.r.String()
	}
}

func (p *parser) tool() (t Tool) {
	r := p.r
	var kind Literal
	function := false
	start := r.Peek()
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			kind = r.String()
		case "function":
			function = true
			cache := t.Cache
			t = p.function()
			if t.Cache == nil {
				t.Cache = cache
			}
		case "cache_control":
			t.Cache = r.Value()
		}
	})
	if kind != nil && !kind.Is("function") || kind == nil && !function {
		return Tool{Other: r.Since(start)}
	}
	return t
}

func (p *parser) function() (t Tool) {
	r := p.r
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "name":
			t.Name = r.String()
		case "description":
			t.Description = r.String()
		case "parameters":
			t.Parameters = r.Value()
		case "strict":
			t.Strict = r.Value()
		case "cache_control":
			t.Cache = r.Value()
		}
	})
	return t
}

func (p *parser) toolChoice() (c ToolChoice) {
	r := p.r
	if r.Kind() == jsonscan.String {
		c.Mode = toolModes[Literal(r.String()).Text()]
		return c
	}
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("name"):
			c = ToolChoice{Named, r.String()}
		case key.Is("function"):
			r.Object(func(key jsonscan.Key) {
				if key.Is("name") {
					c = ToolChoice{Named, r.String()}
				}
			})
		}
	})
	return c
}

// toolModes are OpenAI's words, and Mistral's for required.
var toolModes = map[string]ToolMode{"auto": Auto, "none": None, "required": Required, "any": Required}

var formats = map[string]FormatKind{"text": FormatText, "json_object": FormatJSON, "json_schema": FormatSchema}

func (p *parser) format() (f Format) {
	r := p.r
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			f.Kind = formats[Literal(r.String()).Text()]
		case key.Is("json_schema"):
			r.Object(func(key jsonscan.Key) { f.Member(r, key) })
		}
	})
	return f
}

// Member reads a member of a schema format.
func (f *Format) Member(r *jsonscan.Reader, key jsonscan.Key) {
	switch string(key.Bytes()) {
	case "name":
		f.Name = r.String()
	case "description":
		f.Description = r.String()
	case "schema":
		f.Schema = r.Value()
	case "strict":
		f.Strict = r.Value()
	}
}
