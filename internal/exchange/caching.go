package exchange

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/routing"
)

// Caching is what a call says about the cache of answers.
type Caching struct {
	Mode      string        // simple or semantic; empty: the call does not ask
	MaxAge    time.Duration // 0: it does not say
	Refresh   bool          // the kept answer does not do; the new one is kept
	Namespace string
	Off       bool // x-gw-debug: false, under which nothing is kept
}

// What x-gw-cache-status says.
const (
	CacheHit      = "HIT"
	CacheMiss     = "MISS"
	CacheRefresh  = "REFRESH"
	CacheDisabled = "DISABLED"

	CacheSemanticHit  = "SEMANTIC HIT"
	CacheSemanticMiss = "SEMANTIC MISS"
)

const maxNamespace = 256 // bytes

// readCaching reads the headers that are about the cache.
func (x *Exchange) readCaching(h http.Header) *Error {
	headers := x.Gateway.Headers
	get := func(name Header) string {
		v, _ := headers.Get(h, name)
		return v
	}
	c := &x.Caching
	switch mode := strings.ToLower(get(HeaderCache)); mode {
	case "", "false":
	case "simple", "true":
		c.Mode = "simple"
	case "semantic":
		if !x.Gateway.Configs.Options.Semantic {
			return badRequest("x-gw-cache", "invalid_value", "Invalid cache passed: semantic needs a model of embeddings, which the operator has not set up (semantic_cache); use simple")
		}
		c.Mode = mode
	default:
		return badRequest("x-gw-cache", "invalid_value", "Invalid cache passed: expected simple or semantic")
	}
	c.Refresh = strings.EqualFold(get(HeaderCacheRefresh), "true")
	c.Off = strings.EqualFold(get(HeaderDebug), "false")
	if c.Namespace = get(HeaderCacheNamespace); len(c.Namespace) > maxNamespace {
		return badRequest("x-gw-cache-namespace", "invalid_value", "Invalid cache namespace passed: expected at most "+strconv.Itoa(maxNamespace)+" bytes")
	}
	c.MaxAge = age(get(HeaderCacheTTL))
	if c.MaxAge == 0 {
		for _, directive := range strings.Split(h.Get("Cache-Control"), ",") {
			if seconds, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(directive)), "max-age="); ok {
				c.MaxAge = age(seconds)
			}
		}
	}
	return nil
}

// age is a number of seconds; one that is out of range counts as not said.
func age(seconds string) time.Duration {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if d := time.Duration(n) * time.Second; err == nil && n <= int64(cache.MaxMaxAge/time.Second) && d >= cache.MinMaxAge {
		return d
	}
	return 0
}

// Semantic reports whether answers to questions of the same meaning do, at the target t.
func (x *Exchange) Semantic(t *routing.Target) bool {
	if x.Caching.Mode != "" {
		return x.Caching.Mode == "semantic"
	}
	return t.Cache != nil && t.Cache.Mode == "semantic"
}

// Cached reports whether the call may be answered from the cache and kept in it, at the
// target t, and for how long. What the request says counts before what the config says.
func (x *Exchange) Cached(t *routing.Target) (maxAge time.Duration, ok bool) {
	c := &x.Caching
	switch {
	case !x.Endpoint.Cacheable || x.buffer == nil, c.Mode == "" && (t.Cache == nil || t.Cache.Mode == ""):
		return 0, false
	case c.Off:
		return 0, false
	}
	maxAge = c.MaxAge
	if maxAge == 0 && t.Cache != nil {
		maxAge = t.Cache.MaxAge
	}
	if maxAge == 0 {
		maxAge = cache.DefaultMaxAge
	}
	return maxAge, true
}

// MayBeCached reports whether some target of the call may be answered from the cache.
func (x *Exchange) MayBeCached() bool {
	if !x.Endpoint.Cacheable || x.buffer == nil || x.Caching.Off {
		return false
	}
	return x.Caching.Mode != "" || x.Config != nil && caches(x.Config.Root)
}

func caches(t *routing.Target) bool {
	return t.Cache != nil || slices.ContainsFunc(t.Targets, caches)
}
