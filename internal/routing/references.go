package routing

import (
	"github.com/caddy-gw/gateway/credentials"
)

// A Reference is a name in a config of something that lives outside of it.
type Reference struct {
	Path       string // targets[1].virtual_key
	Name       string // a slug, @slug or the name of a provider; of a virtual key its slug or id
	VirtualKey bool   // it can be a virtual key alone
}

// References are the names in a config of what lives outside of it. Of one that has faults,
// they are those that could be read.
func References(text string, o Options) (all []Reference) {
	o.Missing = func(r Reference) string {
		all = append(all, r)
		return ""
	}
	Parse([]byte(text), o)
	return all
}

// refer notes what is wrong with a reference.
func (p *parser) refer(r Reference) {
	if p.options.Missing == nil || r.Name == "" {
		return
	}
	if why := p.options.Missing(r); why != "" {
		p.fault(r.Path, "%s", why)
	}
}

// referToModels notes what is wrong with models @slug/name of a target that names no provider
// otherwise: where it does, they are that one's own names.
func (p *parser) referToModels(t *Target, path string) {
	if t.Provider != "" || t.VirtualKey != "" {
		return
	}
	for _, of := range []struct {
		name   string
		params []Param
	}{{"override_params", t.own.Override}, {"default_params", t.own.Default}} {
		for _, param := range of.params {
			if param.Key != "model" || len(param.Value) == 0 || param.Value[0] != '"' {
				continue
			}
			if slug, _, err := credentials.ParseModel(text(param.Value)); err == nil {
				p.refer(Reference{Path: in(in(path, of.name), "model"), Name: "@" + slug})
			}
		}
	}
}
