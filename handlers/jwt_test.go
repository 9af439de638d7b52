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
