package echo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestModerationFlags(t *testing.T) {
	for text, want := range map[string]bool{
		"":                   false,
		"hello":              false,
		"flag me":            false,
		"flag-me":            true,
		"please flag-me!":    true,
		"(flag-me)":          true,
		"flag-men":           false,
		"redflag-me":         false,
		"flag-mé":            false,
		"flag-meflag-me":     false,
		"flag-men, flag-me":  true,
		"Flag-Me":            false,
		"été flag-me":        true,
		"first\nflag-me\nok": true,
	} {
		got := post(t, "/v1/moderations", fmt.Sprintf(`{"input":%s}`, appendString(nil, text)))
		result := got.Get("results.0")
		if result.Get("flagged").Bool() != want {
			t.Errorf("%q: flagged %s, want %v", text, result.Get("flagged").Raw, want)
		}
		for _, member := range []string{"categories", "category_scores"} {
			var names []string
			any := false
			result.Get(member).ForEach(func(name, v gjson.Result) bool {
				names = append(names, name.Str)
				any = any || v.Bool()
				return true
			})
			if !slices.Equal(names, categories[:]) || any != want {
				t.Errorf("%q: %s %s", text, member, result.Get(member).Raw)
			}
		}
	}
}

func TestModerationAnswerMembers(t *testing.T) {
	got := post(t, "/v1/moderations", `{"input":["a","flag-me"]}`)
	if !strings.HasPrefix(got.Get("id").Str, "modr-echo-") || got.Get("model").Str != "text-moderation-latest" ||
		got.Get("results.#.flagged").Raw != "[false,true]" {
		t.Errorf("%s", got.Raw)
	}
	got = post(t, "/v1/moderations", `{"input":"a","model":"text-moderation-stable"}`)
	if got.Get("model").Str != "text-moderation-stable" {
		t.Errorf("%s", got.Raw)
	}
}
