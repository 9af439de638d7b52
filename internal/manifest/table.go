package manifest

import (
	"bytes"
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/storage"
)

// Longest texts of objects, in bytes.
const (
	maxName = 255
	maxText = 1024 // descriptions and notes
)

// A table says how the rows of a collection become the objects of a kind.
type table[T any] struct {
	list       string     // in documents
	kind       audit.Type // of the audit trail; "": about says it
	collection string     // in the store

	id     func(*T) string
	called func(*T) string // what people call it
	// about says of which type a row is in the audit trail, and of which id; nil: of kind, and its id.
	about func(*T) (audit.Type, string)
	// single: there is one row, whose id is not in documents.
	single bool
	// foreign: rows have the id of the organisation, which is not in documents.
	foreign bool
	// secret: an object is nothing without its secret.
	secret bool
	// include says which rows are in documents; nil: all.
	include func(*T) bool

	hidden []string // members of rows that are not in documents
	fixed  []string // members that do not change

	// write puts what a row has sealed into the object. read takes it out again, and returns what
	// puts it into the row that the rest of the object is; old is the row of the store, or nil. They may be
	// nil.
	write func(x *session, row *T, f *form) error
	read  func(x *session, f *form, old *T, at string) (func(row *T) error, error)
	// decode reads the rest strictly; nil: as JSON.
	decode func(text []byte, row *T) error
	// keep copies what documents do not have from the row of the store, which is nil for a new one.
	keep func(x *session, row, old *T)

	refs func(*T) []ref
	// loose are refs that may be to what is gone, in the store; nil: none.
	loose func(*T) []ref
	// forget removes the names of what is gone, as far as a row is something without them; nil: it is not.
	forget func(row *T, gone func(kind, id string) bool)
	unique func(*T) []string
	// check checks a row that differs from that of the store, which is nil for a new one. It returns an *Error.
	check func(x *session, row, old *T) error
	// whole checks such a row together with the rest of the document.
	whole func(w *whole, row, old *T) error
	// unnamed: rows need no name.
	unnamed bool
	// composite: an id is made of others.
	composite bool
	// put stores a row; nil: as it is.
	put  func(x *session, tx *storage.Txn, row *T) error
	done func(ctx context.Context, x *session, row, old *T)
}

func (t *table[T]) name() string { return t.list }

func (t *table[T]) rows(x *session) *storage.Cached[*T] {
	return storage.CachedOf[*T](x.DB, t.collection)
}

func (t *table[T]) included(row *T) bool { return t.include == nil || t.include(row) }

func (t *table[T]) stored(x *session) map[string]had {
	ids := make(map[string]had)
	for _, row := range t.rows(x).All() {
		if _, remains := t.remains(x, row); remains && t.included(row) {
			ids[t.id(row)] = had{t.label(row), t.uniqueOf(row), t.typeOf(row), t.gone(row)}
		}
	}
	return ids
}

// typeOf returns the type of a row in the audit trail.
func (t *table[T]) typeOf(row *T) audit.Type {
	if t.about == nil {
		return t.kind
	}
	kind, _ := t.about(row)
	return kind
}

// gone reports whether a row stays only because something may refer to what it was.
func (t *table[T]) gone(row *T) bool {
	archived := reflect.ValueOf(row).Elem().FieldByName("Archived")
	return archived.IsValid() && archived.Bool()
}

func (t *table[T]) uniqueOf(row *T) []string {
	if t.unique == nil {
		return nil
	}
	return t.unique(row)
}

func (t *table[T]) export(x *session) (objects []jsontext.Value, err error) {
	if t.secret && x.sealer == nil {
		return nil, nil
	}
	rows := slices.Clone(t.rows(x).All())
	// In the order of the ids that they have in the document.
	slices.SortStableFunc(rows, func(a, b *T) int { return cmp.Compare(x.symbolic(t.id(a)), x.symbolic(t.id(b))) })
	for _, row := range rows {
		row, remains := t.remains(x, row)
		if !remains || !t.included(row) {
			continue
		}
		o, err := t.object(x, row)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// object returns the object of a row.
func (t *table[T]) object(x *session, row *T) (jsontext.Value, error) {
	text, err := stdjson.Marshal(row)
	f := &form{text: text, err: err}
	f.drop(t.hidden...)
	f.drop("updated_at")
	if t.single {
		f.drop("id")
	}
	if t.foreign {
		f.drop("organisation_id")
	}
	if t.write != nil && f.err == nil {
		f.err = cmp.Or(t.write(x, row, f), f.err)
	}
	var o jsontext.Value
	if f.err == nil {
		o, f.err = normal(bytes.ReplaceAll(f.text, []byte(x.workspace), []byte(DefaultWorkspace)))
	}
	if f.err != nil {
		return nil, fmt.Errorf("%s %s: %w", t.list, t.label(row), f.err)
	}
	return o, nil
}

// symbolic returns an id as it is in a document.
func (x *session) symbolic(id string) string {
	return strings.ReplaceAll(id, x.workspace, DefaultWorkspace)
}

// label is what people call a row.
func (t *table[T]) label(row *T) string { return cmp.Or(t.called(row), t.id(row)) }

// parse reads an object. old is the row of the store, or nil.
func (t *table[T]) parse(x *session, o jsontext.Value, at string) (row, old *T, err error) {
	text, err := normal(o)
	if err != nil {
		return nil, nil, wrong(at, "%v", err)
	}
	f := &form{text: bytes.ReplaceAll(text, []byte(DefaultWorkspace), []byte(x.workspace))}
	if t.single {
		f.set("id", x.organisation)
	}
	if t.foreign {
		f.set("organisation_id", x.organisation)
	}
	id := func(row *T) error {
		switch id := t.id(row); {
		case id == "" || strings.Trim(id, "/") == "":
			return wrong(at+".id", "expected an id, such as a UUID")
		case !printable(id):
			return wrong(at+".id", "expected at most %d bytes without control characters", maxName)
		}
		return nil
	}
	// What it is the id of is known before its secrets can be read.
	probe := new(T)
	if err := stdjson.Unmarshal([]byte(idsOf(f.text)), probe); err != nil {
		return nil, nil, wrong(at+".id", "expected a text")
	}
	if err := id(probe); err != nil {
		return nil, nil, err
	}
	old, _ = t.rows(x).Get(t.id(probe))
	if old == nil && !t.composite {
		if parsed, err := uuid.Parse(t.id(probe)); err != nil || parsed.String() != t.id(probe) {
			return nil, nil, wrong(at+".id", "expected a UUID in lower case, got %q", credentials.Clip(t.id(probe)))
		}
	}
	finish := func(*T) error { return nil }
	if t.read != nil {
		if finish, err = t.read(x, f, old, at); err != nil {
			return nil, nil, err
		}
	}
	if f.err != nil {
		return nil, nil, wrong(at, "%v", f.err)
	}
	for _, name := range append([]string{"updated_at"}, t.hidden...) {
		if f.get(name).Exists() {
			return nil, nil, wrong(at+"."+name, "unknown member")
		}
	}
	row = new(T)
	if t.decode != nil {
		err = t.decode(f.text, row)
	} else {
		err = json.Unmarshal(f.text, row, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return nil, nil, misread(at, err)
	}
	return row, old, finish(row)
}

// idsOf returns the members of an object by which rows are found.
func idsOf(text []byte) string {
	ids := `{}`
	for _, name := range []string{"id", "workspace_id", "user_id"} {
		if v := gjson.GetBytes(text, name); v.Exists() {
			ids, _ = sjson.SetRaw(ids, name, v.Raw)
		}
	}
	return ids
}

// misread says where an object has another form than its rows.
func misread(at string, err error) error {
	field, message := validation.Misread(err)
	if at != "" && field != "" && field[0] != '[' {
		field = "." + field
	}
	return wrong(cmp.Or(at+field, "the document"), "%s", message)
}

// printable reports whether a text can be an id, a slug or a name.
func printable(s string) bool {
	return len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

func (t *table[T]) plan(x *session, o jsontext.Value, at string) (*step, error) {
	row, old, err := t.parse(x, o, at)
	if err != nil {
		return nil, err
	}
	created(row, old, x.Now().UTC())
	if t.keep != nil {
		t.keep(x, row, old)
	}
	var was *T // what the store has of the row
	if old != nil {
		if was, _ = t.remains(x, old); bare(row) == bare(old) {
			row = was
		}
	}
	if !printable(t.called(row)) {
		return nil, wrong(at, "expected a name or slug of at most %d bytes without control characters", maxName)
	}
	after, err := t.object(x, row)
	if err != nil {
		return nil, err
	}
	p := &step{at: at, kind: t.list, id: t.id(row), label: t.label(row), size: len(after), created: old == nil, unique: t.uniqueOf(row)}
	p.audited, p.auditedID, p.name = t.kind, p.id, cmp.Or(gjson.GetBytes(after, "name").Str, p.label)
	if t.about != nil {
		p.audited, p.auditedID = t.about(row)
	}
	if t.refs != nil {
		p.refs = t.refs(row)
	}
	if p.workspace = gjson.GetBytes(after, "workspace_id").Str; p.workspace == DefaultWorkspace {
		p.workspace = x.workspace
	}
	before := []byte("{}")
	if old != nil {
		if before, err = t.object(x, was); err != nil {
			return nil, err
		}
	}
	if p.changes, err = difference(before, after); err != nil {
		return nil, err
	}
	if old != nil {
		for _, c := range p.changes {
			if first, _, _ := strings.Cut(c.Field, "."); slices.Contains(t.fixed, first) {
				return nil, wrong(at+"."+c.Field, "it does not change; make another object")
			}
		}
	}
	p.row = row
	if p.created || len(p.changes) > 0 { // what the store has as it is, is not judged again
		if err := t.checkRow(x, row, old); err != nil {
			return nil, inside(at, err)
		}
		if t.whole != nil {
			p.whole = func(w *whole) error {
				if err := t.whole(w, row, old); err != nil {
					return inside(at, err)
				}
				return nil
			}
		}
	}
	p.write = func(tx *storage.Txn) error {
		rows := t.rows(x).In(tx)
		now, there := rows.Get(p.id)
		if there != (old != nil) || there && !reflect.DeepEqual(bare(now), bare(old)) {
			return errChanged
		}
		stamp(row, x.Now().UTC())
		if t.put != nil {
			return t.put(x, tx, row)
		}
		return rows.Put(tx, row)
	}
	if t.done != nil {
		p.done = func(ctx context.Context) { t.done(ctx, x, row, old) }
	}
	return p, nil
}

// checkRow checks a row by itself.
func (t *table[T]) checkRow(x *session, row, old *T) error {
	of := reflect.ValueOf(row).Elem()
	if name := of.FieldByName("Name"); name.IsValid() {
		switch {
		case name.Len() == 0 && !t.unnamed:
			return wrong("name", "required")
		case name.Len() > maxName:
			return wrong("name", "expected at most %d bytes", maxName)
		}
	}
	for field, member := range map[string]string{"Description": "description", "Note": "note"} {
		if text := of.FieldByName(field); text.IsValid() && text.Len() > maxText {
			return wrong(member, "expected at most %d bytes", maxText)
		}
	}
	if t.check == nil {
		return nil
	}
	return t.check(x, row, old)
}

// errChanged means that somebody else has changed an object since an import looked at it.
var errChanged = errors.New("somebody else has changed it meanwhile; import the document again")

// bare returns the JSON of a row, by which rows are compared.
func bare(row any) string {
	text, _ := stdjson.Marshal(row) // it came out of JSON
	return string(text)
}

// created sets when a row was created: as the store says, or else the document, or else now.
func created[T any](row, old *T, now time.Time) {
	at := reflect.ValueOf(row).Elem().FieldByName("CreatedAt")
	switch {
	case !at.IsValid():
	case old != nil:
		at.Set(reflect.ValueOf(old).Elem().FieldByName("CreatedAt"))
	case at.IsZero():
		at.Set(reflect.ValueOf(now))
	}
}

// stamp sets when a row was changed.
func stamp(row any, now time.Time) {
	if at := reflect.ValueOf(row).Elem().FieldByName("UpdatedAt"); at.IsValid() {
		at.Set(reflect.ValueOf(now))
	}
}

// inside names a field by the object that it is in.
func inside(at string, err error) error {
	if in := (*Error)(nil); errors.As(err, &in) {
		return wrong(at+"."+in.Field, "%s", in.Message)
	}
	return wrong(at, "%v", err)
}

// Interface guards
var _ kind = (*table[struct{}])(nil)
