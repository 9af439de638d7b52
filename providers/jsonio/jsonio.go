// Package jsonio reads and writes the JSON of dialects, in one pass and without decoding it into Go
// values. It is what the gateway's own dialects use, for those of others: docs/acme is an example.
package jsonio

import "github.com/caddy-gw/gateway/internal/jsonscan"

type (
	// A Builder appends JSON to bytes, and sets the commas.
	Builder = jsonscan.Builder
	// A Reader reads a body value by value, and stops at the first error.
	Reader = jsonscan.Reader
	// A Key is the name of a member of an object.
	Key = jsonscan.Key
	// A Kind is the kind of a value.
	Kind = jsonscan.Kind
	// A SyntaxError is where and why a body is no JSON.
	SyntaxError = jsonscan.SyntaxError
)

// The kinds of values. None means that no value starts there, or the end of the body.
const (
	None    = jsonscan.None
	Null    = jsonscan.Null
	Boolean = jsonscan.Boolean
	Number  = jsonscan.Number
	String  = jsonscan.String
	Array   = jsonscan.Array
	Object  = jsonscan.Object
)

// NewReader returns a reader of body, which is one value.
func NewReader(body []byte) *Reader { return jsonscan.NewReader(body) }

// AppendQuoted appends a string as JSON, with its quotes.
func AppendQuoted(dst []byte, s string) []byte { return jsonscan.AppendQuoted(dst, s) }

// Unquote returns the text of a string in JSON, which is valid.
func Unquote(literal []byte) string { return jsonscan.Unquote(literal) }
