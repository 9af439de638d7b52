package routing

import (
	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
)

// A Reference is a name in a config that refers to something outside of it.
type Reference struct {
	Path       string           // targets[1].virtual_key
	Name       string           // a slug, @slug or the name of a provider; for a virtual key its slug or id
	VirtualKey bool             // it can only be a virtual key
	Guardrail  bool             // it is the slug or id of a guardrail
	Prompt     bool             // it is the slug or id of a prompt, which may end with @version
	Version    string           // of the guardrail; "": none is named
	Phase      guardrails.Phase // in which the guardrail judges
}

// References returns the references in a config. If the config has errors, the result has
// those that could be parsed.
func References(text string, o Options) (all []Reference) {
	o.Missing = func(r Reference) string {
		all = append(all, r)
		return ""
	}
	o.BrokenChecks = true
	Parse([]byte(text), o)
	return all
}

// refer reports an error in a reference.
func (p *parser) refer(r Reference) {
	if p.options.Missing == nil || r.Name == "" {
		return
	}
	if why := p.options.Missing(r); why != "" {
		p.errorf(r.Path, "%s", why)
	}
}

// referToModels reports errors in the models @slug/name of a target that does not name a
// provider. If it does, its models are that provider's.
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
