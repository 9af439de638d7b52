package standard

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

var modelWhitelist = guardrails.Kind{
	ID: "default.modelwhitelist", Doc: "the model is one of a list",
	Phases:     guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{{Name: "models", Type: guardrails.Texts, Required: true, Doc: "names of models"}, not},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &listed{models: p.Texts("models"), not: p.Boolean("not")}, nil
	},
}

type listed struct {
	models []string
	not    bool
}

func (c *listed) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	return allowed(s, c.models, c.not)
}

// allowed judges the model of a call by a list.
func allowed(s *guardrails.Subject, models []string, not bool) (guardrails.Result, error) {
	model := s.Model
	switch {
	case s.OtherModel:
		return guardrails.Result{}, guardrails.Unreadable("the call may be for another model than the one that was read")
	case model == "":
		return guardrails.Result{}, guardrails.Unreadable("the call names no model")
	}
	in := slices.Contains(models, model)
	if not { // providers may take a spelling in another letter case for the same model
		in = slices.ContainsFunc(models, func(one string) bool {
			return strings.EqualFold(strings.TrimSpace(one), strings.TrimSpace(model))
		})
	}
	says := "is"
	if !in {
		says = "is not"
	}
	return guardrails.Result{Verdict: in != not, Data: data{
		"requestedModel": model, "allowedModels": models, "not": not, "explanation": "The model " + says + " in the list.",
	}}, nil
}

var modelRules = guardrails.Kind{
	ID: "default.modelRules", Doc: "the model is one of those that the call's metadata selects",
	Phases: guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{
		{Name: "rules", Type: guardrails.Object, Required: true, Doc: "defaults, a list of models; metadata, an object of keys, whose values are objects of values and lists of models"},
		not,
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		c := &ruled{not: p.Boolean("not")}
		if err := json.Unmarshal(p.Raw("rules"), &c.rules); err != nil {
			return nil, &guardrails.ParameterError{Name: "rules", Message: "expected defaults, a list of models, and metadata, an object of keys with objects of values and lists of models"}
		}
		return c, nil
	},
}

type ruled struct {
	rules struct {
		Defaults []string                       `json:"defaults"`
		Metadata map[string]map[string][]string `json:"metadata"`
	}
	not bool
}

func (c *ruled) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	var models []string
	matched := false
	for key, byValue := range c.rules.Metadata {
		for _, value := range metadataValues(s, key) {
			if list, ok := byValue[value]; ok {
				matched = true
				models = append(models, list...)
			}
		}
	}
	if !matched {
		models = slices.Clone(c.rules.Defaults)
	}
	switch {
	case len(models) > 0:
	case len(c.rules.Metadata) > 0:
		return guardrails.Result{}, guardrails.Unreadable("no rule applies to the metadata of the call")
	default:
		return guardrails.Result{}, errors.New("there are no rules")
	}
	slices.Sort(models)
	return allowed(s, slices.Compact(models), c.not)
}

// metadataValues are the values of a key of the call's metadata: one, or those of a list.
func metadataValues(s *guardrails.Subject, key string) (values []string) {
	gjson.ParseBytes(s.Metadata).ForEach(func(k, v gjson.Result) bool {
		switch {
		case k.Str != key:
			return true
		case v.IsArray():
			for _, element := range v.Array() {
				values = append(values, element.String())
			}
		case v.Type != gjson.Null:
			values = []string{v.String()}
		}
		return false
	})
	return values
}
