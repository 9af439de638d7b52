package admin

import (
	"encoding/json"
	"reflect"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/hooks"
)

// maskChecks returns checks with their credentials masked.
func maskChecks(checks []byte) []byte {
	masked := checks
	hooks.SecretParameters(checks, func(_ gjson.Result, path, _, value string) {
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
	hooks.SecretParameters(checks, func(check gjson.Result, path, name, value string) {
		hooks.SecretParameters(stored, func(old gjson.Result, _, of, secret string) {
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
		hooks.SecretsOf(check, func(name, _ string) {
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
