package admin

import (
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
)

// secretParameters calls visit with each credential among the parameters of checks, by its name
// within the parameters.
func secretParameters(checks []byte, visit func(check gjson.Result, path, name, value string)) {
	n := 0
	gjson.ParseBytes(checks).ForEach(func(_, check gjson.Result) bool {
		at := strconv.Itoa(n) + ".parameters."
		n++
		secretsOf(check, func(name, value string) { visit(check, at+name, name, value) })
		return true
	})
}

// secretsOf calls visit with each credential among the parameters of a check.
func secretsOf(check gjson.Result, visit func(name, value string)) {
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

// maskChecks returns checks with their credentials masked.
func maskChecks(checks []byte) []byte {
	masked := checks
	secretParameters(checks, func(_ gjson.Result, path, _, value string) {
		if out, err := sjson.SetBytes(masked, path, credentials.NewSecret(value).Hint()); err == nil {
			masked = out
		}
	})
	return masked
}

// unmaskChecks returns checks with the credentials that are sent as they are shown replaced by the
// stored ones. Where anything else of a check changes, such as where the credential goes, it has to
// be sent in clear.
func unmaskChecks(checks, stored []byte) (whole []byte, err error) {
	whole = checks
	secretParameters(checks, func(check gjson.Result, path, name, value string) {
		secretParameters(stored, func(old gjson.Result, _, of, secret string) {
			if of != name || credentials.NewSecret(secret).Hint() != value || value == secret || err != nil {
				return
			}
			if !sameButSecrets(check, old) {
				err = invalid("checks."+path, "the credential has to be sent in clear, because other parameters of the check have changed")
				return
			}
			if out, wrong := sjson.SetBytes(whole, path, secret); wrong == nil {
				whole = out
			}
		})
	})
	return whole, err
}

// sameButSecrets reports whether two checks have the same id and parameters, apart from credentials.
func sameButSecrets(a, b gjson.Result) bool {
	read := func(check gjson.Result) (id string, parameters map[string]any) {
		id = check.Get("id").Str
		bare := []byte(check.Get("parameters").Raw)
		secretsOf(check, func(name, _ string) {
			if out, err := sjson.SetBytes(bare, name, ""); err == nil {
				bare = out
			}
		})
		if json.Unmarshal(bare, &parameters) != nil {
			return id, nil
		}
		if kind := guardrails.Lookup(id); kind != nil {
			id = kind.ID
		}
		return id, parameters
	}
	id, parameters := read(a)
	otherID, others := read(b)
	return id == otherID && reflect.DeepEqual(parameters, others)
}
