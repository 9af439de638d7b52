package messages

import (
	"slices"
	"strconv"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers/chat"
)

// ClosedSchema is a JSON schema in the form that the API can hold a model to, as Anthropic's
// own client libraries write it: every object is closed, and what is not supported, such as
// bounds, becomes words in the description. A schema without a type or a union stays as it
// is: the API says what is wrong with it.
func ClosedSchema(schema chat.Raw) chat.Raw {
	r := jsonscan.NewReader(schema)
	c := closer{r: r}
	c.schema()
	if r.Err() != nil {
		return schema
	}
	return chat.Raw(c.out)
}

type closer struct {
	r   *jsonscan.Reader
	out jsonscan.Builder
}

// kept are the members of a schema that are supported as they stand.
var kept = []string{"$ref", "enum", "const", "default", "title", "required"}

// silent are those that say nothing to a model, or what is said anyway.
var silent = []string{"additionalProperties", "$schema", "$id", "$comment"}

// stringFormats are the formats of strings that are supported.
var stringFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}

// schema copies one schema; what is none is copied as it stands.
func (c *closer) schema() {
	r := c.r
	if r.Kind() != jsonscan.Object {
		c.out.Raw(r.Raw())
		return
	}
	var description chat.Literal
	var beyond []byte // members that are not supported, as words
	object, properties := false, false
	c.out.Open('{')
	r.Object(func(key jsonscan.Key) {
		switch name := key.String(); {
		case name == "type":
			v := r.Raw()
			object = object || slices.ContainsFunc(chat.Texts(jsonscan.NewReader(v)), func(t chat.Literal) bool { return t.Is("object") })
			c.out.Key(name).Raw(v)
		case name == "description":
			description = r.String()
		case slices.Contains(silent, name):
			r.Raw()
		case name == "properties":
			object, properties = true, true
			c.members(name)
		case name == "$defs", name == "definitions":
			c.members(name)
		case name == "items" && r.Kind() == jsonscan.Object:
			c.out.Key(name)
			c.schema()
		case name == "anyOf", name == "oneOf", name == "allOf":
			if name == "oneOf" {
				name = "anyOf"
			}
			c.out.Key(name).Open('[')
			r.Array(c.schema)
			c.out.Close(']')
		case slices.Contains(kept, name):
			c.out.Key(name).Raw(r.Raw())
		default:
			v := r.Raw()
			if supported(name, v) {
				c.out.Key(name).Raw(v)
				return
			}
			if beyond != nil {
				beyond = append(beyond, ", "...)
			}
			beyond = append(append(append(beyond, name...), ": "...), v...)
		}
	})
	if object && !properties {
		c.out.Key("properties").Raw([]byte("{}"))
	}
	if object {
		c.out.Key("additionalProperties").Bool(false)
	}
	switch text := description.Text(); {
	case beyond == nil && description != nil:
		c.out.Key("description").Raw(description)
	case beyond != nil:
		if text != "" {
			text += "\n\n"
		}
		c.out.Key("description").Text(text + "{" + string(beyond) + "}")
	}
	c.out.Close('}')
}

// members copies an object whose members are schemas.
func (c *closer) members(name string) {
	c.out.Key(name).Open('{')
	c.r.Object(func(key jsonscan.Key) {
		c.out.Raw(jsonscan.AppendQuoted(nil, key.Bytes()))
		c.out = append(c.out, ':')
		c.schema()
	})
	c.out.Close('}')
}

// supported reports whether a member is supported with its value.
func supported(name string, value []byte) bool {
	switch name {
	case "format":
		return slices.Contains(stringFormats, chat.Literal(value).Text())
	case "minItems":
		n, err := strconv.Atoi(string(value))
		return err == nil && n <= 1
	}
	return false
}
