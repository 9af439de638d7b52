package messages

import (
	"slices"
	"strconv"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// ClosedSchema converts a JSON schema to the form that the API requires for structured
// outputs, as Anthropic's client libraries do: every object is closed, and unsupported
// keywords, such as bounds, are moved to the description. A schema without a type or a
// union stays unchanged, and the API reports what is wrong with it.
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

// kept lists the keywords that are supported as they are.
var kept = []string{"$ref", "enum", "const", "default", "title", "required"}

// silent lists keywords that are dropped, because they have no meaning for a model or are
// set anyway.
var silent = []string{"additionalProperties", "$schema", "$id", "$comment"}

// stringFormats lists the supported formats of strings.
var stringFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}

// schema copies one schema. Values that are not a schema are copied unchanged.
func (c *closer) schema() {
	r := c.r
	if r.Kind() != jsonscan.Object {
		c.out.Raw(r.Raw())
		return
	}
	var description chat.Literal
	var beyond []byte // the unsupported keywords, as text
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

// supported reports whether a keyword is supported with the given value.
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
