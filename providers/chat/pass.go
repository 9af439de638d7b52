package chat

import (
	"bytes"
	"slices"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Foreign says which members of a Chat Completions body a provider refuses that did not
// create them.
type Foreign struct {
	Signatures      bool // extra_content of calls
	Reasoning       bool // reasoning_content of messages
	ReturnReasoning bool // it is required of turns with calls; thinking in content_blocks is converted to it
	OfCalls         bool // settings of Anthropic's API
	OfMessages      bool // its members of messages and tools
	StringContent   bool // texts in arrays, which become strings, and the role developer, which becomes system
	Schemas         bool // schemas of answers, which are described to the model
}

// Members of Anthropic's API that OpenAI's does not have.
var (
	foreignOfCalls = []string{"output_config", "mcp_servers", "context_management", "cache_control", "inference_geo"}
	foreignOfTools = []string{"cache_control", "defer_loading", "allowed_callers", "input_examples", "eager_input_streaming"}
	foreignOfParts = []string{"cache_control"}
)

// PassMembers are the members without which Pass changes nothing.
var PassMembers = slices.Concat([]string{
	"content_blocks", "reasoning_content", "extra_content",
	"tools", "functions", "tool_choice", "function_call", "tool_calls", "parallel_tool_calls", "user", "image_url", "file",
}, foreignOfCalls, foreignOfTools)

// Pass returns a body that is passed on to a provider with the API Chat Completions, without
// what that provider refuses: members that only other providers understand (content_blocks
// are the gateway's own), and what is beyond its limits. It returns nil if nothing has to be
// changed. names has the original names of renamed tools, as [Request.Arrange] returns them.
//
// Members that are not known here are kept, as is the order of system messages.
func Pass(body []byte, f Foreign, l Limits) (out []byte, names map[string]Literal) {
	p := &passing{foreign: f, limits: l, names: Renames{Most: l.ToolName}}
	if f.Signatures {
		p.drop = append(p.drop, "extra_content")
	}
	if f.OfMessages {
		p.drop = append(p.drop, foreignOfParts...)
	}
	p.Start(body)
	p.joining.ResetBounded(body)
	p.Members(p.member)
	if p.Err() != nil { // the caller of the reader reports it
		return nil, nil
	}
	if out = p.Edited(); out != nil {
		body = out
	}
	if p.format.Kind == FormatSchema {
		if edited := described(body, &p.format); edited != nil {
			out, body = edited, edited
		}
	}
	if edited := p.choose(body); edited != nil {
		out, body = edited, edited
	}
	if p.misplaced {
		if edited := moveResults(body); edited != nil {
			out = edited
		}
	}
	return out, p.names.Was
}

// passing is a body on its way through Pass.
type passing struct {
	Patch
	foreign Foreign
	limits  Limits
	drop    []string // members of messages
	names   Renames

	tools, functions         int  // how many there are
	choice, called, parallel bool // tool_choice, function_call and parallel_tool_calls are given
	allowed                  bool // the choice may be of type allowed_tools
	placed                   Placed
	misplaced                bool // results may have to be moved
	format                   Format
	joining                  jsonscan.Reader // bounds what joined decodes
}

func (p *passing) member(key jsonscan.Key) bool {
	given := p.Kind() != jsonscan.Null
	switch name := key.Bytes(); string(name) {
	case "messages":
		p.Elements(p.message)
	case "tools":
		p.tools = p.Elements(p.tool)
		return p.tools > 0 || !given
	case "functions":
		p.functions = p.Elements(p.function)
		return p.functions > 0 || !given
	case "tool_choice":
		p.choice, p.allowed = given, p.Kind() == jsonscan.Object
		p.Members(p.choiceMember)
	case "function_call":
		p.called = given
		p.Members(p.named)
	case "parallel_tool_calls":
		p.parallel = given
	case "response_format":
		if p.foreign.Schemas {
			p.responseFormat()
		}
	case "user":
		p.User(p.limits)
	default:
		return !p.foreign.OfCalls || !among(foreignOfCalls, name)
	}
	return true
}

func among(names []string, name []byte) bool {
	return slices.ContainsFunc(names, func(n string) bool { return n == string(name) })
}

// named reads a member of an object whose name is a tool's.
func (p *passing) named(key jsonscan.Key) bool {
	if key.Is("name") {
		p.Rename(&p.names)
	}
	return true
}

func (p *passing) function() bool {
	p.Members(p.named)
	return true
}

func (p *passing) tool() bool {
	p.Members(p.toolMember)
	return true
}

func (p *passing) toolMember(key jsonscan.Key) bool {
	if key.Is("function") || key.Is("custom") {
		return p.function()
	}
	return !p.foreign.OfMessages || !among(foreignOfTools, key.Bytes())
}

// choiceMember reads a member of tool_choice, or of a tool that it allows.
func (p *passing) choiceMember(key jsonscan.Key) bool {
	switch string(key.Bytes()) {
	case "function", "custom":
		p.Members(p.named)
	case "name":
		p.Rename(&p.names)
	case "allowed_tools":
		p.Members(p.choiceMember)
	case "tools":
		p.Elements(func() bool {
			p.Members(p.choiceMember)
			return true
		})
	}
	return true
}

// A passingMessage is what is known of the message that is being read.
type passingMessage struct {
	start                  int
	role, id               Literal
	thought, sealed, calls bool // it has reasoning_content, content_blocks, tool_calls

	found  Literal // the role, if it was needed before it was read
	sought bool
}

func (p *passing) message() bool {
	m := passingMessage{start: p.Peek()}
	p.Members(func(key jsonscan.Key) bool { return p.messageMember(&m, key) })
	switch {
	case m.role.Is("assistant") && m.calls:
	case !m.role.Is("tool"):
		p.placed.Other()
	case !p.placed.Result(m.id):
		p.misplaced = true
	}
	if p.foreign.ReturnReasoning && !m.thought && m.role.Is("assistant") {
		if thought := p.thought(&m); thought != nil {
			p.Add(`"reasoning_content":` + string(thought))
		}
	}
	return true
}

func (p *passing) messageMember(m *passingMessage, key jsonscan.Key) bool {
	name := key.Bytes()
	switch string(name) {
	case "role":
		start := p.Peek()
		if m.role = p.String(); p.foreign.StringContent && m.role.Is("developer") {
			p.Replace(start, p.Peek(), []byte(`"system"`))
		}
	case "content":
		if p.Kind() == jsonscan.Array && (!p.foreign.StringContent || !p.joined()) {
			p.Elements(p.part)
		}
	case "tool_call_id":
		m.id = p.String()
	case "tool_calls":
		p.placed.Turn()
		m.calls = p.Elements(p.call) > 0
	case "function_call":
		p.Members(p.named)
	case "name":
		if role := p.role(m); role.Is("tool") || role.Is("function") { // others are no tool's
			p.Rename(&p.names)
		}
	case "content_blocks":
		m.sealed = true
		return false
	case "reasoning_content":
		if m.thought = p.Kind() == jsonscan.String; !m.thought && p.foreign.ReturnReasoning {
			return false // it is added
		}
		return !p.foreign.Reasoning
	default:
		return !among(p.drop, name)
	}
	return true
}

// joined replaces an array of texts by one string, and reports false if there is anything else in it, or too much.
// The array is left unread then.
func (p *passing) joined() bool {
	if p.joining.BodyErr() != nil {
		return false
	}
	again := p.joining.Within(p.body[p.Peek():]) // what follows the array is not read
	q := &parser{r: again}
	parts := q.content()
	if again.BodyErr() != nil || slices.ContainsFunc(parts, func(part Part) bool { return part.Kind != Text }) {
		return false
	}
	start := p.Peek()
	p.Raw()
	p.Replace(start, p.Peek(), JoinText(parts))
	return true
}

// responseFormat reads the format of the answer, and makes JSON without a schema of a schema.
func (p *passing) responseFormat() {
	start := p.Peek()
	q := &parser{r: jsonscan.NewReader(p.Raw())}
	if p.format = q.format(); p.format.Kind == FormatSchema {
		p.Replace(start, p.Peek(), []byte(`{"type":"json_object"}`))
	}
}

// described returns a body whose first message says what the format of the answer is.
func described(body []byte, f *Format) []byte {
	var p Patch
	p.Start(body)
	p.Members(func(key jsonscan.Key) bool {
		if key.Is("messages") && p.Kind() == jsonscan.Array {
			start := p.Peek() + 1
			first := `{"role":"system","content":` + string(f.Described()) + "}"
			if p.Elements(func() bool { return true }) > 0 {
				first += ","
			}
			p.Replace(start, start, []byte(first))
		}
		return true
	})
	return p.Edited()
}

// role returns the role of the message that is being read, which may follow.
func (p *passing) role(m *passingMessage) Literal {
	switch {
	case m.role != nil:
		return m.role
	case m.sought:
		return m.found
	}
	m.sought = true
	var r jsonscan.Reader
	r.Again(p.body[m.start:])
	r.Object(func(key jsonscan.Key) {
		if key.Is("role") {
			m.found = r.String()
		}
	})
	return m.found
}

// thought returns the reasoning of a message without any, for providers that require it: the
// thinking of its content blocks, or an empty one of a turn with calls, which may be another
// model's.
func (p *passing) thought(m *passingMessage) (thought Literal) {
	if m.sealed {
		q := &parser{r: jsonscan.NewReader(p.Since(m.start))}
		q.r.Object(func(key jsonscan.Key) {
			if key.Is("content_blocks") {
				thought = thoughts(q.blocks().parts)
			}
		})
	}
	if thought == nil && m.calls {
		thought = Literal(`""`)
	}
	return thought
}

func (p *passing) call() bool {
	p.Members(func(key jsonscan.Key) bool {
		switch name := key.Bytes(); string(name) {
		case "id":
			p.placed.Call(p.String())
		case "function", "custom":
			p.Members(p.named)
		default:
			return !among(p.drop, name)
		}
		return true
	})
	return true
}

func (p *passing) part() bool {
	p.Members(p.partMember)
	return true
}

func (p *passing) partMember(key jsonscan.Key) bool {
	switch string(key.Bytes()) {
	case "image_url":
		if p.Kind() == jsonscan.String {
			p.Image()
			break
		}
		p.Members(func(key jsonscan.Key) bool {
			if key.Is("url") {
				p.Image()
			}
			return true
		})
	case "file":
		var d Document
		p.Members(func(key jsonscan.Key) bool { return d.Member(&p.Patch, key) })
		d.Name(&p.Patch)
	default:
		return !p.foreign.OfMessages || !among(foreignOfParts, key.Bytes())
	}
	return true
}

// Image is like MediaType, for the type in a data URI.
func (p *Patch) Image() {
	start := p.Peek()
	media := dataType(p.String())
	if registered := MediaType(string(media)); registered != string(media) {
		start += len(`"data:`)
		p.Replace(start, start+len(media), []byte(registered))
	}
}

// MediaType reads a media type, and corrects it, because providers refuse aliases.
func (p *Patch) MediaType() {
	start := p.Peek()
	media := Literal(p.String())
	if given := media.Text(); given != MediaType(given) {
		p.Replace(start, p.Peek(), Quote(MediaType(given)))
	}
}

// dataType returns the type in a data URI.
func dataType(uri Literal) []byte {
	inside := jsonscan.Inside(uri)
	if len(inside) < 5 || !bytes.EqualFold(inside[:5], []byte("data:")) {
		return nil
	}
	const longest = 64
	media := inside[5:min(len(inside), 5+longest)]
	if end := bytes.IndexAny(media, ";,"); end >= 0 {
		return media[:end]
	}
	return nil
}

// A Document is what is known of a document that is being read.
type Document struct {
	data              Literal
	named, identified bool
}

// Member reads a member of the document, and reports whether it stays.
func (d *Document) Member(p *Patch, key jsonscan.Key) bool {
	switch string(key.Bytes()) {
	case "file_data":
		d.data = p.String()
	case "file_id":
		d.identified = p.Kind() == jsonscan.String
	case "filename":
		d.named = !Literal(p.String()).Empty()
		return d.named
	}
	return true
}

// Name names the document that was just read, if it has data and no name.
func (d *Document) Name(p *Patch) {
	if d.data != nil && !d.named && !d.identified {
		part := Part{MediaType: MediaType(plain(dataType(d.data)))}
		p.Add(`"filename":` + part.fileName())
	}
}

// choose removes what chooses among tools from a body without tools, and keeps only the tools
// that are allowed, for providers that do not know of such a choice. It returns nil if there is
// nothing to do.
func (p *passing) choose(body []byte) []byte {
	drop := make([]string, 0, 4)
	for _, m := range []struct {
		name  string
		given bool
		tools int
	}{{"tool_choice", p.choice, p.tools}, {"parallel_tool_calls", p.parallel, p.tools}, {"function_call", p.called, p.functions}} {
		if m.given && m.tools == 0 {
			drop = append(drop, m.name)
		}
	}
	var choice ToolChoice
	if p.allowed && p.limits.NoAllowedTools && p.tools > 0 {
		choice = chosen(body)
	}
	if len(drop) == 0 && choice.Allowed == nil {
		return nil
	}
	if choice.Allowed == nil {
		return WithoutMembers(body, drop)
	}
	return choice.Restrict(body, func(raw []byte) Tool {
		q := &parser{r: jsonscan.NewReader(raw)}
		return q.tool()
	})
}

// chosen returns the choice of a body.
func chosen(body []byte) (c ToolChoice) {
	p := &parser{r: jsonscan.Bounded(body)}
	p.r.Object(func(key jsonscan.Key) {
		if key.Is("tool_choice") {
			c = p.toolChoice()
		}
	})
	if p.r.Err() != nil { // too many tools, which the provider judges
		return ToolChoice{}
	}
	return c
}

// WithoutMembers returns a body without some of its members.
func WithoutMembers(body []byte, names []string) []byte {
	var p Patch
	p.Start(body)
	p.Members(func(key jsonscan.Key) bool { return !among(names, key.Bytes()) })
	return p.Edited()
}

// Restrict returns a body with only those of its tools that the choice allows, and with its
// mode as the choice. tool parses a tool.
func (c ToolChoice) Restrict(body []byte, tool func(raw []byte) Tool) []byte {
	mode := []byte(`"auto"`)
	if c.Mode == Required {
		mode = []byte(`"required"`)
	}
	var p Patch
	p.Start(body)
	left, names := 0, namesOf(c.Allowed)
	p.Members(func(key jsonscan.Key) bool {
		switch {
		case key.Is("tools"):
			left = p.Elements(func() bool { return tool(p.Raw()).among(names) })
			return left > 0
		case key.Is("tool_choice"):
			start := p.Peek()
			p.Raw()
			p.Replace(start, p.Peek(), mode)
		}
		return true
	})
	body = p.Edited()
	if left == 0 {
		return WithoutMembers(body, []string{"tool_choice", "parallel_tool_calls"})
	}
	return body
}
