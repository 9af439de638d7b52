package routing

import (
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
)

// strategies parses the strategy of a target and its targets, which depend on each other.
func (p *parser) strategies(t *Target, path string, strategy, targets []byte) {
	switch {
	case strategy == nil && targets == nil:
		return
	case strategy == nil:
		p.errorf(in(path, "strategy"), "required with targets")
	case targets == nil:
		p.errorf(in(path, "targets"), "required with strategy")
	}
	s := &Strategy{Default: -1}
	if strategy != nil {
		p.mode(s, in(path, "strategy"), strategy)
	}
	t.Strategy = s
	if targets != nil {
		p.targets(t, in(path, "targets"), targets)
	}
	if strategy != nil {
		p.strategy(t, in(path, "strategy"), strategy)
	}
}

// mode parses only the mode, which the rest of the strategy depends on.
func (p *parser) mode(s *Strategy, path string, v []byte) {
	found := false
	if !p.object(path, v, func(at, name string, v []byte) {
		if name != "mode" {
			return
		}
		found = true
		switch m := Mode(text(v)); m {
		case Single, Fallback, LoadBalance, Conditional:
			s.Mode = m
		default:
			p.errorf(at, "expected single, fallback, loadbalance or conditional")
		}
	}) {
		return
	}
	if !found {
		p.errorf(in(path, "mode"), "required: single, fallback, loadbalance or conditional")
	}
}

func (p *parser) targets(t *Target, path string, v []byte) {
	most, depth := p.options.Limits.Root, 1
	if t.Strategy.Mode == Conditional {
		most = p.options.Limits.ConditionalRoot
	}
	for up := t.parent; up != nil; up = up.parent {
		most = p.options.Limits.Nested
		depth++
	}
	if depth > maxNested {
		p.errorf(path, "expected targets nested at most %d deep", maxNested)
		return
	}
	total, positive := 0, 0
	ok := p.list(path, v, 1, most, func(path string, v []byte) {
		child := p.target(path, v, t)
		t.Targets = append(t.Targets, child)
		total++
		if child.Weight > 0 {
			positive++
		}
	})
	if ok && t.Strategy.Mode == LoadBalance && positive == 0 {
		p.errorf(path, "expected at least one weight above 0")
	}
}

func (p *parser) strategy(t *Target, path string, v []byte) {
	s := t.Strategy
	var conditions []byte
	if v[0] != '{' {
		return // mode has reported it
	}
	p.object(path, v, func(at, name string, v []byte) {
		switch name {
		case "mode":
		case "on_status_codes":
			if p.only(s, at, Fallback) {
				s.OnStatusCodes = p.statuses(at, v)
			}
		case "conditions":
			conditions = v
			if p.only(s, at, Conditional) {
				p.conditions(t, at, v)
			}
		case "default":
			if p.only(s, at, Conditional) {
				s.Default = p.reference(t, at, v)
			}
		case "sticky":
			if p.only(s, at, LoadBalance) {
				s.Sticky = p.sticky(at, v)
			}
		case "cb_config":
			switch {
			case s.Mode == Conditional:
				p.errorf(at, "not allowed in a conditional strategy")
			case !p.options.Saved:
				p.errorf(at, "only allowed in a saved config")
			default:
				s.Breaker = p.breaker(at, v)
				p.savedLeaves(t, at)
			}
		default:
			p.errorf(at, "unknown key%s", suggestion(name))
		}
	})
	if s.Mode == Conditional && conditions == nil {
		p.errorf(in(path, "conditions"), "required in a conditional strategy")
	}
}

// only reports an error for a key in strategies of another mode, unless the mode itself is
// invalid.
func (p *parser) only(s *Strategy, path string, mode Mode) bool {
	if s.Mode != mode && s.Mode != "" {
		p.errorf(path, "only allowed in a %s strategy", mode)
	}
	return s.Mode == mode
}

// reference parses the name of one of the targets and returns its index.
func (p *parser) reference(t *Target, path string, v []byte) int {
	name := p.text(path, v, maxText)
	if name == "" {
		return -1
	}
	found := -1
	for i, child := range t.Targets {
		if child.Name != name {
			continue
		}
		if found >= 0 {
			p.errorf(path, "more than one target is named %q", credentials.Clip(name))
			return found
		}
		found = i
	}
	if found < 0 {
		p.errorf(path, "no target is named %q", credentials.Clip(name))
	}
	return found
}

// savedLeaves checks that a breaker only watches saved virtual keys and providers.
func (p *parser) savedLeaves(t *Target, path string) {
	for _, child := range t.Targets {
		switch {
		case !child.Leaf():
			p.savedLeaves(child, path)
		case child.VirtualKey != "" || p.savedProvider(child.Provider) || savedModel(child):
		default:
			p.errorf(path, "%s is not a virtual key or a saved provider, which is all that a breaker watches", child.Path)
		}
	}
}

// savedModel reports whether the target's model names a saved provider: @slug/model.
func savedModel(t *Target) bool {
	for ; t != nil; t = t.parent {
		if model := t.own.Lookup("model"); model != nil {
			return t.APIKey.Empty() && strings.HasPrefix(text(model), "@")
		}
	}
	return false
}

const (
	minCooldown = 30_000 // ms
	maxCooldown = 24 * 60 * 60 * 1000
)

func (p *parser) breaker(path string, v []byte) *BreakerPolicy {
	b := &BreakerPolicy{MinimumRequests: defaultMinimumRequests, Cooldown: minCooldown * time.Millisecond}
	ok := p.object(path, v, func(at, name string, v []byte) {
		switch name {
		case "failure_threshold":
			b.Failures = p.integer(at, v, 1, 1e9)
		case "failure_threshold_percentage":
			f, ok := number(v)
			if !ok || f <= 0 || f > 100 {
				p.errorf(at, "expected a number above 0 and up to 100")
				f = 100
			}
			b.Percentage = f
		case "cooldown_interval":
			ms := max(minCooldown, p.integer(at, v, 0, maxCooldown))
			b.Cooldown = time.Duration(ms) * time.Millisecond
		case "failure_status_codes":
			b.On = p.statuses(at, v)
		case "minimum_requests":
			b.MinimumRequests = p.integer(at, v, 1, 1e9)
		default:
			p.errorf(at, "unknown key%s", suggestion(name))
		}
	})
	if ok && b.Failures == 0 && b.Percentage == 0 {
		p.errorf(path, "expected failure_threshold or failure_threshold_percentage")
	}
	return b
}

func (p *parser) sticky(path string, v []byte) *Sticky {
	s := &Sticky{TTL: defaultStickyTTL}
	enabled, given := false, false
	ok := p.object(path, v, func(at, name string, v []byte) {
		switch name {
		case "enabled":
			enabled, given = p.boolean(at, v), true
		case "hash_fields":
			p.list(at, v, 0, maxHashFields, func(at string, v []byte) {
				if f, ok := p.field(at, p.text(at, v, maxPath), false); ok {
					s.Fields = append(s.Fields, f)
				}
			})
		case "ttl":
			s.TTL = time.Duration(p.integer(at, v, 1, maxStickyTTL)) * time.Second
		default:
			p.errorf(at, "unknown key%s", suggestion(name))
		}
	})
	if ok && !given {
		p.errorf(in(path, "enabled"), "required: true or false")
	}
	if enabled && !p.options.Saved {
		p.errorf(path, "only allowed in a saved config")
	}
	if !enabled {
		return nil
	}
	return s
}
