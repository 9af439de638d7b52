package hooks

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// A SecretParameter is a credential among the parameters of a check, or a URL whose query may have
// some or that may be masked.
type SecretParameter struct {
	Path  string // in the list of checks, or in the parameters
	Name  string // in the parameters
	Value string
	// Address: it is such a URL, whose host and path may be shown.
	Address bool
}

// SecretParameters calls visit with each credential among the parameters of checks.
func SecretParameters(checks []byte, visit func(check gjson.Result, s *SecretParameter)) {
	n := 0
	gjson.ParseBytes(checks).ForEach(func(_, check gjson.Result) bool {
		at := strconv.Itoa(n) + ".parameters."
		n++
		SecretsOf(check, func(s *SecretParameter) {
			s.Path = at + s.Name
			visit(check, s)
		})
		return true
	})
}

// SecretsOf calls visit with each credential among the parameters of a check.
func SecretsOf(check gjson.Result, visit func(s *SecretParameter)) {
	kind := guardrails.Lookup(check.Get("id").Str)
	if kind == nil {
		return
	}
	secretTexts(kind.Parameters, check.Get("parameters"), "", visit)
}

// secretTexts calls visit with each credential in an object of parameters, by its path.
func secretTexts(rows []guardrails.Parameter, parameters gjson.Result, at string, visit func(s *SecretParameter)) {
	secret := func(path, value string) {
		visit(&SecretParameter{Path: path, Name: path, Value: value})
	}
	for i := range rows {
		p := &rows[i]
		switch v := parameters.Get(gjson.Escape(p.Name)); {
		case p.Members != nil:
			secretTexts(p.Members, v, at+p.Name+".", visit)
		case p.Address:
			if strings.ContainsAny(v.Str, "?#@*") {
				visit(&SecretParameter{Path: at + p.Name, Name: at + p.Name, Value: v.Str, Address: true})
			}
		case !p.Secret:
		case v.IsObject():
			v.ForEach(func(name, v gjson.Result) bool {
				if v.Type == gjson.String && v.Str != "" {
					secret(at+p.Name+"."+gjson.Escape(name.Str), v.Str)
				}
				return true
			})
		case v.Type == gjson.String && v.Str != "":
			secret(at+p.Name, v.Str)
		}
	}
}
