package external

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/comparison"
)

// A claimValue is what a claim of a token must be.
type claimValue struct {
	claim string
	wants comparison.Func
}

// newClaimValues reads the parameter claimValues.
func newClaimValues(p *guardrails.Parameters) (all []claimValue, err error) {
	gjson.ParseBytes(p.Raw("claimValues")).ForEach(func(claim, v gjson.Result) bool {
		wrong := func(member, message string) bool {
			err = &guardrails.ParameterError{Name: strings.TrimSuffix("claimValues."+claim.Str+"."+member, "."), Message: message}
			return false
		}
		if !v.IsObject() {
			return wrong("", "expected an object with values and matchType")
		}
		way, wanted, unknown := comparison.Exact, []string(nil), ""
		wellFormed := true
		v.ForEach(func(name, v gjson.Result) bool {
			switch name.Str {
			case "values":
				wanted, wellFormed = scalars(v)
			case "matchType":
				way = v.Str
			default:
				unknown = name.Str
			}
			return true
		})
		switch {
		case unknown != "":
			return wrong(unknown, "unknown; expected values and matchType")
		case !slices.Contains(comparison.Ways, way):
			return wrong("matchType", "expected one of "+strings.Join(comparison.Ways, ", "))
		case !wellFormed || len(wanted) == 0:
			return wrong("values", "expected a string, a number, true or false, or a list of them")
		case way == comparison.Exact && len(wanted) > 1:
			return wrong("values", "expected one value, as matchType is exact")
		}
		wants, invalid := comparison.New(way, wanted)
		if invalid != nil {
			return wrong("values", invalid.Error())
		}
		all = append(all, claimValue{claim.Str, wants})
		return true
	})
	return all, err
}

// is reports whether the claim is what it must be.
func (v *claimValue) is(ctx context.Context, claims gjson.Result) (bool, error) {
	claim := member(claims, v.claim)
	values, ok := scalars(claim)
	if !ok {
		return false, nil
	}
	if claim.Type == gjson.String && strings.EqualFold(v.claim, "scope") { // RFC 6749, section 3.3
		values = strings.Fields(claim.Str)
	}
	return v.wants(ctx, values)
}

// scalars are the texts of a string, a number or a truth value, or of a list of them; not ok: it is something else.
func scalars(v gjson.Result) (all []string, ok bool) {
	list := []gjson.Result{v}
	if v.IsArray() {
		list = v.Array()
	}
	for _, v := range list {
		if v.Type == gjson.Null || v.Type == gjson.JSON {
			return nil, false
		}
		all = append(all, v.String())
	}
	return all, true
}

// same reports whether two values are the same string, number or truth value.
func same(a, b gjson.Result) bool {
	return a.Exists() && a.Type == b.Type && a.Type != gjson.Null && a.Type != gjson.JSON && a.String() == b.String()
}

// headerOf is the header of a JSON Web Token; of what is none, nothing.
func headerOf(token string) gjson.Result {
	first, _, _ := strings.Cut(token, ".")
	header, err := base64.RawURLEncoding.Strict().DecodeString(first)
	if err != nil || !json.Valid(header) {
		return gjson.Result{}
	}
	return gjson.ParseBytes(header)
}
