package standard

import (
	"context"
	"encoding/json"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

var jsonKeys = guardrails.Kind{
	ID: "default.jsonKeys", Doc: "some JSON object in the text has any or all of the keys; or, with none, there are objects, and no one has any of them",
	Phases: guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{
		{Name: "keys", Type: guardrails.Texts, Required: true, Doc: "keys of the object itself"},
		operator("any"),
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		c := &keyed{keys: p.Texts("keys"), operator: p.Text("operator"), wanted: make(map[string]bool)}
		for _, key := range c.keys {
			c.wanted[key] = true
		}
		return c, nil
	},
}

// maxMatched is how much JSON is reported, in bytes; of more only the beginning is.
const maxMatched = 1 << 10

type keyed struct {
	keys     []string
	operator string
	wanted   map[string]bool // the keys
}

func (c *keyed) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	d := data{"keys": c.keys, "operator": c.operator, "textExcerpt": guardrails.Excerpt(text)}
	best := "" // the object with the most of the keys
	var has map[string]bool
	err := eachJSON(ctx, text, c.operator == "none", func(v string) error {
		if v[0] != '{' {
			return nil
		}
		if found := c.keysOf(v); best == "" || len(found) > len(has) {
			best, has = v, found
		}
		if len(has) == len(c.wanted) {
			return errEnough
		}
		return ctx.Err()
	})
	ok := best != "" && meets(c.operator, len(has), len(c.wanted))
	switch decided := ok != (c.operator == "none"); { // what is not read cannot change it
	case err != nil && !decided:
		return guardrails.Result{}, err
	case best == "":
		d["explanation"] = "The text has no JSON object."
		return guardrails.Result{Data: d}, nil
	}
	present, missing := []string{}, []string{}
	for _, key := range c.keys {
		if has[key] {
			present = append(present, key)
		} else {
			missing = append(missing, key)
		}
	}
	d["presentKeys"], d["missingKeys"] = present, missing
	if len(best) <= maxMatched {
		d["matchedJson"] = json.RawMessage(best)
	} else {
		d["matchedJson"], d["matchedJsonExcerpt"] = nil, guardrails.Excerpt(best)
	}
	d["explanation"] = "The JSON of the text " + howMany(c.operator, ok) + " of the keys."
	return guardrails.Result{Verdict: ok, Data: d}, nil
}

// keysOf returns which of the keys an object has.
func (c *keyed) keysOf(object string) map[string]bool {
	found := make(map[string]bool)
	_ = jsonscan.Members([]byte(object), func(m jsonscan.Member) error { // it is valid
		if key := m.Key.String(); c.wanted[key] {
			found[key] = true
		}
		return nil
	})
	return found
}
