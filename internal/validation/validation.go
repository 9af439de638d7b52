// Package validation holds the rules of request bodies as tables, and checks a body
// against one of them.
//
// Each table is in a file of its own, with a line for each field. [Check] reads the body once: the pass that checks
// the syntax also checks the rules, finds the members that the gateway reads, and
// decodes nothing that no rule asks for.
//
// What a table does not list is never refused. For an optional field null means
// absent; for a required one it means missing. A key that a rule reads may stand in
// its object once: a second one, escaped or not, or one that differs in letter case
// only, is refused, since what was checked must be what the provider reads.
package validation

import "bytes"

// A Span is where a value stands in a body: body[Start:End]. The zero Span is that
// of a member that the body does not have.
type Span struct{ Start, End int }

// A Report says what Check found in a body.
type Report struct {
	// Stream is true if the table has a stream field and the body sets it to true.
	Stream bool

	// Open is the offset just after the brace that opens the body, where a member
	// can be put in; Empty says that the body has none yet, so that no comma
	// follows it.
	Open  int
	Empty bool

	fields *Fields
	given  [maxFields]Span
	nulls  uint32 // a bit a field
}

// Span returns where the value of a field of the table stands, be it null; the zero
// Span if the body does not have it.
func (r *Report) Span(name string) Span {
	if f := r.fields.find([]byte(name)); f >= 0 {
		return r.given[f]
	}
	return Span{}
}

// Has reports whether the body has a field of the table, with a value other than
// null.
func (r *Report) Has(name string) bool {
	f := r.fields.find([]byte(name))
	return f >= 0 && r.given[f].End != 0 && r.nulls&(1<<f) == 0
}

// Check holds a body against a table. Its error is a *jsonscan.SyntaxError if the
// body is not one JSON object, and else the *Fault that it met first, if any; the
// report is good only without an error.
func Check(t *Table, body []byte) (r Report, err error) {
	c := checker{scan: body}
	r.fields = t.Fields
	if _, err := c.object(t.Fields, r.given[:], 0, 0); err != nil {
		return r, err
	}
	if c.err != nil {
		return r, c.err
	}
	for f := range t.Fields.rows {
		if s := r.given[f]; s.End != 0 && body[s.Start] == 'n' {
			r.nulls |= 1 << f
		}
	}
	r.Stream = t.hasStream && c.isTrue(r.given[t.stream])
	r.Open = bytes.IndexByte(body, '{') + 1
	r.Empty = bytes.TrimLeft(body[r.Open:], " \t\r\n")[0] == '}'
	return r, nil
}

// Missing returns the fault of the first field that must be there once a config was
// merged in, and is not: given says what the call that will be sent has. It returns
// nil if none is missing.
func (t *Table) Missing(given func(name string) bool) *Error {
	for i := range t.Fields.rows {
		row := &t.Fields.rows[i]
		if row.Need == Optional || given(row.Name) || row.Unless != "" && given(row.Unless) {
			continue
		}
		return missing(row.Name)
	}
	return nil
}
