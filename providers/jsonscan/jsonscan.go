// Package jsonscan reads JSON where it lies. It checks the whole of RFC 8259 in one
// pass over the bytes, decodes nothing, and lets a visitor descend into the objects
// and arrays that it wants to look at while the pass goes on:
//
//	s := jsonscan.Scanner(body)
//	err := s.Document(func(key jsonscan.Key, at int) (end int, err error) {
//		if key.Is("messages") && s.Kind(at) == jsonscan.Array {
//			return s.Array(at, 1, func(i, at int) (int, error) { … })
//		}
//		return s.Value(at, 1) // not looked at, but checked
//	})
//
// A method that reads takes the position where a value starts and the depth there,
// which is the number of objects and arrays around it, and returns the position
// after the value. A visitor is called with the start of a value and must return its
// end, which it has from one of those methods: what is skipped is checked too, and
// nothing is read twice.
//
// An error of a visitor ends the scan and is returned as it is; every other error is
// a *SyntaxError.
package jsonscan

import "fmt"

// MaxDepth bounds how deeply a body may nest, including where visitors descend.
const MaxDepth = 256

// A SyntaxError says where a body is not valid JSON.
type SyntaxError struct {
	Offset  int // number of bytes before the error
	What    string
	TooDeep bool // it may be JSON, but is nested more than MaxDepth deep
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.Offset) }

// A Kind is the kind of a value, according to its first byte.
type Kind uint8

// The kinds of values. None means that no value starts with the byte, or the end of the
// body.
const (
	None Kind = iota
	Null
	Boolean
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"nothing", "null", "boolean", "number", "string", "array", "object"}

func (k Kind) String() string { return kindNames[k] }

var kinds = func() (table [256]Kind) {
	table['n'], table['t'], table['f'] = Null, Boolean, Boolean
	table['"'], table['['], table['{'], table['-'] = String, Array, Object, Number
	for c := '0'; c <= '9'; c++ {
		table[c] = Number
	}
	return table
}()

// A Scanner is a body to read.
type Scanner []byte

// Kind returns the kind of the value at i.
func (s Scanner) Kind(i int) Kind { return kinds[s.at(i)] }

// Document checks that the body is one JSON object and nothing else, and calls visit
// for each of its members, in order. visit may be nil.
func (s Scanner) Document(visit func(key Key, at int) (end int, err error)) error {
	i := s.space(0)
	if s.at(i) != '{' {
		return s.errorAt(i, "expected a JSON object")
	}
	end, err := s.Object(i, 0, visit)
	if err != nil {
		return err
	}
	if end = s.space(end); end != len(s) {
		return s.errorAt(end, "unexpected data after the JSON object")
	}
	return nil
}

// A Member is one member of an object.
type Member struct {
	Key        Key
	Start, End int // the value, as body[Start:End]
}

// Members checks that body is one JSON object and nothing else, and calls visit for
// each of its own members, in order, after its value was read. visit may be nil.
func Members(body []byte, visit func(Member) error) error {
	s := Scanner(body)
	if visit == nil {
		return s.Document(nil)
	}
	return s.Document(func(key Key, at int) (int, error) {
		end, err := s.Value(at, 1)
		if err == nil {
			err = visit(Member{key, at, end})
		}
		return end, err
	})
}

func (s Scanner) errorAt(i int, what string) error { return &SyntaxError{Offset: i, What: what} }

// at returns the byte at i, or 0, which is never valid, past the end.
func (s Scanner) at(i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func (s Scanner) space(i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}
