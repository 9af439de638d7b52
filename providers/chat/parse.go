package chat

import (
	"slices"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Parse parses a Chat Completions request. Deprecated members are read as their successors:
// functions as tools, and max_tokens if there is no max_completion_tokens. The last of
// several members with the same name counts. Messages with an unknown role are taken to be
// the user's, so that no part of a prompt is lost.
func Parse(body []byte) (*Request, error) {
	p := &parser{r: jsonscan.Bounded(body), out: new(Request)}
	p.r.Object(p.member)
	if err := p.r.Err(); err != nil {
		return nil, Refused(err)
	}
	out := p.out
	out.Tools = slices.Concat(p.tools, p.functions)
	if out.Functions = len(p.tools) == 0 && len(p.functions) > 0; out.Functions {
		out.Parallel = Raw("false") // a function_call answer has room for one call only
	}
	if p.maxTokens != nil && out.MaxTokens == nil {
		out.MaxTokens = p.maxTokens
	}
	if p.functionChoice.Mode != Unset && out.ToolChoice.Mode == Unset {
		out.ToolChoice = p.functionChoice
	}
	out.IdentifyCalls()
	return out, nil
}

type parser struct {
	r   *jsonscan.Reader
	out *Request

	tools, functions []Tool
	maxTokens        Raw // the deprecated member
	functionChoice   ToolChoice
}

func (p *parser) member(key jsonscan.Key) {
	r, out := p.r, p.out
	if to := p.value(key.Bytes()); to != nil {
		*to = r.Value()
		return
	}
	switch name := key.String(); name {
	case "model":
		out.Model = r.String()
	case "messages":
		out.Messages = nil
		p.each(func() { p.message() })
	case "tools":
		p.tools = nil
		p.each(func() { p.tools = append(p.tools, p.tool()) })
	case "functions":
		p.functions = nil
		p.each(func() { p.functions = append(p.functions, p.function()) })
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
		if v := r.Value(); v != nil && r.Spend() {
			out.Extra = append(out.Extra, Member{name, v})
		}
	}
}

func (p *parser) each(visit func()) { Objects(p.r, visit) }

// value returns where to store a member whose value is passed on unchanged.
func (p *parser) value(name []byte) *Raw {
	out := p.out
	switch string(name) {
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
	case "seed", "random_seed": // OpenAI's and Mistral's names
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

// Texts reads a string or an array of strings.
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
	var role, name, refusal, thought Literal
	var blocks blocks
	var cache Raw
	var function *Call
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "role":
			role = r.String()
		case "content":
			m.Parts = p.content()
		case "refusal":
			refusal = r.String()
		case "tool_calls":
			m.Calls = nil
			p.each(func() { m.Calls = append(m.Calls, p.call()) })
		case "function_call":
			function = new(Call)
			if !r.Object(func(key jsonscan.Key) { p.callMember(function, key) }) {
				function = nil
			}
		case "tool_call_id":
			m.CallID = r.String()
		case "name":
			name = r.String()
		case "content_blocks":
			blocks = p.blocks()
		case "reasoning_content", "reasoning":
			if s := Literal(r.String()); thought.Empty() {
				thought = s
			}
		case "cache_control":
			cache = r.Value()
		}
	})
	if !refusal.Empty() {
		m.Parts = append(m.Parts, Part{Kind: Refusal, Text: refusal})
	}
	if function != nil {
		m.Calls = append(m.Calls, *function)
	}
	m.Role = roles[role.Text()]
	switch m.Role {
	case ToolResult:
		m.Name = name
	case Assistant:
		if !thought.Empty() && blocks.parts == nil {
			m.Parts = slices.Insert(m.Parts, 0, Part{Kind: Thinking, Text: thought})
		}
		m.withBlocks(blocks)
	}
	if n := len(m.Parts); cache != nil && n > 0 {
		m.Parts[n-1].Cache = cache
	}
	p.out.Messages = append(p.out.Messages, m)
}

func (p Part) thought() bool { return p.Kind == Thinking || p.Kind == Redacted }

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

// ThoughtSignature returns the signature in the extra_content of a call, where Google's
// models expect it.
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
			c.Arguments = Quote(string(v)) // some clients send an object instead of a string
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
	var extra []Member
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
		default:
			if v := r.Raw(); r.Spend() {
				extra = append(extra, Member{key.String(), v})
			}
		}
	})
	t.Extra = extra
	if kind != nil && !kind.Is("function") || kind == nil && !function {
		return Tool{Other: r.Since(start), Foreign: kind.Is("custom")}
	}
	return t
}

func (p *parser) function() (t Tool) {
	p.r.Object(func(key jsonscan.Key) { t.Member(p.r, key, "parameters") })
	return t
}

// Member reads a member that tools have in every dialect; schema is the name of that with the
// parameters.
func (t *Tool) Member(r *jsonscan.Reader, key jsonscan.Key, schema string) {
	switch string(key.Bytes()) {
	case "name":
		t.Name = r.String()
	case "description":
		t.Description = r.String()
	case schema:
		t.Parameters = r.Value()
	case "strict":
		t.Strict = r.Value()
	case "cache_control":
		t.Cache = r.Value()
	}
}

func (p *parser) toolChoice() (c ToolChoice) {
	r := p.r
	if r.Kind() == jsonscan.String {
		c.Mode = toolModes[Literal(r.String()).Text()]
		return c
	}
	mode := Unset
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "name":
			c = named(r.String(), c)
		case "function":
			r.Object(func(key jsonscan.Key) {
				if key.Is("name") {
					c = named(r.String(), c)
				}
			})
		case "type": // Anthropic's form, which some clients send
			mode = toolModes[Literal(r.String()).Text()]
		default:
			c.ReadAllowed(r, key)
		}
	})
	if c.Mode == Unset {
		c.Mode = mode
	}
	return c
}

func named(name Literal, other ToolChoice) ToolChoice {
	if name.Empty() {
		return other
	}
	return ToolChoice{Mode: Named, Name: name}
}

// toolModes has OpenAI's names of the modes, and Mistral's name for required.
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

// Member reads a member of a JSON schema format.
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
