package validation

import (
	"encoding/json"
	"testing"

	dialect "github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/responses"
)

// namesOf returns the rare members of a JSON body, found by decoding it.
func namesOf(t *testing.T, body []byte) (all names) {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, of := range v {
				all |= rare(name)
				walk(of)
			}
		case []any:
			for _, of := range v {
				walk(of)
			}
		}
	}
	walk(v)
	return all
}

// What limits are about is noted, so that most bodies need not be looked at again.
func TestMembersWithLimitsAreNoted(t *testing.T) {
	for _, names := range [][]string{dialect.PassMembers, responses.PassMembers} {
		for _, name := range names {
			for body, want := range map[string]bool{`{"model":"m","messages":[{"role":"user","content":"` + name + `"}]}`: false, `{"model":"m","messages":[{"role":"user","content":[{"` + name + `":null}]}]}`: true} {
				if r, err := Check(Chat, []byte(body)); err != nil || r.MayHave(name) != want {
					t.Errorf("%s: may have %s: %v, %v", body, name, !want, err)
				}
			}
		}
	}
}

func TestRareMembersAreNotedAtAnyDepth(t *testing.T) {
	for name, body := range map[string]string{
		"":                  chat(`,"x":"store","y":[{"content_block":"content_blocks"}],"logit_bias":{"a":1},"metadata":{"b":[{}]}`),
		"store":             chat(`,"store":true`),
		"content_blocks":    `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content\u005fblocks":[]}]}`,
		"reasoning_content": chat(`,"logit_bias":{"reasoning_content":1}`),
		"cache_control":     `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}]}]}`,
		"output_config":     chat(`,"output_config":{}`),
		"defer_loading":     chat(`,"tools":[{"type":"function","function":{"name":"f"},"defer_loading":true}]`),
		"extra_content":     chat(`,"x":[[1,{"y":{"extra_content":{}}}]]`),
	} {
		r, err := Check(Chat, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		anthropics := name == "cache_control" || name == "output_config" || name == "defer_loading" // which have one bit
		for _, rare := range []string{"store", "content_blocks", "reasoning_content", "extra_content", "cache_control", "output_config", "defer_loading"} {
			want := name == rare
			if rare == "cache_control" || rare == "output_config" || rare == "defer_loading" {
				want = anthropics
			}
			if got := r.MayHave(rare); got != want {
				t.Errorf("%s: may have %s: %v", body, rare, got)
			}
		}
		if !r.MayHave("x") {
			t.Error("the absence of any member is noted")
		}
	}
}
