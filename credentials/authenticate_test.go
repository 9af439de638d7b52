package credentials

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// An authCase is a token and what becomes of it.
type authCase struct {
	token     string
	id, ws    string // of the caller
	anywhere  Reason // why Authenticate refuses it; 0: it does not
	inference Reason // why AuthenticateCall does
}

func TestAuthenticate(t *testing.T) {
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	adminKey := strings.Repeat("admin-", 6)
	digest := DigestOf(adminKey)
	a := &Authenticator{Keyring: k, OrganisationID: "org", DefaultWorkspace: "ws-default", AdminKey: &digest}

	valid := issue(t, db, k, "valid", APIKey{Name: "ci", Kind: WorkspaceService, OrganisationID: "org", WorkspaceID: "ws-1", Scopes: []string{ScopeCompletions, "policies.list"}, Metadata: json.RawMessage(`{"env":"prod"}`)})
	user := issue(t, db, k, "user", APIKey{Kind: WorkspaceUser, OrganisationID: "org", WorkspaceID: "ws-2", UserID: "u-1", Scopes: []string{ScopeCompletions}})
	weak := issue(t, db, k, "weak", APIKey{Name: "weak", Kind: WorkspaceService, WorkspaceID: "ws-1", Scopes: []string{"policies.list"}})
	organisation := issue(t, db, k, "organisation", APIKey{Kind: OrganisationService, OrganisationID: "org", Scopes: OrganisationService.Scopes()})
	forged := issue(t, db, k, "forged", APIKey{Kind: OrganisationService, OrganisationID: "org", Scopes: []string{ScopeCompletions}})
	owner := issue(t, db, k, "owner", APIKey{Kind: OrganisationService, OrganisationID: "org", Owner: true})
	expiring := issue(t, db, k, "expiring", APIKey{Kind: WorkspaceService, WorkspaceID: "ws-1", Scopes: []string{ScopeCompletions}, ExpiresAt: after(c, time.Hour)})
	revoked := issue(t, db, k, "revoked", APIKey{Kind: WorkspaceService, WorkspaceID: "ws-1", Scopes: []string{ScopeCompletions}})
	update(t, db, func(tx *storage.Txn) error { return k.Revoke(tx, "revoked") })

	for _, when := range []struct {
		name  string
		pass  time.Duration
		cases map[string]authCase
	}{
		{"at first", 0, map[string]authCase{
			"a workspace key":                      {token: valid, id: "valid", ws: "ws-1"},
			"a user's key":                         {token: user, id: "user", ws: "ws-2"},
			"a key without the scope":              {token: weak, id: "weak", ws: "ws-1", inference: MissingScope},
			"an organisation key":                  {token: organisation, id: "organisation", inference: MissingScope},
			"an organisation key with every scope": {token: forged, id: "forged", inference: MissingScope},
			"the owner's stored key":               {token: owner, id: "owner", ws: "ws-default"},
			"the configured admin_key":             {token: adminKey, id: OwnerKeyID, ws: "ws-default"},
			"a key that has not expired":           {token: expiring, id: "expiring", ws: "ws-1"},
			"a revoked key":                        {token: revoked, anywhere: InvalidKey, inference: InvalidKey},
			"no key":                               {token: "", anywhere: InvalidKey, inference: InvalidKey},
			"an unknown key":                       {token: "gw-unknown", anywhere: InvalidKey, inference: InvalidKey},
			"half a key":                           {token: valid[:len(valid)-1], anywhere: InvalidKey, inference: InvalidKey},
			"a key and more":                       {token: valid + " ", anywhere: InvalidKey, inference: InvalidKey},
			"a key in capitals":                    {token: strings.ToUpper(valid), anywhere: InvalidKey, inference: InvalidKey},
			"a key's id":                           {token: "valid", anywhere: InvalidKey, inference: InvalidKey},
			"a key's digest":                       {token: string(func() []byte { d := DigestOf(valid); return d[:] }()), anywhere: InvalidKey, inference: InvalidKey},
			"the name of the admin_key":            {token: OwnerKeyID, anywhere: InvalidKey, inference: InvalidKey},
		}},
		{"a moment before the expiry", time.Hour - 1, map[string]authCase{"the key": {token: expiring, id: "expiring", ws: "ws-1"}}},
		{"at the expiry", 1, map[string]authCase{
			"the key":       {token: expiring, anywhere: ExpiredKey, inference: ExpiredKey},
			"the other key": {token: valid, id: "valid", ws: "ws-1"},
		}},
	} {
		c.add(when.pass)
		for name, want := range when.cases {
			check := func(kind string, caller *Caller, refusal *Error, reason Reason) {
				switch {
				case reason == 0 && refusal != nil:
					t.Errorf("%s, %s, %s: %v", when.name, name, kind, refusal)
				case reason == 0 && caller.KeyID != want.id:
					t.Errorf("%s, %s, %s: got the key %s", when.name, name, kind, caller.KeyID)
				case reason != 0 && (refusal == nil || caller != nil):
					t.Errorf("%s, %s, %s: admitted as %+v", when.name, name, kind, caller)
				case reason != 0 && (refusal.Reason != reason || refusal.Field != "x-gw-api-key" || refusal.Message == ""):
					t.Errorf("%s, %s, %s: got %+v", when.name, name, kind, refusal)
				case reason != 0 && len(want.token) > 12 && strings.Contains(refusal.Error(), want.token[:12]):
					t.Errorf("%s, %s, %s: the refusal shows the key", when.name, name, kind)
				}
			}
			caller, refusal := a.Authenticate(want.token)
			check("control plane", caller, refusal, want.anywhere)
			caller, refusal = a.AuthenticateCall(want.token, ScopeCompletions)
			check("inference", caller, refusal, want.inference)
			if refusal == nil && caller.WorkspaceID != want.ws {
				t.Errorf("%s, %s: in workspace %q, want %q", when.name, name, caller.WorkspaceID, want.ws)
			}
		}
	}

	caller, _ := a.AuthenticateCall(valid, ScopeCompletions)
	if caller.KeyName != "ci" || caller.OrganisationID != "org" || caller.Kind != WorkspaceService || string(caller.Metadata) != `{"env":"prod"}` || caller.Owner {
		t.Errorf("got %+v", caller)
	}
	if caller, _ = a.Authenticate(user); caller.UserID != "u-1" {
		t.Errorf("got %+v", caller)
	}
}

func TestCallerMayDoWhatItsScopesSay(t *testing.T) {
	c := &Caller{scopes: []string{"policies.list"}}
	if !c.May("policies.list") || c.May("policies.read") || c.May("") || c.May("policies") {
		t.Error("a caller's scopes are not what it may do")
	}
	if owner := (&Caller{Owner: true}); !owner.May("anything.at_all") {
		t.Error("the owner may not do everything")
	}
}

func TestAdminKeyIsNoKeyWhereNoneIsConfigured(t *testing.T) {
	a := &Authenticator{Keyring: openKeyring(t, openDB(t), newClock())}
	for _, token := range []string{"", OwnerKeyID, strings.Repeat("\x00", 32)} {
		if caller, refusal := a.Authenticate(token); refusal == nil {
			t.Errorf("%q: admitted as %+v", token, caller)
		}
	}
}
