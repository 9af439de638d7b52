package standard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

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
		case slices.ContainsFunc(blocked, func(one string) bool { return strings.EqualFold(one, name) }): // which some providers take for the same
			add(name, what+"_blocked")
		case len(allowed) > 0 && !slices.Contains(allowed, name):
			add(name, what+"_not_allowed")
		}
	}
	gjson.ParseBytes(s.Request).ForEach(func(member, value gjson.Result) bool {
		name := member.Str
		of(name, c.params.AllowedKeys, c.params.BlockedKeys, "key")
		for key, rule := range c.params.Values {
			switch {
			case !strings.EqualFold(key, name):
			case oneOf(value.Raw, rule.BlockedValues):
				add(name, "value_blocked")
			case len(rule.AllowedValues) > 0 && !oneOf(value.Raw, rule.AllowedValues):
				add(name, "value_not_allowed")
			}
		}
		switch {
		case strings.EqualFold(name, "tools"):
			for _, tool := range value.Array() {
				types, functions := namesOfTool(tool)
				for _, kind := range types {
					of(kind, c.tools.AllowedTypes, c.tools.BlockedTypes, "type")
				}
				for _, function := range functions {
					of(function, c.tools.AllowedFunctionNames, c.tools.BlockedFunctionNames, "name")
				}
			}
		case strings.EqualFold(name, "functions"): // of older clients
			for _, function := range value.Array() {
				of("function", c.tools.AllowedTypes, c.tools.BlockedTypes, "type")
				for _, one := range named(function, "name") {
					of(one.Str, c.tools.AllowedFunctionNames, c.tools.BlockedFunctionNames, "name")
				}
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

// namesOfTool are the types of a tool, and the names of what it calls: that of its function, or else its own, or else its
// type. Providers differ in which of several members they take, and some in any letter case.
func namesOfTool(tool gjson.Result) (types, functions []string) {
	for _, kind := range named(tool, "type") {
		types = append(types, kind.Str)
	}
	if len(types) == 0 {
		types = []string{""}
	}
	var names []gjson.Result
	for _, function := range named(tool, "function") {
		names = append(names, named(function, "name")...)
	}
	for _, name := range append(names, named(tool, "name")...) {
		if name.Str != "" && !slices.Contains(functions, name.Str) {
			functions = append(functions, name.Str)
		}
	}
	if len(functions) == 0 {
		functions = types
	}
	return types, functions
}

// named returns the members of an object with a name, in any letter case.
func named(object gjson.Result, name string) (all []gjson.Result) {
	if !object.IsObject() {
		return nil
	}
	object.ForEach(func(key, value gjson.Result) bool {
		if strings.EqualFold(key.Str, name) {
			all = append(all, value)
		}
		return true
	})
	return all
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
