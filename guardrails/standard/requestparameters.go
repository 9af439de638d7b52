package standard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

var requestParameters = guardrails.Kind{
	ID: "default.requestParametersCheck", Doc: "the tools and parameters of the body are allowed",
	Phases: guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{
		{Name: "tools", Type: guardrails.Object, Doc: "allowedTypes, blockedTypes, allowedFunctionNames, blockedFunctionNames: lists of strings"},
		{Name: "params", Type: guardrails.Object, Doc: "allowedKeys, blockedKeys: lists of strings; values: an object of keys with allowedValues and blockedValues"},
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		c := new(parametersChecked)
		for name, to := range map[string]any{"tools": &c.tools, "params": &c.params} {
			if raw := p.Raw(name); raw != nil && json.Unmarshal(raw, to) != nil {
				return nil, &guardrails.ParameterError{Name: name, Message: "expected an object of lists"}
			}
		}
		return c, nil
	},
}

type parametersChecked struct {
	tools struct {
		AllowedTypes         []string `json:"allowedTypes"`
		BlockedTypes         []string `json:"blockedTypes"`
		AllowedFunctionNames []string `json:"allowedFunctionNames"`
		BlockedFunctionNames []string `json:"blockedFunctionNames"`
	}
	params struct {
		AllowedKeys []string `json:"allowedKeys"`
		BlockedKeys []string `json:"blockedKeys"`
		Values      map[string]struct {
			AllowedValues []json.RawMessage `json:"allowedValues"`
			BlockedValues []json.RawMessage `json:"blockedValues"`
		} `json:"values"`
	}
}

// A violation is why a body is not allowed.
type violation struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (c *parametersChecked) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	for _, lists := range [][2][]string{
		{c.tools.AllowedTypes, c.tools.BlockedTypes},
		{c.tools.AllowedFunctionNames, c.tools.BlockedFunctionNames},
		{c.params.AllowedKeys, c.params.BlockedKeys},
	} {
		for _, name := range lists[0] {
			if slices.Contains(lists[1], name) {
				return guardrails.Result{Verdict: true}, errors.New("something is both allowed and blocked: " + guardrails.Excerpt(name))
			}
		}
	}
	found := []violation{}
	add := func(name, reason string) { found = append(found, violation{guardrails.Excerpt(name), reason}) }
	of := func(name string, allowed, blocked []string, what string) {
		switch {
		case slices.Contains(blocked, name):
			add(name, what+"_blocked")
		case len(allowed) > 0 && !slices.Contains(allowed, name):
			add(name, what+"_not_allowed")
		}
	}
	gjson.ParseBytes(s.Request).ForEach(func(key, value gjson.Result) bool {
		name := key.Str
		of(name, c.params.AllowedKeys, c.params.BlockedKeys, "key")
		if rule, ok := c.params.Values[name]; ok {
			switch {
			case oneOf(value.Raw, rule.BlockedValues):
				add(name, "value_blocked")
			case len(rule.AllowedValues) > 0 && !oneOf(value.Raw, rule.AllowedValues):
				add(name, "value_not_allowed")
			}
		}
		if name == "tools" {
			for _, tool := range value.Array() {
				kind, function := tool.Get("type").Str, tool.Get("function.name").Str
				if function == "" {
					function = tool.Get("name").Str
				}
				if function == "" {
					function = kind
				}
				of(kind, c.tools.AllowedTypes, c.tools.BlockedTypes, "type")
				of(function, c.tools.AllowedFunctionNames, c.tools.BlockedFunctionNames, "name")
			}
		}
		return true
	})
	explanation := "The parameters of the body are allowed."
	if len(found) > 0 {
		explanation = "Parameters of the body are not allowed."
	}
	return guardrails.Result{Verdict: len(found) == 0, Data: data{"violations": found, "explanation": explanation}}, nil
}

// oneOf reports whether a value is one of a list.
func oneOf(raw string, list []json.RawMessage) bool {
	return slices.ContainsFunc(list, func(v json.RawMessage) bool { return sameJSON([]byte(raw), v) })
}

// sameJSON reports whether two values mean the same.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, errP := json.Marshal(x)
	q, errQ := json.Marshal(y)
	return errP == nil && errQ == nil && bytes.Equal(p, q)
}
