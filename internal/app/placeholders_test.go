package app

import (
	"strings"
	"testing"
)

func TestAnErrorAboutAPlaceholderHoldsNoSecret(t *testing.T) {
	t.Setenv("GW_TEST_KEY", "from the environment")
	t.Setenv("GW_TEST_EMPTY", "")
	for _, c := range []struct{ value, resolved, err string }{
		{"{env.GW_TEST_KEY}", "from the environment", ""},
		{"plain", "plain", ""},
		{"{env.GW_TEST_EMPTY}", "", "{env.GW_TEST_EMPTY}"},
		{"{unknown.name}", "", "{unknown.name}"},
		{`{"private_key":"-----BEGIN PRIVATE KEY-----"}`, "", "{file./path}"},
		{"{\n \"private_key\": \"-----BEGIN PRIVATE KEY-----\"\n}", "", "{file./path}"},
		{`{BEGIN PRIVATE KEY}`, "", "{file./path}"},
	} {
		resolved, err := resolve(c.value)
		switch {
		case c.err == "" && (err != nil || resolved != c.resolved):
			t.Errorf("%q: got %q, %v", c.value, resolved, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "BEGIN")):
			t.Errorf("%q: got the error %v, want one with %q", c.value, err, c.err)
		}
	}
}
