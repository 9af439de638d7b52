package exchange

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-gw/gateway/internal/prices"
)

// placeholders are the placeholders {http.gw.<name>} for Caddy's logs and matchers. Most are
// empty until gw_ratelimit or gw_inference has prepared the call.
var placeholders = map[string]func(*Exchange) any{
	"endpoint":               func(x *Exchange) any { return x.Endpoint.Name },
	"trace_id":               func(x *Exchange) any { return x.Trace.ID },
	"span_id":                func(x *Exchange) any { return x.Trace.Span.ID },
	"provider":               func(x *Exchange) any { return x.Provider() },
	"model":                  func(x *Exchange) any { return x.AskedModel() },
	"stream":                 func(x *Exchange) any { return x.Stream },
	"config":                 func(x *Exchange) any { return x.ConfigSource.Slug },
	"last_used_option_index": func(x *Exchange) any { return x.LastUsed() },
	"cache_status":           func(x *Exchange) any { return x.CacheStatus },
	"attempts":               func(x *Exchange) any { return len(x.Attempts) },
	"retries":                func(x *Exchange) any { return x.Retries() },
	"prompt_tokens":          func(x *Exchange) any { return x.Usage().Prompt },
	"completion_tokens":      func(x *Exchange) any { return x.Usage().Completion },
	"total_tokens":           func(x *Exchange) any { return x.Usage().Prompt + x.Usage().Completion },

	"cost_usd": func(x *Exchange) any {
		if cost, known := x.costNow(); known {
			return cost.Dollars()
		}
		return ""
	},
	"key_id": func(x *Exchange) any {
		if x.Caller == nil {
			return ""
		}
		return x.Caller.KeyID
	},
	"workspace": func(x *Exchange) any {
		if x.Caller == nil || x.Caller.WorkspaceID == "" {
			return ""
		}
		return x.Gateway.Router.SlugOf(x.Caller.WorkspaceID)
	},
}

const (
	placeholderPrefix = "http.gw."
	metadataPrefix    = "metadata."
)

// costNow is the cost of the call, unless that is known only later.
func (x *Exchange) costNow() (cost prices.Amount, known bool) {
	if x.counted {
		return 0, false
	}
	return x.Cost()
}

// placeholder returns the value of one of the gateway's placeholders.
func (x *Exchange) placeholder(name string) (value any, ok bool) {
	if name, ok = strings.CutPrefix(name, placeholderPrefix); !ok {
		return nil, false
	}
	if get := placeholders[name]; get != nil {
		return get(x), true
	}
	if name, ok = strings.CutPrefix(name, metadataPrefix); ok {
		v, _ := x.Metadata.Get(name)
		return v, true
	}
	return nil, false
}

// publish adds the placeholders to Caddy's replacer. Their values are looked up on demand, even
// after the exchange was closed: access logs are written then.
func (x *Exchange) publish() {
	if repl, ok := x.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(x.placeholder)
	}
}

// MarshalLogObject writes the call's fields for access logs, except its failure, which may quote
// the provider.
func (x *Exchange) MarshalLogObject(to zapcore.ObjectEncoder) error {
	for _, name := range [...]string{"trace_id", "endpoint", "workspace", "key_id", "config", "provider", "model", "cache_status", "last_used_option_index"} {
		if v, ok := placeholders[name](x).(string); ok && v != "" {
			to.AddString(name, v)
		}
	}
	to.AddInt("attempts", len(x.Attempts))
	to.AddInt("retries", x.Retries())
	if u := x.Usage(); u.Known {
		to.AddInt64("prompt_tokens", u.Prompt)
		to.AddInt64("completion_tokens", u.Completion)
	}
	if cost, known := x.costNow(); known {
		to.AddFloat64("cost_usd", cost.Dollars())
	}
	return nil
}

// Interface guards
var _ zapcore.ObjectMarshaler = (*Exchange)(nil)
