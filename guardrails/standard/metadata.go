package standard

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/comparison"
)

var requiredMetadataKeys = guardrails.Kind{
	ID: "default.requiredMetadataKeys", Doc: "the call's metadata has all, any or none of the keys",
	Parameters: []guardrails.Parameter{
		{Name: "metadataKeys", Type: guardrails.Texts, Required: true, Doc: "keys of x-gw-metadata"},
		operator("all"),
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &keysRequired{keys: p.Texts("metadataKeys"), operator: p.Text("operator")}, nil
	},
}

type keysRequired struct {
	keys     []string
	operator string
}

func (c *keysRequired) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	return required(c.keys, c.operator, "keys", func(key string) (bool, error) { return metadataValues(s, key) != nil, nil })
}

// required judges which of a list the metadata has. what is what they are.
func required(keys []string, operator, what string, has func(string) (bool, error)) (guardrails.Result, error) {
	present, missing := []string{}, []string{}
	for _, key := range keys {
		switch ok, err := has(key); {
		case err != nil:
			return guardrails.Result{}, err
		case ok:
			present = append(present, key)
		default:
			missing = append(missing, key)
		}
	}
	ok := meets(operator, len(present), len(keys))
	return guardrails.Result{Verdict: ok, Data: data{
		"operator": operator, "presentKeys": present, "missingKeys": missing, "explanation": "The metadata " + howMany(operator, ok) + " of the " + what + ".",
	}}, nil
}

var requiredMetadataKeyPairs = guardrails.Kind{
	ID: "default.requiredMetadataKeyPairs", Doc: "the call's metadata has all, any or none of the keys with their values",
	Parameters: []guardrails.Parameter{
		{Name: "metadataPairs", Type: guardrails.Object, Required: true, Doc: "keys, each with a value or a list of values of which one is enough (with containsAll: all)"},
		operator("all"),
		{Name: "matchType", OneOf: comparison.Ways, Default: `"exact"`, Doc: "how a value is compared"},
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return newPairs(p.Raw("metadataPairs"), p.Text("operator"), p.Text("matchType"))
	},
}

func newPairs(raw json.RawMessage, operator, match string) (guardrails.Check, error) {
	wrong := func(message string) error {
		return &guardrails.ParameterError{Name: "metadataPairs", Message: message}
	}
	var pairs map[string]any
	if json.Unmarshal(raw, &pairs) != nil || len(pairs) == 0 {
		return nil, wrong("expected an object with at least one key")
	}
	c := &pairsRequired{operator: operator, match: match, wanted: make(map[string]comparison.Func, len(pairs))}
	for key, v := range pairs {
		list, several := v.([]any)
		if !several {
			list = []any{v}
		}
		var wanted []string
		for _, element := range list {
			text, ok := element.(string)
			if !ok {
				encoded, err := json.Marshal(element)
				if err != nil {
					return nil, wrong("expected strings")
				}
				text = string(encoded)
			}
			wanted = append(wanted, text)
		}
		c.keys = append(c.keys, key)
		var err error
		if c.wanted[key], err = comparison.New(match, wanted); err != nil {
			return nil, wrong(err.Error())
		}
	}
	slices.Sort(c.keys)
	return c, nil
}

type pairsRequired struct {
	operator, match string
	keys            []string
	wanted          map[string]comparison.Func
}

func (c *pairsRequired) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	return required(c.keys, c.operator, "pairs of keys and values", func(key string) (bool, error) {
		values := metadataValues(s, key)
		if values == nil {
			return false, ctx.Err()
		}
		return c.wanted[key](ctx, values)
	})
}
