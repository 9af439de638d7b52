package hooks

import (
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// SecretParameters calls visit with each credential among the parameters of checks, by its name
// within the parameters.
func SecretParameters(checks []byte, visit func(check gjson.Result, path, name, value string)) {
	n := 0
	gjson.ParseBytes(checks).ForEach(func(_, check gjson.Result) bool {
		at := strconv.Itoa(n) + ".parameters."
		n++
		SecretsOf(check, func(name, value string) { visit(check, at+name, name, value) })
		return true
	})
}

// SecretsOf calls visit with each credential among the parameters of a check.
func SecretsOf(check gjson.Result, visit func(name, value string)) {
	kind := guardrails.Lookup(check.Get("id").Str)
	if kind == nil {
		return
	}
	secretTexts(kind.Parameters, check.Get("parameters"), "", visit)
}

// secretTexts calls visit with each credential in an object of parameters, by its path.
func secretTexts(rows []guardrails.Parameter, parameters gjson.Result, at string, visit func(path, value string)) {
	for i := range rows {
		p := &rows[i]
		switch v := parameters.Get(gjson.Escape(p.Name)); {
		case p.Members != nil:
			secretTexts(p.Members, v, at+p.Name+".", visit)
		case !p.Secret:
		case v.IsObject():
			v.ForEach(func(name, v gjson.Result) bool {
				if v.Type == gjson.String && v.Str != "" {
					visit(at+p.Name+"."+gjson.Escape(name.Str), v.Str)
				}
				return true
			})
		case v.Type == gjson.String && v.Str != "":
			visit(at+p.Name, v.Str)
		}
	}
}
