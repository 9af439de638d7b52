package usage_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/usage"
)

// What was read from a cache is counted in each provider's spelling.
func TestCachedTokensInEachSpelling(t *testing.T) {
	for _, c := range []struct {
		name, object string
		cached       int64
	}{
		{"OpenAI", `{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}`, 4},
		{"Mistral", `{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"num_cached_tokens":4}`, 4},
		{"DeepSeek", `{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4},"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5}`, 4},
		{"DeepSeek, before", `{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5}`, 4},
		{"Moonshot", `{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"cached_tokens":4}`, 4},
		{"none", `{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":null}`, 0},
	} {
		var u prices.Usage
		if !usage.Read(&u, []byte(c.object), false, false) || u.Prompt != 9 || u.Completion != 1 || u.CacheRead != c.cached {
			t.Errorf("%s: %+v", c.name, u)
		}
	}
}
