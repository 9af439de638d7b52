package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/versions"
	"github.com/caddy-gw/gateway/storage"
)

// texts says how the text of a version of a kind is in a document, as members of the version.
type texts struct {
	// show returns the members of a stored text, with its secrets replaced.
	show func(text string, secret func(value string) (string, error)) (map[string]string, error)
	// parse returns the text that members of a version are, with its secrets replaced. The error is
	// an *Error.
	parse func(version gjson.Result, secret func(value string) (string, error)) (string, error)
	// check returns what is wrong with a new text.
	check   func(x *session, workspace, text string) error
	members []string
}

// versionFields are the members of every version, besides those of its text.
type versionFields struct {
	ID        string    `json:"id"`
	Number    int       `json:"number"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
}

// write puts the texts of versions into an object.
func (t *texts) write(x *session, of string, list []versions.Version, f *form) error {
	for i := range list {
		text, err := x.Keyring.UnsealText(list[i].ID, list[i].Sealed)
		if err != nil {
			return err
		}
		members, err := t.show(text, func(value string) (string, error) { return x.seal(of, value), nil })
		if err != nil {
			return err
		}
		at := fmt.Sprintf("versions.%d.", i)
		f.drop(at + "sealed")
		for _, name := range t.members {
			if raw := members[name]; raw != "" {
				f.setRaw(at+name, []byte(raw))
			}
		}
	}
	return nil
}

// read takes the versions out of an object, and returns them together with those of the store that
// the object does not have. A version that the store has does not change.
func (t *texts) read(x *session, of, workspace string, f *form, old []versions.Version, at string) ([]versions.Version, error) {
	list := f.take("versions")
	if !list.IsArray() || len(list.Array()) == 0 {
		return nil, wrong(at+".versions", "expected an array of at least one version")
	}
	all, last := slices.Clone(old), 0
	for _, v := range all {
		last = max(last, v.Number)
	}
	for i, v := range list.Array() {
		at := fmt.Sprintf("%s.versions[%d]", at, i)
		fields, err := versionOf(v, t.members, at)
		if err != nil {
			return nil, err
		}
		n := slices.IndexFunc(all, func(had versions.Version) bool { return had.Number == fields.Number })
		before := ""
		if n >= 0 {
			if before, err = x.Keyring.UnsealText(all[n].ID, all[n].Sealed); err != nil {
				return nil, err
			}
		}
		kept, err := t.secrets(before)
		if err != nil {
			return nil, err
		}
		nth := 0
		text, err := t.parse(v, func(value string) (string, error) {
			nth++
			return x.open(of, t.members[0], value, func() (string, bool) {
				if nth > len(kept) {
					return "", false
				}
				return kept[nth-1], true
			})
		})
		if err != nil {
			return nil, inside(at, err)
		}
		if n >= 0 {
			same, err := t.same(before, text)
			if err != nil {
				return nil, err
			}
			if !same || fields.ID != "" && fields.ID != all[n].ID {
				return nil, wrong(at, "version %d is another one in the store, and versions do not change; give the new one the number %d, and no id", fields.Number, all[len(all)-1].Number+1)
			}
			continue
		}
		if err := fields.added(last, at); err != nil {
			return nil, err
		}
		last = max(last, fields.Number)
		if err := t.check(x, workspace, text); err != nil {
			return nil, inside(at, err)
		}
		added := versions.Version{ID: cmp.Or(fields.ID, storage.NewID(x.Random)), Number: fields.Number, CreatedAt: fields.CreatedAt, CreatedBy: fields.CreatedBy}
		if added.CreatedAt.IsZero() {
			added.CreatedAt = x.Now().UTC()
		}
		if added.Sealed, err = x.Keyring.SealText(added.ID, text); err != nil {
			return nil, err
		}
		all = append(all, added)
	}
	slices.SortFunc(all, func(a, b versions.Version) int { return cmp.Compare(a.Number, b.Number) })
	return versions.Kept(all), nil
}

// versionOf reads the members of a version besides those that have its text.
func versionOf(v gjson.Result, texts []string, at string) (fields versionFields, err error) {
	rest := &form{text: []byte(v.Raw)}
	if !v.IsObject() {
		return fields, wrong(at, "expected an object")
	}
	rest.drop(texts...)
	if err := json.Unmarshal(rest.text, &fields, json.RejectUnknownMembers(true)); err != nil {
		return fields, misread(at, err)
	}
	switch {
	case fields.Number < 1:
		return fields, wrong(at+".number", "expected a whole number from 1")
	case !printable(fields.ID):
		return fields, wrong(at+".id", "expected at most %d bytes without control characters", maxName)
	}
	return fields, nil
}

// added refuses a new version whose id is none, or whose number is not the next one after last. One with an id was
// exported, and some before it may not be kept any more.
func (f *versionFields) added(last int, at string) error {
	if f.ID == "" {
		if f.Number != last+1 {
			return wrong(at+".number", "expected %d, the next one", last+1)
		}
		return nil
	}
	if parsed, err := uuid.Parse(f.ID); err != nil || parsed.String() != f.ID {
		return wrong(at+".id", "expected none, or a UUID in lower case")
	}
	return nil
}

// secrets returns the secrets of a stored text, in their order.
func (t *texts) secrets(text string) (all []string, err error) {
	if text == "" {
		return nil, nil
	}
	_, err = t.show(text, func(value string) (string, error) {
		all = append(all, value)
		return value, nil
	})
	return all, err
}

// same reports whether two texts say the same.
func (t *texts) same(a, b string) (bool, error) {
	keep := func(value string) (string, error) { return value, nil }
	one, err := t.show(a, keep)
	if err != nil {
		return false, err
	}
	other, err := t.show(b, keep)
	if err != nil {
		return false, err
	}
	for _, name := range t.members {
		if one[name] == "" && other[name] == "" {
			continue
		}
		x, err := normal([]byte(one[name]))
		if err != nil {
			return false, err
		}
		y, err := normal([]byte(other[name]))
		if err != nil || string(x) != string(y) {
			return false, err
		}
	}
	return true, nil
}
