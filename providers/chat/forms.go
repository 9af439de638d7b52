package chat

import (
	"bytes"
	"slices"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Form is how a caller knows a tool that is a function to providers.
type Form struct {
	// Custom: it takes a free text, which is the argument input of the function.
	Custom bool
	// Search: it finds further tools, and the caller runs it.
	Search bool
	// Namespace is the group that the tool is in, and Name its name there. The function has both,
	// see [Qualified]. nil: it is in none.
	Namespace, Name Literal
}

// Forms are the forms of the tools that callers do not know as functions, by the name of the
// function; nil: there are none. They are valid longer than the request.
func (r *Request) Forms() (forms map[string]Form) {
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Form.Custom || t.Form.Search || t.Form.Namespace != nil {
			if forms == nil {
				forms = make(map[string]Form)
			}
			forms[t.Name.Text()] = Form{t.Form.Custom, t.Form.Search, bytes.Clone(t.Form.Namespace), bytes.Clone(t.Form.Name)}
		}
	}
	return forms
}

// Qualified is the name of the function for a tool in a namespace.
func Qualified(namespace, name Literal) Literal {
	if namespace.Empty() || name.Empty() {
		return name
	}
	inside := slices.Clone(jsonscan.Inside(namespace))
	if !bytes.HasSuffix(inside, []byte("__")) {
		inside = append(inside, "__"...)
	}
	return slices.Concat([]byte{'"'}, inside, jsonscan.Inside(name), []byte{'"'})
}

// freeParameters are those of the function that stands for a custom tool.
var freeParameters = Raw(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)

// SetCustom makes a tool the function that stands for a custom tool, whose input has to match a
// grammar; nil: any text will do.
func (t *Tool) SetCustom(syntax, grammar Literal) {
	t.Form.Custom, t.Parameters = true, freeParameters
	if !grammar.Empty() {
		text := t.Description.Text()
		if text != "" {
			text += "\n\n"
		}
		t.Description = Quote(text + "The input has to match this grammar (" + syntax.Text() + "):\n" + grammar.Text())
	}
}

// FreeArguments are the arguments of a call of a custom tool.
func FreeArguments(input Literal) Literal {
	if input == nil {
		input = Literal(`""`)
	}
	return Quote(`{"input":` + string(input) + "}")
}

// FreeInput is the input in the arguments of a call of a custom tool. Both stand as between the
// quotes of a JSON string. Arguments of another form are the input themselves.
func FreeInput(arguments []byte) []byte {
	text := Literal(slices.Concat([]byte{'"'}, arguments, []byte{'"'})).Text()
	r := jsonscan.NewReader([]byte(text))
	var input Literal
	r.Object(func(key jsonscan.Key) {
		if key.Is("input") {
			input = r.String()
		}
	})
	if r.Err() != nil || input == nil {
		return arguments
	}
	return jsonscan.Inside(input)
}
