package routing

import (
	"fmt"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/hooks"
)

const (
	maxText    = 256     // bytes of a name or a slug
	maxHost    = 2048    // bytes of an address
	maxSecret  = 8 << 10 // bytes of a credential
	maxTimeout = 24 * 60 * 60 * 1000
	maxWeight  = 1e9
	maxParams  = 100 // members of override_params, default_params and drop_params
)

// target parses the config object at path.
func (p *parser) target(path string, v []byte, parent *Target) *Target {
	t := &Target{Path: "config", Weight: 1, parent: parent}
	if path != "" {
		t.Path = "config." + path
	}
	given := make(map[string]bool)
	var strategy, targets []byte
	if !p.object(path, v, func(at, name string, v []byte) {
		given[name] = true
		switch name {
		case "strategy":
			strategy = v
		case "targets":
			targets = v
		case "name":
			t.Name = p.text(at, v, maxText)
		case "weight":
			t.Weight = p.weight(at, v)
		case "provider":
			t.Provider = p.text(at, v, maxText)
			p.refer(Reference{Path: at, Name: t.Provider})
		case "virtual_key":
			t.VirtualKey = p.text(at, v, maxText)
			p.refer(Reference{Path: at, Name: t.VirtualKey, VirtualKey: true})
		case "api_key":
			t.APIKey = credentials.NewSecret(p.text(at, v, maxSecret))
		case "custom_host":
			t.CustomHost = p.host(at, v)
		case "prompt_id":
			t.PromptID = p.text(at, v, maxText)
			p.config.Prompts = true
			p.refer(Reference{Path: at, Name: t.PromptID, Prompt: true})
		case "retry":
			t.Retry = p.retry(at, v)
		case "cache":
			t.Cache = p.cache(at, v)
		case "request_timeout":
			t.RequestTimeout = time.Duration(p.integer(at, v, 1, maxTimeout)) * time.Millisecond
		case "override_params":
			t.own.Override = p.params(at, v)
		case "default_params":
			t.own.Default = p.params(at, v)
		case "drop_params":
			t.own.Drop = p.paths(at, v)
		case "forward_headers":
			t.ForwardHeaders = p.headers(at, v)
		case "strict_open_ai_compliance":
			strict := p.boolean(at, v)
			t.Strict = &strict
		case "passthrough":
			if p.atTop(at, parent) {
				p.config.Passthrough = p.boolean(at, v)
			}
		case "fetch_integrated_models":
			if p.atTop(at, parent) {
				p.config.FetchIntegratedModels = p.boolean(at, v)
			}
		case "start_hooks":
			if p.atTop(at, parent) {
				p.hooks(t, at, name, v)
				p.config.Start = t.hooks[hooks.StartHooks]
			}
		case "before_request_hooks", "input_guardrails", "input_mutators", "after_request_hooks", "output_guardrails", "output_mutators":
			p.hooks(t, at, name, v)
		case "options":
			p.errorf(at, "no longer accepted: use targets")
		default:
			if !p.vendor(t, at, name, v) {
				p.errorf(at, "unknown key%s", suggestion(name))
			}
		}
	}) {
		return t
	}
	p.referToModels(t, path)
	t.own.findSecrets()
	p.strategies(t, path, strategy, targets)
	p.complete(t, path, given)
	if t.PromptID != "" && (given["strategy"] || given["targets"]) {
		p.errorf(in(path, "prompt_id"), "not allowed with targets; name the prompt in one of them")
	}
	if parent == nil && p.config.Passthrough {
		for _, name := range []string{"targets", "strategy", "override_params", "prompt_id", "input_guardrails", "output_guardrails", "before_request_hooks", "after_request_hooks", "input_mutators", "output_mutators"} {
			if given[name] {
				p.errorf(in(path, name), "not allowed with passthrough")
			}
		}
	}
	return t
}

func (p *parser) atTop(path string, parent *Target) bool {
	if parent != nil {
		p.errorf(path, "only allowed at the top of a config")
	}
	return parent == nil
}

// complete checks that the object can be called: it must have one of the documented
// combinations, or a saved provider.
func (p *parser) complete(t *Target, path string, given map[string]bool) {
	for _, name := range []string{
		"virtual_key", "strategy", "targets", "cache", "retry", "prompt_id", "forward_headers", "request_timeout", "passthrough",
		"override_params", "default_params", "drop_params", "before_request_hooks", "after_request_hooks",
		"input_guardrails", "output_guardrails", "input_mutators", "output_mutators", "options", "fetch_integrated_models", "start_hooks",
	} {
		if given[name] {
			return
		}
	}
	if given["provider"] && (given["api_key"] || given["custom_host"] || len(t.Vendor) > 0 || t.Provider == "" || p.savedProvider(t.Provider)) {
		return
	}
	p.errorf(path, "expected at least one of: virtual_key; provider with api_key, with custom_host or as the @slug of a saved provider; "+
		"strategy with targets; prompt_id; cache; retry; forward_headers; request_timeout; passthrough; override_params; default_params; drop_params; hooks, guardrails or mutators")
}

func (p *parser) savedProvider(name string) bool {
	return strings.HasPrefix(name, "@") || p.options.SavedProvider != nil && p.options.SavedProvider(p.options.Workspace, name)
}

func (p *parser) weight(path string, v []byte) float64 {
	w, ok := number(v)
	if !ok || w < 0 || w > maxWeight {
		p.errorf(path, "expected a number from 0 to %d", int(maxWeight))
		return 1
	}
	return w
}

// host parses an address, which the guard checks.
func (p *parser) host(path string, v []byte) string {
	host := p.text(path, v, maxHost)
	if host != "" && p.options.CheckHost != nil {
		if err := p.options.CheckHost(host); err != nil {
			p.errorf(path, "%s", err)
		}
	}
	return host
}

func (p *parser) retry(path string, v []byte) *Retry {
	r := &Retry{On: retryable}
	var spelled string
	p.object(path, v, func(at, name string, v []byte) {
		switch name {
		case "attempts":
			r.Attempts = p.integer(at, v, 0, MaxRetries)
		case "on_status_codes":
			r.On = p.statuses(at, v)
		case "use_retry_after_header", "use_retry_after_headers":
			if spelled != "" {
				p.errorf(at, "the same as %s, which is given too", spelled)
			}
			spelled = name
			r.UseRetryAfter = p.boolean(at, v)
		default:
			p.errorf(at, "unknown key%s", suggestion(name))
		}
	})
	return r
}

const (
	minMaxAge = 60
	maxMaxAge = 7_776_000
)

func (p *parser) cache(path string, v []byte) *Cache {
	c := new(Cache)
	if v[0] == '"' {
		c.Mode = p.cacheMode(path, v)
		return c
	}
	given := false
	ok := p.object(path, v, func(at, name string, v []byte) {
		switch name {
		case "mode":
			given = true
			c.Mode = p.cacheMode(at, v)
		case "max_age":
			c.MaxAge = time.Duration(p.integer(at, v, minMaxAge, maxMaxAge)) * time.Second
		default:
			p.errorf(at, "unknown key%s", suggestion(name))
		}
	})
	if ok && !given {
		p.errorf(in(path, "mode"), "required: simple or semantic")
	}
	return c
}

func (p *parser) cacheMode(path string, v []byte) string {
	switch string(v) {
	case `"simple"`:
		return "simple"
	case `"semantic"`:
		if p.options.Semantic {
			return "semantic"
		}
		p.errorf(path, "semantic needs a model of embeddings, which the operator has not set up (semantic_cache)")
	default:
		p.errorf(path, "expected simple or semantic")
	}
	return ""
}

// params parses an object whose keys are paths in the body.
func (p *parser) params(path string, v []byte) (params []Param) {
	n := 0
	p.object(path, v, func(at, name string, v []byte) {
		if n++; n > maxParams {
			return
		}
		to, wrong := ParsePath(name)
		switch {
		case wrong != "":
			p.errorf(at, "%s", wrong)
		case name == "model" && (v[0] != '"' || len(v) > 2*maxText || len(v) == 2):
			p.errorf(at, "expected a string of 1 to %d bytes", 2*maxText-2)
		case name == "stream" && v[0] != 't' && v[0] != 'f':
			p.errorf(at, "expected true or false")
		}
		params = append(params, Param{name, to, v})
	})
	if n > maxParams {
		p.errorf(path, "expected at most %d members", maxParams)
	}
	return params
}

func (p *parser) paths(path string, v []byte) (paths []Path) {
	p.list(path, v, 0, maxParams, func(at string, v []byte) {
		if v[0] != '"' {
			p.errorf(at, "expected a string")
			return
		}
		to, wrong := ParsePath(text(v))
		if wrong != "" {
			p.errorf(at, "%s", wrong)
			return
		}
		paths = append(paths, to)
	})
	return paths
}

// suggestion returns the spelling that the author of an unknown key may have meant.
func suggestion(name string) string {
	if len(name) > maxText {
		return ""
	}
	var snake strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			snake.WriteByte('_')
			r += 'a' - 'A'
		}
		snake.WriteRune(r)
	}
	if s := snake.String(); s != name && known[s] {
		return fmt.Sprintf(": write %s", s)
	}
	return ""
}

// known maps keys in camelCase to the known ones.
var known = func() map[string]bool {
	m := make(map[string]bool)
	for _, name := range []string{
		"virtual_key", "api_key", "custom_host", "prompt_id", "request_timeout", "override_params", "default_params", "drop_params",
		"forward_headers", "strict_open_ai_compliance", "fetch_integrated_models", "on_status_codes", "cb_config", "max_age",
		"before_request_hooks", "input_guardrails", "input_mutators", "after_request_hooks", "output_guardrails", "output_mutators", "start_hooks",
		"use_retry_after_header", "use_retry_after_headers", "hash_fields", "failure_threshold", "failure_threshold_percentage",
		"cooldown_interval", "failure_status_codes", "minimum_requests",
	} {
		m[name] = true
	}
	for name := range vendorKeys {
		m[name] = true
	}
	return m
}()
