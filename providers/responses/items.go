package responses

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Messages converts items, an input or an output, to messages, and returns the tools that they
// add. items is a string or an array.
func Messages(items []byte, provider string) ([]chat.Message, []chat.Tool, error) {
	p := &parser{r: jsonscan.Bounded(items), out: new(chat.Request), provider: provider}
	p.input()
	if err := p.r.Err(); err != nil {
		return nil, nil, chat.Refused(err)
	}
	if p.fault != nil {
		return nil, nil, p.fault
	}
	return p.messages, p.added, nil
}

// An entry is an item that is being read.
type entry struct {
	kind, role, id, callID, name, namespace, sealed chat.Literal
	content, output, summary, tools                 chat.Raw
	call                                            chat.Call
}

func (p *parser) item(at string) {
	r := p.r
	var e entry
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			e.kind = r.String()
		case "role":
			e.role = r.String()
		case "id":
			e.id = r.String()
		case "content":
			e.content = r.Value()
		case "call_id":
			e.callID = r.String()
		case "name":
			e.name = r.String()
		case "namespace":
			e.namespace = r.String()
		case "input": // of a custom tool
			e.call.Arguments = chat.FreeArguments(r.String())
		case "arguments":
			if e.call.Arguments = r.Value(); e.call.Arguments != nil && e.call.Arguments[0] != '"' {
				e.call.Arguments = chat.Quote(string(e.call.Arguments)) // some clients send an object instead of a string
			}
		case "output":
			e.output = r.Value()
		case "summary":
			e.summary = r.Value()
		case "tools":
			e.tools = r.Value()
		case "encrypted_content":
			e.sealed = r.String()
		case "extra_content":
			e.call.Signature = chat.ThoughtSignature(r.Value())
		case "cache_control":
			e.call.Cache = r.Value()
		}
	})
	if strings.HasPrefix(e.kind.Text(), "tool_search_") {
		p.search(&e, at)
		return
	}
	if e.callID == nil {
		e.callID = e.id
	}
	switch kind := e.kind.Text(); {
	case kind == "message", e.kind == nil && e.role != nil:
		p.message(&e, at)
	case kind == "function_call", kind == "custom_tool_call":
		e.call.ID, e.call.Name = e.callID, chat.Qualified(e.namespace, e.name)
		m := p.assistantMessage(func(*chat.Message) bool { return true })
		m.Calls = append(m.Calls, e.call)
	case kind == "function_call_output", kind == "custom_tool_call_output":
		p.messages = append(p.messages, chat.Message{Role: chat.ToolResult, CallID: e.callID, Parts: p.content(e.output, at+".output")})
	case kind == "reasoning":
		p.thought(&e)
	case kind == "additional_tools":
		p.addTools(e.tools, at+".tools")
	case kind == "web_search_call": // the text that follows says what was found
	case kind == "item_reference", e.kind == nil && e.id != nil:
		p.refuse(at, "Item with id '"+clip(e.id.Text())+"' not found. Send the item, or go on from its response with 'previous_response_id'")
	default:
		p.refuse(at, "Items of type '"+clip(kind)+"' are known to providers that have the Responses API themselves")
	}
}

// search reads a search for further tools. One that the caller ran is a call of a function and its
// result; what OpenAI did itself is known by the tools that it found.
func (p *parser) search(e *entry, at string) {
	switch kind := e.kind; {
	case kind.Is("tool_search_call") && e.callID != nil:
		e.call.ID, e.call.Name = e.callID, chat.Literal(toolSearch)
		m := p.assistantMessage(func(*chat.Message) bool { return true })
		m.Calls = append(m.Calls, e.call)
	case kind.Is("tool_search_output"):
		names := p.addTools(e.tools, at+".tools")
		if e.callID == nil {
			return
		}
		var found jsonscan.Builder
		found.Open('{')
		chat.AppendTexts(found.Key("tools"), names)
		found.Close('}')
		p.messages = append(p.messages, chat.Message{Role: chat.ToolResult, CallID: e.callID, Parts: []chat.Part{{Text: chat.Quote(string(found))}}})
	}
}

var roles = map[string]chat.Role{"user": chat.User, "system": chat.System, "developer": chat.System, "assistant": chat.Assistant}

func (p *parser) message(e *entry, at string) {
	role, known := roles[e.role.Text()]
	if !known {
		p.refuse(at+".role", "Invalid value: '"+clip(e.role.Text())+"'. Supported values are: 'assistant', 'system', 'developer', and 'user'.")
	}
	parts := p.content(e.content, at+".content")
	if role != chat.Assistant {
		p.messages = append(p.messages, chat.Message{Role: role, Parts: parts})
		return
	}
	m := p.assistantMessage(func(m *chat.Message) bool { return !speaks(m) })
	m.Add(parts...)
}

// assistantMessage returns the latest message if it is an assistant's to which the next
// item belongs, or else a new one. The reasoning, text and calls of one turn are separate
// items here, and one message for providers.
func (p *parser) assistantMessage(belongs func(*chat.Message) bool) *chat.Message {
	if n := len(p.messages); n == 0 || p.messages[n-1].Role != chat.Assistant || !belongs(&p.messages[n-1]) {
		p.messages = append(p.messages, chat.Message{Role: chat.Assistant})
	}
	return &p.messages[len(p.messages)-1]
}

func speaks(m *chat.Message) bool {
	return slices.ContainsFunc(m.Parts, func(part chat.Part) bool { return part.Kind == chat.Text || part.Kind == chat.Refusal })
}

func (p *parser) thought(e *entry) {
	part := chat.Part{Kind: chat.Thinking}
	for _, texts := range []chat.Raw{e.summary, e.content} {
		if part.Text != nil {
			break
		}
		var all []chat.Part
		r := p.r.Within(texts)
		r.Array(func() {
			r.Object(func(key jsonscan.Key) {
				if key.Is("text") {
					all = append(all, chat.Part{Text: r.String()})
				}
			})
		})
		if len(all) > 0 {
			part.Text = chat.JoinText(all)
		}
	}
	switch kind, seal := unseal(e.sealed, p.provider); kind {
	case chat.Redacted:
		part = chat.Part{Kind: chat.Redacted, Data: jsonscan.Inside(seal)}
	default:
		part.Signature = seal
	}
	if part.Kind == chat.Thinking && part.Text.Empty() && part.Signature == nil {
		return // another provider's, or not a seal
	}
	m := p.assistantMessage(func(m *chat.Message) bool { return len(m.Calls) > 0 || !speaks(m) })
	m.Add(part)
}

// sealKinds are the kinds of seals on reasoning, in encrypted_content.
var sealKinds = [...]string{chat.Thinking: "thinking", chat.Redacted: "redacted"}

// unseal returns what is sealed in an encrypted_content, or nil if the seal is not the
// provider's.
func unseal(sealed chat.Literal, provider string) (kind chat.PartKind, seal chat.Literal) {
	for _, kind := range []chat.PartKind{chat.Thinking, chat.Redacted} {
		if inside := chat.Unseal(jsonscan.Inside(sealed), sealKinds[kind], provider); inside != nil {
			return kind, slices.Concat([]byte{'"'}, inside, []byte{'"'})
		}
	}
	return chat.Thinking, nil
}

var partKinds = map[string]chat.PartKind{
	"input_text": chat.Text, "output_text": chat.Text, "text": chat.Text, "summary_text": chat.Text, "refusal": chat.Refusal,
	"input_image": chat.Image, "input_file": chat.File, "input_audio": chat.Audio,
}

// content reads a string, or an array of parts.
func (p *parser) content(raw chat.Raw, at string) (parts []chat.Part) {
	if raw == nil {
		return nil
	}
	r := p.r.Within(raw)
	switch r.Kind() {
	case jsonscan.String:
		return []chat.Part{{Text: r.String()}}
	case jsonscan.Array:
		i := 0
		r.Array(func() {
			parts = append(parts, p.part(r, at+"["+strconv.Itoa(i)+"]"))
			i++
		})
		return parts
	}
	p.refuse(at, "Invalid type for '"+at+"': expected a string or an array of parts.")
	return nil
}

func (p *parser) part(r *jsonscan.Reader, at string) (part chat.Part) {
	var kind, url, data chat.Literal
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			kind = r.String()
		case "text", "refusal":
			part.Text = r.String()
		case "image_url":
			if r.Kind() == jsonscan.Object { // the form of Chat Completions
				r.Object(func(key jsonscan.Key) {
					if key.Is("url") {
						url = r.String()
					}
				})
				return
			}
			url = r.String()
		case "file_data", "file_url":
			if s := r.String(); s != nil {
				url = s
			}
		case "detail":
			part.Detail = r.String()
		case "file_id":
			part.FileID = r.String()
		case "filename":
			part.Name = r.String()
		case "cache_control":
			part.Cache = r.Value()
		case "input_audio":
			r.Object(func(key jsonscan.Key) {
				switch {
				case key.Is("data"):
					data = r.String()
				case key.Is("format"):
					part.MediaType = "audio/" + chat.Literal(r.String()).Text()
				}
			})
		}
	})
	var known bool
	if part.Kind, known = partKinds[kind.Text()]; !known {
		p.refuse(at, "Parts of type '"+clip(kind.Text())+"' are known to providers that have the Responses API themselves")
		return part
	}
	switch {
	case data != nil:
		part.SetData(data)
	case url != nil:
		part.SetURL(url)
	case part.Kind == chat.Image && part.FileID == nil:
		p.refuse(at+".image_url", "Missing required parameter: '"+at+".image_url'.")
	case part.Kind == chat.File && part.FileID == nil:
		p.refuse(at+".file_data", "Missing required parameter: '"+at+".file_data'.")
	case part.Kind == chat.Text && part.Text == nil:
		part.Text = chat.Literal(`""`)
	}
	return part
}
