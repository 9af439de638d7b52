package manifest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/storage"
)

// A Change is an object that differs between a document and the store.
type Change struct {
	Kind   string         `json:"kind"`
	ID     string         `json:"id"`
	Name   string         `json:"name"`
	Action string         `json:"action"` // create or update
	Fields []audit.Change `json:"fields"` // what is different, without secrets
}

// A Report says what an import did, or would do.
type Report struct {
	Changes   []Change       `json:"changes"`
	Unchanged int            `json:"unchanged"` // objects
	Kept      map[string]int `json:"kept"`      // how many objects of a kind the store has and the document has not
	Others    []Other        `json:"others"`    // those, at most [MaxOthers], by kind and name
	DryRun    bool           `json:"dry_run"`
}

// An Other is an object that the store has and a document has not.
type Other struct {
	Kind string     `json:"kind"`
	ID   string     `json:"id"`
	Name string     `json:"name"`
	Type audit.Type `json:"type"` // in the audit trail
	// Archived: it was deleted already, as far as that goes.
	Archived bool `json:"archived,omitempty"`
}

// MaxOthers bounds the objects that a report names although they are not in the document.
const MaxOthers = 100

// An Import is a document to be imported.
type Import struct {
	Document Document
	Sealer   *Sealer // of its secrets; nil: none is sealed
	DryRun   bool    // nothing is changed
	// AllowMissing: what configs, prompts, model aliases, conditions and mappings of secrets refer to need not exist.
	AllowMissing bool
	// AllOthers: the report names all objects that are not in the document.
	AllOthers bool
	// Record is the beginning of the rows of the audit trail: who imports.
	Record audit.Record
}

// Bounds of a transaction of an import.
const (
	stepsAtOnce = 50
	bytesAtOnce = 1 << 20
)

// Import makes the objects of a document those of the store. What the store has besides them is
// kept. The whole document is checked first, and the error, an [*Error], says what is wrong with
// it. Then objects are written, some in a transaction, with a row of the audit trail each; what an
// error interrupts there can be imported again.
func (s *Services) Import(ctx context.Context, in *Import) (*Report, error) {
	sealer := in.Sealer
	if sealer == nil {
		// Secrets are only compared, so any key will do.
		key := make([]byte, KeySize)
		_, _ = rand.Read(key) // never fails
		var err error
		if sealer, err = NewSealer(key); err != nil {
			return nil, err
		}
	}
	x, err := s.session(sealer)
	if err != nil {
		return nil, err
	}
	x.allowMissing = in.AllowMissing
	steps, kept, others, err := x.plan(in.Document)
	if !in.AllOthers {
		others = others[:min(len(others), MaxOthers)]
	}
	if err != nil {
		return nil, err
	}
	report := &Report{Changes: []Change{}, Kept: kept, Others: others, DryRun: in.DryRun}
	var todo []*step
	for _, p := range steps {
		if len(p.changes) == 0 && !p.created {
			report.Unchanged++
			continue
		}
		todo = append(todo, p)
		c := Change{Kind: p.kind, ID: p.id, Name: p.label, Action: "update", Fields: p.changes}
		if p.created {
			c.Action = "create"
		}
		report.Changes = append(report.Changes, c)
	}
	if in.DryRun {
		return report, nil
	}
	for begin := 0; begin < len(todo); {
		end, size := begin, 0
		for end < len(todo) && end-begin < stepsAtOnce && (end == begin || size+todo[end].size <= bytesAtOnce) {
			size += todo[end].size
			end++
		}
		if err := x.write(ctx, todo[begin:end], &in.Record); err != nil {
			if begin > 0 {
				err = fmt.Errorf("after %d of %d objects were written: %w; import the document again", begin, len(todo), err)
			}
			return nil, err
		}
		begin = end
	}
	return report, nil
}

// write writes objects and their rows of the audit trail.
func (x *session) write(ctx context.Context, steps []*step, who *audit.Record) error {
	err := x.DB.Update(ctx, func(tx *storage.Txn) error {
		for _, p := range steps {
			if err := p.write(tx); err != nil {
				return p.failed(err)
			}
			r := *who
			action := ".update"
			if p.created {
				action = ".create"
			}
			r.Type, r.Scope, r.OrganisationID, r.WorkspaceID = p.audited, string(p.audited)+action, x.organisation, p.workspace
			r.Resource, r.ResourceID, r.ResourceName, r.Status = credentials.Clip(p.label), p.auditedID, audit.Shorten(p.name, maxName), http.StatusOK
			r.Changes = p.changes[:min(len(p.changes), audit.MaxChanges)]
			if err := x.Trail.Add(tx, &r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range steps {
		if p.done != nil {
			p.done(ctx)
		}
	}
	return nil
}

// failed says which object could not be written.
func (p *step) failed(err error) error {
	var full *storage.FullError
	switch {
	case errors.Is(err, storage.ErrExists), errors.As(err, &full):
		return wrong(p.at, "%v", err)
	}
	return fmt.Errorf("%s: %w", p.at, err)
}

// plan checks a document, and returns what to do for each of its objects.
func (x *session) plan(d Document) (steps []*step, kept map[string]int, others []Other, err error) {
	known := make(map[string]map[string]bool) // the ids of each kind, in the store and in the document
	kept, others = make(map[string]int), []Other{}
	for _, k := range x.kinds {
		here := make(map[string]bool)
		first := len(steps)
		for i, object := range d[k.name()] {
			at := fmt.Sprintf("%s[%d]", k.name(), i)
			p, err := k.plan(x, object, at)
			if err != nil {
				return nil, nil, nil, err
			}
			if here[p.id] {
				return nil, nil, nil, wrong(at+".id", "another object of the document has it")
			}
			here[p.id] = true
			if p.kind == "workspaces" {
				x.slugs[p.label] = p.id
			}
			steps = append(steps, p)
		}
		taken := make(map[string]bool)
		left := []Other{}
		for id, o := range k.stored(x) {
			if here[id] {
				continue
			}
			kept[k.name()]++
			left = append(left, Other{Kind: k.name(), ID: x.symbolic(id), Name: o.label, Type: o.kind, Archived: o.archived})
			here[id] = true
			for _, value := range o.unique {
				taken[value] = true
			}
		}
		slices.SortFunc(left, func(a, b Other) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
		others = append(others, left...)
		for _, p := range steps[first:] {
			for _, value := range p.unique {
				if taken[value] {
					return nil, nil, nil, wrong(p.at, "another object has the same slug, name or address (%s)", credentials.Clip(value))
				}
				taken[value] = true
			}
		}
		known[k.name()] = here
	}
	for _, p := range steps {
		if !p.created && len(p.changes) == 0 { // as the store has it
			continue
		}
		for _, r := range p.refs {
			if r.id != "" && !known[r.kind][r.id] {
				return nil, nil, nil, wrong(p.at+"."+r.field, "there is no object of %s with the id %q, neither in the document nor in the store", r.kind, credentials.Clip(r.id))
			}
		}
	}
	w := &whole{session: x, planned: make(map[string]map[string]any), indexes: make(map[string]any)}
	for _, p := range steps {
		if w.planned[p.kind] == nil {
			w.planned[p.kind] = make(map[string]any)
		}
		w.planned[p.kind][p.id] = p.row
	}
	if err := x.checkPartials(); err != nil {
		return nil, nil, nil, err
	}
	if err := w.checkOwners(steps); err != nil {
		return nil, nil, nil, err
	}
	for _, p := range steps {
		if p.whole != nil {
			if err := p.whole(w); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	return steps, kept, others, nil
}
