package guardrails

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// A Parameter is a row of a check's table of parameters.
type Parameter struct {
	Name     string
	Type     Type
	Required bool
	Default  string   // as JSON; "": the zero value
	OneOf    []string // that a text, or each text of a list, may be; nil: any
	Min, Max float64  // of a number, if Max is not 0
	// Secret: a string that is a credential, or an object whose texts are. Nobody is shown them
	// once they are saved.
	Secret bool
	// Address: a string that is a URL. Nobody is shown the values of its query once they are saved,
	// since they may be credentials.
	Address bool
	// Members are those of an object, which then has no others; nil: it may have any.
	Members []Parameter
	Doc     string
}

// A Type is what a parameter may be.
type Type uint8

// The types of parameters.
const (
	Text    Type = iota // a string
	Texts               // a list of strings
	Integer             // a number without a fraction
	Number              // any number
	Boolean             // true or false
	Object              // an object
	Any                 // any JSON but null
)

var typeNames = [...]string{"a string", "a list of strings", "an integer", "a number", "true or false", "an object", "a value"}

func (t Type) String() string { return typeNames[t] }

const (
	maxParameters = 1 << 20 // bytes
	maxTexts      = 10_000  // elements of a list
)

// A ParameterError says which parameter is wrong.
type ParameterError struct {
	Name    string // "": all of them
	Message string // such as "expected an integer"
	Unknown bool   // the check has no such parameter
}

func (e *ParameterError) Error() string {
	if e.Name == "" {
		return "parameters: " + e.Message
	}
	return "parameters." + e.Name + ": " + e.Message
}

// common are parameters that every check may be given: they are read by what runs the check.
var common = []string{"id", "is_enabled", "name", "failOnError"}

// Parameters are the parameters of one check, valid according to its table.
type Parameters struct {
	raw map[string]json.RawMessage
}

// parse reads parameters. It returns all faults; those of unknown names do not keep a check
// from being made.
func parse(of string, rows []Parameter, raw json.RawMessage) (*Parameters, []*ParameterError) {
	p := &Parameters{raw: make(map[string]json.RawMessage, len(rows))}
	var faults []*ParameterError
	wrong := func(name, format string, args ...any) {
		faults = append(faults, &ParameterError{Name: name, Message: fmt.Sprintf(format, args...)})
	}
	if len(raw) > maxParameters {
		wrong("", "expected at most %d KiB", maxParameters>>10)
		return nil, faults
	}
	if len(raw) > 0 && string(raw) != "null" {
		object := gjson.ParseBytes(raw)
		if !gjson.ValidBytes(raw) || !object.IsObject() {
			wrong("", "expected an object")
			return nil, faults
		}
		object.ForEach(func(key, v gjson.Result) bool {
			name, value := key.Str, json.RawMessage(v.Raw)
			row := parameter(rows, name)
			switch {
			case row == nil:
				if !slices.Contains(common, name) {
					faults = append(faults, &ParameterError{Name: name, Message: "unknown parameter of " + of, Unknown: true})
				}
			case v.Type == gjson.Null: // the same as not given
			default:
				if why := row.check(v); why != "" {
					wrong(name, "%s", why)
				} else if row.Members != nil {
					_, inside := parse(name, row.Members, value)
					for _, fault := range inside {
						faults = append(faults, &ParameterError{Name: strings.TrimSuffix(name+"."+fault.Name, "."), Message: fault.Message, Unknown: fault.Unknown})
					}
				}
				p.raw[row.Name] = value
			}
			return true
		})
	}
	for i := range rows {
		row := &rows[i]
		switch _, given := p.raw[row.Name]; {
		case given:
		case row.Required:
			wrong(row.Name, "required: %s", row.Type)
		case row.Default != "":
			p.raw[row.Name] = json.RawMessage(row.Default)
		}
	}
	return p, faults
}

func parameter(rows []Parameter, name string) *Parameter {
	for i := range rows {
		if rows[i].Name == name {
			return &rows[i]
		}
	}
	return nil
}

// check returns what is wrong with a value, or "".
func (p *Parameter) check(value gjson.Result) string {
	v := value.Raw
	switch p.Type {
	case Text:
		if v[0] != '"' {
			return "expected a string"
		}
		return p.checkText(value.Str)
	case Texts:
		var texts []string
		if v[0] != '[' || json.Unmarshal([]byte(v), &texts) != nil {
			return "expected a list of strings"
		}
		if len(texts) > maxTexts || p.Required && len(texts) == 0 {
			return fmt.Sprintf("expected 1 to %d strings", maxTexts)
		}
		for _, t := range texts {
			if why := p.checkText(t); why != "" {
				return why
			}
		}
	case Integer, Number:
		n, err := strconv.ParseFloat(v, 64)
		switch {
		case err != nil, p.Type == Integer && (n != math.Trunc(n) || math.Abs(n) > 1<<53):
			return "expected " + p.Type.String()
		case p.Max != 0 && (n < p.Min || n > p.Max):
			return fmt.Sprintf("expected a number from %v to %v", p.Min, p.Max)
		}
	case Boolean:
		if v[0] != 't' && v[0] != 'f' {
			return "expected true or false"
		}
	case Object:
		if v[0] != '{' {
			return "expected an object"
		}
	case Any:
	}
	return ""
}

func (p *Parameter) checkText(s string) string {
	switch {
	case p.OneOf != nil && !slices.Contains(p.OneOf, s):
		return "expected one of " + strings.Join(p.OneOf, ", ")
	case p.Required && s == "":
		return "expected a string that is not empty"
	}
	return ""
}

// Given reports whether a parameter was given, or has a default.
func (p *Parameters) Given(name string) bool { return p.raw[name] != nil }

// Raw returns a parameter's JSON, or nil.
func (p *Parameters) Raw(name string) json.RawMessage { return p.raw[name] }

// Text returns a parameter of type Text.
func (p *Parameters) Text(name string) string {
	return gjson.ParseBytes(p.raw[name]).Str
}

// Texts returns a parameter of type Texts.
func (p *Parameters) Texts(name string) (texts []string) {
	_ = json.Unmarshal(p.raw[name], &texts) // it was checked; nothing is nil
	return texts
}

// Number returns a parameter of type Number or Integer.
func (p *Parameters) Number(name string) float64 {
	n, _ := strconv.ParseFloat(string(p.raw[name]), 64) // it was checked; nothing is 0
	return n
}

// Integer returns a parameter of type Integer.
func (p *Parameters) Integer(name string) int { return int(p.Number(name)) }

// Boolean returns a parameter of type Boolean.
func (p *Parameters) Boolean(name string) bool { return string(p.raw[name]) == "true" }
