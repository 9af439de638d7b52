package hooks

import (
	"fmt"
	"strings"
	"testing"

	_ "github.com/caddy-gw/gateway/guardrails/standard" // the checks
)

func TestRegularExpressionsOfAllChecksAreBoundedTogether(t *testing.T) {
	check := func(n int) string { return fmt.Sprintf(`{"id":"default.regexMatch","parameters":{"rule":"a{%d}"}}`, n) }
	for _, c := range []struct {
		checks string
		want   string
	}{
		{strings.Repeat(check(900)+",", 30) + check(900), ""},
		{strings.Repeat(check(1000)+",", 40) + check(900), "too long together"},
		{`{"id":"default.regexMatch","parameters":{"rule":"` + strings.Repeat(`a{1,999}b`, 1500) + `"}}`, "checks[0].parameters.rule: expected a regular expression of at most"},
		{`{"id":"default.jsonSchema","parameters":{"schema":{"pattern":"` + strings.Repeat(`a{1,999}b`, 1500) + `"}}}`, "checks[0].parameters.schema"},
		{`{"id":"default.jsonSchema","parameters":{"schema":{"allOf":[` + strings.Repeat(`{"pattern":"a{1,999}"},`, 20) + `{}]}}}`, "checks[0].parameters.schema: expected patterns of at most"},
	} {
		var faults []string
		h := Saved([]byte("["+c.checks+"]"), nil, Options{}, func(path, message string) { faults = append(faults, path+": "+message) })
		got := strings.Join(faults, "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%.80s: got %.300s, want %s", c.checks, got, c.want)
		}
		if c.want == "" {
			continue
		}
		for i := range h.Checks {
			if u := &h.Checks[i]; u.Check == nil && u.Err == nil {
				t.Errorf("%.80s: the check %d is neither made nor broken", c.checks, i)
			}
		}
	}
}
