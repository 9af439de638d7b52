// Package routing interprets configs: which targets they have, and in which order these are
// tried.
//
// [Parse] parses a config (inline or saved) and lists all errors in it. [Config.Plan] walks
// its strategies for one call: it returns the leaf targets one by one and is given the
// outcome of each. [Retry.Wait] says how long to wait before a leaf is retried, [Breakers]
// which targets to skip for a while, and [Apply] applies a target's changes to a body.
//
// Everything here is a function of its arguments: there is no I/O, and the caller provides
// the clock and random numbers.
package routing

import (
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/hooks"
)

// A Config is a valid parsed config. It is read-only and may be shared.
type Config struct {
	Root *Target

	// Passthrough is set if the call goes to the provider unchanged; there are no targets.
	Passthrough bool
	// FetchIntegratedModels is set if /models lists the gateway's own models.
	FetchIntegratedModels bool
	// Start are the hooks that run once for a call, before all others.
	Start []*hooks.Hook
	// Prompts is set if a target has a PromptID.
	Prompts bool

	fields []field // that conditions read, without duplicates
}

// A Target is one node of a config: the root, or an element of targets. One without a
// strategy is a leaf, which can be called. Its settings include inherited ones.
type Target struct {
	Path   string // in the form of x-gw-last-used-option-index: config.targets[0]
	Name   string
	Weight float64 // in a load balance; default 1

	Provider   string // a name, a slug or @slug
	VirtualKey string // slug
	APIKey     credentials.Secret
	CustomHost string
	PromptID   string    // slug or id of a saved prompt, whose messages and parameters the call gets; it may end with @version
	Vendor     []Setting // aws_region and the like, in order

	Retry          *Retry // nil: no retry
	Cache          *Cache // nil: no cache
	RequestTimeout time.Duration
	ForwardHeaders []string // canonical names, copied raw from the client's request
	Strict         *bool    // strict_open_ai_compliance; nil: unset

	// Before and After are the hooks of the calls to this leaf and of their answers, in order.
	Before, After []*hooks.Hook

	Strategy *Strategy // nil: a leaf
	Targets  []*Target

	// Breaker watches this leaf. It may be nil.
	Breaker *BreakerPolicy

	hooks  [hooks.Lists][]*hooks.Hook // nil: inherited
	own    Edit                       // without inherited parameters
	edit   atomic.Pointer[Edit]
	parent *Target
}

// A Setting is a vendor's key. Its value may be a secret.
type Setting struct {
	Name  string
	Value credentials.Secret // text, or JSON where the config has an object
}

// Leaf reports whether the target can be called.
func (t *Target) Leaf() bool { return t.Strategy == nil }

// Selection returns the provider that the target selects, for a Router. Its Model is the
// one that overrides the body's, or "".
func (t *Target) Selection() credentials.Selection {
	s := credentials.Selection{VirtualKey: t.VirtualKey, Provider: t.Provider, CustomHost: t.CustomHost, Bearer: t.APIKey}
	if s.CustomHost == "" {
		s.CustomHost = Host(t.Vendor)
	}
	if model := t.Edit().Lookup("model"); model != nil {
		s.Model = text(model)
	}
	return s
}

// Leaves returns the targets that calls may go to.
func (c *Config) Leaves() []*Target {
	var leaves []*Target
	var walk func(*Target)
	walk = func(t *Target) {
		if t.Leaf() {
			leaves = append(leaves, t)
		}
		for _, child := range t.Targets {
			walk(child)
		}
	}
	walk(c.Root)
	return leaves
}

// A Mode is how a strategy chooses among its targets.
type Mode string

// The modes.
const (
	Single      Mode = "single"      // the first target
	Fallback    Mode = "fallback"    // in order, while they fail
	LoadBalance Mode = "loadbalance" // one, by weight
	Conditional Mode = "conditional" // the one whose conditions match
)

// A Strategy chooses among the targets of a node.
type Strategy struct {
	Mode          Mode
	OnStatusCodes *StatusSet // fallback: the statuses that go to the next target; nil: any but 2xx
	Conditions    []Condition
	Default       int            // conditional: index of the default target; -1: none
	Sticky        *Sticky        // load balance; nil: not sticky
	Breaker       *BreakerPolicy // cb_config; nil: none, or inherited
}

// Cache is the cache setting of a target.
type Cache struct {
	Mode   string        // simple
	MaxAge time.Duration // 0: the default
}

// A StatusSet is a set of HTTP status codes.
type StatusSet [10]uint64

// Statuses returns the set of the given codes.
func Statuses(codes ...int) *StatusSet {
	s := new(StatusSet)
	for _, code := range codes {
		s[code/64] |= 1 << (code % 64)
	}
	return s
}

// Has reports whether code is in the set.
func (s *StatusSet) Has(code int) bool {
	return code >= 0 && code/64 < len(s) && s[code/64]&(1<<(code%64)) != 0
}
