package external

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/caddy-gw/gateway/guardrails"
)

// An issuer publishes a key set.
type issuer struct {
	standIn
	set  []byte
	asks int
	late time.Duration
}

func (i *issuer) Now() time.Time { return i.standIn.Now().Add(i.late) }

func (i *issuer) Send(_ context.Context, q *guardrails.Request) (*guardrails.Answer, error) {
	i.asks++
	if q.Method != http.MethodGet || !q.Public || i.set == nil {
		return nil, errors.New("could not be reached")
	}
	return guardrails.NewAnswer(200, i.set, nil), nil
}

func TestTokensAreVerified(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set := must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k1", Algorithm: "EdDSA", Use: "sig"}}}))
	token := func(key ed25519.PrivateKey, id, claims string) string {
		signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil))
		return must(must(signer.Sign([]byte(claims))).CompactSerialize())
	}
	at := func(seconds int) string { return strconv.Itoa(1700000000 + seconds) }
	right := token(private, "k1", `{"sub":"ann","iat":`+at(-10)+`,"exp":`+at(60)+`}`)
	// The last character of its claims has bits that say nothing.
	claims := strings.Split(token(private, "k1", `{"a":1}`), ".")
	claims[1] = claims[1][:len(claims[1])-1] + string(claims[1][len(claims[1])-1]+1)
	none := "eyJhbGciOiJub25lIiwia2lkIjoiazEifQ." + strings.Split(right, ".")[1] + "."
	for name, c := range map[string]struct{ parameters, header, want string }{
		"right":              {`{}`, "Bearer " + right, "true"},
		"small letters":      {`{}`, "bearer " + right, "true"},
		"without Bearer":     {`{}`, right, "true"},
		"missing":            {`{}`, "", "false"},
		"no token":           {`{}`, "Bearer x", "false"},
		"long":               {`{}`, strings.Repeat("a", maxToken+1), "false"},
		"unsigned":           {`{}`, none, "false"},
		"another spelling":   {`{}`, strings.Join(claims, "."), "false"},
		"padding":            {`{}`, right + "==", "false"},
		"another key":        {`{}`, token(other, "k1", `{}`), "false"},
		"unknown key":        {`{}`, token(private, "k2", `{}`), "false"},
		"only key":           {`{}`, token(private, "", `{}`), "true"},
		"another algorithm":  {`{"algorithms":["RS256"]}`, right, "false"},
		"expired":            {`{}`, token(private, "k1", `{"exp":`+at(-5)+`}`), "false"},
		"expired just now":   {`{}`, token(private, "k1", `{"exp":`+at(-4)+`}`), "true"},
		"not yet":            {`{}`, token(private, "k1", `{"nbf":`+at(6)+`}`), "false"},
		"soon":               {`{}`, token(private, "k1", `{"nbf":`+at(5)+`}`), "true"},
		"of the future":      {`{}`, token(private, "k1", `{"iat":`+at(6)+`}`), "false"},
		"old":                {`{"maxTokenAge":"1m"}`, token(private, "k1", `{"iat":`+at(-66)+`}`), "false"},
		"old by default":     {`{}`, token(private, "k1", `{"iat":`+at(-86406)+`}`), "false"},
		"of yesterday":       {`{}`, token(private, "k1", `{"iat":`+at(-86400)+`}`), "true"},
		"a time as a string": {`{}`, token(private, "k1", `{"exp":"x"}`), "false"},
		"no claims":          {`{}`, token(private, "k1", `[]`), "false"},
		"required":           {`{"requiredClaims":["sub"]}`, right, "true"},
		"required, missing":  {`{"requiredClaims":["sub","tenant"]}`, right, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			parameters := strings.Replace(c.parameters, "{", `{"jwks":`+string(set)+`,`, 1)
			parameters = strings.Replace(parameters, ",}", "}", 1)
			if !strings.Contains(parameters, "algorithms") {
				parameters = strings.TrimSuffix(parameters, "}") + `,"algorithms":["EdDSA"]}`
			}
			of := subject(&standIn{t: t}, false)
			of.Texts, of.Header = nil, http.Header{"Authorization": {c.header}}
			r, err := made(t, "default.jwt", parameters, "").Judge(t.Context(), of)
			if err != nil || strconv.FormatBool(r.Verdict) != c.want {
				t.Errorf("%v, %v, want %s", r, err, c.want)
			}
		})
	}

	// Keys are fetched once, and not again for each unknown key.
	i := &issuer{standIn: standIn{t: t}}
	check := made(t, "default.jwt", `{"jwksUri":"https://login.example.com/keys","algorithms":["EdDSA"],"headerKey":"x-token"}`, "")
	judge := func(token string) (guardrails.Result, error) {
		of := subject(nil, false)
		of.Services, of.Header = i, http.Header{"X-Token": {token}}
		return check.Judge(t.Context(), of)
	}
	if _, err := judge(right); err == nil {
		t.Error("no keys can be had, and that is no error")
	}
	i.set = set
	if _, err := judge(right); err == nil || i.asks != 1 {
		t.Errorf("what failed just now is asked for again: %v, %d requests", err, i.asks)
	}
	i.asks, i.late = 0, keysInterval
	for range 3 {
		if r, err := judge(right); err != nil || !r.Verdict {
			t.Errorf("%v, %v", r, err)
		}
		if r, err := judge(token(private, "k2", `{}`)); err != nil || r.Verdict {
			t.Errorf("an unknown key: %v, %v", r, err)
		}
	}
	if i.asks != 1 {
		t.Errorf("%d requests for keys", i.asks)
	}
	i.set, i.late = nil, 2*keysInterval
	if r, err := judge(token(private, "k2", `{}`)); err != nil || r.Verdict || i.asks != 2 {
		t.Errorf("an unknown key while no keys can be fetched: %v, %v, %d requests", r, err, i.asks)
	}
	if r, err := judge(token(private, "k2", `{}`)); err != nil || r.Verdict || i.asks != 2 {
		t.Errorf("an unknown key, again at once: %v, %v, %d requests", r, err, i.asks)
	}
	if _, err := check.Judge(t.Context(), subject(&standIn{t: t}, true)); err == nil {
		t.Error("it judges answers")
	}
	for _, parameters := range []string{`{}`, `{"jwksUri":"x"}`, `{"jwks":{}}`, `{"jwks":{"keys":[]}}`, `{"jwksUri":"https://x.example.com","maxTokenAge":"soon"}`, `{"jwksUri":"https://x.example.com","algorithms":["HS256"]}`, `{"jwksUri":"https://x.example.com","headerKey":"a b"}`} {
		if len(guardrails.Lookup("default.jwt").Faults([]byte(parameters))) == 0 {
			t.Errorf("%s is valid", parameters)
		}
	}
}

// No claims make a check panic, and what is no object, or lacks a claim that is required, is not right.
func FuzzClaims(f *testing.F) {
	for _, seed := range []string{`{"sub":"ann","iat":1700000000,"exp":1700000060}`, `{"exp":"x"}`, `{"exp":1e400}`, `{"nbf":-1}`, `[]`, `{"exp":1,"exp":1800000000,"sub":null}`, "\xff"} {
		f.Add([]byte(seed), "1d")
	}
	f.Fuzz(func(t *testing.T, payload []byte, age string) {
		c := &tokenChecked{claims: []string{"sub"}, age: time.Hour, skew: 5 * time.Second}
		if d, err := ageOf(age); err == nil {
			if d <= 0 {
				t.Fatalf("%q is %v", age, d)
			}
			c.age = d
		}
		if c.wrong(payload, time.Unix(1700000000, 0)) == "" && (!json.Valid(payload) || bytes.TrimSpace(payload)[0] != '{' || !bytes.Contains(payload, []byte("sub")) && !bytes.Contains(payload, []byte(`\u`))) {
			t.Fatalf("%q is right", payload)
		}
	})
}

// What parses as a key set has public keys alone.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a"}]}`, `{"keys":[{"kty":"oct","k":"AA"}]}`, `{"keys":null}`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		set, err := parseKeys(raw)
		if err != nil {
			return
		}
		for i := range set.Keys {
			if !set.Keys[i].IsPublic() {
				t.Fatalf("%q has a secret", raw)
			}
		}
		if len(set.Keys) == 0 {
			t.Fatalf("%q has no key", raw)
		}
	})
}
