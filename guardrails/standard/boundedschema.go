package standard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/jsregexp"
)

const (
	maxSchemaSteps = 1_000_000 // for the values of a text: about a second at worst
	maxSchemaJSON  = 64 << 20  // bytes of the values of a text, which may be in each other
)

// A boundedSchema is a compiled JSON Schema whose validations end: schemas that refer to themselves
// twice may need time that is exponential in the depth of a value. It is used by one goroutine at a
// time.
type boundedSchema struct {
	schema  *jsonschema.Schema
	ctx     context.Context
	size    int           // of all patterns
	calls   uint          // of the counted formats
	steps   int           // that are left
	depth   int           // of the value that is compared
	bytes   int           // of JSON that are left
	pattern time.Duration // that is left
	err     error         // why the validation was given up
}

// Why a validation is given up.
var (
	errSchemaSteps   = guardrails.Unreadable("the JSON takes too many steps to be compared with the schema")
	errHugeNumber    = guardrails.Unreadable("the JSON has a number that is too long to be compared with the schema")
	errSchemaPattern = guardrails.Unreadable("the patterns of the schema take too long in this JSON")
	errNoJSON        = guardrails.Unreadable("the JSON cannot be compared with the schema")
)

// compileSchema compiles a schema, which may refer to nothing outside of itself.
func compileSchema(text string) (*boundedSchema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, errors.New("expected a JSON Schema")
	}
	b := new(boundedSchema)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) {
		if b.size > jsregexp.MaxSize {
			return nil, errTooManyPatterns
		}
		re, err := jsregexp.Compile(pattern, "u")
		if err != nil {
			return nil, err
		}
		b.size += re.Size()
		return schemaPattern{b, re, pattern}, nil
	})
	const name = "gw:schema"
	if err := c.AddResource(name, doc); err != nil {
		return nil, errors.New("expected a JSON Schema")
	}
	b.schema, err = c.Compile(name)
	switch {
	case b.size > jsregexp.MaxSize:
		return nil, errTooManyPatterns
	case err != nil:
		return nil, errors.New("expected a JSON Schema that is valid and refers to nothing outside of itself")
	}
	return b, b.count(b.schema, name, make(map[*jsonschema.Schema]bool))
}

var errTooManyPatterns = fmt.Errorf("expected patterns of at most %d characters together once their repetitions are written out", jsregexp.MaxSize)

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("not loaded") }

// count has a schema, and all that it refers to, take a step for each value that is compared with
// it, or more if the value or the schema is large. Formats, which are the first of what is compared
// that may fail, are where steps are counted.
func (b *boundedSchema) count(s *jsonschema.Schema, name string, done map[*jsonschema.Schema]bool) error {
	switch {
	case s == nil || done[s]:
		return nil
	case !strings.HasPrefix(s.Location, name):
		return errors.New("expected a JSON Schema that refers to nothing outside of itself")
	case s.DynamicRef != nil || s.RecursiveRef != nil:
		return errors.New("expected a JSON Schema without $dynamicRef and $recursiveRef")
	}
	done[s] = true
	width, each := 1, 1+len(s.PatternProperties) // of the schema itself, and for each value in the value
	for _, sub := range subschemas(s) {
		width++
		if sub.Enum != nil {
			each += len(sub.Enum.Values)
		}
		if err := b.count(sub, name, done); err != nil {
			return err
		}
	}
	validate := func(any) error { return nil }
	format := &jsonschema.Format{}
	if s.Format != nil {
		*format = *s.Format
		validate = s.Format.Validate
	}
	format.Validate = func(v any) error {
		size := sizeOf(v)
		if s.UniqueItems {
			size = valuesIn(v, b.steps) // all of them are hashed
		}
		// What does not follow the schema is described with its path in the value.
		if b.steps -= width + each*size + b.depth/8; b.steps < 0 && b.err == nil {
			b.err = errSchemaSteps
		}
		if b.calls++; b.calls%64 == 0 && b.err == nil {
			b.err = b.ctx.Err()
		}
		if b.err != nil { // nothing below is compared
			return b.err
		}
		return validate(v)
	}
	s.Format = format
	return nil
}

// sizeOf is how many values a value has, or how long a text is, or a number that is written out.
func sizeOf(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	case string:
		return len(v) / 64
	case json.Number:
		n, _ := digitsIn(v)
		return n / 64
	}
	return 0
}

// valuesIn is how many values a value has, and those in them, as far as that is at most a bound.
func valuesIn(v any, most int) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			if n += 1 + valuesIn(inner, most-n); n > most {
				break
			}
		}
	case []any:
		for _, inner := range v {
			if n += 1 + valuesIn(inner, most-n); n > most {
				break
			}
		}
	}
	return n
}

// depthOf is how many values are in each other.
func depthOf(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			n = max(n, depthOf(inner))
		}
	case []any:
		for _, inner := range v {
			n = max(n, depthOf(inner))
		}
	}
	return n + 1
}

// maxNumber is how many digits a number may have before it is compared: its exponent is written out.
const maxNumber = 10_000

// hasHugeNumber reports whether there is a number among values that is too long to be compared.
func hasHugeNumber(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			if hasHugeNumber(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasHugeNumber)
	case json.Number:
		n, ok := digitsIn(v)
		return !ok || n > maxNumber
	}
	return false
}

// digitsIn is about how many digits a number has once its exponent is written out.
func digitsIn(v json.Number) (n int, ok bool) {
	_, exponent, _ := strings.Cut(strings.ToLower(string(v)), "e")
	n, err := strconv.Atoi(cmp.Or(exponent, "0"))
	return max(n, -n, len(v)), err == nil
}

// subschemas are the schemas that a schema refers to.
func subschemas(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{
		s.Ref, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema,
	}
	all = append(append(append(append(all, s.AllOf...), s.AnyOf...), s.OneOf...), s.PrefixItems...)
	for _, sub := range s.Properties {
		all = append(all, sub)
	}
	for _, sub := range s.PatternProperties {
		all = append(all, sub)
	}
	for _, sub := range s.DependentSchemas {
		all = append(all, sub)
	}
	any := []any{s.AdditionalProperties, s.AdditionalItems, s.Items}
	for _, sub := range s.Dependencies {
		any = append(any, sub)
	}
	for _, sub := range any {
		switch sub := sub.(type) {
		case *jsonschema.Schema:
			all = append(all, sub)
		case []*jsonschema.Schema:
			all = append(all, sub...)
		}
	}
	kept := all[:0]
	for _, sub := range all {
		if sub != nil {
			kept = append(kept, sub)
		}
	}
	return kept
}

// begin has the values of another text validated, within bounds for all of them.
func (b *boundedSchema) begin(ctx context.Context, text string) {
	b.ctx, b.calls, b.err = ctx, 0, nil
	b.steps, b.bytes, b.pattern = maxSchemaSteps, maxSchemaJSON, jsregexp.Allowed(text)
}

// validate returns why a JSON value does not follow the schema, or nil; the error says that this is
// not known.
func (b *boundedSchema) validate(text string) (invalid, err error) {
	if b.bytes -= len(text); b.bytes < 0 {
		return nil, errSchemaSteps
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil { // it is JSON
		return nil, errNoJSON
	}
	if hasHugeNumber(value) {
		return nil, errHugeNumber
	}
	b.depth = depthOf(value)
	invalid = b.schema.Validate(value)
	return invalid, b.err
}

// A schemaPattern is a regular expression of a schema.
type schemaPattern struct {
	of      *boundedSchema
	re      *jsregexp.Regexp
	pattern string
}

func (p schemaPattern) MatchString(s string) bool {
	b := p.of
	if b.err != nil {
		return false
	}
	begun := time.Now()
	found, err := p.re.Match(b.ctx, s)
	if b.pattern -= time.Since(begun); err != nil || b.pattern < 0 {
		b.err = errSchemaPattern
	}
	return found
}

func (p schemaPattern) String() string { return p.pattern }

// Interface guards
var _ guardrails.Check = (*schemed)(nil)
