package manifest

import (
	"context"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/routing"
)

// checkLabel refuses another name for a label that configs or prompts name.
func (w *whole) checkLabel(l, old *prompts.Label) error {
	if old == nil || old.Name == l.Name {
		return nil
	}
	is := func(reference string) bool {
		name, which, _ := strings.Cut(strings.TrimSpace(reference), "@")
		p, ok := find(w, "prompts", name, slugOfPrompt)
		return ok && which == old.Name && p.WorkspaceID == l.WorkspaceID
	}
	inUse := func(by string) error {
		return wrong("name", "%s has the label %q; change that first", by, credentials.Clip(old.Name))
	}
	for _, c := range after[routing.Saved](w, "configs") {
		if c.Archived {
			continue
		}
		newest := c.Current()
		text, err := w.Keyring.UnsealText(newest.ID, newest.Sealed)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(routing.References(text, w.ParseOptions), func(r routing.Reference) bool { return r.Prompt && is(r.Name) }) {
			return inUse("config " + c.Slug)
		}
	}
	for _, p := range w.Prompts.All() {
		if p.Archived || w.planned["prompts"][p.ID] != nil { // those of the document are compiled with it
			continue
		}
		for _, v := range w.Prompts.Named(p) {
			compiled, err := w.Prompts.Compiled(context.Background(), p, v)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(compiled.Uses().Partials, is) {
				return inUse("prompt " + p.Slug)
			}
		}
	}
	return nil
}
