package manifest

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/storage"
)

// contentFields are the members of a version of a prompt that are its content.
var contentFields = []string{"description", "created_by", "string", "raw", "parameters", "model", "virtual_key", "tools", "tool_choice", "functions", "metadata"}

// content returns the content of a version of a prompt, which is stored or new.
func (x *session) content(p *prompts.Prompt, v *prompts.Version) (*prompts.Content, error) {
	if c, ok := x.contents[v.ID]; ok {
		return c, nil
	}
	return x.Prompts.Content(context.Background(), p, v)
}

// contentOf returns the members of a version that are its content.
func (x *session) contentOf(p *prompts.Prompt, v *prompts.Version) ([]byte, error) {
	c, err := x.content(p, v)
	if err != nil {
		return nil, err
	}
	text, err := stdjson.Marshal(c)
	f := &form{text: text, err: err}
	f.drop("id", "prompt_id")
	if f.err != nil {
		return nil, f.err
	}
	return normal(f.text)
}

func writePrompt(x *session, p *prompts.Prompt, f *form) error {
	f.drop("model") // that of the published version
	if p.CollectionID == defaultCollection(p.WorkspaceID) {
		f.drop("collection_id")
	}
	for i := range p.Versions {
		text, err := x.contentOf(p, &p.Versions[i])
		if err != nil {
			return err
		}
		f.drop(fmt.Sprintf("versions.%d.size", i)) // which the content says
		c := &form{text: text}
		for _, name := range contentFields {
			if v := c.get(name); v.Exists() {
				f.setRaw(fmt.Sprintf("versions.%d.%s", i, name), []byte(v.Raw))
			}
		}
	}
	return nil
}

func defaultCollection(workspace string) string {
	return prompts.DefaultCollection(workspace, time.Time{}).ID
}

func readPrompt(x *session, f *form, old *prompts.Prompt, at string) (func(*prompts.Prompt) error, error) {
	list := f.take("versions")
	if !list.IsArray() || len(list.Array()) == 0 {
		return nil, wrong(at+".versions", "expected an array of at least one version")
	}
	partial := f.get("partial").Bool()
	var all []prompts.Version
	var inserting []insertions
	if old != nil {
		all = slices.Clone(old.Versions)
	}
	last := 0
	for _, v := range all {
		last = max(last, v.Number)
	}
	for i, v := range list.Array() {
		at := fmt.Sprintf("%s.versions[%d]", at, i)
		fields, err := versionOf(v, contentFields, at)
		if err != nil {
			return nil, err
		}
		rest := &form{text: []byte(v.Raw)}
		rest.drop("id", "number", "created_at")
		c := new(prompts.Content)
		if err := json.Unmarshal(rest.text, c, json.RejectUnknownMembers(true)); err != nil {
			return nil, misread(at, err)
		}
		if n := slices.IndexFunc(all, func(had prompts.Version) bool { return had.Number == fields.Number }); n >= 0 {
			before, err := x.contentOf(old, &all[n])
			if err != nil {
				return nil, err
			}
			x.contents[""] = c
			after, err := x.contentOf(new(prompts.Prompt), new(prompts.Version))
			delete(x.contents, "")
			if err != nil {
				return nil, wrong(at, "%v", err)
			}
			if string(before) != string(after) || fields.ID != "" && fields.ID != all[n].ID {
				return nil, wrong(at, "version %d is another one in the store, and versions do not change; give the new one the number %d, and no id", fields.Number, all[len(all)-1].Number+1)
			}
			continue
		}
		if err := fields.added(last, at); err != nil {
			return nil, err
		}
		last = max(last, fields.Number)
		check := prompts.Check
		if partial {
			check = prompts.CompilePartial
		}
		compiled, err := check(c)
		var field *prompts.FieldError
		switch {
		case errors.As(err, &field):
			return nil, wrong(at+"."+field.Field, "%s", field.Message)
		case err != nil:
			return nil, wrong(at+".string", "%v", err)
		case partial && slices.Contains(compiled.Uses().Partials, f.get("slug").Str):
			return nil, wrong(at+".string", "the partial inserts itself")
		}
		inserting = append(inserting, insertions{at, fields.Number, compiled.Inserted()})
		added := prompts.Version{ID: cmp.Or(fields.ID, storage.NewID(x.Random)), Number: fields.Number, CreatedAt: fields.CreatedAt, Size: c.Size()}
		if added.CreatedAt.IsZero() {
			added.CreatedAt = x.Now().UTC()
		}
		if x.hasVersion(added.ID) {
			return nil, wrong(at+".id", "another version has it")
		}
		c.ID = added.ID
		x.contents[added.ID] = c
		all = append(all, added)
	}
	slices.SortFunc(all, func(a, b prompts.Version) int { return cmp.Compare(a.Number, b.Number) })
	if len(all) > prompts.MaxVersions {
		return nil, wrong(at+".versions", "expected at most %d together with those in the store, got %d", prompts.MaxVersions, len(all))
	}
	return func(p *prompts.Prompt) error {
		p.Versions = all
		x.prompts[p.ID] = p
		x.inserting[p.ID] = inserting
		if p.CollectionID == "" {
			p.CollectionID = defaultCollection(p.WorkspaceID)
		}
		for i := range all {
			if v := &all[i]; v.Number == p.Published {
				c, err := x.content(p, v)
				if err != nil {
					return err
				}
				p.Model = c.ModelName()
				return nil
			}
		}
		return wrong(at+".published", "expected the number of a version")
	}, nil
}

// insertions are the partials that a new version inserts.
type insertions struct {
	at       string // the version, in the document
	version  int
	partials []prompts.Insertion
}

// checkPartials returns an error if a new version inserts a partial that neither the document nor the store has for the
// workspace. Those that calls can refer to by number alone are left out, and so are those of archived prompts: their
// partials may have been removed since.
func (x *session) checkPartials() error {
	if x.allowMissing {
		return nil
	}
	partials := make(map[string]*prompts.Prompt) // by slugs and ids
	add := func(p *prompts.Prompt) {
		if p.Partial && !p.Archived {
			partials[p.Slug], partials[p.ID] = p, p
		}
	}
	for _, p := range x.Prompts.All() {
		if x.prompts[p.ID] == nil {
			add(p)
		}
	}
	for _, p := range x.prompts {
		add(p)
	}
	for _, id := range slices.Sorted(maps.Keys(x.inserting)) {
		p := x.prompts[id]
		if p.Archived {
			continue
		}
		named := map[int]bool{p.Published: true, p.Latest().Number: true}
		for label, number := range p.Labels {
			named[number] = named[number] || x.labelName(label) != ""
		}
		for _, in := range x.inserting[id] {
			if !named[in.version] {
				continue
			}
			for _, partial := range in.partials {
				name, which, _ := strings.Cut(partial.Name, "@")
				of, ok := partials[name]
				if !ok || !of.VisibleIn(p.WorkspaceID) || !x.hasVersionNamed(of, which) {
					return wrong(in.at+"."+partial.Field, "the workspace has no partial %q, or no such version of it, neither in the document nor in the store%s", credentials.Clip(partial.Name), allowing)
				}
			}
		}
	}
	return nil
}

// hasVersionNamed reports whether a prompt has a version with a number or a label; see [prompts.Store.Version].
func (x *session) hasVersionNamed(p *prompts.Prompt, which string) bool {
	if which == "" || which == "default" || which == "latest" {
		return true
	}
	number, err := strconv.Atoi(which)
	if err != nil {
		for id, n := range p.Labels {
			if x.labelName(id) == which {
				number = n
			}
		}
	}
	return slices.ContainsFunc(p.Versions, func(v prompts.Version) bool { return v.Number == number || v.ID == which })
}

// labelName returns the name of a label of the document or the store.
func (x *session) labelName(id string) string {
	if l, ok := x.labels[id]; ok {
		return l.Name
	}
	if l, ok := x.Prompts.Label(id); ok {
		return l.Name
	}
	return ""
}

// hasVersion reports whether a version of a prompt, which is stored or new, has an id.
func (x *session) hasVersion(id string) bool {
	if x.versions == nil {
		x.versions = make(map[string]bool)
		for _, p := range x.Prompts.All() {
			for i := range p.Versions {
				x.versions[p.Versions[i].ID] = true
			}
		}
	}
	return x.versions[id] || x.contents[id] != nil
}

// labelsOf are the labels of a prompt that not every workspace has.
func labelsOf(p *prompts.Prompt) (all []ref) {
	for id := range p.Labels {
		if !slices.ContainsFunc(prompts.UniversalLabels(), func(l *prompts.Label) bool { return l.ID == id }) {
			all = append(all, ref{"labels", "labels", id})
		}
	}
	return all
}

func putPrompt(x *session, tx *storage.Txn, p *prompts.Prompt) error {
	var added []*prompts.Content
	for i := range p.Versions {
		if c, ok := x.contents[p.Versions[i].ID]; ok {
			added = append(added, c)
		}
	}
	return x.Prompts.Restore(tx, p, added)
}
