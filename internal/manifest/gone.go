package manifest

import (
	stdjson "encoding/json"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/prompts"
)

// What the store has may name what is gone: a workspace is deleted at once, and what it has and who names it only
// afterwards, or never where that does no harm. A document names none of it, because nothing could be made of it elsewhere.

// gone reports whether the store does not have an object of a kind any more, or only what remains of it.
func (x *session) gone(of, id string) bool {
	at := of + "/" + id
	there, known := x.there[at]
	if !known {
		x.there[at] = true // as far as those are concerned that it refers to, and that refer to it
		k := x.kinds[slices.IndexFunc(x.kinds, func(k kind) bool { return k.name() == of })]
		there = k.has(x, id)
		x.there[at] = there
	}
	return !there
}

func (t *table[T]) has(x *session, id string) bool {
	row, ok := t.rows(x).Get(id)
	if ok {
		_, ok = t.remains(x, row)
	}
	return ok
}

// remains returns a row without the names of what is gone, or false if it is nothing without that.
func (t *table[T]) remains(x *session, row *T) (*T, bool) {
	if t.refs == nil {
		return row, true
	}
	dead := func(r ref) bool { return r.id != "" && x.gone(r.kind, r.id) }
	if !slices.ContainsFunc(t.refs(row), dead) && (t.loose == nil || !slices.ContainsFunc(t.loose(row), dead)) {
		return row, true
	}
	if t.forget != nil {
		text, err := stdjson.Marshal(row)
		changed := new(T)
		if err == nil {
			err = stdjson.Unmarshal(text, changed)
		}
		if err != nil { // it came out of JSON
			return row, true
		}
		t.forget(changed, x.gone)
		row = changed
	}
	return row, !slices.ContainsFunc(t.refs(row), dead)
}

func forgetMapped(c *credentials.Credential, gone func(kind, id string) bool) {
	c.Mappings = slices.DeleteFunc(c.Mappings, func(m credentials.SecretMapping) bool { return gone("secret_references", m.Reference) })
}

func forgetGuardrails(g *directory.Guardrails, gone func(kind, id string) bool) {
	for _, list := range g.Lists() {
		*list.IDs = slices.DeleteFunc(*list.IDs, func(id string) bool { return gone("guardrails", id) })
	}
}

func forgetConfig(id *string, gone func(kind, id string) bool) {
	if gone("configs", *id) {
		*id = ""
	}
}

func forgetPrompt(p *prompts.Prompt, gone func(kind, id string) bool) {
	if gone("collections", p.CollectionID) {
		p.CollectionID = defaultCollection(p.WorkspaceID)
	}
	for _, l := range labelsOf(p) {
		if gone(l.kind, l.id) {
			delete(p.Labels, l.id)
		}
	}
	if s := p.Share; s != nil {
		s.Workspaces = slices.DeleteFunc(s.Workspaces, func(w string) bool { return gone("workspaces", w) })
		if len(s.Workspaces) == 0 && !s.AllWorkspaces {
			p.Share = nil
		}
	}
}
