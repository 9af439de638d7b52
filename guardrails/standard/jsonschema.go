package standard

import (
	"context"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/caddy-gw/gateway/guardrails"
)

var jsonSchema = guardrails.Kind{
	ID: "default.jsonSchema", Doc: "some JSON in the text is valid according to a JSON Schema, draft 2020-12",
	Phases:     guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{{Name: "schema", Type: guardrails.Object, Required: true, Doc: "the schema"}, not},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		c := &schemed{text: string(p.Raw("schema")), not: p.Boolean("not"), idle: make(chan *boundedSchema, maxIdleSchemas)}
		schema, err := compileSchema(c.text)
		if err != nil {
			return nil, &guardrails.ParameterError{Name: "schema", Message: err.Error()}
		}
		c.size = schema.size
		c.idle <- schema
		return c, nil
	},
}

// maxIdleSchemas is how many copies of a compiled schema wait for the next text: each is used by
// one goroutine at a time.
const maxIdleSchemas = 8

type schemed struct {
	text string
	not  bool
	size int // of the patterns
	idle chan *boundedSchema
}

// Size is that of the patterns of the schema.
func (c *schemed) Size() int { return c.size }

func (c *schemed) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	d := data{"textExcerpt": guardrails.Excerpt(text), "not": c.not}
	schema, err := c.acquire()
	if err != nil {
		return guardrails.Result{}, err
	}
	defer c.release(schema)
	schema.begin(ctx, text)
	const yes, no = "The text has JSON that is valid according to the schema.", "The text has no JSON that is valid according to the schema."
	found := false
	var first, unread error
	err = eachJSON(ctx, text, c.not, func(v string) error {
		invalid, err := schema.validate(v)
		switch {
		case errors.Is(err, errHugeNumber): // others may decide
			unread = err
		case err != nil:
			return err
		case invalid == nil:
			found = true
			return errEnough
		case first == nil:
			first = invalid
		}
		return ctx.Err()
	})
	switch {
	case found:
		return judged(true, c.not, yes, no, d), nil
	case err != nil:
		return guardrails.Result{}, err
	case unread != nil:
		return guardrails.Result{}, unread
	case first == nil:
		d["explanation"] = "The text has no JSON."
		return guardrails.Result{Data: d}, nil
	}
	if invalid := new(jsonschema.ValidationError); errors.As(first, &invalid) {
		d["validationErrors"] = faultsOf(invalid, nil)
	}
	return judged(false, c.not, yes, no, d), nil
}

// acquire returns a compiled schema that is not in use.
func (c *schemed) acquire() (*boundedSchema, error) {
	select {
	case schema := <-c.idle:
		return schema, nil
	default:
		return compileSchema(c.text)
	}
}

func (c *schemed) release(schema *boundedSchema) {
	select {
	case c.idle <- schema:
	default:
	}
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
