package gemini

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// schema writes a JSON schema. The API has two members for it: one takes a subset of
// OpenAPI's schemas, which every version and model supports, and refuses everything else;
// the newer one takes JSON Schema with references and definitions. A schema that can be
// converted without loss becomes the first, any other is passed on as the second. So
// nothing has to be inlined, and nothing can recurse.
func (w *writer) schema(plain, full string, schema chat.Raw) {
	c := cleaner{r: jsonscan.NewReader(schema)}
	kind := c.object(true)
	switch {
	case c.beyond || plain == parameters && kind != "object":
		w.Key(full).Raw(schema)
	case !c.bare: // the subset has no objects without properties
		w.Key(plain).Raw(c.out)
	}
}

// The names of the members, for the schemas of functions and of answers.
const (
	parameters, parametersFull = "parameters", "parametersJsonSchema"
	response, responseFull     = "responseSchema", "responseJsonSchema"
)

// A cleaner copies a schema without members that are of no use to a model, and detects what
// the subset does not support.
type cleaner struct {
	r      *jsonscan.Reader
	out    jsonscan.Builder
	beyond bool // the schema is not in the subset
	bare   bool // it is an object without properties, and nothing else
}

// object copies one schema and returns its type.
func (c *cleaner) object(top bool) (kind string) {
	r := c.r
	var properties, items, union bool
	var format string
	c.out.Open('{')
	isObject := r.Object(func(key jsonscan.Key) {
		if c.beyond {
			return
		}
		switch name := string(key.Bytes()); name {
		case "type":
			word := chat.Literal(r.String())
			kind = word.Text()
			switch kind {
			case "string", "number", "integer", "boolean", "object", "array":
				c.out.Key(name).Raw(word)
			default: // a list of types, or null
				c.beyond = true
			}
		case "properties":
			if r.Kind() != jsonscan.Object {
				c.beyond = true
				return
			}
			start := len(c.out)
			c.out.Key(name).Open('{')
			r.Object(func(key jsonscan.Key) {
				if c.beyond {
					return
				}
				properties = true
				c.out.Raw(jsonscan.AppendQuoted(nil, key.Bytes()))
				c.out = append(c.out, ':')
				c.object(false)
			})
			c.out.Close('}')
			if !properties {
				c.out = c.out[:start]
			}
		case "items":
			items = true
			c.out.Key(name)
			c.object(false)
		case "anyOf":
			union = true
			c.out.Key(name).Open('[')
			c.beyond = !r.Array(func() {
				if !c.beyond {
					c.object(false)
				}
			}) || c.beyond
			c.out.Close(']')
		case "enum":
			c.enum()
		case "format":
			word := chat.Literal(r.String())
			format = word.Text()
			if word != nil {
				c.out.Key(name).Raw(word)
			}
		case "additionalProperties":
			// A boolean only says whether other properties are allowed; a schema is a
			// constraint.
			c.beyond = c.beyond || r.Kind() == jsonscan.Object
		case "$schema", "$id", "$comment":
		case "title", "description", "nullable", "default", "example", "required", "propertyOrdering",
			"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength", "minimum", "maximum", "pattern":
			c.out.Member(name, r.Value())
		default:
			c.beyond = true
		}
	})
	c.out.Close('}')
	switch {
	case top && isObject && string(c.out) == "{}":
		kind, c.bare = "object", true
	case !isObject, kind == "" && !union, format != "" && !formats[kind+" "+format]:
		c.beyond = true
	case kind == "object" && !properties && top:
		c.bare = true
	case kind == "object" && !properties, kind == "array" && !items:
		c.beyond = true
	}
	return kind
}

// formats lists the formats that the API supports, by type.
var formats = map[string]bool{
	"string enum": true, "string date-time": true, "integer int32": true, "integer int64": true, "number float": true, "number double": true,
}

// enum copies a list of values, which must be strings.
func (c *cleaner) enum() {
	r := c.r
	c.out.Key("enum").Open('[')
	ok := r.Array(func() {
		if s := chat.Literal(r.String()); !s.Empty() {
			c.out.Raw(s)
		} else {
			c.beyond = true
		}
	})
	c.out.Close(']')
	c.beyond = c.beyond || !ok
}
