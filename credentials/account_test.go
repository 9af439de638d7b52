package credentials

import (
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

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

// Credentials that are what the gateway's machine is are one account, of whichever workspace: each sees only what it made.
func TestWhatTheMachineIsIsOneAccount(t *testing.T) {
	router, db, _ := newRouter(t)
	for id, workspace := range map[string]string{"mine": "ws-1", "theirs": "ws-2"} {
		v, _ := router.Keyring.VirtualKey(workspace, id)
		changed := *v
		changed.Machine = "aws"
		if err := db.Update(t.Context(), func(tx *storage.Txn) error { return router.Keyring.ReplaceVirtualKey(tx, &changed, Secret{}) }); err != nil {
			t.Fatal(err)
		}
		route, refusal := router.Route(&Caller{WorkspaceID: workspace}, Selection{VirtualKey: id})
		if refusal != nil || !route.Machine || route.Account != "machine:aws" || route.Alone {
			t.Errorf("%s: %+v, %v", id, route, refusal)
		}
	}
	for _, s := range []Selection{{VirtualKey: "echo"}, {Provider: "groq"}, {Provider: "openai", Bearer: NewSecret("sk")}} {
		if route, refusal := router.Route(&Caller{WorkspaceID: "ws-1"}, s); refusal != nil || route.Machine || route.Account == "machine:" {
			t.Errorf("%+v: %+v, %v", s, route, refusal)
		}
	}
}
