package chat

import "github.com/caddy-gw/gateway/internal/jsonscan"

// ReadAllowed reads the tools and the mode of a tool_choice of type allowed_tools: Chat
// Completions has them below allowed_tools, Responses beside the type.
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
