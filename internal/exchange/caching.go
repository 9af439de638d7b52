package exchange

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/routing"
)

// Caching is what the headers of a call say about the cache.
type Caching struct {
	Mode      string        // simple or semantic; "": not given
	MaxAge    time.Duration // 0: not given
	Refresh   bool          // the answer must be new, and is cached
	Namespace string
	Off       bool // x-gw-debug: false, which disables the cache
}

// Values of x-gw-cache-status.
const (
	CacheHit      = "HIT"
	CacheMiss     = "MISS"
	CacheRefresh  = "REFRESH"
	CacheDisabled = "DISABLED"

	CacheSemanticHit  = "SEMANTIC HIT"
	CacheSemanticMiss = "SEMANTIC MISS"
)

const maxNamespace = 256 // bytes

// readCaching reads the headers for the cache.
func (p *preparation) readCaching(h http.Header) *Error {
	headers := p.Gateway.Headers
	get := func(name Header) string {
		v, _ := headers.Get(h, name)
		return v
	}
	c := &p.Options.Caching
	switch mode := strings.ToLower(get(HeaderCache)); mode {
	case "", "false":
	case "simple", "true":
		c.Mode = "simple"
	case "semantic":
		if !p.Gateway.Configs.Options.Semantic {
			return badRequest("x-gw-cache", "invalid_value", "Invalid cache passed: semantic needs a model of embeddings, which the operator has not set up (semantic_cache); use simple")
		}
		c.Mode = mode
	default:
		return badRequest("x-gw-cache", "invalid_value", "Invalid cache passed: expected simple or semantic")
	}
	refresh, err := flag("x-gw-cache-force-refresh", get(HeaderCacheRefresh), false)
	if err != nil {
		return err
	}
	debug, err := flag("x-gw-debug", get(HeaderDebug), true)
	if err != nil {
		return err
	}
	c.Refresh, c.Off = refresh, !debug
	if c.Namespace = get(HeaderCacheNamespace); len(c.Namespace) > maxNamespace {
		return badRequest("x-gw-cache-namespace", "invalid_value", "Invalid cache namespace passed: expected at most "+strconv.Itoa(maxNamespace)+" bytes")
	}
	ttl := get(HeaderCacheTTL)
	c.MaxAge = age(ttl)
	if ttl != "" && (c.MaxAge == 0 || strings.Trim(ttl, "0123456789") != "") {
		return badRequest("x-gw-cache-ttl", "invalid_value", fmt.Sprintf("Invalid cache ttl passed: expected a number of seconds from %d to %d",
			cache.MinMaxAge/time.Second, cache.MaxMaxAge/time.Second))
	}
	if c.MaxAge == 0 {
		for _, directive := range strings.Split(h.Get("Cache-Control"), ",") {
			if seconds, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(directive)), "max-age="); ok {
				c.MaxAge = age(seconds)
			}
		}
	}
	return nil
}

// flag reads a header whose value is true or false, in any case. An empty one is otherwise.
func flag(name, value string, otherwise bool) (bool, *Error) {
	switch strings.ToLower(value) {
	case "":
		return otherwise, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, badRequest(name, "invalid_value", "Invalid "+name+" passed: expected true or false")
}

// age is a number of seconds; 0 if it is out of range.
func age(seconds string) time.Duration {
	if seconds == "" {
		return 0 // ParseInt would make an error
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if d := time.Duration(n) * time.Second; err == nil && n <= int64(cache.MaxMaxAge/time.Second) && d >= cache.MinMaxAge {
		return d
	}
	return 0
}

// Semantic reports whether answers to questions of the same meaning may be used at the target t.
func (c *Caching) Semantic(t *routing.Target) bool {
	if c.Mode != "" {
		return c.Mode == "semantic"
	}
	return t.Cache != nil && t.Cache.Mode == "semantic"
}

// Cached reports whether the call may be answered from the cache and cached at the target t, and
// for how long. The headers win over the config.
func (c *Call) Cached(t *routing.Target) (maxAge time.Duration, ok bool) {
	switch {
	case !c.Endpoint.Cacheable || c.Body.buffer == nil, c.Options.Caching.Mode == "" && (t.Cache == nil || t.Cache.Mode == ""):
		return 0, false
	case c.Options.Caching.Off:
		return 0, false
	}
	maxAge = c.Options.Caching.MaxAge
	if maxAge == 0 && t.Cache != nil {
		maxAge = t.Cache.MaxAge
	}
	if maxAge == 0 {
		maxAge = cache.DefaultMaxAge
	}
	return maxAge, true
}
