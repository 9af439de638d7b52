package responses

import (
	"slices"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// PassMembers are the members without which Pass changes nothing.
var PassMembers = []string{"encrypted_content", "extra_content", "tools", "tool_choice", "arguments", "user", "image_url", "file_data"}

// Pass returns the body of a call that creates a response, for a provider that has this API,
// without what that refuses: what the gateway added to earlier responses of other providers
// (sealed reasoning and signatures of calls), and what is beyond its limits. It returns nil if
// nothing has to be changed. names has the original names of renamed tools, as
// [chat.Request.Arrange] returns them.
//
// Items stay in their order: the API takes results of calls anywhere behind them.
func Pass(body []byte, l chat.Limits) (out []byte, names map[string]chat.Literal) {
	p := &passing{limits: l, names: chat.Renames{Most: l.ToolName}}
	p.Start(body)
	p.Members(p.member)
	if p.Err() != nil { // the caller of the reader reports it
		return nil, nil
	}
	if out = p.Edited(); out != nil {
		body = out
	}
	switch {
	case p.choice && !p.tools:
		out = chat.WithoutMembers(body, []string{"tool_choice"})
	case p.allowed && l.NoAllowedTools:
		if edited := allowed(body); edited != nil {
			out = edited
		}
	}
	return out, p.names.Was
}

// passing is a body on its way through Pass.
type passing struct {
	chat.Patch
	limits chat.Limits
	names  chat.Renames

	tools   bool // there may be some, also by a stored prompt
	choice  bool // a tool_choice needs them
	allowed bool // it may be of type allowed_tools
}

func (p *passing) member(key jsonscan.Key) bool {
	switch string(key.Bytes()) {
	case "input":
		p.Elements(p.item)
	case "tools":
		p.tools = p.Elements(p.tool) > 0 || p.tools
	case "prompt":
		p.tools = p.tools || p.Kind() == jsonscan.Object
	case "tool_choice":
		p.toolChoice()
	case "user":
		p.User(p.limits)
	}
	return true
}

func (p *passing) toolChoice() {
	if p.Kind() == jsonscan.String {
		p.choice = chat.Literal(p.String()).Is("required")
		return
	}
	p.choice = p.Members(p.choiceMember)
	p.allowed = p.choice
}

// choiceMember reads a member of tool_choice, or of a tool that it allows.
func (p *passing) choiceMember(key jsonscan.Key) bool {
	switch {
	case key.Is("name"):
		p.Rename(&p.names)
	case key.Is("tools"):
		p.Elements(func() bool {
			p.Members(p.choiceMember)
			return true
		})
	}
	return true
}

// tool reads a tool, or a namespace of tools, whose own name is no tool's.
func (p *passing) tool() bool {
	start := p.Peek()
	p.Members(func(key jsonscan.Key) bool {
		switch {
		case key.Is("tools"):
			p.Elements(p.tool)
		case key.Is("name"):
			p.RenameOf(start, &p.names, "function", "custom")
		}
		return true
	})
	return true
}

// item reads an item of the input, and reports whether the provider takes it.
func (p *passing) item() bool {
	start := p.Peek()
	var kind chat.Literal
	sealed := false
	p.Members(func(key jsonscan.Key) bool {
		switch string(key.Bytes()) {
		case "type":
			kind = p.String()
		case "extra_content":
			return false
		case "encrypted_content":
			sealed = isSeal(p.String())
		case "name":
			p.RenameOf(start, &p.names, "function_call", "custom_tool_call")
		case "tools":
			p.tools = p.Elements(p.tool) > 0 || p.tools
		case "content", "output":
			if p.Kind() == jsonscan.Array {
				p.Elements(p.part)
			}
		}
		return true
	})
	return !sealed || !kind.Is("reasoning")
}

func (p *passing) part() bool {
	var d chat.Document
	p.Members(func(key jsonscan.Key) bool {
		if key.Is("image_url") {
			p.Image()
			return true
		}
		return d.Member(&p.Patch, key)
	})
	d.Name(&p.Patch)
	return true
}

// isSeal reports whether the encrypted_content of reasoning is one of the gateway's seals.
func isSeal(content chat.Literal) bool {
	inside := jsonscan.Inside(content)
	return slices.ContainsFunc(sealKinds[:], func(name string) bool { return name != "" && chat.Sealed(inside, name) })
}

// allowed keeps only the tools that the tool_choice of a body allows. It returns nil if it
// allows all.
func allowed(body []byte) []byte {
	var choice chat.ToolChoice
	r := jsonscan.Bounded(body)
	r.Object(func(key jsonscan.Key) {
		if key.Is("tool_choice") {
			r.Object(func(key jsonscan.Key) { choice.ReadAllowed(r, key) })
		}
	})
	if choice.Allowed == nil || r.Err() != nil { // with too many, the provider judges
		return nil
	}
	return choice.Restrict(body, func(raw []byte) chat.Tool {
		var t chat.Tool
		kind := chat.Literal(nil)
		r := jsonscan.NewReader(raw)
		r.Object(func(key jsonscan.Key) {
			switch {
			case key.Is("type"):
				kind = r.String()
			case key.Is("name"):
				t.Name = r.String()
			}
		})
		if !kind.Is("function") && !kind.Is("custom") {
			t.Other = raw
		}
		return t
	})
}
