package standard

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/caddy-gw/gateway/guardrails"
)

var allowedRequestTypes = guardrails.Kind{
	ID: "default.allowedRequestTypes", Doc: "the endpoint is allowed and not blocked; stream-<endpoint> stands for its streams",
	Parameters: []guardrails.Parameter{
		{Name: "allowedTypes", Type: guardrails.Any, Doc: "a list of endpoints, or a text with commas; if neither list is given, supported_endpoints and blocked_endpoints of the metadata count"},
		{Name: "blockedTypes", Type: guardrails.Any, Doc: "a list of endpoints, or a text with commas; it wins"},
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		allowed, err := typeList(p, "allowedTypes")
		if err != nil {
			return nil, err
		}
		blocked, err := typeList(p, "blockedTypes")
		if err != nil {
			return nil, err
		}
		return &typed{allowed: allowed, blocked: blocked}, nil
	},
}

func typeList(p *guardrails.Parameters, name string) (list []string, err error) {
	raw := p.Raw(name)
	switch {
	case raw == nil:
		return nil, nil
	case raw[0] == '"':
		return split(p.Text(name)), nil
	case raw[0] != '[' || json.Unmarshal(raw, &list) != nil:
		return nil, &guardrails.ParameterError{Name: name, Message: "expected a list of strings, or a string with commas"}
	}
	return list, nil
}

type typed struct{ allowed, blocked []string }

func (c *typed) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	allowed, blocked := c.allowed, c.blocked
	wrong := errors.New
	if len(allowed) == 0 && len(blocked) == 0 {
		wrong = guardrails.Unreadable
		for _, v := range metadataValues(s, "supported_endpoints") {
			allowed = append(allowed, split(v)...)
		}
		for _, v := range metadataValues(s, "blocked_endpoints") {
			blocked = append(blocked, split(v)...)
		}
	}
	for _, t := range allowed {
		if slices.Contains(blocked, t) {
			return guardrails.Result{}, wrong("an endpoint is both allowed and blocked: " + guardrails.Excerpt(t))
		}
	}
	names := []string{s.Type}
	if s.Stream {
		names = append(names, "stream-"+s.Type)
	}
	in := func(list []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(list, name) })
	}
	mode, ok := "unrestricted", true
	switch {
	case len(allowed) > 0 && len(blocked) > 0:
		mode, ok = "combined", in(allowed) && !in(blocked)
	case len(allowed) > 0:
		mode, ok = "allowlist", in(allowed)
	case len(blocked) > 0:
		mode, ok = "blocklist", !in(blocked)
	}
	says := "is"
	if !ok {
		says = "is not"
	}
	return guardrails.Result{Verdict: ok, Data: data{
		"currentRequestType": s.Type, "allowedTypes": allowed, "blockedTypes": blocked, "mode": mode, "explanation": "The endpoint " + says + " allowed.",
	}}, nil
}
