// Package routing is what a config says, and in which order its targets are tried.
//
// [Parse] reads a config (inline or saved) and lists every fault in it.
// [Config.Plan] walks its strategies for one call: it hands out leaf targets one by
// one and is told what became of each. [Retry.Wait] says how long to wait before a
// leaf is tried again, [Breakers] which targets to leave out for a while, and
// [Apply] what a target makes of the body.
//
// Everything here is a function of its arguments: no I/O, and clock and randomness
// are given by the caller.
package routing

import (
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/credentials"
)

// A Config is a config object that was parsed without a fault. It is read-only and
// may be shared.
type Config struct {
	Root *Target

	// Passthrough: the call goes to the provider as it came; there are no targets.
	Passthrough bool
	// FetchIntegratedModels: /models answers from the catalogue.
	FetchIntegratedModels bool

	fields []field // that conditions read, each once
}

// A Target is one node of a config: the root, or an element of targets. One
// without a strategy is a leaf, which can be called. Its settings are those that
// hold for it, inherited ones included.
type Target struct {
	Path   string // as x-gw-last-used-option-index shows it: config.targets[0]
	Name   string
	Weight float64 // in a load balance; default 1

	Provider   string // a name, a slug or @slug
	VirtualKey string // slug
	APIKey     credentials.Secret
	CustomHost string
	Vendor     []Setting // aws_region and the like, in order

	Retry          *Retry // nil: no retry
	Cache          *Cache // nil: no cache
	RequestTimeout time.Duration
	ForwardHeaders []string // canonical names, copied raw from the client's request
	Strict         *bool    // strict_open_ai_compliance; nil: not said

	Strategy *Strategy // nil: a leaf
	Targets  []*Target

	// Breaker watches this leaf; nil: none does.
	Breaker *BreakerPolicy

	own    Edit // without what is inherited
	edit   atomic.Pointer[Edit]
	parent *Target
}

// A Setting is a vendor's key. The value may be a secret.
type Setting struct {
	Name  string
	Value credentials.Secret // text, or JSON where the config has an object
}

// Leaf reports whether the target can be called.
func (t *Target) Leaf() bool { return t.Strategy == nil }

// Selection is what the target says about where a call goes, for a Router. Its
// Model is the one that the target sends instead of the body's, "" if it does not.
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
	Conditional Mode = "conditional" // one, by what the call says
)

// A Strategy chooses among the targets of a node.
type Strategy struct {
	Mode          Mode
	OnStatusCodes *StatusSet // fallback: the statuses that go to the next target; nil: any but 2xx
	Conditions    []Condition
	Default       int            // conditional: index of the target that is left; -1: none
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
