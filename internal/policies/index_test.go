package policies

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the conditions are, the index finds the rules that match a call, in their order, and each once.
func TestTheIndexFindsTheRulesThatMatch(t *testing.T) {
	conditionKeys := []string{KeyAPIKey, KeyProvider, KeyVirtualKey, KeyModel, "metadata.team"}
	names := map[string][]string{
		KeyProvider: {"a", "b", "c"}, KeyModel: {"m", "@a/m", "@b/m"},
	}
	values := func(key string) []string {
		if named, ok := names[key]; ok {
			return named
		}
		return []string{"a", "b", "c"}
	}
	listed := func(key string) *rapid.Generator[string] {
		all := append([]string{"*", "@a/*", "@a", "@b"}, values(key)...)
		return rapid.SampledFrom(all)
	}
	condition := rapid.Custom(func(t *rapid.T) Condition {
		key := rapid.SampledFrom(conditionKeys).Draw(t, "key")
		return Condition{key, rapid.SliceOfN(listed(key), 1, 3).Draw(t, "values"), rapid.SliceOfN(listed(key), 0, 1).Draw(t, "excludes")}
	})
	matching := 0
	rapid.Check(t, func(t *rapid.T) {
		var all []*Rule
		for i := range rapid.IntRange(0, 30).Draw(t, "rules") {
			all = append(all, &Rule{Policy: &Policy{ID: fmt.Sprint(i), Conditions: rapid.SliceOfN(condition, 0, 3).Draw(t, "conditions")}})
		}
		set := newRuleSet(all)
		for range 5 {
			f := call{}
			for _, key := range conditionKeys {
				if rapid.IntRange(0, 3).Draw(t, "has "+key) > 0 {
					f[key] = [2]string{rapid.SampledFrom(values(key)).Draw(t, key), rapid.SampledFrom(append([]string{""}, values(key)...)).Draw(t, "alias")}
				}
			}
			found := set.of(f, false, nil)
			next := 0
			for _, r := range all {
				if i := slices.Index(found[next:], r); i >= 0 {
					next += i + 1
					matching++
				} else if matches(r.Conditions, f) {
					t.Fatalf("%+v matches %v, and is not found", r.Conditions, f)
				}
			}
			slices.SortFunc(found, func(a, b *Rule) int { return slices.Index(all, a) - slices.Index(all, b) })
			if len(slices.Compact(found)) != len(found) {
				t.Fatal("a rule is found twice")
			}
			if !slices.Equal(set.of(f, true, nil), all) {
				t.Fatal("not all rules of a call whose model was not read")
			}
		}
	})
	if matching == 0 {
		t.Error("nothing matched")
	}
}

// Rules of other keys are not even looked at.
func TestRulesThatCannotMatchAreNotLookedAt(t *testing.T) {
	var all []*Rule
	for i := range 1000 {
		all = append(all, &Rule{Policy: &Policy{ID: fmt.Sprint(i), Conditions: []Condition{{KeyAPIKey, []string{fmt.Sprint("key-", i)}, nil}}}})
	}
	if got := newRuleSet(all).of(call{KeyAPIKey: {"key-7"}}, false, nil); len(got) != 1 || got[0] != all[7] {
		t.Errorf("%d rules", len(got))
	}
}
