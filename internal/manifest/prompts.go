package manifest

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

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
	if old != nil {
		all = slices.Clone(old.Versions)
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
		compile := prompts.Compile
		if partial {
			compile = prompts.CompilePartial
		}
		if _, err := compile(c); err != nil {
			return nil, wrong(at+".string", "%v", err)
		}
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

func putPrompt(x *session, tx *storage.Txn, p *prompts.Prompt) error {
	var added []*prompts.Content
	for i := range p.Versions {
		if c, ok := x.contents[p.Versions[i].ID]; ok {
			added = append(added, c)
		}
	}
	return x.Prompts.Restore(tx, p, added)
}
