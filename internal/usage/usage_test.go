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

// What the model read and wrote beside its answer counts, too.
func TestWhatIsUsedBesideTheAnswerCounts(t *testing.T) {
	for _, c := range []struct {
		name, object       string
		anthropic          bool
		prompt, completion int64
	}{
		{"compaction", `{"input_tokens":23000,"output_tokens":1000,"iterations":[{"type":"compaction","input_tokens":180000,"output_tokens":3500},{"type":"message","input_tokens":23000,"output_tokens":1000}]}`, true, 203_000, 4500},
		{"one pass", `{"input_tokens":7,"output_tokens":2,"cache_read_input_tokens":3,"iterations":[{"type":"message","input_tokens":7,"output_tokens":2,"cache_read_input_tokens":3}]}`, true, 10, 2},
		{"no pass", `{"input_tokens":7,"output_tokens":2,"iterations":[]}`, true, 7, 2},
		{"no list", `{"input_tokens":7,"output_tokens":2,"iterations":[[],3,{"iterations":[{"input_tokens":99}]}]}`, true, 7, 2},
		{"another provider's", `{"prompt_tokens":7,"completion_tokens":2,"iterations":[{"input_tokens":99}]}`, false, 7, 2},
		{"research", `{"prompt_tokens":33,"completion_tokens":7163,"total_tokens":7196,"reasoning_tokens":73997}`, false, 33, 81_160},
		{"reasoning that is included", `{"prompt_tokens":33,"completion_tokens":50,"total_tokens":83,"reasoning_tokens":20}`, false, 33, 50},
	} {
		var u prices.Usage
		for range 2 { // a stream says it more than once
			if !usage.Read(&u, []byte(c.object), false, c.anthropic) || u.Prompt != c.prompt || u.Completion != c.completion {
				t.Errorf("%s: %+v", c.name, u)
			}
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
