// Package manifest writes the control plane of a store as one document that people can read, and
// reads it back: the organisation's settings, workspaces, users, credentials, configs, prompts,
// guardrails, policies and API keys, each object by its id.
//
// An object is in a document as the store has it, with these differences. Secrets are sealed to a
// key of the caller's, or left out; everything around them can be read. Texts of versions are
// values. What the store computes, counts or notes for itself is not there. The organisation has
// no id, and the default workspace has [DefaultWorkspace], because each store has its own.
package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stores"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/storage"
)

// Format is the version of the format of documents.
const Format = 1

// DefaultWorkspace is the id of the default workspace in documents.
const DefaultWorkspace = "00000000-0000-0000-0000-000000000000"

// Services are what documents are made of, and written to.
type Services struct {
	stores.Set
	DB    *storage.DB
	Trail *audit.Trail
	// Managers are those of secret references, and ParseOptions those of saved configs.
	Managers     map[string]secrets.Manager
	ParseOptions routing.Options
	// Identities are what providers' credentials may be of the gateway's machine.
	Identities routing.Identities
	// Guard decides about hosts that are not the operator's.
	Guard *credentials.HostGuard
	// IsEndpoint reports whether calls have an endpoint with that name.
	IsEndpoint func(name string) bool
	Now        func() time.Time
	Random     io.Reader
}

// A Document has the objects of each kind, as JSON objects, by the names of [Kinds].
type Document map[string][]jsontext.Value

// Kinds returns the names of the kinds of objects, each after those that its objects refer to.
func Kinds() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name())
	}
	return names
}

// MarshalJSON writes the kinds in their order.
func (d Document) MarshalJSON() ([]byte, error) {
	var text jsonscan.Builder
	text.Open('{')
	text.Key("format").Int(Format)
	for _, name := range Kinds() {
		if len(d[name]) == 0 {
			continue
		}
		list, err := json.Marshal(d[name])
		if err != nil {
			return nil, err
		}
		text.Key(name).Raw(list)
	}
	text.Close('}')
	return text, nil
}

// UnmarshalJSON reads a document of this format. The error names the member that is wrong.
func (d *Document) UnmarshalJSON(text []byte) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(text, &members); err != nil {
		return misread("", err)
	}
	if got := string(members["format"]); got != fmt.Sprint(Format) {
		return fmt.Errorf("format: expected %d, got %s", Format, credentials.Clip(got))
	}
	delete(members, "format")
	*d = make(Document)
	for name, list := range members {
		if !slices.Contains(Kinds(), name) {
			return fmt.Errorf("%s: unknown member, expected %s", credentials.Clip(name), strings.Join(Kinds(), ", "))
		}
		var objects []jsontext.Value
		if err := json.Unmarshal(list, &objects); err != nil {
			return fmt.Errorf("%s: expected an array of objects", name)
		}
		for i, o := range objects {
			if o.Kind() != '{' {
				return fmt.Errorf("%s[%d]: expected an object", name, i)
			}
		}
		(*d)[name] = objects
	}
	return nil
}

// An Error says what is wrong with a document: the member, and what was expected.
type Error struct{ Field, Message string }

func (e *Error) Error() string { return e.Field + ": " + e.Message }

func wrong(field, format string, args ...any) error {
	return &Error{field, fmt.Sprintf(format, args...)}
}

// refuse returns what makes the errors of checks that the control plane has too, for fields at a place of the
// document. Those in names have another name there.
func refuse(at string, names ...string) credentials.Refuse {
	rename := strings.NewReplacer(names...)
	return func(field, format string, args ...any) error {
		field = rename.Replace(field)
		if field == "" {
			return wrong(strings.TrimSuffix(at, "."), format, args...)
		}
		return wrong(at+field, format, args...)
	}
}

// A kind is a kind of objects: a row of the table in kinds.go.
type kind interface {
	name() string
	// export returns the objects of the store.
	export(x *session) ([]jsontext.Value, error)
	// stored returns the objects of the store by their ids.
	stored(x *session) map[string]had
	// plan reads an object and says what to do for it. What depends on other objects of the document is
	// checked by the step.
	plan(x *session, object jsontext.Value, at string) (*step, error)
	// has reports whether the store has an object.
	has(x *session, id string) bool
}

// A had is an object of the store.
type had struct {
	label    string     // what people call it
	unique   []string   // values that no two objects of the kind may have
	kind     audit.Type // in the audit trail
	archived bool
}

// A step is an object of a document that differs from what the store has, or not.
type step struct {
	at    string // where it is in the document
	kind  string
	id    string
	label string // what people call it
	// Its type, id and name in the audit trail.
	audited   audit.Type
	auditedID string
	name      string
	// workspace is the id of the workspace that it belongs to, or "".
	workspace string
	size      int // of the object, in bytes
	created   bool
	changes   []audit.Change
	refs      []ref
	unique    []string
	row       any                  // as it will be
	whole     func(w *whole) error // checks it together with the rest of the document; may be nil
	write     func(tx *storage.Txn) error
	done      func(ctx context.Context) // after it was committed; may be nil
}

// A ref is a member of an object that has the id of another one.
type ref struct{ field, kind, id string }

// A session works with the documents of one key.
type session struct {
	*Services
	sealer       *Sealer // nil: secrets are left out
	organisation string
	workspace    string // the default one
	// contents are those of new versions of prompts, by the ids of the versions.
	contents map[string]*prompts.Content
	versions map[string]bool // the ids of those that are stored; see hasVersion
	// prompts and labels are those of the document, by their ids, and inserting what new versions of prompts insert.
	prompts   map[string]*prompts.Prompt
	labels    map[string]*prompts.Label
	inserting map[string][]insertions
	slugs     map[string]string // the ids of workspaces of the document, by their slugs
	kinds     []kind
	there     map[string]bool // objects of the store, as far as they were looked at; see gone
	// allowMissing: what is referred to need not exist.
	allowMissing bool
}

func (s *Services) session(sealer *Sealer) (*session, error) {
	o, w := s.Directory.Organisation(), s.Directory.DefaultWorkspace()
	if o == nil || w == nil {
		return nil, errors.New("the store has no organisation yet")
	}
	return &session{
		Services: s, sealer: sealer, organisation: o.ID, workspace: w.ID, contents: make(map[string]*prompts.Content),
		prompts: make(map[string]*prompts.Prompt), labels: make(map[string]*prompts.Label), inserting: make(map[string][]insertions),
		slugs: make(map[string]string), kinds: kinds, there: make(map[string]bool),
	}, nil
}

// Export returns the control plane as a document. Without a sealer, secrets are [Omitted], and
// what is nothing without its secret, such as API keys, is left out.
func (s *Services) Export(sealer *Sealer) (Document, error) {
	x, err := s.session(sealer)
	if err != nil {
		return nil, err
	}
	d := make(Document)
	for _, k := range kinds {
		if d[k.name()], err = k.export(x); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// A form is an object of a document while it is written or read.
type form struct {
	text []byte
	err  error // the first
}

func (f *form) set(path string, value any) {
	if f.err == nil {
		f.text, f.err = sjson.SetBytes(f.text, path, value)
	}
}

func (f *form) setRaw(path string, value []byte) {
	if f.err == nil {
		f.text, f.err = sjson.SetRawBytes(f.text, path, value)
	}
}

func (f *form) drop(paths ...string) {
	for _, path := range paths {
		if f.err == nil {
			f.text, f.err = sjson.DeleteBytes(f.text, path)
		}
	}
}

func (f *form) get(path string) gjson.Result { return gjson.GetBytes(f.text, path) }

// take returns a member and removes it.
func (f *form) take(path string) gjson.Result {
	v := f.get(path)
	if v.Exists() {
		v.Raw = strings.Clone(v.Raw)
		f.drop(path)
	}
	return v
}

// normal returns JSON without white space, with strings in their shortest form.
func normal(text []byte) (jsontext.Value, error) {
	v := jsontext.Value(slices.Clone(text))
	if err := v.Format(); err != nil {
		return nil, err
	}
	return v, nil
}
