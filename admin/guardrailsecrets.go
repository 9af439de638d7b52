package admin

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/hooks"
)

// maskChecks returns checks with their credentials masked.
func maskChecks(checks []byte) []byte {
	masked := checks
	hooks.SecretParameters(checks, func(_ gjson.Result, s *hooks.SecretParameter) {
		if out, err := sjson.SetBytes(masked, s.Path, shownParameter(s)); err == nil {
			masked = out
		}
	})
	return masked
}

// shownParameter is how a credential among the parameters of a check is shown.
func shownParameter(s *hooks.SecretParameter) string {
	if s.Address {
		shown, _ := credentials.MaskQuery(s.Value)
		return shown
	}
	return credentials.NewSecret(s.Value).Hint()
}

// unmaskChecks returns checks with the credentials that are sent as they are shown replaced by the
// stored ones. Where anything else of a check changes, such as where the credential goes, it has to
// be sent in clear. What is masked and stands for nothing that is stored is an error.
func unmaskChecks(checks, stored []byte) (whole []byte, err error) {
	// First the URLs, which are where the other credentials go.
	if whole, err = unmaskAddresses(checks, stored); err != nil {
		return nil, err
	}
	kept := make(map[string]string) // by its path
	hooks.SecretParameters(whole, func(check gjson.Result, s *hooks.SecretParameter) {
		hooks.SecretParameters(stored, func(old gjson.Result, was *hooks.SecretParameter) {
			if s.Address || was.Name != s.Name || shownParameter(was) != s.Value || s.Value == was.Value || err != nil {
				return
			}
			if !sameButSecrets(check, old) {
				err = invalid("checks."+s.Path, "the credential has to be sent in clear, because other parameters of the check have changed")
				return
			}
			if out, wrong := sjson.SetBytes(whole, s.Path, was.Value); wrong == nil {
				whole = out
				kept[s.Path] = was.Value
			}
		})
	})
	hooks.SecretParameters(whole, func(_ gjson.Result, s *hooks.SecretParameter) {
		if !s.Address && err == nil && strings.Contains(s.Value, credentials.Masked) && kept[s.Path] != s.Value {
			err = invalid("checks."+s.Path, "a masked value that stands for no stored credential; send the credential itself")
		}
	})
	return whole, err
}

// unmaskAddresses returns checks with the URLs that are sent as they are shown replaced by the stored
// ones. What is shown of one has its destination, so that no other URL gets its query.
func unmaskAddresses(checks, stored []byte) (whole []byte, err error) {
	whole = checks
	hooks.SecretParameters(checks, func(check gjson.Result, s *hooks.SecretParameter) {
		if !s.Address || !strings.Contains(s.Value, credentials.Masked) || err != nil {
			return
		}
		var same string    // at the same place of the list
		var found []string // elsewhere
		hooks.SecretParameters(stored, func(old gjson.Result, was *hooks.SecretParameter) {
			switch {
			case was.Name != s.Name || shownParameter(was) != s.Value || guardrails.Lookup(old.Get("id").Str) != guardrails.Lookup(check.Get("id").Str):
			case was.Path == s.Path:
				same = was.Value
			case !slices.Contains(found, was.Value):
				found = append(found, was.Value)
			}
		})
		if same == "" && len(found) == 1 {
			same = found[0]
		}
		if same == "" {
			err = invalid("checks."+s.Path, "what is masked has to be sent in clear, because it stands for nothing that is stored for this URL, or for several values")
			return
		}
		if out, wrong := sjson.SetBytes(whole, s.Path, same); wrong == nil {
			whole = out
		}
	})
	return whole, err
}

// sameButSecrets reports whether two checks have the same id and parameters, apart from credentials.
func sameButSecrets(a, b gjson.Result) bool {
	read := func(check gjson.Result) (id string, parameters map[string]any) {
		id = check.Get("id").Str
		bare := []byte(check.Get("parameters").Raw)
		hooks.SecretsOf(check, func(s *hooks.SecretParameter) {
			if s.Address {
				return
			}
			if out, err := sjson.SetBytes(bare, s.Name, ""); err == nil {
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
