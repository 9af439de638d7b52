package messages

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Limits are those of the API, wherever it is.
var Limits = chat.Limits{ToolName: 128, User: 256, NoEmail: true, NeedsUser: true}

// Pass returns a body of Messages, or one whose tokens are to be counted, for a provider that
// has this API, without what that refuses: thinking that it did not create (seals of other
// providers' calls, and thinking without a signature), blank texts, messages without content,
// and what is beyond its [Limits]. If nothing has to be changed, the body is returned. names has
// the original names of renamed tools, as [chat.Request.Arrange] returns them.
func Pass(body []byte) (out []byte, names map[string]chat.Literal) {
	p := &passing{names: chat.Renames{Most: Limits.ToolName}}
	p.Start(body)
	p.Members(p.member)
	if p.Err() != nil { // the caller of the reader reports it
		return body, nil
	}
	out = body
	if edited := p.Edited(); edited != nil {
		out = edited
	}
	if p.choice && !p.tools {
		out = chat.WithoutMembers(out, []string{"tool_choice"})
	}
	if p.loop.calls && p.loop.results && !p.loop.thought && kindOf(p.thinking).Is("enabled") { // see Continued
		out = chat.WithoutMembers(out, []string{"thinking"})
	}
	if p.misplaced {
		out = moveResults(out)
	}
	if p.system && p.empty && !p.thread {
		out = systemAsUser(out)
	}
	return out, p.names.Was
}

// passing is a body on its way through Pass.
type passing struct {
	chat.Patch
	names chat.Renames

	tools     bool // there may be some, also by servers or of an earlier call
	choice    bool // there is a tool_choice
	system    bool
	empty     bool // there are no messages
	thread    bool // there are, in the thread
	placed    chat.Placed
	misplaced bool // results may have to be moved

	thinking chat.Raw
	loop     loop
}

// A loop is what is known of the last turn of the model, and of what follows it.
type loop struct {
	open    bool // nothing follows it so far
	some    bool // it has a block
	thought bool // it begins with a thought
	calls   bool
	results bool // some follow it
}

// add adds a message that is sent.
func (l *loop) add(m *passingMessage) {
	if !m.role.Is("assistant") {
		l.open, l.results = false, l.results || m.results
		return
	}
	if !l.open {
		*l = loop{open: true}
	}
	if !l.some {
		l.some, l.thought = true, m.thought
	}
	l.calls = l.calls || m.calls
}

func (p *passing) member(key jsonscan.Key) bool {
	given := p.Kind() != jsonscan.Null
	switch string(key.Bytes()) {
	case "messages":
		array := p.Kind() == jsonscan.Array
		p.empty = p.Elements(p.message) == 0 && array
	case "thinking":
		p.thinking = p.Raw()
	case "system":
		if p.Kind() == jsonscan.Array {
			p.system = p.Elements(p.hasText) > 0
			return p.system
		}
		p.system = !chat.Literal(p.String()).Blank()
	case "tools":
		p.tools = p.Elements(p.tool) > 0 || p.tools
	case "mcp_servers":
		p.tools = p.tools || given
	case "thread":
		p.thread = given
		p.tools = p.tools || given
	case "tool_choice":
		p.choice = given
		p.Members(p.named)
	case "metadata":
		p.Members(func(key jsonscan.Key) bool { return !key.Is("user_id") || p.User(Limits) })
	}
	return true
}

// named reads a member of an object whose name is a tool's.
func (p *passing) named(key jsonscan.Key) bool {
	if key.Is("name") {
		p.Rename(&p.names)
	}
	return true
}

func (p *passing) tool() bool {
	p.Members(p.named)
	return true
}

// A passingMessage is what is known of the message that is being read.
type passingMessage struct {
	role                   chat.Literal
	calls, results, others bool // it has calls, results, and what is neither
	begun, thought         bool // it has a block, and the first one is a thought
}

// message reports whether a message has content.
func (p *passing) message() bool {
	var m passingMessage
	full := true
	p.Members(func(key jsonscan.Key) bool {
		if key.Is("role") {
			m.role = p.String()
		}
		if !key.Is("content") {
			return true
		}
		switch p.Kind() {
		case jsonscan.Array:
			full = p.Elements(func() bool { return p.block(&m) }) > 0
		case jsonscan.String:
			full, m.others = !chat.Literal(p.String()).Blank(), true
		}
		return true
	})
	if full && m.others && !m.calls {
		p.placed.Other()
	}
	if full {
		p.loop.add(&m)
	}
	return full
}

// A passingBlock is what is known of the block that is being read.
type passingBlock struct {
	start                                   int
	kind, text, data, signature, id, result chat.Literal
}

// block reports whether the provider takes a block.
func (p *passing) block(m *passingMessage) bool {
	b := passingBlock{start: p.Peek()}
	p.Members(func(key jsonscan.Key) bool { return p.blockMember(&b, key) })
	begins := !m.begun
	switch {
	case b.kind.Is("text") && b.text.Blank(),
		b.kind.Is("thinking") && b.signature.Empty(),
		b.kind.Is("redacted_thinking") && chat.Sealed(jsonscan.Inside(b.data), sealedCall):
		return false
	case b.kind.Is("tool_use"):
		if !m.calls {
			m.calls = true
			p.placed.Turn()
		}
		p.placed.Call(b.id)
	case b.kind.Is("tool_result"):
		m.results = true
		p.misplaced = p.misplaced || m.others || !p.placed.Result(b.result)
	default:
		m.others = true
	}
	if m.begun = true; begins {
		m.thought = b.kind.Is("thinking") || b.kind.Is("redacted_thinking")
	}
	return true
}

func (p *passing) blockMember(b *passingBlock, key jsonscan.Key) bool {
	switch string(key.Bytes()) {
	case "type":
		b.kind = p.String()
	case "text":
		b.text = p.String()
	case "signature":
		b.signature = p.String()
	case "data":
		b.data = p.String()
	case "id":
		b.id = p.String()
	case "tool_use_id":
		b.result = p.String()
	case "name":
		p.RenameOf(b.start, &p.names, "tool_use")
	case "tool_name":
		p.RenameOf(b.start, &p.names, "tool_reference")
	case "source":
		p.Members(p.sourceMember)
	case "content":
		if p.Kind() == jsonscan.Array && p.Type(b.start).Is("tool_result") {
			p.Elements(p.hasText)
		}
	}
	return true
}

// hasText reads a block that may be of a result or of the system, and reports whether it is more
// than blank text.
func (p *passing) hasText() bool {
	b := passingBlock{start: p.Peek()}
	p.Members(func(key jsonscan.Key) bool { return p.blockMember(&b, key) })
	return !b.kind.Is("text") || !b.text.Blank()
}

func (p *passing) sourceMember(key jsonscan.Key) bool {
	if key.Is("media_type") {
		p.MediaType()
	}
	return true
}

// moveResults moves tool results right behind their calls, and to the beginning of their
// message.
func moveResults(body []byte) []byte {
	var p chat.Patch
	p.Start(body)
	p.AgainBounded(body)
	p.Members(func(key jsonscan.Key) bool {
		if key.Is("messages") {
			start := p.Peek()
			all := pieces{whole: make(map[*chat.Part]chat.Raw)}
			p.Array(func() { all.add(p.Within(p.Raw())) })
			all.messages = chat.ResultsFirst(all.messages)
			p.Replace(start, p.Peek(), all.together())
		}
		return true
	})
	if edited := p.Edited(); edited != nil {
		return edited
	}
	return body
}

// pieces are messages that were taken apart. Nothing is known of a piece but which calls it makes
// or answers. Those of a user's message are its results, and what is left of its blocks.
type pieces struct {
	messages []chat.Message
	whole    map[*chat.Part]chat.Raw // messages of a user without results, by their first block
}

// add adds the pieces of a message.
func (p *pieces) add(r *jsonscan.Reader) {
	start := r.Peek()
	whole := chat.Message{Role: chat.System}
	rest := chat.Message{Role: chat.User}
	var results []chat.Message
	user := false
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("role"):
			role := chat.Literal(r.String())
			if user = role.Is("user"); role.Is("assistant") {
				whole.Role = chat.Assistant
			}
		case key.Is("content") && r.Kind() == jsonscan.String:
			var b jsonscan.Builder
			b.Open('{')
			b.Key("type").Text("text")
			b.Key("text").Raw(r.Raw())
			b.Close('}')
			rest.Parts = append(rest.Parts, opaque(b))
		case key.Is("content"):
			r.Array(func() {
				block := r.Raw()
				switch kind, call, result := identify(block); {
				case kind.Is("tool_use"):
					whole.Calls = append(whole.Calls, chat.Call{ID: call})
				case kind.Is("tool_result"):
					results = append(results, chat.Message{Role: chat.ToolResult, CallID: result, Parts: []chat.Part{opaque(block)}})
				default:
					rest.Parts = append(rest.Parts, opaque(block))
				}
			})
		}
	})
	raw := r.Since(start)
	if !user {
		whole.Parts = []chat.Part{opaque(raw)}
		p.messages = append(p.messages, whole)
		return
	}
	p.messages = append(p.messages, results...)
	if len(rest.Parts) > 0 {
		p.messages = append(p.messages, rest)
		if results == nil {
			p.whole[&rest.Parts[0]] = raw
		}
	}
}

// together writes the messages. What follows each other of a user is one message.
func (p *pieces) together() []byte {
	users := func(i int) bool {
		return i >= 0 && i < len(p.messages) && (p.messages[i].Role == chat.User || p.messages[i].Role == chat.ToolResult)
	}
	t := chat.Turns{}
	t.Open('[')
	for i := range p.messages {
		m := &p.messages[i]
		whole := p.whole[&m.Parts[0]]
		switch {
		case !users(i):
			t.End()
			t.Raw(m.Parts[0].Other)
			continue
		case whole != nil && !users(i-1) && !users(i+1):
			t.End()
			t.Raw(whole)
			continue
		}
		t.Turn(chat.User)
		for k := range m.Parts {
			t.Raw(m.Parts[k].Other)
		}
	}
	t.End()
	t.Close(']')
	return t.Builder
}

func opaque(raw []byte) chat.Part { return chat.Part{Kind: chat.Other, Other: raw} }

// identify returns the type of a block, its id, and the id of the call that it answers.
func identify(block []byte) (kind, id, result chat.Literal) {
	r := jsonscan.NewReader(block)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = r.String()
		case key.Is("id"):
			id = r.String()
		case key.Is("tool_use_id"):
			result = r.String()
		}
	})
	return kind, id, result
}

// systemAsUser makes a message of the user of the instructions of a body without messages.
func systemAsUser(body []byte) []byte {
	var system chat.Raw
	r := jsonscan.NewReader(body)
	r.Object(func(key jsonscan.Key) {
		if key.Is("system") {
			system = r.Raw()
		}
	})
	var p chat.Patch
	p.Start(body)
	p.Members(func(key jsonscan.Key) bool {
		if key.Is("messages") {
			start := p.Peek()
			p.Raw()
			p.Replace(start, p.Peek(), []byte(`[{"role":"user","content":`+string(system)+`}]`))
		}
		return !key.Is("system")
	})
	return p.Edited()
}
