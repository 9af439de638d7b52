package handlers_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Claims of a token go to the provider in headers, which never come from the client: not without a
// token, not with a wrong one, and not if the check cannot judge, even where the config forwards them.
func TestClaimsReachTheProviderInHeaders(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n"+up.Provider("file"))
	key, _ := g.Key("k")
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k1"}}})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(`{"sub":"ann"}`))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	verified := fmt.Sprintf(`{"default.jwt":{"jwks":%s,"algorithms":["EdDSA"],"headerKey":"x-user-token","extractClaims":["sub"]}}`, set)
	unjudged := `{"default.jwt":{"jwksUri":"http://127.0.0.1:1/keys","headerKey":"x-user-token","extractClaims":["sub"]}}`
	for _, c := range []struct{ list, check, token, want string }{
		{"start_hooks", verified, token, "ann"},
		{"start_hooks", verified, "wrong", ""},
		{"start_hooks", unjudged, token, ""},
		{"input_guardrails", verified, token, "ann"},
		{"input_guardrails", verified, "", ""},
		{"input_guardrails", unjudged, token, ""},
		{"input_guardrails", `{"default.wordCount":{}}`, token, "forged"}, // no check sets it
	} {
		config := `{"provider":"@file","forward_headers":["x-jwt-sub"],"cache":{"mode":"simple"},"` + c.list + `":[` + c.check + `]}`
		before := len(up.Calls())
		a := g.Do("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"`+c.list+strconv.Itoa(len(c.check))+`"}]}`,
			"x-gw-api-key: "+key, "x-gw-config: "+config, "x-user-token: "+c.token, "x-jwt-sub: forged")
		calls := up.Calls()[before:]
		if a.Status != 200 && a.Status != 246 || len(calls) != 1 {
			t.Fatalf("%s %s: %d %s, %d calls", c.list, c.check, a.Status, a.Body, len(calls))
		}
		if got := calls[0].Header.Get("X-Jwt-Sub"); got != c.want {
			t.Errorf("%s %s with the token %.10s: the provider got %q, want %q", c.list, c.check, c.token, got, c.want)
		}
	}
}
