package admin_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

// The values of the query of a key set's URL may be credentials: they are shown to nobody, also not in the audit trail,
// and go nowhere else.
func TestQueriesOfKeySetsAreMasked(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/admin/organisation"
	issuers := func(list string) string { return `{"auth_settings":{"jwt":[` + list + `]}}` }
	first := `{"issuer":"a","audience":["gw"],"jwks_url":["https://a.example.com/keys?p=CANARY-1&t=","https://b.example.com/keys"]}`
	second := `{"issuer":"b","audience":["gw"],"jwks_url":["https://b.example.com/keys?k=CANARY-2"]}`
	a.ok("PUT", path, issuers(first+","+second))
	shown := a.ok("GET", path, "")
	list := shown.get("auth_settings.jwt").Raw
	if strings.Contains(shown.body, "CANARY") || shown.get("auth_settings.jwt.0.jwks_url").Raw != `["https://a.example.com/keys?p=*****&t=","https://b.example.com/keys"]` {
		t.Errorf("shown as %s", list)
	}
	kept := func(what string) {
		t.Helper()
		stored := a.s.Directory.Organisation().SignIn.Issuers
		if len(stored) != 2 || stored[0].URLs[0] != "https://a.example.com/keys?p=CANARY-1&t=" || stored[1].URLs[0] != "https://b.example.com/keys?k=CANARY-2" {
			t.Errorf("%s: stored %+v", what, stored)
		}
	}
	list = strings.Trim(list, "[]")
	a.ok("PUT", path, issuers(list))
	kept("as shown")
	for what, change := range map[string][2]string{
		"another host":       {"https://a.example.com/keys?p=", "https://c.example.com/keys?p="},
		"another path":       {"a.example.com/keys?p=", "a.example.com/other?p="},
		"another parameter":  {"?p=*****", "?q=*****"},
		"of another issuer":  {`"issuer":"a"`, `"issuer":"c"`},
		"of none, by itself": {"https://b.example.com/keys\"", "https://b.example.com/keys?k=*****\""},
	} {
		changed := strings.Replace(list, change[0], change[1], 1)
		if changed == list {
			t.Fatalf("%s: nothing is changed in %s", what, list)
		}
		a.refuses(ownerKey, "PUT", path, issuers(changed), 400, "auth_settings.jwt[0].jwks_url[")
		kept(what)
	}
	a.ok("PUT", path, issuers(strings.Replace(list, "a.example.com/keys?p=*****", "c.example.com/keys?p=new", 1)))
	err := a.store.View(t.Context(), func(tx storage.Tx) error {
		for item, err := range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
			if bytes.Contains(item.Value, []byte("CANARY-1")) {
				t.Errorf("the store still has it: %q = %.300q", item.Key, item.Value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// null clears what is optional, as everywhere.
func TestNullClearsRulesOfSigningIn(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/admin/organisation"
	a.ok("PUT", path, `{"auth_settings":{"jwt":[{"issuer":"https://i.example.com","audience":["a"],"jwks_url":["https://i.example.com/keys"]}],"email_domains":[{"domain":"example.com"}],"session_settings":{"max_session_ttl":900}}}`)
	for _, member := range []string{"jwt", "email_domains", "session_settings"} {
		before := a.ok("GET", path, "").get("auth_settings")
		a.ok("PUT", path, `{"auth_settings":{"`+member+`":null}}`)
		after := a.ok("GET", path, "").get("auth_settings")
		if after.Get(member).Raw == before.Get(member).Raw || after.Get(member+".0").Exists() || after.Get(member+".max_session_ttl").Int() != 0 {
			t.Errorf("%s: %s", member, after.Raw)
		}
	}
	id := a.ok("POST", "/v1/labels", `{"name":"canary","color_code":"#fff","description":"d"}`).get("id").Str
	a.ok("PUT", "/v1/labels/"+id, `{"color_code":null,"description":null}`)
	if l := a.ok("GET", "/v1/labels/"+id, ""); l.get("color_code").Raw != "null" || l.get("description").Raw != "null" {
		t.Errorf("%s", l.body)
	}
}
