package echo

import (
	"strings"

	"github.com/tidwall/gjson"
)

// answerChat answers with the text of the last user message, or of the tool message at
// the end of the request. If the request ends with a user message and offers a function
// tool, the answer is a call of that function (see callOf).
func answerChat(body gjson.Result, at stamp) (answer, error) {
	g := generation{
		options: defaultOptions(),
		id:      "chatcmpl-echo-" + at.nonce,
		created: at.created,
		object:  "chat.completion",
		chunk:   "chat.completion.chunk",
		choice:  message{},
	}
	var messages, tools, toolChoice gjson.Result
	err := eachMember(body, func(name string, v gjson.Result) error {
		switch name {
		case "messages":
			messages = v
		case "tools":
			tools = v
		case "tool_choice":
			toolChoice = v
		default:
			return g.set(name, v)
		}
		return nil
	})
	if err != nil {
		return answer{}, err
	}

	history, err := read(messages)
	if err != nil {
		return answer{}, err
	}
	g.promptTokens = history.tokens
	if err := g.echo(history.answered()); err != nil {
		return answer{}, err
	}
	if history.byUser() {
		name, err := chooseTool(tools, toolChoice, "function.name")
		if err != nil {
			return answer{}, err
		}
		if name != "" {
			g.call(name, at.nonce)
		}
	}
	return g.answer(), nil
}

// A conversation is what an answer needs of the messages of a request.
type conversation struct {
	tokens         int    // of all texts
	role           string // of the last message
	lastUser, last counted
}

func (c *conversation) add(role, text string) {
	c.role, c.last = role, count(text)
	c.tokens += c.last.tokens
	if role == "user" {
		c.lastUser = c.last
	}
}

// byUser reports whether the last message is from the user.
func (c *conversation) byUser() bool { return c.role == "user" }

// answered is the text to answer with.
func (c *conversation) answered() counted {
	if c.role == "tool" || c.role == "function" {
		return c.last
	}
	return c.lastUser
}

func read(messages gjson.Result) (history conversation, err error) {
	err = errMessages
	if messages.IsArray() {
		messages.ForEach(func(_, m gjson.Result) bool {
			var role, text string
			if role, text, err = readMessage(m); err == nil {
				history.add(role, text)
			}
			return err == nil
		})
	}
	return history, err
}

var errMessages = badRequest("messages must be an array of at least one object with a role")

func readMessage(m gjson.Result) (role, text string, err error) {
	if !m.IsObject() {
		return "", "", errMessages
	}
	var content gjson.Result
	err = eachMember(m, func(name string, v gjson.Result) error {
		switch name {
		case "role":
			return setString(&role, "a message's role", v)
		case "content":
			content = v
		}
		return nil
	})
	if err == nil && role == "" {
		err = errMessages
	}
	if err == nil {
		text, err = contentText(content)
	}
	return role, text, err
}

// contentText returns the text of a message's content: a string, or the text parts of
// an array joined by line feeds. Missing content is an empty text.
func contentText(content gjson.Result) (string, error) {
	switch {
	case content.Type == gjson.String:
		return content.Str, nil
	case !content.Exists():
		return "", nil
	case !content.IsArray():
		return "", badRequest("a message's content must be a string or an array of parts")
	}
	var texts []string
	content.ForEach(func(_, part gjson.Result) bool {
		switch part.Get("type").Str {
		case "text", "input_text", "output_text":
			texts = append(texts, part.Get("text").Str)
		}
		return true
	})
	return strings.Join(texts, "\n"), nil
}

// message is a choice of a chat completion with text.
type message struct{}

func (message) complete(b []byte, _ int, text string) []byte {
	b = append(b, `"message":{"role":"assistant","content":`...)
	b = appendString(b, text)
	return append(b, `,"refusal":null}`...)
}

func (message) first(int) string {
	return `"delta":{"role":"assistant","content":"","refusal":null}`
}

func (message) delta(b []byte, text string) []byte {
	b = append(b, `"delta":{"content":`...)
	return append(appendString(b, text), '}')
}

func (message) last() string { return `"delta":{}` }
