package policies

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
)

// A call is the facts of one: by key, the value and another name of it.
type call map[string][2]string

func (c call) Attribute(key string) (value, alias string, ok bool) {
	f, ok := c[key]
	return f[0], f[1], ok
}

// ModelUnread: a call with the key "unseen" has a model that nobody saw.
func (c call) ModelUnread() (alias string, unread bool) {
	f, ok := c["unseen"]
	return f[1], ok
}

// Reads: a call with the key "reads" does.
func (c call) Reads() bool {
	_, ok := c["reads"]
	return ok
}

// PromptByTarget: the prompts of a call with the key "prompts" are those of its targets.
func (c call) PromptByTarget() bool {
	_, ok := c["prompts"]
	return ok
}

// TokenLimits: in these tests, calls with a token are of another type.
func (call) TokenLimits() *TokenLimits { return nil }

// Demand is that of 100 bytes which are answered with 10 tokens at most, unless the call says
// otherwise.
func (c call) Demand(*estimate.Estimator) estimate.Demand {
	d := estimate.Demand{Bytes: 100, Most: 10}
	if f, ok := c["demand"]; ok {
		if _, err := fmt.Sscan(f[0], &d.Bytes, &d.Most); err != nil {
			panic(err)
		}
	}
	if f, ok := c["price"]; ok {
		var err error
		if d.Price, err = prices.ParsePrice(map[string]string{"input_mtok": "0", "output_mtok": f[0]}); err != nil {
			panic(err)
		}
	}
	return d
}

func validLimit() *RateLimit {
	return &RateLimit{Policy: Policy{ID: "id", Type: Requests}, Unit: "rpm", Value: 1}
}

func TestValidateNamesTheFieldAtFault(t *testing.T) {
	long := strings.Repeat("x", MaxText+1)
	many := func(n int) (values []string) {
		for i := range n {
			values = append(values, fmt.Sprint(i))
		}
		return values
	}
	manyConditions := func(n int) []Condition { return slices.Repeat([]Condition{{KeyModel, []string{"m"}, nil}}, n) }
	manyKeys := func(n int) (keys []string) {
		for i := range n {
			keys = append(keys, fmt.Sprint(MetadataPrefix, i))
		}
		return keys
	}
	for _, c := range []struct {
		name   string
		change func(p *RateLimit)
		field  string // "": valid
	}{
		{"the least", func(*RateLimit) {}, ""},
		{"a value of 0", func(p *RateLimit) { p.Value = 0 }, ""},
		{"the greatest value", func(p *RateLimit) { p.Value = MaxValue }, ""},
		{"a value below 0", func(p *RateLimit) { p.Value = -1 }, "value"},
		{"a value that JSON numbers do not hold", func(p *RateLimit) { p.Value = MaxValue + 1 }, "value"},
		{"rph", func(p *RateLimit) { p.Unit = "rph" }, ""},
		{"rpd", func(p *RateLimit) { p.Unit = "rpd" }, ""},
		{"no unit", func(p *RateLimit) { p.Unit = "" }, "unit"},
		{"rps", func(p *RateLimit) { p.Unit = "rps" }, ""},
		{"rpw", func(p *RateLimit) { p.Unit = "rpw" }, ""},
		{"an unknown unit", func(p *RateLimit) { p.Unit = "rpy" }, "unit"},
		{"a unit in capitals", func(p *RateLimit) { p.Unit = "RPM" }, "unit"},
		{"no type", func(p *RateLimit) { p.Type = "" }, "type"},
		{"an unknown type", func(p *RateLimit) { p.Type = "cost" }, "type"},
		{"tokens", func(p *RateLimit) { p.Type = Tokens }, ""},
		{"the longest name", func(p *RateLimit) { p.Name = long[1:] }, ""},
		{"a longer name", func(p *RateLimit) { p.Name = long }, "name"},
		{"every key", func(p *RateLimit) {
			for _, key := range append(slices.Clone(keys), "metadata.team") {
				p.Conditions = append(p.Conditions, Condition{key, []string{"*"}, nil})
				p.GroupBy = append(p.GroupBy, key)
			}
		}, ""},
		{"most conditions", func(p *RateLimit) { p.Conditions = manyConditions(MaxConditions) }, ""},
		{"more conditions", func(p *RateLimit) { p.Conditions = manyConditions(MaxConditions + 1) }, "conditions"},
		{"an unknown key", func(p *RateLimit) {
			p.Conditions = []Condition{{KeyModel, []string{"m"}, nil}, {"ip", []string{"m"}, nil}}
		}, "conditions[1].key"},
		{"a key in capitals", func(p *RateLimit) { p.Conditions = []Condition{{"API_KEY", []string{"m"}, nil}} }, "conditions[0].key"},
		{"no key", func(p *RateLimit) { p.Conditions = []Condition{{"", []string{"m"}, nil}} }, "conditions[0].key"},
		{"metadata of no name", func(p *RateLimit) { p.Conditions = []Condition{{"metadata.", []string{"m"}, nil}} }, "conditions[0].key"},
		{"metadata as such", func(p *RateLimit) { p.Conditions = []Condition{{"metadata", []string{"m"}, nil}} }, "conditions[0].key"},
		{"a key that is too long", func(p *RateLimit) { p.Conditions = []Condition{{"metadata." + long, []string{"m"}, nil}} }, "conditions[0].key"},
		{"no value", func(p *RateLimit) { p.Conditions = []Condition{{KeyModel, nil, nil}} }, "conditions[0].value"},
		{"an empty value", func(p *RateLimit) { p.Conditions = []Condition{{KeyModel, []string{"m", ""}, nil}} }, "conditions[0].value"},
		{"a value that is too long", func(p *RateLimit) { p.Conditions = []Condition{{KeyModel, []string{long}, nil}} }, "conditions[0].value"},
		{"most values", func(p *RateLimit) { p.Conditions = []Condition{{KeyModel, many(MaxValues), nil}} }, ""},
		{"more values", func(p *RateLimit) { p.Conditions = []Condition{{KeyModel, many(MaxValues + 1), nil}} }, "conditions[0].value"},
		{"an unknown group", func(p *RateLimit) { p.GroupBy = []string{"ip"} }, "group_by[0].key"},
		{"a group twice", func(p *RateLimit) { p.GroupBy = []string{KeyModel, KeyAPIKey, KeyModel} }, "group_by[2].key"},
		{"most groups", func(p *RateLimit) { p.GroupBy = manyKeys(MaxConditions) }, ""},
		{"more groups", func(p *RateLimit) { p.GroupBy = manyKeys(MaxConditions + 1) }, "group_by"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := validLimit()
			c.change(p)
			err := p.Validate()
			var fault *FieldError
			switch {
			case c.field == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.field != "" && !errors.As(err, &fault):
				t.Errorf("got %v", err)
			case c.field != "" && (fault.Field != c.field || fault.Message == "" || err.Error() != fault.Field+": "+fault.Message):
				t.Errorf("got %v, want it at %s", err, c.field)
			}
		})
	}
}

func TestConditionsMatch(t *testing.T) {
	c := call{
		KeyAPIKey: {"key-1"}, KeyWorkspace: {"ws-uuid", "my-workspace"}, KeyProvider: {"openai", "own"}, KeyVirtualKey: {"own"}, KeyModel: {"gpt-4o", "@own/gpt-4o"},
		KeyEndpoint: {"chatComplete"}, "metadata.team": {"blue"}, "metadata.empty": {""},
	}
	for _, x := range []struct {
		name       string
		conditions []Condition
		want       bool
	}{
		{"none", nil, true},
		{"the value", []Condition{{KeyAPIKey, []string{"key-1"}, nil}}, true},
		{"another value", []Condition{{KeyAPIKey, []string{"key-2"}, nil}}, false},
		{"a part of the value", []Condition{{KeyAPIKey, []string{"key"}, nil}}, false},
		{"the value in capitals", []Condition{{KeyAPIKey, []string{"KEY-1"}, nil}}, false},
		{"one of the values", []Condition{{KeyAPIKey, []string{"key-3", "key-1", "key-2"}, nil}}, true},
		{"none of the values", []Condition{{KeyAPIKey, []string{"key-3", "key-2"}, nil}}, false},
		{"both conditions", []Condition{{KeyAPIKey, []string{"key-1"}, nil}, {KeyModel, []string{"gpt-4o"}, nil}}, true},
		{"one condition of two", []Condition{{KeyAPIKey, []string{"key-1"}, nil}, {KeyModel, []string{"gpt-5"}, nil}}, false},
		{"the other one of two", []Condition{{KeyAPIKey, []string{"key-2"}, nil}, {KeyModel, []string{"gpt-4o"}, nil}}, false},
		{"one key twice, which both must hold", []Condition{{KeyAPIKey, []string{"key-1"}, nil}, {KeyAPIKey, []string{"key-2"}, nil}}, false},
		{"anything", []Condition{{KeyAPIKey, []string{"*"}, nil}}, true},
		{"anything among values", []Condition{{KeyAPIKey, []string{"key-2", "*"}, nil}}, true},
		{"a star in a value, which is not a pattern", []Condition{{KeyAPIKey, []string{"key-*"}, nil}}, false},
		{"anything of what the call has not", []Condition{{"metadata.region", []string{"*"}, nil}}, false},
		{"a value that the call has not", []Condition{{"metadata.region", []string{"eu"}, nil}}, false},
		{"what the call has not with what it has", []Condition{{KeyAPIKey, []string{"*"}, nil}, {"metadata.region", []string{"*"}, nil}}, false},
		{"the workspace by its id", []Condition{{KeyWorkspace, []string{"ws-uuid"}, nil}}, true},
		{"the workspace by its slug", []Condition{{KeyWorkspace, []string{"my-workspace"}, nil}}, true},
		{"another workspace", []Condition{{KeyWorkspace, []string{"ws-other"}, nil}}, false},
		{"metadata", []Condition{{"metadata.team", []string{"red", "blue"}, nil}}, true},
		{"other metadata", []Condition{{"metadata.team", []string{"red"}, nil}}, false},
		{"the model", []Condition{{KeyModel, []string{"gpt-4o"}, nil}}, true},
		{"the model with its slug", []Condition{{KeyModel, []string{"@own/gpt-4o"}, nil}}, true},
		{"the model with another slug", []Condition{{KeyModel, []string{"@other/gpt-4o"}, nil}}, false},
		{"the model in another spelling", []Condition{{KeyModel, []string{"GPT-4o"}, nil}}, true},
		{"the model with its slug in another spelling", []Condition{{KeyModel, []string{"@Own/GPT-4o"}, nil}}, true},
		{"any model of the slug", []Condition{{KeyModel, []string{"@own/*"}, nil}}, true},
		{"any model of another slug", []Condition{{KeyModel, []string{"@other/*"}, nil}}, false},
		{"any model of half a slug", []Condition{{KeyModel, []string{"@ow/*"}, nil}}, false},
		{"any model of any slug, which is not a pattern", []Condition{{KeyModel, []string{"@*/*"}, nil}}, false},
		{"a pattern of models", []Condition{{KeyModel, []string{"@own/gpt*"}, nil}}, false},
		{"a pattern without the @", []Condition{{KeyModel, []string{"own/*"}, nil}}, false},
		{"the provider", []Condition{{KeyProvider, []string{"openai"}, nil}}, true},
		{"the provider with @", []Condition{{KeyProvider, []string{"@openai"}, nil}}, true},
		{"another provider with @", []Condition{{KeyProvider, []string{"@open"}, nil}}, false},
		{"the provider by its virtual key", []Condition{{KeyProvider, []string{"own"}, nil}}, true},
		{"the provider by its virtual key with @", []Condition{{KeyProvider, []string{"@own"}, nil}}, true},
		{"the provider by nothing with @", []Condition{{KeyProvider, []string{"@"}, nil}}, false},
		{"a virtual key with @, which is a provider's spelling", []Condition{{KeyVirtualKey, []string{"@own"}, nil}}, false},
		{"a model's pattern for a provider", []Condition{{KeyProvider, []string{"@openai/*"}, nil}}, false},
		{"the endpoint", []Condition{{KeyEndpoint, []string{"chatComplete"}, nil}}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			if got := matches(x.conditions, c); got != x.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Providers may take spellings of a model for the same one, so they share its limit.
func TestSpellingsOfAModelAreCountedTogether(t *testing.T) {
	t.Parallel()
	of := func(model string) call { return call{KeyModel: {model, "@own/" + model}} }
	want, _ := group("p", []string{KeyModel}, of("gpt-4o"))
	for _, model := range []string{"GPT-4o", " gpt-4o", "gpt-4O\t"} {
		if got, _ := group("p", []string{KeyModel}, of(model)); got != want {
			t.Errorf("%q is counted as %q", model, got)
		}
		rules := []*Rule{{Policy: &Policy{Conditions: []Condition{{KeyModel, []string{"@own/Gpt-4o"}, nil}}}}}
		for n := range fewRules {
			rules = append(rules, &Rule{Policy: &Policy{Conditions: []Condition{{KeyModel, []string{"other-" + strings.Repeat("x", n)}, nil}}}})
		}
		if found := newRuleSet(rules).of(of(model), false, nil); len(found) != 1 || !matches(found[0].Conditions, of(model)) {
			t.Errorf("%q is counted by %d rules", model, len(found))
		}
	}
}

func TestAValueOfAnotherNameNeverMatchesWhereThereIsNone(t *testing.T) {
	c := call{KeyVirtualKey: {"own", ""}}
	if matches([]Condition{{KeyVirtualKey, []string{""}, nil}}, c) {
		t.Error("the empty value matches the missing other name")
	}
}

func TestMatchingIsAConjunctionOfDisjunctions(t *testing.T) {
	value := rapid.SampledFrom([]string{"a", "b", "c", "*"})
	rapid.Check(t, func(t *rapid.T) {
		facts := call{}
		for _, key := range []string{KeyAPIKey, KeyVirtualKey, KeyEndpoint} {
			if rapid.Bool().Draw(t, "has "+key) {
				facts[key] = [2]string{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, key)}
			}
		}
		conditions := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Condition {
			return Condition{rapid.SampledFrom([]string{KeyAPIKey, KeyVirtualKey, KeyEndpoint}).Draw(t, "key"), rapid.SliceOfN(value, 1, 3).Draw(t, "values"), nil}
		}), 0, 4).Draw(t, "conditions")
		want := true
		for _, c := range conditions {
			f, ok := facts[c.Key]
			want = want && ok && (slices.Contains(c.Values, f[0]) || slices.Contains(c.Values, "*"))
		}
		if got := matches(conditions, facts); got != want {
			t.Fatalf("%v of %v: got %v", conditions, facts, got)
		}
	})
}

func TestCallsShareACounterOnlyWhenTheyShareEveryValueOfTheGroup(t *testing.T) {
	groupKeys := []string{KeyAPIKey, KeyModel, "metadata.a"}
	// Values that look like parts of a counter's name.
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "1:", ":", "/", "1", "2:a", "a1:b", "0:", "p1/", "p1/1:a", "é", "\x00"}),
		rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{"1:", "a", "0:", "2:"})), func(s []string) string { return strings.Join(s, "") }))
	facts := rapid.Custom(func(t *rapid.T) call {
		c := call{}
		for _, key := range groupKeys {
			c[key] = [2]string{text.Draw(t, key)}
		}
		return c
	})
	id := rapid.SampledFrom([]string{"p1", "p2", "p11", "01900000-0000-7000-8000-000000000001"})
	rapid.Check(t, func(t *rapid.T) {
		groupBy := groupKeys[:rapid.IntRange(0, len(groupKeys)).Draw(t, "keys")]
		p, q, a, b := id.Draw(t, "policy"), id.Draw(t, "other policy"), facts.Draw(t, "call"), facts.Draw(t, "other call")
		same := p == q
		for _, key := range groupBy {
			same = same && a[key] == b[key]
		}
		one, ok1 := group(p, groupBy, a)
		two, ok2 := group(q, groupBy, b)
		if !ok1 || !ok2 || (one == two) != same {
			t.Fatalf("%q and %q: shared %v", one, two, one == two)
		}
		if !strings.HasPrefix(one, prefix(p)) || p != q && strings.HasPrefix(one, prefix(q)) {
			t.Fatalf("%q is not a counter of %q alone", one, p)
		}
	})
}

func TestACallThatLacksAValueOfTheGroupIsNotCounted(t *testing.T) {
	if name, ok := group("p", []string{KeyAPIKey, "metadata.team"}, call{KeyAPIKey: {"key-1"}}); ok {
		t.Errorf("counted as %q", name)
	}
}

// Virtual keys of two workspaces may have one slug, by which neither uses up what the other has.
func TestVirtualKeysOfTheSameSlugShareNoCounter(t *testing.T) {
	of := func(workspace, id string) call {
		return call{
			KeyWorkspace: {workspace, "slug-of-" + workspace}, KeyVirtualKey: {"same", id}, KeyProvider: {"openai", "same"},
			KeyModel: {"m", "@same/m"}, KeyEndpoint: {"chatComplete"},
		}
	}
	when := func(key string, values ...string) []Condition { return []Condition{{key, values, nil}} }
	for name, c := range map[string]struct {
		conditions []Condition
		groupBy    []string
		shared     bool
	}{
		"no condition":                 {nil, nil, true},
		"grouped by virtual key":       {nil, []string{KeyVirtualKey}, false},
		"grouped by workspace":         {when(KeyVirtualKey, "same"), []string{KeyWorkspace}, false},
		"its slug":                     {when(KeyVirtualKey, "same"), nil, false},
		"its slug among others":        {when(KeyVirtualKey, "id-1", "other", "same"), nil, false},
		"any virtual key":              {when(KeyVirtualKey, "*"), nil, true},
		"their ids":                    {when(KeyVirtualKey, "id-1", "id-2"), nil, true},
		"a provider by its slug":       {when(KeyProvider, "@same"), nil, false},
		"a provider by the plain slug": {when(KeyProvider, "same"), nil, false},
		"the provider itself":          {when(KeyProvider, "openai"), nil, true},
		"a model of the slug":          {when(KeyModel, "@same/m"), nil, false},
		"the models of the slug":       {when(KeyModel, "@same/*"), []string{KeyEndpoint}, false},
		"a model":                      {when(KeyModel, "m"), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &RateLimit{Policy: Policy{ID: "p", AllWorkspaces: true, Conditions: c.conditions, GroupBy: c.groupBy}}
			a, b := of("ws-1", "id-1"), of("ws-2", "id-2")
			if !matches(p.Conditions, a) || !matches(p.Conditions, b) {
				t.Fatal("the policy does not count both")
			}
			one, _ := group(p.ID, p.grouping(a), a)
			two, _ := group(p.ID, p.grouping(b), b)
			if (one == two) != c.shared {
				t.Errorf("%q and %q", one, two)
			}
			three, _ := group(p.ID, p.grouping(of("ws-1", "id-1")), of("ws-1", "id-1"))
			if one != three {
				t.Errorf("two calls of the same: %q and %q", one, three)
			}
		})
	}
}
