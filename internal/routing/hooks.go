package routing

import (
	"cmp"
	"slices"

	"github.com/caddy-gw/gateway/internal/hooks"
)

// hooks parses one of the lists of hooks of a target.
func (p *parser) hooks(t *Target, path, name string, v []byte) {
	list := hooks.List(slices.Index(hooks.Keys[:], name))
	t.hooks[list] = hooks.Parse(list, path, v, hooks.Options{Broken: p.options.BrokenChecks, CheckHost: p.options.CheckHost, Regexes: &p.checked}, func(path, message string) { p.errorf(path, "%s", message) })
	for i, h := range t.hooks[list] {
		if h.Slug != "" {
			p.refer(Reference{Path: item(path, i), Name: h.Slug, Guardrail: true, Version: h.VersionID, Phase: list.Phase()})
		}
	}
}

// Retrying returns how a target is tried again: as the config says, or else as the call does. nil: not at all.
func (t *Target) Retrying(call *Retry) *Retry { return cmp.Or(t.Retry, call) }

// Tries reports whether another attempt may follow an answer with a status, for the reason that
// the config names it, or the call.
func (t *Target) Tries(status int, call *Retry) bool {
	if r := t.Retrying(call); r != nil && r.On.Has(status) {
		return true
	}
	for up := t.parent; up != nil; up = up.parent {
		if s := up.Strategy; s.Mode == Fallback && s.OnStatusCodes != nil && s.OnStatusCodes.Has(status) {
			return true
		}
	}
	return false
}
