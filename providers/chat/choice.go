package chat

import (
	"slices"
	"strconv"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// ReadAllowed reads the tools and the mode of a tool_choice of type allowed_tools: Chat
// Completions has them below allowed_tools, Responses next to the type.
func (c *ToolChoice) ReadAllowed(r *jsonscan.Reader, key jsonscan.Key) {
	switch {
	case key.Is("allowed_tools"):
		r.Object(func(key jsonscan.Key) { c.ReadAllowed(r, key) })
	case key.Is("mode"):
		c.Mode = toolModes[Literal(r.String()).Text()]
	case key.Is("tools"):
		c.Allowed = []Literal{}
		r.Array(func() { c.Allowed = append(c.Allowed, allowedTool(r)) })
	}
}

// allowedTool returns the name of a function, or the type of another tool.
func allowedTool(r *jsonscan.Reader) Literal {
	var kind, name, namespace Literal
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = r.String()
		case key.Is("name"):
			name = r.String()
		case key.Is("namespace"):
			namespace = r.String()
		case key.Is("function"), key.Is("custom"):
			r.Object(func(key jsonscan.Key) {
				if key.Is("name") {
					name = r.String()
				}
			})
		}
	})
	if name.Empty() {
		return kind
	}
	return Qualified(namespace, name)
}

// OwnTools replaces the tools of OpenAI that run at a provider by the provider's own ones,
// which own returns; nil: it has none, and the tool is left out. It returns the types of those
// that are. If the request has no other tools, its caller counts on them, and gets an error of
// type *Unsupported.
func (r *Request) OwnTools(own func(tool Raw) Raw) (left []string, err error) {
	optional := func(t Tool) bool { return t.Optional }
	first := slices.IndexFunc(r.Tools, optional)
	if first < 0 {
		return nil, nil
	}
	if !slices.ContainsFunc(r.Tools, func(t Tool) bool { return !t.Optional }) {
		return nil, &Unsupported{
			Param:   "tools[" + strconv.Itoa(first) + "]",
			Message: "Tools of type '" + r.Tools[first].Kind() + "' run at providers that have the Responses API themselves, or with functions at some others",
		}
	}
	kept := make([]Tool, 0, len(r.Tools))
	for _, t := range r.Tools {
		if t.Optional {
			kind := t.Kind()
			if t.Other = own(t.Other); t.Other == nil {
				left = append(left, kind)
				continue
			}
		}
		kept = append(kept, t)
	}
	r.Tools = kept
	return left, nil
}

// Kind returns the type of a tool that is not a function.
func (t Tool) Kind() (kind string) {
	r := jsonscan.NewReader(t.Other)
	r.Object(func(key jsonscan.Key) {
		if key.Is("type") {
			kind = Literal(r.String()).Text()
		}
	})
	return kind
}
