package admin

import (
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// An Optional is a field of an update: omitted, null, or a value. PUT keeps omitted fields
// and clears fields that are null.
type Optional[T any] struct {
	Set, Null bool
	Value     T
}

// UnmarshalJSON decodes the field and records that it is present.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	o.Set = true
	if string(b) == "null" {
		o.Null = true
		return nil
	}
	return json.Unmarshal(b, &o.Value)
}

// assign sets what an update has; null is the zero value.
func (o *Optional[T]) assign(to *T) {
	if o.Set {
		*to = o.Value
	}
}

// otherName reads a field that has another name, too, under which it may be given instead.
func otherName[T any](other string, given *Optional[T], name string, field *Optional[T]) error {
	switch {
	case !given.Set:
		return nil
	case field.Set:
		return invalid(other, "it is the same as %s, which is given, too; leave one of them out", name)
	}
	*field, *given = *given, Optional[T]{} // once, though a change may be tried again
	return nil
}

// assign sets what an update has; nil: it is omitted.
func assign[T any](to, sent *T) {
	if sent != nil {
		*to = *sent
	}
}

// maxText bounds descriptions and notes, in bytes.
const maxText = 1024

// applyText applies the description or note of a request, whose field is named.
func applyText(field string, sent *Optional[string], to *string) error {
	if len(sent.Value) > maxText {
		return invalid(field, "expected at most %d bytes", maxText)
	}
	sent.assign(to)
	return nil
}

// Schema returns the schema of T, or null.
func (o Optional[T]) Schema(r huma.Registry) *huma.Schema {
	s := *huma.SchemaFromType(r, typeOf[T]())
	s.Nullable = true
	return &s
}

// timeFormat is the format of times in responses: ISO 8601 in UTC with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeFormat) }

func formatOptionalTime(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := formatTime(*t)
	return &s
}

// expiry applies an expires_at field to the stored value.
func expiry(field Optional[time.Time], stored *time.Time, now time.Time) (*time.Time, error) {
	switch {
	case !field.Set:
		return stored, nil
	case field.Null:
		return nil, nil //nolint:nilnil // null removes the value
	case stored != nil && formatTime(field.Value) == formatTime(*stored): // written back as it was shown
		return stored, nil
	case !field.Value.After(now):
		return nil, invalid("expires_at", "expected a time in the future")
	}
	t := field.Value.UTC()
	return &t, nil
}
