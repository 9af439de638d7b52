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

// A Span is the position of a value in a body: body[Start:End]. The zero Span means that
// the body does not have the member.
type Span struct{ Start, End int }

// A Report is the result of Check.
type Report struct {
	// Stream is true if the table has a stream field and the body sets it to true.
	Stream bool

	// Open is the offset after the brace that opens the body, where a member can be
	// inserted. Empty means that the body has no members, so that no comma must follow.
	Open  int
	Empty bool

	fields *Fields
	given  [maxFields]Span
	nulls  uint32 // a bit a field
	names  names
}

// Span returns the position of the value of a field in the table, which may be null, or the
// zero Span if the body does not have the field.
func (r *Report) Span(name string) Span {
	if f := r.fields.find([]byte(name)); f >= 0 {
		return r.given[f]
	}
	return Span{}
}

// Has reports whether the body has a field of the table with a value other than null.
func (r *Report) Has(name string) bool {
	f := r.fields.find([]byte(name))
	return f >= 0 && r.given[f].End != 0 && r.nulls&(1<<f) == 0
}

// Check validates a body against a table. The error is a *jsonscan.SyntaxError if the body
// is not a JSON object, or else the first *Error. The report is only valid if there is no
// error.
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
	r.names = c.names
	r.Stream = t.hasStream && c.isTrue(r.given[t.stream])
	r.Open = bytes.IndexByte(body, '{') + 1
	r.Empty = bytes.TrimLeft(body[r.Open:], " \t\r\n")[0] == '}'
	return r, nil
}

// CheckTemplate is Check for a body of which a saved template is made, each of whose strings is rendered by
// itself: those with tags may become any string, and a call may still bring the siblings of a field. What it refuses is
// refused however the template is rendered, unless the call brings the field itself.
func CheckTemplate(t *Table, body []byte) error {
	c := checker{scan: body, draft: true}
	var given [maxFields]Span
	if _, err := c.object(t.Fields, given[:], 0, 0); err != nil {
		return err
	}
	if c.err != nil {
		return c.err
	}
	return nil
}

// Missing returns an error for the first field that is required after a config was merged,
// and is missing. given reports which fields the call will have. It returns nil if none is
// missing.
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
