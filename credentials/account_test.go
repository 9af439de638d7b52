package credentials

import "testing"

// Workspaces that may use one credential share an account, whatever each names it by; while one
// workspace alone may, it sees all that the provider has.
func TestWhoSharesAnIntegrationsAccount(t *testing.T) {
	for name, c := range map[string]struct {
		integration Integration
		account     string
		alone       bool
	}{
		"a workspace's own":  {Integration{Credential: Credential{ID: "i"}, WorkspaceID: "ws"}, "", true},
		"of nobody yet":      {Integration{Credential: Credential{ID: "i"}}, "integration:i", true},
		"of one":             {Integration{Credential: Credential{ID: "i"}, Access: map[string]bool{"a": true, "b": false}}, "integration:i", true},
		"of two":             {Integration{Credential: Credential{ID: "i"}, Access: map[string]bool{"a": true, "b": true}}, "integration:i", false},
		"of all":             {Integration{Credential: Credential{ID: "i"}, AllWorkspaces: true}, "integration:i", false},
		"of all but for one": {Integration{Credential: Credential{ID: "i"}, AllWorkspaces: true, Access: map[string]bool{"a": false}}, "integration:i", false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.integration.account() != c.account || c.integration.alone() != c.alone {
				t.Errorf("%q %v, want %q %v", c.integration.account(), c.integration.alone(), c.account, c.alone)
			}
		})
	}
}
