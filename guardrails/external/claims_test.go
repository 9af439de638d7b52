package external

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// What claims must be, and what must be the same in the header of the token.
func TestClaimsHaveTheirValues(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set := must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k1"}}}))
	options := new(jose.SignerOptions).WithHeader("tenant", "acme").WithHeader("level", 2)
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k1"}}, options))
	token := must(must(signer.Sign([]byte(`{"scope":"read write","Scopes":"read write","roles":["admin","dev"],"sub":"ann","tenant":"acme","level":3,"beta":true,"kid":{}}`))).CompactSerialize())
	for _, c := range []struct {
		parameters string
		want       bool
	}{
		{`"claimValues":{"sub":{"values":"ann"}}`, true},
		{`"claimValues":{"sub":{"values":["ann"],"matchType":"exact"}}`, true},
		{`"claimValues":{"sub":{"values":"an"}}`, false},
		{`"claimValues":{"roles":{"values":"admin"}}`, false},
		{`"claimValues":{"scope":{"values":"read"}}`, false},
		{`"claimValues":{"Scopes":{"values":"read write"}}`, true},
		{`"claimValues":{"scope":{"values":["writ","x"],"matchType":"contains"}}`, true},
		{`"claimValues":{"scope":{"values":"d w","matchType":"contains"}}`, false},
		{`"claimValues":{"Scopes":{"values":"d w","matchType":"contains"}}`, true},
		{`"claimValues":{"roles":{"values":["admin","dev"],"matchType":"containsAll"}}`, true},
		{`"claimValues":{"roles":{"values":["admin","root"],"matchType":"containsAll"}}`, false},
		{`"claimValues":{"roles":{"values":["^a.*n$"],"matchType":"regex"}}`, true},
		{`"claimValues":{"roles":{"values":["^root$"],"matchType":"regex"}}`, false},
		{`"claimValues":{"level":{"values":3},"beta":{"values":true}}`, true},
		{`"claimValues":{"level":{"values":3},"beta":{"values":false}}`, false},
		{`"claimValues":{"none":{"values":"x"}}`, false},
		{`"claimValues":{"kid":{"values":"{}"}}`, false},
		{`"headerPayloadMatch":["tenant"]`, true},
		{`"headerPayloadMatch":["tenant","level"]`, false},
		{`"headerPayloadMatch":["kid"]`, false},
		{`"headerPayloadMatch":["none"]`, false},
	} {
		of := subject(&standIn{t: t}, false)
		of.Header = http.Header{"Authorization": {"Bearer " + token}}
		r, err := made(t, "default.jwt", `{"jwks":`+string(set)+`,"algorithms":["EdDSA"],`+c.parameters+`}`, "").Judge(t.Context(), of)
		if err != nil || r.Verdict != c.want {
			t.Errorf("%s: %v, %v", c.parameters, r, err)
		}
	}
	for parameters, want := range map[string]string{
		`"claimValues":{"sub":"ann"}`:                                    "parameters.claimValues.sub: expected an object with values and matchType",
		`"claimValues":{"sub":{}}`:                                       "parameters.claimValues.sub.values: expected a string, a number, true or false, or a list of them",
		`"claimValues":{"sub":{"values":[{}]}}`:                          "parameters.claimValues.sub.values: expected a string, a number, true or false, or a list of them",
		`"claimValues":{"sub":{"values":["a","b"]}}`:                     "parameters.claimValues.sub.values: expected one value, as matchType is exact",
		`"claimValues":{"sub":{"values":"a","matchType":"like"}}`:        "parameters.claimValues.sub.matchType: expected one of exact, contains, containsAll, regex",
		`"claimValues":{"sub":{"values":"a","match":"exact"}}`:           "parameters.claimValues.sub.match: unknown; expected values and matchType",
		`"introspectClientId":"a"`:                                       "parameters.introspectClientId: expected introspectEndpoint with it",
		`"introspectEndpoint":"x"`:                                       "parameters.introspectEndpoint: expected a URL such as https://login.example.com/introspect",
		`"introspectEndpoint":"https://x.io/i","introspectClientId":"a"`: "parameters.introspectClientSecret: required with introspectClientId: a string",
	} {
		faults := guardrails.Lookup("default.jwt").Faults([]byte(`{"jwks":` + string(set) + `,` + parameters + `}`))
		if len(faults) != 1 || faults[0].Error() != want {
			t.Errorf("%s: %v", parameters, faults)
		}
	}
}

// No values of parameters and claims make a check panic; a claim that is missing is never right.
func FuzzClaimValues(f *testing.F) {
	for _, seed := range [][3]string{
		{`{"sub":{"values":"ann"}}`, `{"sub":"ann"}`, "e30.e30.x"},
		{`{"scope":{"values":["a"],"matchType":"containsAll"}}`, `{"scope":" a  b","roles":[[1]]}`, "eyJhIjoxfQ"},
		{`{"sub":{"values":["^(a+)+$"],"matchType":"regex"}}`, `{"sub":null}`, "."},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]), seed[2])
	}
	kind := guardrails.Kind{ID: "test.claims", Parameters: jsonWebToken.Parameters, New: newTokenCheck}
	f.Fuzz(func(t *testing.T, values, claims []byte, token string) {
		if !json.Valid(values) || !json.Valid(claims) {
			return
		}
		check, err := kind.Make([]byte(`{"introspectEndpoint":"https://x.io","claimValues":` + string(values) + `}`))
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i := range check.(*tokenChecked).values {
			v := &check.(*tokenChecked).values[i]
			if is, err := v.is(ctx, gjson.ParseBytes(claims)); err == nil && is && !member(gjson.ParseBytes(claims), v.claim).Exists() {
				t.Fatalf("%s has no %q", claims, v.claim)
			}
		}
		if same(member(headerOf(token), "none"), gjson.Result{}) {
			t.Fatalf("%q has the same as nothing", token)
		}
	})
}

// An introspector says what is active, to those who log in.
type introspector struct {
	standIn
	contentType, login string
	reply              string
	asks               int
	late               time.Duration
}

func (i *introspector) Now() time.Time { return i.standIn.Now().Add(i.late) }

func (i *introspector) Send(_ context.Context, q *guardrails.Request) (*guardrails.Answer, error) {
	i.asks++
	token := gjson.GetBytes(q.Body, "token").Str
	if i.contentType == formType {
		token, _ = strings.CutPrefix(string(q.Body), "token=")
	}
	switch {
	case i.reply == "":
		return nil, errors.New("could not be reached")
	case q.Method != http.MethodPost || !q.Public || q.URL.String() != "https://login.example.com/introspect" || q.Header.Get("Content-Type") != i.contentType:
		return guardrails.NewAnswer(404, nil, nil), nil
	case q.Header.Get("Authorization") != i.login:
		return guardrails.NewAnswer(401, nil, nil), nil
	case token == "refused":
		return guardrails.NewAnswer(400, nil, nil), nil
	}
	return guardrails.NewAnswer(200, []byte(i.reply), nil), nil
}

func TestTokensAreIntrospected(t *testing.T) {
	at := func(seconds int) string { return strconv.Itoa(1700000000 + seconds) }
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me%3A:s+s"))
	const login = `,"introspectClientId":"me:","introspectClientSecret":"s s"`
	for name, c := range map[string]struct {
		parameters, contentType, login, token, reply, want string
	}{
		"active":            {``, formType, "", "opaque", `{"active":true,"sub":"ann"}`, "true"},
		"as JSON":           {`,"introspectContentType":"application/json"`, jsonType, "", "opaque", `{"active":true}`, "true"},
		"logged in":         {login, formType, basic, "opaque", `{"active":true}`, "true"},
		"not logged in":     {``, formType, basic, "opaque", `{"active":true}`, "error"},
		"not active":        {``, formType, "", "opaque", `{"active":false}`, "false"},
		"refused":           {``, formType, "", "refused", `{"active":true}`, "false"},
		"missing":           {``, formType, "", "", `{"active":true}`, "false"},
		"unreachable":       {``, formType, "", "opaque", ``, "error"},
		"not understood":    {``, formType, "", "opaque", `{"active":"yes"}`, "error"},
		"only a user":       {``, formType, "", "opaque", `{"sub":"ann"}`, "error"},
		"no JSON":           {``, formType, "", "opaque", `{"active":true`, "error"},
		"expired":           {``, formType, "", "opaque", `{"active":true,"exp":` + at(-5) + `}`, "false"},
		"not yet":           {``, formType, "", "opaque", `{"active":true,"nbf":` + at(6) + `}`, "false"},
		"old":               {``, formType, "", "opaque", `{"active":true,"iat":` + at(-1000000) + `}`, "true"},
		"required":          {`,"requiredClaims":["sub"]`, formType, "", "opaque", `{"active":true}`, "false"},
		"value":             {`,"claimValues":{"scope":{"values":"a","matchType":"contains"}}`, formType, "", "opaque", `{"active":true,"scope":"b"}`, "false"},
		"same":              {`,"headerPayloadMatch":["kid"]`, formType, "", "eyJraWQiOiJrIn0.e30.x", `{"active":true,"kid":"k"}`, "true"},
		"no header to have": {`,"headerPayloadMatch":["kid"]`, formType, "", "opaque", `{"active":true,"kid":"k"}`, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			i := &introspector{standIn: standIn{t: t}, contentType: c.contentType, login: c.login, reply: c.reply}
			of := subject(nil, false)
			of.Services, of.Header = i, http.Header{"Authorization": {"Bearer " + c.token}}
			r, err := made(t, "default.jwt", `{"introspectEndpoint":"https://login.example.com/introspect"`+c.parameters+`}`, "").Judge(t.Context(), of)
			if got := strconv.FormatBool(r.Verdict); err == nil && got != c.want || (err != nil) != (c.want == "error") {
				t.Errorf("%v, %v, want %s", r, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), c.token) {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

// A token that is active is asked about once in its time, and again once that or the token's own is over.
func TestActiveTokensAreRemembered(t *testing.T) {
	i := &introspector{standIn: standIn{t: t}, contentType: formType, reply: `{"active":true,"exp":1700000050}`}
	judge := func(workspace, parameters string) bool {
		of := subject(nil, false)
		of.Services, of.Header, of.Workspace = i, http.Header{"Authorization": {"remembered"}}, workspace
		r, err := made(t, "default.jwt", `{"introspectEndpoint":"https://login.example.com/introspect"`+parameters+`}`, "").Judge(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		return r.Verdict
	}
	const keep = `,"introspectCacheMaxAge":30`
	for step, c := range []struct {
		workspace, parameters string
		late                  time.Duration
		active                bool
		asks                  int
	}{
		{"w1", keep, 0, true, 1},
		{"w1", keep, 29 * time.Second, true, 1},
		{"w2", keep, 29 * time.Second, true, 2},
		{"w1", "", 29 * time.Second, true, 3},
		{"w1", keep, 30 * time.Second, true, 4},
		{"w1", keep, 55 * time.Second, false, 4},
	} {
		i.late = c.late
		if got := judge(c.workspace, c.parameters); got != c.active || i.asks != c.asks {
			t.Errorf("step %d: %v after %d requests", step, got, i.asks)
		}
	}

	i.late, i.reply = 0, `{"active":true,"long":"`+strings.Repeat("x", maxActiveClaims)+`"}`
	for range 2 {
		if asked := i.asks; !judge("w3", keep) || i.asks != asked+1 {
			t.Errorf("long claims: %d requests", i.asks-asked)
		}
	}
}

// Claims are sent to the provider, and nothing else is in their headers.
func TestClaimsAreSentInHeaders(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set := must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k1"}}}))
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k1"}}, nil))
	token := must(must(signer.Sign([]byte(`{"sub":"ann","roles":["admin","dev"],"level":3,"org":{"id":7},"line":"a\nb","empty":"","none":null,"long":"` +
		strings.Repeat("x", maxClaimHeader+1) + `"}`))).CompactSerialize())
	judge := func(parameters, token string) http.Header {
		of := subject(&standIn{t: t}, false)
		of.Header = http.Header{"Authorization": {"Bearer " + token}}
		r, err := made(t, "default.jwt", `{"jwks":`+string(set)+`,"algorithms":["EdDSA"],`+parameters+`}`, "").Judge(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		return r.Header
	}
	const claims = `"extractClaims":["sub","roles","level","org","line","empty","none","long","missing"]`
	for _, c := range []struct {
		parameters, token string
		want              http.Header
	}{
		{claims, token, http.Header{
			"X-Jwt-Sub": {"ann"}, "X-Jwt-Roles": {"admin,dev"}, "X-Jwt-Level": {"3"}, "X-Jwt-Org": {`{"id":7}`},
		}},
		{`"extractClaims":["sub"],"claimPrefix":"X-User-"`, token, http.Header{"X-User-Sub": {"ann"}}},
		{`"extractClaims":["sub"]`, token[:len(token)-4] + "AAAA", nil}, // a wrong signature
		{`"extractClaims":["sub"]`, "", nil},
		{`"requiredClaims":["sub"]`, token, nil},
	} {
		if got := judge(c.parameters, c.token); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.parameters, got, c.want)
		}
	}
	for parameters, want := range map[string]string{
		`"claimPrefix":"jwt-"`: "parameters.claimPrefix: expected the beginning of the name of a header, with x- first, such as x-jwt-",
		`"claimPrefix":"x-"`:   "parameters.claimPrefix: expected the beginning of the name of a header, with x- first, such as x-jwt-",
		`"claimPrefix":"x-goog-","extractClaims":["user-project"]`: "parameters.extractClaims[0]: x-goog-user-project is no header that a claim can be sent in",
		`"claimPrefix":"X-A","extractClaims":["sub","PI-Key"]`:     "parameters.extractClaims[1]: x-api-key is no header that a claim can be sent in",
		`"extractClaims":["https://example.com/claim"]`:            "parameters.extractClaims[0]: expected claims whose names may be those of headers",
	} {
		faults := guardrails.Lookup("default.jwt").Faults([]byte(`{"jwks":` + string(set) + `,` + parameters + `}`))
		if len(faults) != 1 || faults[0].Error() != want {
			t.Errorf("%s: %v, want %s", parameters, faults, want)
		}
	}
}
