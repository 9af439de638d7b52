package policies

import (
	"slices"
	"strings"
)

// fewRules is how many rules are looked at one by one.
const fewRules = 8

// A ruleSet is a list of rules with an index of the values of their conditions, so that those that
// cannot match a call cost nothing. A nil one is empty.
type ruleSet struct {
	all     []*Rule
	always  []int // positions of the rules that are not in an index
	indexes []valueIndex
}

// A valueIndex has the positions of rules by the values that a condition on a key lists.
type valueIndex struct {
	key     string
	byValue map[string][]int
}

func newRuleSet(all []*Rule) *ruleSet {
	s := &ruleSet{all: all}
	if len(all) <= fewRules {
		return s
	}
	for i, r := range all {
		c := r.indexed()
		if c == nil {
			s.always = append(s.always, i)
			continue
		}
		at := slices.IndexFunc(s.indexes, func(x valueIndex) bool { return x.key == c.Key })
		if at < 0 {
			at = len(s.indexes)
			s.indexes = append(s.indexes, valueIndex{c.Key, make(map[string][]int)})
		}
		for _, want := range c.Values {
			want = indexKey(c.Key, want)
			s.indexes[at].byValue[want] = append(s.indexes[at].byValue[want], i)
		}
	}
	return s
}

// indexed returns the condition by whose values the rule is found; nil: by none.
func (r *Rule) indexed() *Condition {
	for i := range r.Conditions {
		if c := &r.Conditions[i]; !slices.ContainsFunc(c.Values, c.takesMany) {
			return c
		}
	}
	return nil
}

// takesMany reports whether a value of the condition stands for any number of a call's.
func (c *Condition) takesMany(want string) bool {
	return want == "*" || c.Key == KeyModel && strings.HasSuffix(want, "/*")
}

// indexKey is what a value of a key is indexed as: a provider is named with or without @, and a model as
// modelName says.
func indexKey(key, value string) string {
	switch key {
	case KeyProvider:
		return strings.TrimPrefix(value, "@")
	case KeyModel:
		return modelName(value)
	}
	return value
}

// rules returns all of them.
func (s *ruleSet) rules() []*Rule {
	if s == nil {
		return nil
	}
	return s.all
}

// of appends the rules that might match a call to a list, in their order.
func (s *ruleSet) of(f Call, unread bool, rules []*Rule) []*Rule {
	if s == nil || len(s.all) <= fewRules || unread {
		return append(rules, s.rules()...)
	}
	var few [32]int
	found := append(few[:0], s.always...)
	for i := range s.indexes {
		x := &s.indexes[i]
		value, alias, ok := f.Attribute(x.key)
		if !ok {
			continue
		}
		found = append(found, x.byValue[indexKey(x.key, value)]...)
		if alias != "" {
			found = append(found, x.byValue[indexKey(x.key, alias)]...)
		}
	}
	slices.Sort(found)
	for _, at := range slices.Compact(found) {
		rules = append(rules, s.all[at])
	}
	return rules
}
