package routing

import (
	"slices"

	"github.com/caddy-gw/gateway/internal/hooks"
)

// inherit passes the settings of t on to its targets unless they have their own: retry and
// cache as a whole, request_timeout, custom_host, forward_headers,
// strict_open_ai_compliance, each list of hooks, and the breaker of a strategy to its leaves.
func (t *Target) inherit() {
	if t.Leaf() {
		t.Before = slices.Concat(t.hooks[hooks.BeforeRequest], t.hooks[hooks.InputGuardrails], t.hooks[hooks.InputMutators])
		t.After = slices.Concat(t.hooks[hooks.AfterRequest], t.hooks[hooks.OutputGuardrails], t.hooks[hooks.OutputMutators])
	}
	for _, child := range t.Targets {
		if child.Retry == nil {
			child.Retry = t.Retry
		}
		if child.Cache == nil {
			child.Cache = t.Cache
		}
		if child.RequestTimeout == 0 {
			child.RequestTimeout = t.RequestTimeout
		}
		if child.CustomHost == "" {
			child.CustomHost = t.CustomHost
		}
		if child.ForwardHeaders == nil {
			child.ForwardHeaders = t.ForwardHeaders
		}
		if child.Strict == nil {
			child.Strict = t.Strict
		}
		for list, own := range child.hooks {
			if own == nil {
				child.hooks[list] = t.hooks[list]
			}
		}
		switch breaker := t.Strategy.Breaker; {
		case breaker == nil || child.Strategy != nil && child.Strategy.Breaker != nil:
		case child.Leaf():
			child.Breaker = breaker
		default:
			child.Strategy.Breaker = breaker
		}
		child.inherit()
	}
}

// Edit returns the target's changes to a body, including those of its ancestors: the
// nearest value of a parameter counts, and drops are combined.
func (t *Target) Edit() *Edit {
	if e := t.edit.Load(); e != nil {
		return e
	}
	e := &t.own
	if t.parent != nil {
		e = t.parent.Edit().And(e)
	}
	t.edit.Store(e)
	return e
}

// And returns the changes of both edits: of a parameter that both set, that of other counts.
func (e *Edit) And(other *Edit) *Edit {
	switch {
	case e.Empty():
		return other
	case other.Empty():
		return e
	}
	both := &Edit{
		Default:  merged(e.Default, other.Default),
		Override: merged(e.Override, other.Override),
		Drop:     union(e.Drop, other.Drop),
	}
	both.findSecrets()
	return both
}

// merged returns the parameters of a parent with those of a child, which take precedence.
func merged(parent, child []Param) []Param {
	out := make([]Param, 0, len(parent)+len(child))
	at := make(map[string]int, len(parent)+len(child))
	for _, list := range [][]Param{parent, child} {
		for _, p := range list {
			if i, ok := at[p.Key]; ok {
				out[i] = p
				continue
			}
			at[p.Key] = len(out)
			out = append(out, p)
		}
	}
	return out
}

func union(parent, child []Path) []Path {
	out := make([]Path, 0, len(parent)+len(child))
	seen := make(map[string]bool, len(parent)+len(child))
	for _, list := range [][]Path{parent, child} {
		for _, p := range list {
			if key := p.String(); !seen[key] {
				seen[key] = true
				out = append(out, p)
			}
		}
	}
	return out
}
