package routing

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/hooks"
)

// Each list is inherited as a whole, by targets that have none of their own.
func TestHooksAreInherited(t *testing.T) {
	c, faults := Parse([]byte(`{"strategy":{"mode":"fallback"},
		"before_request_hooks":[{"id":"a","checks":[]}],"input_guardrails":["b"],"input_mutators":["c"],"output_guardrails":["d"],
		"targets":[
			{"virtual_key":"k"},
			{"virtual_key":"k","input_guardrails":["e","f"],"output_guardrails":[]},
			{"strategy":{"mode":"single"},"output_mutators":["g"],"targets":[{"virtual_key":"k","before_request_hooks":[]}]}
		]}`), Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	names := func(list []*hooks.Hook) string {
		var ids []string
		for _, h := range list {
			ids = append(ids, h.ID)
		}
		return strings.Join(ids, " ")
	}
	for i, want := range []string{"a b c/d", "a e f c/", "b c/d g"} {
		leaf := c.Leaves()[i]
		if got := names(leaf.Before) + "/" + names(leaf.After); got != want {
			t.Errorf("target %d has %s, want %s", i, got, want)
		}
	}
}

func TestGuardrailsAreReferences(t *testing.T) {
	refs := References(`{"virtual_key":"k","input_guardrails":["g",{"contains":{"words":["x"]}},"h"]}`, Options{})
	if len(refs) != 3 || refs[1] != (Reference{Path: "input_guardrails[0]", Name: "g", Guardrail: true}) && refs[0] != (Reference{Path: "input_guardrails[0]", Name: "g", Guardrail: true}) {
		t.Errorf("references %+v", refs)
	}
}

func TestStatusesThatAreTriedAgain(t *testing.T) {
	c, faults := Parse([]byte(`{"strategy":{"mode":"fallback","on_status_codes":[246]},"targets":[{"virtual_key":"k"},{"virtual_key":"k","retry":{"on_status_codes":[446]}}]}`), Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	a, b := c.Leaves()[0], c.Leaves()[1]
	if !a.Tries(246, nil) || a.Tries(446, nil) || !b.Tries(446, nil) || !b.Tries(246, nil) || b.Tries(500, Retries(1)) || !a.Tries(500, Retries(1)) {
		t.Error("the statuses are not those of the config")
	}
}
