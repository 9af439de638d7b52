package standard

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/jsonscan"
)

var jsonKeys = guardrails.Kind{
	ID: "default.jsonKeys", Doc: "some JSON object in the text has any, all or none of the keys",
	Parameters: []guardrails.Parameter{
		{Name: "keys", Type: guardrails.Texts, Required: true, Doc: "keys of the object itself"},
		operator("any"),
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &keyed{keys: p.Texts("keys"), operator: p.Text("operator")}, nil
	},
}

// maxMatched is how much JSON is told, in bytes; of more only the beginning is.
const maxMatched = 1 << 10

type keyed struct {
	keys     []string
	operator string
}

func (c *keyed) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	d := data{"keys": c.keys, "operator": c.operator, "textExcerpt": guardrails.Excerpt(text)}
	var best string
	var present []string
	ok, any := false, false
	for _, v := range jsonValues(text) {
		if v[0] != '{' {
			continue
		}
		found := []string{}
		_ = jsonscan.Members([]byte(v), func(m jsonscan.Member) error { // it is valid
			if key := m.Key.String(); slices.Contains(c.keys, key) && !slices.Contains(found, key) {
				found = append(found, key)
			}
			return nil
		})
		if meets(c.operator, len(found), len(c.keys)) {
			ok = true
		} else if ok {
			continue
		}
		if !any || len(found) > len(present) {
			best, present, any = v, found, true
		}
	}
	if !any {
		d["explanation"] = "The text has no JSON object."
		return guardrails.Result{Data: d}, nil
	}
	missing := []string{}
	for _, key := range c.keys {
		if !slices.Contains(present, key) {
			missing = append(missing, key)
		}
	}
	d["presentKeys"], d["missingKeys"] = present, missing
	if len(best) <= maxMatched {
		d["matchedJson"] = json.RawMessage(best)
	} else {
		d["matchedJson"], d["matchedJsonExcerpt"] = nil, guardrails.Excerpt(best)
	}
	says := "has"
	if !ok {
		says = "does not have"
	}
	d["explanation"] = "The JSON of the text " + says + " " + c.operator + " of the keys."
	return guardrails.Result{Verdict: ok, Data: d}, nil
}
