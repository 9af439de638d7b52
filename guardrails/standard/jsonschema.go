package standard

import (
	"context"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/jsregexp"
)

var jsonSchema = guardrails.Kind{
	ID: "default.jsonSchema", Doc: "some JSON in the text is valid according to a JSON Schema, draft 2020-12",
	Parameters: []guardrails.Parameter{{Name: "schema", Type: guardrails.Object, Required: true, Doc: "the schema"}, not},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		schema, err := compileSchema(string(p.Raw("schema")))
		if err != nil {
			return nil, &guardrails.ParameterError{Name: "schema", Message: err.Error()}
		}
		return &schemed{schema: schema, not: p.Boolean("not")}, nil
	},
}

// compileSchema compiles a schema, which may refer to nothing outside of itself.
func compileSchema(text string) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, errors.New("expected a JSON Schema")
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) {
		re, err := jsregexp.Compile(pattern, "u")
		if err != nil {
			return nil, err
		}
		return schemaPattern{re, pattern}, nil
	})
	const name = "gw:schema"
	if err := c.AddResource(name, doc); err != nil {
		return nil, errors.New("expected a JSON Schema")
	}
	schema, err := c.Compile(name)
	if err != nil {
		return nil, errors.New("expected a JSON Schema that is valid and refers to nothing outside of itself")
	}
	return schema, nil
}

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("not loaded") }

// A schemaPattern is a regular expression of a schema. A search that takes too long is not a match.
type schemaPattern struct {
	re      *jsregexp.Regexp
	pattern string
}

func (p schemaPattern) MatchString(s string) bool {
	found, err := p.re.Match(s)
	return found && err == nil
}

func (p schemaPattern) String() string { return p.pattern }

type schemed struct {
	schema *jsonschema.Schema
	not    bool
}

func (c *schemed) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	d := data{"textExcerpt": guardrails.Excerpt(text), "not": c.not}
	values := jsonValues(text)
	if len(values) == 0 {
		d["explanation"] = "The text has no JSON."
		return guardrails.Result{Data: d}, nil
	}
	var first error
	for _, v := range values {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(v))
		if err == nil {
			err = c.schema.Validate(value)
		}
		if err == nil {
			return judged(true, c.not, "JSON that is valid according to the schema", d), nil
		}
		if first == nil {
			first = err
		}
	}
	if invalid := new(jsonschema.ValidationError); errors.As(first, &invalid) {
		d["validationErrors"] = faultsOf(invalid, nil)
	}
	return judged(false, c.not, "JSON that is valid according to the schema", d), nil
}

// faultsOf lists where a value does not follow its schema.
func faultsOf(e *jsonschema.ValidationError, list []string) []string {
	const most = 20
	if len(list) >= most {
		return list
	}
	if len(e.Causes) == 0 {
		return append(list, guardrails.Excerpt("/"+strings.Join(e.InstanceLocation, "/")+": "+strings.Join(e.ErrorKind.KeywordPath(), "/")))
	}
	for _, cause := range e.Causes {
		list = faultsOf(cause, list)
	}
	return list
}
