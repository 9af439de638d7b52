package handlers_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// An issuer signs JWTs, and serves its keys.
type issuer struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	kid    string
	server *httptest.Server
	keys   jose.JSONWebKeySet
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t}
	i.rotate("one")
	i.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(i.keys)
	}))
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) rotate(kid string) {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.key, i.kid = key, kid
	i.keys.Keys = append(i.keys.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: kid})
}

func (i *issuer) options() string {
	return "jwt {\nissuer https://idp.example\naudience gw other\njwks_url " + i.server.URL + "\n}\n"
}

func (i *issuer) token(claims map[string]any) string {
	i.t.Helper()
	all := map[string]any{"iss": "https://idp.example", "aud": []string{"gw"}, "exp": time.Now().Add(time.Hour).Unix(), "sub": "ci", "scope": "gw.completions.write"}
	maps.Copy(all, claims)
	raw, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, new(jose.SignerOptions).WithType("JWT").WithHeader("kid", i.kid))
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(raw)
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

// A JWT makes calls as a key does, goes to no provider, and is in no log.
func TestCallsWithAJWT(t *testing.T) {
	idp := newIssuer(t)
	l := newLab(t, idp.options(), "")
	token := idp.token(nil)
	for _, header := range []string{"x-gw-api-key: ", "authorization: Bearer ", "x-api-key: "} {
		if a := l.Do("POST", "/v1/chat/completions", gatewaytest.Chat, header+token, "x-gw-provider: good"); a.Status != 200 {
			t.Errorf("%s: %d %s", header, a.Status, a.Body)
		}
	}
	for _, call := range l.good.Calls() {
		if s := fmt.Sprint(call); strings.Contains(s, token) {
			t.Errorf("the provider got the token: %s", s)
		}
	}
	calls := len(l.good.Calls())
	forwarded := `{"provider":"good","forward_headers":["x-mine"]}`
	for name, c := range map[string]struct {
		status int
		header []string
	}{
		"without the scope": {403, []string{"x-gw-api-key: " + idp.token(map[string]any{"scope": "logs.view"})}},
		"expired":           {401, []string{"x-gw-api-key: " + idp.token(map[string]any{"exp": 1})}},
		"for others":        {401, []string{"x-gw-api-key: " + idp.token(map[string]any{"aud": "x"})}},
		"of another":        {401, []string{"x-gw-api-key: " + idp.token(map[string]any{"iss": "https://else.example"})}},
		"no workspace":      {403, []string{"x-gw-api-key: " + idp.token(map[string]any{"gw_workspace": "nope"})}},
		"changed":           {401, []string{"x-gw-api-key: " + token + "x"}},
		"forwarded":         {400, []string{"x-gw-api-key: " + token, "x-mine: " + idp.token(map[string]any{"sub": "other"}), "x-gw-config: " + forwarded}},
		"as the bearer too": {400, []string{"x-gw-api-key: " + token, "authorization: Bearer " + idp.token(map[string]any{"sub": "other"})}},
	} {
		a := l.Do("POST", "/v1/chat/completions", gatewaytest.Chat, append(c.header, "x-gw-provider: good")...)
		if a.Status != c.status {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if a := l.Do("POST", "/v1/chat/completions?a="+token, gatewaytest.Chat, "x-gw-api-key: "+token, "x-gw-provider: good"); a.Status != 400 {
		t.Errorf("in the query: %d %s", a.Status, a.Body)
	}
	if n := len(l.good.Calls()); n != calls {
		t.Errorf("the provider got %d calls more", n-calls)
	}
	// A JWT of somebody else is a credential for a provider.
	if a := l.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+token, "authorization: Bearer "+idp.token(map[string]any{"iss": "https://else.example"}), "x-gw-provider: good"); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if strings.Contains(l.Logs(), token) {
		t.Error("the token is in the log")
	}
	if a := l.Do("GET", "/v1/auth/self", "", "x-gw-api-key: "+token); a.Status != 200 || a.Get("subject").Str != "ci" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// Issuers of the organisation's settings count as those of the gw block do, from the next request on.
func TestTheOrganisationHasIssuers(t *testing.T) {
	idp := newIssuer(t)
	l := newLab(t, "", "")
	token := idp.token(nil)
	call := func() int {
		return l.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+token, "x-gw-provider: good").Status
	}
	if status := call(); status != 401 {
		t.Errorf("a token of nobody is %d", status)
	}
	set := func(issuers string, key string) *gatewaytest.Answer {
		return l.Do("PUT", "/v1/admin/organisation", `{"auth_settings":{"jwt":`+issuers+`}}`, "x-gw-api-key: "+key)
	}
	keys, err := json.Marshal(idp.keys)
	if err != nil {
		t.Fatal(err)
	}
	ours := `[{"issuer":"https://idp.example","audience":["gw"],"jwks":` + string(keys) + `}]`
	if a := set(ours, gatewaytest.OwnerKey); a.Status != 200 {
		t.Fatal(a.Body)
	}
	if status := call(); status != 200 {
		t.Errorf("a token of the organisation's issuer is %d", status)
	}
	if a := l.Admin("GET", "/v1/admin/organisation", nil); a.Get("auth_settings.jwt.0.jwks.keys.0.kid").Str != "one" {
		t.Errorf("%s", a.Body)
	}
	// Other settings keep it, and another audience takes effect at once.
	l.Admin("PUT", "/v1/admin/organisation", map[string]any{"name": "Other"})
	if status := call(); status != 200 {
		t.Errorf("after another change it is %d", status)
	}
	if a := set(strings.Replace(ours, `"gw"`, `"else"`, 1), gatewaytest.OwnerKey); a.Status != 200 {
		t.Fatal(a.Body)
	}
	if status := call(); status != 401 {
		t.Errorf("with another audience it is %d", status)
	}
	// Only owners say who says who somebody is.
	made := l.Admin("POST", "/v1/api-keys/organisation/service", map[string]any{"name": "k", "scopes": []string{"organisation_settings.update", "organisation_settings.read"}})
	if a := set(ours, made.Get("key").Str); a.Status != 403 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	private := `{"keys":[{"kty":"oct","kid":"x","k":"AAAA"}]}`
	for issuers, message := range map[string]string{
		`[{"issuer":"i","audience":["a"]}]`:                                                             "auth_settings.jwt[0].jwks_url",
		`[{"issuer":"i","audience":[]}]`:                                                                "audience",
		`[{"issuer":"i","audience":[""],"jwks_url":["https://a.example"]}]`:                             "auth_settings.jwt[0].audience[0]",
		`[{"issuer":"i","audience":["a"],"jwks":` + private + `}]`:                                      "auth_settings.jwt[0].jwks: keys[0]: expected the public parameters only",
		`[{"issuer":"i","audience":["a"],"jwks_url":["http://127.0.0.1:1/keys"]}]`:                      "auth_settings.jwt[0].jwks_url[0]",
		`[{"issuer":"i","audience":["a"],"jwks_url":["ftp://a.example/keys"]}]`:                         "auth_settings.jwt[0].jwks_url[0]",
		`[{"issuer":"i","audience":["a"],"jwks_url":["https://u:p@a.example/keys"]}]`:                   "auth_settings.jwt[0].jwks_url[0]",
		ours[:len(ours)-1] + "," + ours[1:]:                                                             "named twice",
		"[" + strings.TrimSuffix(strings.Repeat(ours[1:len(ours)-1]+",", 6), ",") + "]":                 "auth_settings.jwt",
		`[{"issuer":"i","audience":["a"],"jwks":{"keys":[]}}]`:                                          "auth_settings.jwt[0].jwks: expected a public key",
		`[{"issuer":"i","audience":["a"],"jwks":{"keys":[],"x":"` + strings.Repeat("x", 17000) + `"}}]`: "auth_settings.jwt[0].jwks: expected at most",
	} {
		if a := set(issuers, gatewaytest.OwnerKey); a.Status != 400 || !strings.Contains(a.Body, message) {
			t.Errorf("%.200s: %d %.300s, want %s", issuers, a.Status, a.Body, message)
		}
	}
	if a := set(`[]`, gatewaytest.OwnerKey); a.Status != 200 {
		t.Fatal(a.Body)
	}
	if status := call(); status != 401 {
		t.Errorf("without issuers it is %d", status)
	}
}

// Limits in a JWT count the calls that are made with it, and refuse as those of an API key do.
func TestAJWTHasLimitsOfItsOwn(t *testing.T) {
	idp := newIssuer(t)
	l := newLab(t, idp.options(), "")
	issued := time.Now().Add(-time.Minute).Unix()
	limited := func(id string, claims map[string]any) string {
		claims["jti"], claims["iat"] = id, issued
		return idp.token(claims)
	}
	ask := func(token string) *gatewaytest.Answer {
		return l.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+token, "x-gw-provider: good")
	}
	passes := func(token string) {
		t.Helper()
		if a := ask(token); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	refused := func(token string, status int, kind, code string) {
		t.Helper()
		if a := ask(token); a.Status != status || a.Get("error.type").Str != kind || a.Get("error.code").Str != code || !strings.Contains(a.Body, "the JWT's own limit") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	rates := func() map[string]any {
		return map[string]any{"rate_limits": []any{map[string]any{"type": "requests", "unit": "rpd", "value": 2}}}
	}
	budget := map[string]any{"usage_limits": []any{map[string]any{"type": "tokens", "credit_limit": 100}}}
	first, second, third := limited("1", rates()), limited("2", rates()), limited("3", budget)
	for _, token := range []string{first, second} {
		passes(token)
		passes(token)
		refused(token, 429, "api_key_rate_limit_error", "05")
	}
	for range 2 { // each uses 5, and reserves ninety or so
		passes(third)
	}
	refused(third, 412, "api_key_exhaust_error", "04")
	passes(idp.token(nil))
	l.Stop()
	l.Load()
	refused(first, 429, "api_key_rate_limit_error", "05")
	refused(third, 412, "api_key_exhaust_error", "04")
	wrong := rates()
	wrong["usage_limits"] = map[string]any{"credit_limit": .1}
	if a := ask(limited("4", wrong)); a.Status != 401 || !strings.Contains(a.Body, "usage_limits.credit_limit: expected 1 or more") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
