package standard

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

var addPrefix = guardrails.Kind{
	ID: "default.addPrefix", Doc: "always, after a text was put before the first message of a role, or before a prompt",
	Phases: guardrails.Calls,
	Parameters: []guardrails.Parameter{
		{Name: "prefix", Required: true, Doc: "the text"},
		{Name: "applyToRole", OneOf: []string{"user", "system", "assistant"}, Default: `"user"`, Doc: "whose message"},
		{Name: "addToExisting", Type: guardrails.Boolean, Default: "true", Doc: "false: a message of its own is put before the role's first"},
		{Name: "onlyIfEmpty", Type: guardrails.Boolean, Doc: "only if the message has no text yet"},
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &prefixing{prefix: p.Text("prefix"), role: p.Text("applyToRole"), add: p.Boolean("addToExisting"), empty: p.Boolean("onlyIfEmpty")}, nil
	},
}

type prefixing struct {
	prefix, role string
	add, empty   bool
}

var errNoMessages = errors.New("the body has neither messages nor a prompt that a text could be put before")

func (c *prefixing) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	if s.Phase != guardrails.Input {
		return guardrails.Result{}, errors.New("only calls can have a prefix, not answers")
	}
	body, err := c.apply(s)
	if err != nil {
		return guardrails.Result{}, err
	}
	explanation := "The prefix was added."
	if body == nil {
		explanation = "The message has a text already, so that nothing was added."
	}
	return guardrails.Result{Verdict: true, Body: body, Data: data{"prefix": c.prefix, "applyToRole": c.role, "explanation": explanation}}, nil
}

// apply returns the body with the prefix; nil: it stays as it is.
func (c *prefixing) apply(s *guardrails.Subject) ([]byte, error) {
	body := s.Request
	switch {
	case c.role == "system" && s.Type == "messages":
		return c.put(body, "system", gjson.GetBytes(body, "system"))
	case gjson.GetBytes(body, "messages").IsArray():
		return c.among(body, "messages")
	case gjson.GetBytes(body, "input").IsArray():
		return c.among(body, "input")
	}
	for _, name := range []string{"prompt", "input"} {
		if prompt := gjson.GetBytes(body, name); prompt.Type == gjson.String && c.role == "user" {
			return c.put(body, name, prompt)
		}
	}
	return nil, errNoMessages
}

// among puts the prefix into a list of messages.
func (c *prefixing) among(body []byte, name string) ([]byte, error) {
	list := gjson.GetBytes(body, name)
	at, has := 0, false
	var first gjson.Result // of the role
	for i, m := range guardrails.Elements(list) {
		if at = i + 1; m.Get("role").Str == c.role {
			at, has, first = i, true, m
			break
		}
	}
	if !has && c.role == "system" {
		at = 0
	}
	if has && c.add {
		path := name + "." + strconv.Itoa(at) + ".content"
		return c.put(body, path, gjson.GetBytes(body, path))
	}
	if has && c.empty && textOf(first.Get("content")) != "" {
		return nil, nil
	}
	var b jsonscan.Builder
	b.Open('[')
	put := func() {
		b.Open('{')
		b.Key("role").Text(c.role)
		b.Key("content").Text(c.prefix)
		b.Close('}')
	}
	n := 0
	for i, m := range guardrails.Elements(list) {
		if n++; i == at {
			put()
		}
		b.Raw([]byte(m.Raw))
	}
	if at >= n {
		put()
	}
	b.Close(']')
	return sjson.SetRawBytes(body, name, b)
}

// put puts the prefix before a text, or before the first text of a list of parts.
func (c *prefixing) put(body []byte, path string, content gjson.Result) ([]byte, error) {
	if c.empty && textOf(content) != "" {
		return nil, nil
	}
	if !content.IsArray() {
		return sjson.SetBytes(body, path, c.prefix+content.Str)
	}
	for i, part := range guardrails.Elements(content) {
		if text := part.Get("text"); text.Type == gjson.String {
			return sjson.SetBytes(body, path+"."+strconv.Itoa(i)+".text", c.prefix+text.Str)
		}
	}
	part, err := json.Marshal(map[string]string{"type": "text", "text": c.prefix})
	if err != nil {
		return nil, err
	}
	return sjson.SetRawBytes(body, path+".-1", part)
}

func textOf(content gjson.Result) string {
	if content.Type == gjson.String {
		return content.Str
	}
	var b strings.Builder
	for _, part := range guardrails.Elements(content) {
		b.WriteString(part.Get("text").Str)
	}
	return b.String()
}

// Transforms says that the check changes what it judges.
func (*prefixing) Transforms() {}
