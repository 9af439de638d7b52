package manifest

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "update the table of docs/operations.md")

const (
	membersBegin = "<!-- the table of kinds is written by: go test ./internal/manifest -update -->\n"
	membersEnd   = "<!-- end -->\n"
)

// inAPI says what the objects of each kind are in the API.
var inAPI = map[string]string{
	"organisation": "/v1/admin/organisation", "workspaces": "/v1/admin/workspaces", "users": "/v1/admin/users", "members": "/v1/admin/workspaces/{id}/users",
	"secret_references": "/v1/secret-references", "integrations": "/v1/integrations", "virtual_keys": "/v1/virtual-keys, /v1/providers", "collections": "/v1/collections",
	"labels": "/v1/labels", "prompts": "/v1/prompts, /v1/prompts/partials", "guardrails": "/v1/guardrails", "plugins": "/v1/plugins", "configs": "/v1/configs",
	"model_aliases": "/v1/model-aliases", "rate_limits": "/v1/policies/rate-limits", "usage_limits": "/v1/policies/usage-limits",
	"limits": "rate_limits and usage_limits of what has them", "invites": "/v1/admin/users/invites", "api_keys": "/v1/api-keys",
}

// amount is a member that costs are in dollars of.
const amount = "a whole number, or for costs a text in US dollars"

// written are members that objects have instead of what is sealed in rows; "": none.
var written = map[string]string{
	"integrations.key": "a text", "virtual_keys.key": "a text", "secret_references.auth": "an object", "plugins.settings": "an object",
	"api_keys.digest": "a text", "api_keys.previous": "a text", "invites.digest": "a text", "integrations.model_config": "an object", "virtual_keys.model_config": "an object",
	"workspaces.metadata": "an object", "api_keys.metadata": "an object", "integrations.adjustments": "an object",
	"usage_limits.limit": amount, "usage_limits.alert_threshold": amount,
}

// strings of a field of a table, which may be unexported.
func listOf(k kind, field string) (all []string) {
	v := reflect.ValueOf(k).Elem().FieldByName(field)
	for i := range v.Len() {
		all = append(all, v.Index(i).String())
	}
	return all
}

// membersOf returns the members of the objects of a kind, with their types.
func membersOf(k kind) (members []string) {
	table := reflect.ValueOf(k).Elem()
	hidden, fixed := append(listOf(k, "hidden"), "updated_at"), listOf(k, "fixed")
	if table.FieldByName("single").Bool() {
		hidden = append(hidden, "id")
	}
	if table.FieldByName("foreign").Bool() {
		hidden = append(hidden, "organisation_id")
	}
	seen := make(map[string]bool)
	add := func(name, kindOf string) {
		if seen[name] || slices.Contains(hidden, name) {
			return
		}
		seen[name] = true
		if slices.Contains(fixed, name) {
			kindOf += ", which does not change"
		}
		members = append(members, fmt.Sprintf("`%s`: %s", name, kindOf))
	}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous {
				walk(f.Type)
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" || !f.IsExported() {
				continue
			}
			as, ok := written[k.name()+"."+name]
			if !ok {
				as = typeName(f.Type)
			}
			add(name, strings.ReplaceAll(as, " such as 2027-01-31T12:00:00Z", ""))
		}
	}
	walk(table.FieldByName("id").Type().In(0).Elem())
	for of, as := range written {
		if kind, name, _ := strings.Cut(of, "."); kind == k.name() {
			add(name, as)
		}
	}
	slices.Sort(members)
	return members
}

func TestTheTableOfKindsIsThatOfTheCode(t *testing.T) {
	t.Parallel()
	const page = "../../docs/operations.md"
	var table strings.Builder
	table.WriteString("| kind | members | in the API |\n|---|---|---|\n")
	for _, k := range kinds {
		api, ok := inAPI[k.name()]
		if !ok {
			t.Errorf("nothing says what %s are in the API", k.name())
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", k.name(), strings.Join(membersOf(k), "; "), api)
	}
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), membersBegin)
	got, behind, ended := strings.Cut(rest, membersEnd)
	switch {
	case !ok || !ended:
		t.Fatalf("%s has no table of kinds", page)
	case got == table.String():
	case *update:
		if err := os.WriteFile(page, []byte(before+membersBegin+table.String()+membersEnd+behind), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of %s is not that of the code; update it with: go test ./internal/manifest -update", page)
	}
}

// typeName returns what a value of a type is in a document.
func typeName(t reflect.Type) string {
	if t == reflect.TypeFor[time.Time]() {
		return "a time such as 2027-01-31T12:00:00Z"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "a whole number"
	case reflect.Slice, reflect.Array:
		return "an array"
	}
	return "an object"
}
