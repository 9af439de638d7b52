// Package policies implements rate-limit and usage-limit policies: what they are, which calls
// they match, and whether a call is admitted. It has no HTTP; the counting is done by
// policies/ledger, and what a call may use is estimated by policies/estimate.
package policies

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
)

// A Condition limits a policy to calls whose value of Key is one of Values. "*" matches any
// value, and for the model "@provider/*" any model of a provider. A call without a value
// does not match.
type Condition struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
	// Excludes are values that do not match after all.
	Excludes []string `json:"excludes,omitempty"`
}

// A Call has the attributes of a call that policies depend on.
type Call interface {
	// Attribute returns the value of a key and an alternative name for it (the slug of a
	// workspace besides its id; for an API key, the key whose calls it is counted with; the
	// id of a virtual key besides its slug), and whether there is a value.
	Attribute(key string) (value, alias string, ok bool)
	// ModelUnread reports whether the call may be for a model that was not read, and the
	// beginning of the model's alternative name.
	ModelUnread() (alias string, unread bool)
	// PromptByTarget reports whether the attribute prompt depends on the target.
	PromptByTarget() bool
	// Reads reports whether no model answers the call, and it names none, such as a list: only policies count it that have a condition on its endpoint.
	Reads() bool
	// TokenLimits returns the limits of the JSON Web Token by which the caller was identified; nil: there are none.
	TokenLimits() *TokenLimits
	// Demand returns what the call asks for, of which what was learned says how much the calls of a batch may use. It is
	// only asked of a call at its target.
	Demand(learned *estimate.Estimator) estimate.Demand
}

// Keys of conditions and groups. A key of metadata is "metadata." and its name.
const (
	KeyAPIKey       = "api_key"
	KeyWorkspace    = "workspace_id"
	KeyOrganisation = "organisation_id"
	KeyProvider     = "provider"
	KeyVirtualKey   = "virtual_key"
	KeyModel        = "model"
	KeyEndpoint     = "endpoint_type"
	KeyConfig       = "config"
	KeyPrompt       = "prompt"
	MetadataPrefix  = "metadata."
)

var keys = []string{KeyAPIKey, KeyWorkspace, KeyOrganisation, KeyProvider, KeyVirtualKey, KeyModel, KeyEndpoint, KeyConfig, KeyPrompt}

// Bounds of what a policy may hold.
const (
	MaxConditions = 20
	MaxValues     = 100
	MaxText       = 255 // bytes of a name, a key or a value
)

// A FieldError is an error in a field of a policy, in its JSON form.
type FieldError struct {
	Field, Message string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

func checkKey(field, key string) error {
	name, metadata := strings.CutPrefix(key, MetadataPrefix)
	switch {
	case len(key) > MaxText:
		return &FieldError{field, fmt.Sprintf("expected at most %d bytes", MaxText)}
	case metadata && name != "", slices.Contains(keys, key):
		return nil
	}
	return &FieldError{field, fmt.Sprintf("expected one of %s, metadata.<key>; got %q", strings.Join(keys, ", "), key)}
}

func checkConditions(conditions []Condition) error {
	if len(conditions) > MaxConditions {
		return &FieldError{"conditions", fmt.Sprintf("expected at most %d", MaxConditions)}
	}
	for i, c := range conditions {
		if err := checkKey(fmt.Sprintf("conditions[%d].key", i), c.Key); err != nil {
			return err
		}
		field := fmt.Sprintf("conditions[%d].value", i)
		if len(c.Values) == 0 || len(c.Values) > MaxValues {
			return &FieldError{field, fmt.Sprintf("expected a string, or 1 to %d of them", MaxValues)}
		}
		if len(c.Excludes) > MaxValues {
			return &FieldError{fmt.Sprintf("conditions[%d].excludes", i), fmt.Sprintf("expected at most %d values", MaxValues)}
		}
		for _, v := range slices.Concat(c.Values, c.Excludes) {
			if v == "" || len(v) > MaxText {
				return &FieldError{field, fmt.Sprintf("expected 1 to %d bytes", MaxText)}
			}
		}
	}
	return nil
}

func checkGroupBy(groupBy []string) error {
	if len(groupBy) > MaxConditions {
		return &FieldError{"group_by", fmt.Sprintf("expected at most %d", MaxConditions)}
	}
	for i, key := range groupBy {
		field := fmt.Sprintf("group_by[%d].key", i)
		if err := checkKey(field, key); err != nil {
			return err
		}
		if slices.Contains(groupBy[:i], key) {
			return &FieldError{field, fmt.Sprintf("%q is listed twice", key)}
		}
	}
	return nil
}

// undecided reports whether a policy might match a call, depending on an unknown model;
// alias is the beginning of the model's alternative name.
func (p *Policy) undecided(f Call, alias string) bool {
	depends := false
	for i := range p.Conditions {
		c := &p.Conditions[i]
		switch {
		case c.Key != KeyModel && !c.holds(f), c.Key == KeyModel && !c.mightHold(alias):
			return false
		case c.Key == KeyModel:
			depends = true
		}
	}
	for _, key := range p.GroupBy {
		if key == KeyModel {
			depends = true
		} else if _, _, ok := f.Attribute(key); !ok {
			return false
		}
	}
	return depends
}

// hasCondition reports whether a policy has a condition on a key.
func (p *Policy) hasCondition(key string) bool {
	return slices.ContainsFunc(p.Conditions, func(c Condition) bool { return c.Key == key })
}

// mightHold reports whether a condition on the model could match an unknown model. It
// cannot if it is about the models of another provider.
func (c *Condition) mightHold(alias string) bool {
	return slices.ContainsFunc(c.Values, func(want string) bool {
		return !strings.HasPrefix(want, "@") || !strings.HasSuffix(want, "/*") || strings.HasPrefix(modelName(want), modelName(alias))
	})
}

// matches reports whether a call matches every condition.
func matches(conditions []Condition, f Call) bool {
	for i := range conditions {
		if !conditions[i].holds(f) {
			return false
		}
	}
	return true
}

func (c *Condition) holds(f Call) bool {
	value, alias, ok := f.Attribute(c.Key)
	return ok && c.lists(c.Values, value, alias) && !c.lists(c.Excludes, value, alias)
}

// modelName is a model's name, or @provider/model, as providers may take it for the same, so that no other
// spelling of it is counted apart.
func modelName(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" || name[0] != '@' {
		return name
	}
	of, model, _ := strings.Cut(name, "/")
	if trimmed := strings.TrimSpace(model); trimmed != model {
		return of + "/" + trimmed
	}
	return name
}

// lists reports whether one of the values stands for a call's.
func (c *Condition) lists(values []string, value, alias string) bool {
	if c.Key == KeyModel {
		value, alias = modelName(value), modelName(alias)
	}
	for _, want := range values {
		if c.Key == KeyModel {
			want = modelName(want)
		}
		switch {
		case want == "*", want == value, want == alias && alias != "":
			return true
		case c.Key == KeyModel && strings.HasPrefix(want, "@") && strings.HasSuffix(want, "/*") && strings.HasPrefix(alias, want[:len(want)-1]):
			return true
		case c.Key == KeyProvider && want[0] == '@' && (want[1:] == value || want[1:] == alias):
			return true
		}
	}
	return false
}

// grouped returns the value of a key by which a call is grouped. Keys created with another
// key are grouped with it, and virtual keys are distinguished by their ids, because several
// workspaces may have one with the same slug.
func grouped(f Call, key string) (string, bool) {
	value, alias, ok := f.Attribute(key)
	if (key == KeyAPIKey || key == KeyVirtualKey) && alias != "" {
		value = alias
	}
	if key == KeyModel {
		value = modelName(value)
	}
	return value, ok
}

// grouping returns the keys that a call is grouped by. A policy of the organisation that
// names the slug of a virtual key counts the calls of each workspace separately, so that
// none can use up the limit with a virtual key of the same slug.
func (p *Policy) grouping(f Call) []string {
	if !p.AllWorkspaces || slices.Contains(p.GroupBy, KeyWorkspace) {
		return p.GroupBy
	}
	slug, _, ok := f.Attribute(KeyVirtualKey)
	if !ok || !slices.ContainsFunc(p.Conditions, func(c Condition) bool { return c.names(slug, f) }) {
		return p.GroupBy
	}
	return append(slices.Clip(p.GroupBy), KeyWorkspace)
}

// names reports whether a condition matches a call by the slug of its virtual key.
func (c *Condition) names(slug string, f Call) bool {
	value, _, _ := f.Attribute(c.Key)
	return slices.ContainsFunc(c.Values, func(want string) bool {
		switch c.Key {
		case KeyVirtualKey:
			return want == slug
		case KeyProvider:
			name := strings.TrimPrefix(want, "@")
			return name == slug && name != value
		case KeyModel:
			of, _, found := strings.Cut(want, "/")
			return found && of != "" && of[0] == '@' && of[1:] == slug
		}
		return false
	})
}

// group returns the name of the counter for a call, and false if the call lacks one of the
// values. Values are length-prefixed, so that different groups have different names.
func group(policy string, groupBy []string, f Call) (string, bool) {
	var few [128]byte
	name := append(few[:0], policy...)
	name = append(name, groupMark)
	for _, key := range groupBy {
		value, ok := grouped(f, key)
		if !ok {
			return "", false
		}
		name = append(strconv.AppendInt(name, int64(len(value)), 10), ':')
		name = append(name, value...)
	}
	return string(name), true
}

// prefix returns the prefix of the names of all counters of a policy.
func prefix(policy string) string { return policy + string(groupMark) }

// groupMark follows the policy's id in the name of a counter. Ids do not contain it.
const groupMark = '/'
