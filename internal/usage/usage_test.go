package usage_test

import (
	"strings"
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

// A usage that can only be read in part is none: the other would be taken for all that was used.
func TestAUsageThatIsHalfUnreadableIsNone(t *testing.T) {
	before := prices.Usage{Prompt: 1, Completion: 2}
	for _, bad := range []string{"1e30", "-5", `"5"`, "true", "[5]", "{}"} {
		for _, object := range []string{
			`{"prompt_tokens":9,"completion_tokens":BAD,"total_tokens":9}`, `{"prompt_tokens":BAD,"completion_tokens":9,"total_tokens":9}`,
			`{"input_tokens":9,"output_tokens":BAD}`, `{"input_tokens":BAD,"output_tokens":9}`,
		} {
			for _, anthropic := range []bool{false, true} {
				u := before
				if object = strings.Replace(object, "BAD", bad, 1); usage.Read(&u, []byte(object), false, anthropic) || u != before {
					t.Errorf("%s is %+v", object, u)
				}
			}
		}
	}
	var u prices.Usage
	if !usage.Read(&u, []byte(`{"prompt_tokens":9,"completion_tokens":null,"total_tokens":9}`), false, false) || u.Prompt != 9 {
		t.Errorf("null is %+v", u)
	}
}
