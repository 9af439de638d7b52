package responses

import (
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// optional lists the tools that run at OpenAI and that a model can do without. Their types may
// end with a date. Coding agents send them with every call.
var optional = []string{"web_search", "web_search_preview", "image_generation"}

func isOptional(kind string) bool {
	for _, name := range optional {
		if rest, ok := strings.CutPrefix(kind, name); ok && (rest == "" || rest[0] == '_' && strings.Trim(rest, "_0123456789") == "") {
			return true
		}
	}
	return false
}

// toolSearch is the function that stands for the tool with which a model finds further tools, if
// the caller runs it.
const toolSearch = `"tool_search"`

const maxNamespace = 256

// tool reads a tool, whose fields are not nested in a member function, or a namespace of tools.
func (p *parser) tool(to *[]chat.Tool, at string, namespace chat.Literal) {
	r := p.r
	var t chat.Tool
	var kind, execution, syntax, grammar chat.Literal
	var tools chat.Raw
	start := r.Peek()
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			kind = r.String()
		case "tools":
			tools = r.Value()
		case "execution":
			execution = r.String()
		case "format":
			r.Object(func(key jsonscan.Key) {
				switch {
				case key.Is("syntax"):
					syntax = r.String()
				case key.Is("definition"):
					grammar = r.String()
				}
			})
		default:
			t.Member(r, key, "parameters")
		}
	})
	switch {
	case kind.Is("namespace") && namespace == nil && !t.Name.Empty():
		if len(t.Name) > maxNamespace { // each of its tools has it in its name
			p.refuse(at+".name", "Invalid '"+at+".name': expected a name of at most "+strconv.Itoa(maxNamespace)+" bytes")
			return
		}
		p.inside(tools, at+".tools", func(at string) { p.tool(to, at, t.Name) })
		return
	case isOptional(kind.Text()) && namespace == nil:
		*to = append(*to, chat.Tool{Other: r.Since(start), Optional: true})
		return
	case kind.Is("tool_search") && namespace == nil:
		if execution.Is("client") { // otherwise OpenAI runs it, over tools that are all sent here
			t.Name, t.Form.Search = chat.Literal(toolSearch), true
			*to = append(*to, t)
		}
		return
	case kind.Is("custom"):
		t.SetCustom(syntax, grammar)
	case !kind.Is("function"):
		p.refuse(at, "Tools of type '"+clip(kind.Text())+"' run at providers that have the Responses API themselves; this one takes tools of type 'function', 'custom' and 'namespace'")
	}
	if t.Name.Empty() {
		p.refuse(at+".name", "Missing required parameter: '"+at+".name'.")
	}
	if namespace != nil {
		t.Form.Namespace, t.Form.Name = namespace, t.Name
		t.Name = chat.Qualified(namespace, t.Name)
	}
	*to = append(*to, t)
}

// inside visits the elements of an array that was read before. at is its position.
func (p *parser) inside(array chat.Raw, at string, visit func(at string)) {
	outer := p.r
	p.r = outer.Within(array)
	i := 0
	p.r.Array(func() {
		visit(at + "[" + strconv.Itoa(i) + "]")
		i++
	})
	p.r = outer
}

// addTools reads the tools that an item adds to those of the request, and returns their names.
func (p *parser) addTools(tools chat.Raw, at string) (names []chat.Literal) {
	before := len(p.added)
	p.inside(tools, at, func(at string) { p.tool(&p.added, at, nil) })
	for _, t := range p.added[before:] {
		if t.Other == nil {
			names = append(names, t.Name)
		}
	}
	return names
}

// distinct returns the first of all tools that have the same name.
func distinct(tools []chat.Tool) []chat.Tool {
	seen := make(map[string]bool, len(tools))
	kept := tools[:0]
	for _, t := range tools {
		name := string(t.Name)
		if t.Other == nil && seen[name] {
			continue
		}
		seen[name] = true
		kept = append(kept, t)
	}
	return kept
}

var toolModes = map[string]chat.ToolMode{"auto": chat.Auto, "none": chat.None, "required": chat.Required}

func (p *parser) toolChoice() {
	r := p.r
	if r.Kind() == jsonscan.String {
		p.out.ToolChoice.Mode = toolModes[chat.Literal(r.String()).Text()]
		return
	}
	var kind, name, namespace chat.Literal
	var allowed chat.ToolChoice
	if !r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = r.String()
		case key.Is("name"):
			name = r.String()
		case key.Is("namespace"):
			namespace = r.String()
		default:
			allowed.ReadAllowed(r, key)
		}
	}) {
		return
	}
	if kind.Is("allowed_tools") && allowed.Allowed != nil {
		p.out.ToolChoice = allowed
		return
	}
	if !kind.Is("function") && !kind.Is("custom") || name.Empty() {
		p.refuse("tool_choice", "This provider takes a tool_choice of 'none', 'auto', 'required' or one function by its name, not of type '"+clip(kind.Text())+"'")
	}
	p.out.ToolChoice = chat.ToolChoice{Mode: chat.Named, Name: chat.Qualified(namespace, name)}
}
