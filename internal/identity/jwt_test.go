package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

const (
	iss = "https://idp.example"
	aud = "gateway"
)

var start = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// Keys take a moment to make, so that tests share them.
var (
	rsaKey  = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	p256    = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	p384    = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)) })
	edwards = sync.OnceValue(func() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, 32)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An idp is an issuer whose keys are served over HTTP, with a verifier that fetches them.
type idp struct {
	t        *testing.T
	v        *Verifier
	d        *directory.Directory
	db       *storage.DB
	now      atomic.Int64
	keys     atomic.Value // string: the answer
	requests atomic.Int64
	status   atomic.Int64
}

func jwk(kid string, key any, more ...string) string {
	k := must(json.Marshal(jose.JSONWebKey{Key: key, KeyID: kid}))
	if len(more) > 0 {
		return strings.TrimSuffix(string(k), "}") + "," + strings.Join(more, ",") + "}"
	}
	return string(k)
}

func keySet(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

func newIDP(t *testing.T) *idp {
	t.Helper()
	i := &idp{t: t, db: storetest.OpenDB(t)}
	i.now.Store(start.UnixNano())
	now := func() time.Time { return time.Unix(0, i.now.Load()) }
	i.d = must(directory.Open(t.Context(), i.db, now, rand.Reader))
	i.update(func(tx *storage.Txn) error { _, _, err := i.d.Create(tx); return err })
	i.keys.Store(keySet(jwk("rsa", rsaKey().Public()), jwk("p256", p256().Public()), jwk("p384", p384().Public()), jwk("ed", edwards().Public())))
	i.status.Store(200)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.requests.Add(1)
		w.WriteHeader(int(i.status.Load()))
		_, _ = w.Write([]byte(i.keys.Load().(string)))
	}))
	t.Cleanup(server.Close)
	i.v = NewVerifier(Options{
		Directory: i.d, Now: now, Logger: zap.NewNop(),
		Config:  func(_, name string) (string, bool) { return "id-of-" + name, name == "pc-known" },
		Issuers: []Issuer{{Name: iss, Audience: []string{aud, "other-name"}, URLs: []string{server.URL}, Client: server.Client()}},
	})
	i.fetched()
	return i
}

// fetched waits until no request for keys is under way.
func (i *idp) fetched() {
	for _, r := range i.v.issuers[0].remote {
		r.mu.Lock()
		done := r.fetching
		r.mu.Unlock()
		if done != nil {
			<-done
		}
	}
}

func (i *idp) update(fn func(tx *storage.Txn) error) {
	i.t.Helper()
	if err := i.db.Update(i.t.Context(), fn); err != nil {
		i.t.Fatal(err)
	}
}

type object map[string]any

// claimed are claims that are right, with some changed; nil removes one.
func claimed(changes object) object {
	all := object{"iss": iss, "aud": aud, "sub": "svc", "exp": start.Add(time.Hour).Unix(), "scope": "completions.write"}
	for name, value := range changes {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

func part(v any) string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v))) }

func sign(alg jose.SignatureAlgorithm, key any, kid string, c any) string {
	o := new(jose.SignerOptions).WithType("JWT")
	if kid != "" {
		o = o.WithHeader("kid", kid)
	}
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o))
	return must(must(signer.Sign(must(json.Marshal(c)))).CompactSerialize())
}

func (i *idp) authenticate(token string) (*credentials.Caller, *credentials.Error) {
	digest := credentials.DigestOf(token)
	c, refusal, ours := i.v.Authenticate(token, &digest)
	if !ours {
		return nil, &credentials.Error{Message: "not ours"}
	}
	if !i.v.Recognizes(token) {
		i.t.Error("a token that is refused or not is not recognized")
	}
	return c, refusal
}

func (i *idp) accepts(token string) *credentials.Caller {
	i.t.Helper()
	c, refusal := i.authenticate(token)
	if refusal != nil {
		i.t.Fatalf("refused: %v", refusal)
	}
	return c
}

func (i *idp) refuses(token string, reason credentials.Reason, why string) {
	i.t.Helper()
	c, refusal := i.authenticate(token)
	if refusal == nil || refusal.Reason != reason || !strings.Contains(refusal.Message, why) {
		i.t.Errorf("%v, %v; want %q", c, refusal, why)
	}
	if refusal != nil && strings.Contains(refusal.Message, token) {
		i.t.Error("the refusal repeats the token")
	}
}

func TestEachAlgorithmIsAcceptedWithItsKey(t *testing.T) {
	i := newIDP(t)
	for alg, with := range map[jose.SignatureAlgorithm]struct {
		kid string
		key any
	}{
		jose.RS256: {"rsa", rsaKey()}, jose.RS384: {"rsa", rsaKey()}, jose.RS512: {"rsa", rsaKey()}, jose.PS256: {"rsa", rsaKey()},
		jose.ES256: {"p256", p256()}, jose.ES384: {"p384", p384()}, jose.EdDSA: {"ed", edwards()},
	} {
		c := i.accepts(sign(alg, with.key, with.kid, claimed(nil)))
		if c.KeyID != "jwt/svc" || c.WorkspaceID != i.d.DefaultWorkspace().ID || !c.May("completions.write") || c.May("logs.view") {
			t.Errorf("%s: %+v", alg, c)
		}
		for _, other := range []string{"rsa", "p256", "p384", "ed"} {
			if other != with.kid {
				i.refuses(sign(alg, with.key, other, claimed(nil)), credentials.InvalidKey, "for another algorithm")
			}
		}
	}
	i.refuses(sign(jose.PS512, rsaKey(), "rsa", claimed(nil)), credentials.InvalidKey, "one of the algorithms")
}

// Whoever has the public keys can compute an HMAC with them, or leave the signature out.
func TestAlgorithmsAreNotConfused(t *testing.T) {
	i := newIDP(t)
	der := must(x509.MarshalPKIXPublicKey(rsaKey().Public()))
	for name, secret := range map[string][]byte{
		"pem": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "der": der,
		"pkcs1": x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey), "modulus": rsaKey().N.Bytes(), "ed": edwards().Public().(ed25519.PublicKey), "nothing": nil,
	} {
		text := part(object{"alg": "HS256", "typ": "JWT", "kid": "rsa"}) + "." + part(claimed(nil))
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(text))
		token := text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		t.Run(name, func(*testing.T) { i.refuses(token, credentials.InvalidKey, "one of the algorithms") })
	}
	right := sign(jose.RS256, rsaKey(), "rsa", claimed(nil))
	_, signature, _ := strings.Cut(right[strings.IndexByte(right, '.')+1:], ".")
	for _, alg := range []any{"none", "None", "NONE", "nOnE", "", nil, "RS1", "rs256", 7} {
		for _, s := range []string{"", signature} {
			i.refuses(part(object{"alg": alg, "kid": "rsa"})+"."+part(claimed(nil))+"."+s, credentials.InvalidKey, "")
		}
	}
	// An embedded key is not asked.
	mine := must(rsa.GenerateKey(rand.Reader, 2048))
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: mine, KeyID: "rsa"}}, &jose.SignerOptions{EmbedJWK: true}))
	i.refuses(must(must(signer.Sign(must(json.Marshal(claimed(nil))))).CompactSerialize()), credentials.InvalidKey, "")
	i.refuses(sign(jose.RS256, mine, "rsa", claimed(nil)), credentials.InvalidKey, "signature")
	i.refuses(sign(jose.RS256, rsaKey(), "", claimed(nil)), credentials.InvalidKey, "no kid")
}

func TestClaimsAreChecked(t *testing.T) {
	i := newIDP(t)
	ok := func(changes object) *credentials.Caller {
		t.Helper()
		return i.accepts(sign(jose.EdDSA, edwards(), "ed", claimed(changes)))
	}
	no := func(changes object, reason credentials.Reason, why string) {
		t.Helper()
		i.refuses(sign(jose.EdDSA, edwards(), "ed", claimed(changes)), reason, why)
	}
	ok(object{"aud": []string{"x", "other-name"}})
	no(object{"aud": []string{"x"}}, credentials.InvalidKey, "aud")
	no(object{"aud": nil}, credentials.InvalidKey, "aud")
	no(object{"aud": ""}, credentials.InvalidKey, "aud")
	no(object{"aud": 7}, credentials.InvalidKey, "claims")
	no(object{"exp": nil}, credentials.InvalidKey, "exp")
	no(object{"exp": "tomorrow"}, credentials.InvalidKey, "claims")
	no(object{"exp": 1e300}, credentials.InvalidKey, "no time")
	no(object{"exp": -1}, credentials.InvalidKey, "no time")
	ok(object{"exp": float64(start.Unix()) + 0.5})
	ok(object{"exp": start.Add(-29 * time.Second).Unix()})
	no(object{"exp": start.Add(-30 * time.Second).Unix()}, credentials.ExpiredKey, "expired")
	ok(object{"nbf": start.Add(30 * time.Second).Unix()})
	no(object{"nbf": start.Add(31 * time.Second).Unix()}, credentials.InvalidKey, "nbf")
	no(object{"iat": start.Add(time.Minute).Unix()}, credentials.InvalidKey, "iat")
	ok(object{"usage_limits": []object{}, "rate_limits": nil})
	no(object{"sub": strings.Repeat("x", 256)}, credentials.InvalidKey, "user")
	no(object{"sub": "a\nb"}, credentials.InvalidKey, "user")
	no(object{"defaults": object{"metadata": "x"}}, credentials.InvalidKey, "defaults.metadata")
	for _, c := range []any{"x", []string{}, nil, 7} {
		if _, refusal := i.authenticate(sign(jose.EdDSA, edwards(), "ed", c)); refusal == nil || refusal.Message != "not ours" {
			t.Errorf("%v: %v", c, refusal)
		}
	}
	for _, issuer := range []any{"https://else.example", iss + "/", nil, ""} {
		if _, refusal := i.authenticate(sign(jose.EdDSA, edwards(), "ed", claimed(object{"iss": issuer}))); refusal == nil || refusal.Message != "not ours" {
			t.Errorf("a token of %v: %v", issuer, refusal)
		}
	}
	// A claim that is there twice means nothing.
	raw := []byte(`{"iss":"` + iss + `","aud":"x","aud":"gateway","exp":1,"exp":9999999999}`)
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: edwards()}, new(jose.SignerOptions).WithHeader("kid", "ed")))
	if _, refusal := i.authenticate(must(must(signer.Sign(raw)).CompactSerialize())); refusal == nil {
		t.Error("claims that are there twice were accepted")
	}
}

// Limits in a token are those of what the issuer has signed, whatever its signature looks like; they are read once, and
// a token with wrong ones is refused.
func TestTokensHaveLimits(t *testing.T) {
	i := newIDP(t)
	limited := object{"usage_limits": []object{{"credit_limit": 1}}, "rate_limits": object{"value": 1}, "iat": start.Unix()}
	token := func(changes object) string { return sign(jose.EdDSA, edwards(), "ed", claimed(changes)) }
	i.refuses(token(limited), credentials.InvalidKey, "not supported")
	var read []LimitedToken
	i.v.Limits = func(l LimitedToken) (any, error) {
		if read = append(read, l); strings.Contains(string(l.RateLimits), "13") {
			return nil, errors.New("rate_limits[0].value: expected another number")
		}
		return &read[len(read)-1].ID, nil
	}
	c := i.accepts(token(limited))
	if c.TokenLimits == nil || len(read) != 1 {
		t.Fatalf("%+v after %d reads", c, len(read))
	}
	if l := read[0]; string(l.UsageLimits) != `[{"credit_limit":1}]` || string(l.RateLimits) != `{"value":1}` || !l.Issued.Equal(start) ||
		!l.Expires.Equal(start.Add(time.Hour+skew)) || l.OrganisationID != i.d.Organisation().ID || len(l.ID) != 2*sha256.Size {
		t.Errorf("%+v", l)
	}
	if i.accepts(token(limited)); len(read) != 1 {
		t.Errorf("read %d times", len(read))
	}
	i.accepts(token(object{"usage_limits": limited["usage_limits"], "jti": "other"}))
	if l := read[len(read)-1]; l.ID == read[0].ID || l.RateLimits != nil || !l.Issued.IsZero() {
		t.Errorf("another token: %+v", l)
	}
	i.refuses(token(object{"rate_limits": object{"value": 13}}), credentials.InvalidKey, "rate_limits[0].value: expected another number")
	reads := len(read)
	if c := i.accepts(token(object{"usage_limits": nil, "rate_limits": []object{}})); c.TokenLimits != nil || len(read) != reads {
		t.Errorf("%+v", c.TokenLimits)
	}
}

// Nobody escapes the limits in a token by spelling it in another way: the last character of a part may have bits that
// say nothing.
func TestATokenIsAcceptedInOneSpelling(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	i := newIDP(t)
	ids := make(map[string]bool)
	i.v.Limits = func(l LimitedToken) (any, error) {
		ids[l.ID] = true
		return new(int), nil
	}
	spellings := func(part string) (all []string) {
		raw := must(base64.RawURLEncoding.DecodeString(part))
		for _, last := range alphabet {
			text := part[:len(part)-1] + string(last)
			if same, err := base64.RawURLEncoding.DecodeString(text); err == nil && string(same) == string(raw) {
				all = append(all, text)
			}
		}
		return all
	}
	others := 0
	for n := range 9 { // so that each part ends in each way
		o := new(jose.SignerOptions).WithHeader("kid", "rsa").WithHeader("x", strings.Repeat("x", n%3))
		signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: rsaKey()}, o))

		token := must(must(signer.Sign(must(json.Marshal(claimed(object{"rate_limits": []object{{"value": 1}}, "jti": strings.Repeat("x", n/3)}))))).CompactSerialize())
		parts := strings.Split(token, ".")
		i.accepts(token)
		for _, h := range spellings(parts[0]) {
			for _, p := range spellings(parts[1]) {
				for _, s := range spellings(parts[2]) {
					if text := h + "." + p + "." + s; text != token {
						i.refuses(text, credentials.InvalidKey, "base64url")
						others++
					}
				}
			}
		}
		for _, text := range []string{token + "==", token + "\n", parts[0] + "\n." + parts[1] + "." + parts[2], parts[0] + "." + parts[1] + "\r." + parts[2]} {
			i.refuses(text, credentials.InvalidKey, "base64url")
		}
	}
	if len(ids) != 9 || others < 255 {
		t.Errorf("%d tokens are counted, and %d other spellings were tried", len(ids), others)
	}
}

// What is remembered is bounded in bytes, too: claims may be long, and take more memory than their text.
func TestVerifiedTokensTakeBoundedMemory(t *testing.T) {
	i := newIDP(t)
	i.v.Limits = func(LimitedToken) (any, error) { return new(int), nil }
	var scopes []string
	for len(scopes) < 3000 {
		scopes = append(scopes, "")
	}
	long := sign(jose.EdDSA, edwards(), "ed", claimed(object{
		"scope": scopes, "aud": []string{aud, strings.Repeat("x", 1000)}, "rate_limits": []object{{"value": 1}},
		"defaults": object{"metadata": object{"m": strings.Repeat("m", 1000)}},
	}))
	i.accepts(long)
	k := i.v.verified[credentials.DigestOf(long)]
	if size := k.size(); size < 16*len(scopes)+1000+limitsSize || k.Audience != nil || k.RateLimits != nil {
		t.Fatalf("a token of %d bytes takes %d; %+v", len(long), size, k.claims)
	}
	short := i.accepts(sign(jose.EdDSA, edwards(), "ed", claimed(nil)))
	if short == nil || i.v.size <= k.size() {
		t.Fatalf("%d bytes", i.v.size)
	}
	most := 0
	for n := range 2 * maxVerifiedSize / k.size() {
		digest := credentials.DigestOf(fmt.Sprint(n))
		i.v.remember(digest, k)
		i.v.remember(digest, k) // again, as two requests may
		most = max(most, i.v.size)
		if i.v.verified[digest] == nil {
			t.Fatal("the latest token is not remembered")
		}
	}
	sum := 0
	for _, k := range i.v.verified {
		sum += k.size()
	}
	if most > maxVerifiedSize || most < maxVerifiedSize-2*k.size() || sum != i.v.size {
		t.Errorf("%d bytes at most; %d, of which %d are counted", most, sum, i.v.size)
	}
}

func TestHeadersAreChecked(t *testing.T) {
	i := newIDP(t)
	header := func(name jose.HeaderKey, value any) string {
		o := new(jose.SignerOptions).WithHeader("kid", "ed").WithHeader(name, value)
		return must(must(must(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: edwards()}, o)).Sign(must(json.Marshal(claimed(nil))))).CompactSerialize())
	}
	for _, typ := range []string{"JWT", "jwt", "at+jwt", "application/at+JWT"} {
		i.accepts(header("typ", typ))
	}
	i.refuses(header("typ", "logout+jwt"), credentials.InvalidKey, "typ")
	i.refuses(header("typ", 7), credentials.InvalidKey, "typ")
	i.refuses(header("crit", []string{"exp"}), credentials.InvalidKey, "crit")
	i.refuses(header("crit", []string{}), credentials.InvalidKey, "crit")
	i.refuses(header("b64", true), credentials.InvalidKey, "b64")
	token := sign(jose.EdDSA, edwards(), "ed", claimed(nil))
	for _, broken := range []string{token + "A", token[:len(token)-2], strings.Replace(token, ".", "..", 1), token + ".x", " " + token, token + "="} {
		if c, refusal := i.authenticate(broken); refusal == nil {
			t.Errorf("%q: %+v", broken, c)
		}
	}
	if _, refusal := i.authenticate(sign(jose.EdDSA, edwards(), "ed", claimed(object{"pad": strings.Repeat("x", maxToken)}))); refusal == nil {
		t.Error("a token that is too long was accepted")
	}
}

func TestScopesAndDefaults(t *testing.T) {
	i := newIDP(t)
	var blue directory.Workspace
	i.update(func(tx *storage.Txn) error {
		blue = directory.Workspace{ID: storage.NewID(rand.Reader), Slug: "blue", Name: "Blue"}
		return i.d.AddWorkspace(tx, &blue)
	})
	for scope, may := range map[string]bool{
		`"scope":"gw.completions.write openid"`: true, `"scopes":["completions.write"]`: true, `"scopes":"gw.completions.write"`: true,
		`"scope":["gw.completions.write"],"scopes":"x"`: true, `"scope":"completions.read"`: false, `"scope":""`: false, `"scope":"gw.gw.completions.write"`: false,
	} {
		raw := fmt.Sprintf(`{"iss":%q,"aud":%q,"exp":%d,"gw_workspace":"blue",%s}`, iss, aud, start.Add(time.Hour).Unix(), scope)
		c := i.accepts(sign(jose.EdDSA, edwards(), "ed", json.RawMessage(raw)))
		if c.May("completions.write") != may || c.WorkspaceID != blue.ID || c.May("organisation_users.list") {
			t.Errorf("%s: %+v", scope, c)
		}
	}
	// What only keys of the organisation may, a token that names no user may not.
	c := i.accepts(sign(jose.EdDSA, edwards(), "ed", claimed(object{"scope": "organisation_users.list workspaces.create", "gw_workspace": "blue"})))
	if c.May("organisation_users.list") || c.May("workspaces.create") {
		t.Errorf("%+v", c)
	}
	c = i.accepts(sign(jose.EdDSA, edwards(), "ed", claimed(object{"workspace_slug": blue.ID, "organisation_id": i.d.Organisation().ID, "defaults": object{"config_id": "pc-known", "metadata": object{"team": "a"}}})))
	if c.WorkspaceID != blue.ID || c.ConfigID != "id-of-pc-known" || string(c.Metadata) != `{"team":"a"}` || c.ForbidsOverride || c.TokenExpires == nil {
		t.Errorf("%+v", c)
	}
	if c = i.accepts(sign(jose.EdDSA, edwards(), "ed", claimed(object{"defaults": object{"config_id": "pc-unknown"}}))); c.ConfigID != "" {
		t.Errorf("%+v", c)
	}
	i.refuses(sign(jose.EdDSA, edwards(), "ed", claimed(object{"gw_oid": "other", "organisation_id": i.d.Organisation().ID})), credentials.MissingScope, "organisation")
	i.refuses(sign(jose.EdDSA, edwards(), "ed", claimed(object{"gw_workspace": "nope"})), credentials.MissingScope, "workspace")
	i.refuses(sign(jose.EdDSA, edwards(), "ed", claimed(object{"email_id": "nobody@example.com"})), credentials.MissingScope, "email_id")
}

func TestATokenIsThatOfItsUser(t *testing.T) {
	i := newIDP(t)
	red := &directory.Workspace{ID: storage.NewID(rand.Reader), Slug: "red", Name: "Red"}
	user := func(email string, role roles.Organisation) *directory.User {
		u := &directory.User{Email: email, Role: role}
		i.update(func(tx *storage.Txn) error { return i.d.PutUser(tx, u) })
		return u
	}
	ada, bob := user("ada@example.com", roles.Owner), user("bob@example.com", roles.Member)
	i.update(func(tx *storage.Txn) error {
		if err := i.d.AddWorkspace(tx, red); err != nil {
			return err
		}
		return i.d.PutMember(tx, &directory.Member{WorkspaceID: red.ID, UserID: bob.ID, Role: roles.WorkspaceManager})
	})
	token := func(changes object) string {
		if _, ok := changes["scope"]; !ok {
			changes["scope"] = "openid profile"
		}
		return sign(jose.EdDSA, edwards(), "ed", claimed(changes))
	}
	// The owner acts for the organisation, or in a workspace.
	if c := i.accepts(token(object{"email_id": "Ada@Example.com"})); c.UserID != ada.ID || c.WorkspaceID != "" || !c.May("organisation_users.delete") {
		t.Errorf("%+v", c)
	}
	if c := i.accepts(token(object{"sub": ada.ID, "gw_workspace": "red"})); c.WorkspaceID != red.ID || c.Rights.Workspace != roles.WorkspaceAdmin {
		t.Errorf("%+v", c)
	}
	// Scopes limit the role, and do not extend it.
	for _, scope := range []string{"gw.logs.view openid", "logs.view"} {
		c := i.accepts(token(object{"sub": "ada@example.com", "scope": scope}))
		if !c.May("logs.view") || c.May("organisation_users.delete") || c.May("completions.write") {
			t.Errorf("%s: %+v", scope, c)
		}
	}
	if c := i.accepts(token(object{"sub": ada.ID, "scope": "gw.log.view"})); c.May("logs.view") || c.May("logs.list") {
		t.Errorf("a scope that there is not was left out: %+v", c)
	}
	asBob := token(object{"uid": "bob@example.com", "sub": nil, "gw_workspace": "red"})
	if c := i.accepts(asBob); c.UserID != bob.ID || !c.May("configs.update") || c.May("organisation_users.list") {
		t.Errorf("%+v", c)
	}
	if c := i.accepts(token(object{"sub": bob.ID, "gw_workspace": "red", "scope": "organisation_users.list configs.list"})); c.May("organisation_users.list") || !c.May("configs.list") {
		t.Errorf("%+v", c)
	}
	i.refuses(token(object{"sub": bob.ID}), credentials.MissingScope, "not a member") // of the default workspace
	// What the directory says now counts, for tokens that were accepted before, too.
	i.update(func(tx *storage.Txn) error { return i.d.RemoveMember(tx, red.ID, bob.ID) })
	i.refuses(asBob, credentials.MissingScope, "not a member")
	byMail := token(object{"email_id": "ada@example.com"})
	i.accepts(byMail)
	i.update(func(tx *storage.Txn) error { return i.d.RemoveUser(tx, ada.ID) })
	i.refuses(byMail, credentials.MissingScope, "email_id")
}

// A verified token is remembered until it expires, or its key is gone, as a whole.
func TestVerifiedTokensAreRemembered(t *testing.T) {
	i := newIDP(t)
	token := sign(jose.EdDSA, edwards(), "ed", claimed(nil))
	i.accepts(token)
	digest := credentials.DigestOf(token)
	first := i.v.verified[digest]
	if i.accepts(token); first == nil || i.v.verified[digest] != first || len(i.v.verified) != 1 {
		t.Errorf("%d tokens are remembered", len(i.v.verified))
	}
	header, rest, _ := strings.Cut(token, ".")
	_, signature, _ := strings.Cut(rest, ".")
	i.refuses(header+"."+part(claimed(object{"scope": "logs.view"}))+"."+signature, credentials.InvalidKey, "signature")
	i.now.Add(int64(time.Hour + skew - 1))
	i.fetched()
	i.accepts(token)
	i.now.Add(1)
	i.refuses(token, credentials.ExpiredKey, "expired")

	// A key that its issuer withdraws is one no more.
	i.fetched()
	token = sign(jose.EdDSA, edwards(), "ed", claimed(object{"exp": start.Add(10 * time.Hour).Unix()}))
	i.accepts(token)
	i.keys.Store(keySet(jwk("rsa", rsaKey().Public())))
	i.now.Add(int64(refreshAfter))
	i.accepts(token) // and it is fetched in the background
	i.fetched()
	i.refuses(token, credentials.InvalidKey, "no key of the issuer")
	for n := range maxVerified + 10 {
		i.v.remember(credentials.DigestOf(fmt.Sprint(n)), first)
	}
	if len(i.v.verified) > maxVerified {
		t.Errorf("%d tokens are remembered", len(i.v.verified))
	}
}

func TestKeysAreFetchedForAnUnknownOneAndNotTooOften(t *testing.T) {
	i := newIDP(t)
	if n := i.requests.Load(); n != 1 {
		t.Fatalf("%d requests", n)
	}
	next := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	token := sign(jose.ES256, next, "next", claimed(nil))
	i.refuses(token, credentials.InvalidKey, "no key of the issuer") // fetched just now
	i.keys.Store(keySet(jwk("next", next.Public())))
	i.now.Add(int64(minInterval))
	i.accepts(token)
	if n := i.requests.Load(); n != 2 {
		t.Errorf("%d requests", n)
	}
	var wait sync.WaitGroup
	for n := range 500 {
		wait.Go(func() {
			digest := credentials.DigestOf(fmt.Sprint(n))
			_, _, _ = i.v.Authenticate(sign(jose.ES256, next, fmt.Sprint("storm", n), claimed(nil)), &digest)
		})
	}
	wait.Wait()
	if n := i.requests.Load(); n != 2 {
		t.Errorf("%d requests for keys that are not there", n)
	}
	i.now.Add(int64(minInterval))
	for n := range 500 {
		wait.Go(func() {
			digest := credentials.DigestOf(fmt.Sprint(n))
			_, _, _ = i.v.Authenticate(sign(jose.ES256, next, fmt.Sprint("storm", n), claimed(nil)), &digest)
		})
	}
	wait.Wait()
	if n := i.requests.Load(); n != 3 {
		t.Errorf("%d requests for keys that are not there", n)
	}
}

// Keys that were fetched are used for a day when the issuer is down. Without any, the token may be
// right: it is not the caller's fault.
func TestAnIssuerThatIsDown(t *testing.T) {
	i := newIDP(t)
	c := claimed(object{"exp": start.Add(100 * time.Hour).Unix()})
	token := sign(jose.EdDSA, edwards(), "ed", c)
	i.accepts(token)
	for _, broken := range []struct {
		status int64
		body   string
	}{
		{500, ""},
		{200, "<html>"},
		{200, `{"keys":[]}`},
		{200, `{}`},
		{302, keySet(jwk("ed", edwards().Public()))},
		{200, keySet(jwk("ed", edwards().Public(), `"x5c":["`+strings.Repeat("A", MaxKeySet)+`"]`))},
		{200, keySet(strings.Split(strings.Repeat(`{},`, maxKeys)+"{}", ",")...)},
	} {
		i.status.Store(broken.status)
		i.keys.Store(broken.body)
		i.now.Add(int64(refreshAfter))
		i.accepts(token)
		i.fetched()
		i.accepts(token)
	}
	i.now.Store(start.Add(maxAge).UnixNano())
	i.refuses(token, credentials.KeysUnavailable, "try again")
	i.fetched() // a fetch for which nobody waits any longer would not see what follows
	i.status.Store(200)
	i.keys.Store(keySet(jwk("ed", edwards().Public())))
	i.now.Add(int64(minInterval))
	i.accepts(token)
}

func TestKeysOfASetThatAreOfNoUse(t *testing.T) {
	small := must(rsa.GenerateKey(rand.Reader, 1024))
	p521 := must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	for name, key := range map[string]string{
		"a private key": jwk("k", edwards()), "a symmetric key": jwk("k", []byte("0123456789abcdef0123456789abcdef")), "a short RSA key": jwk("k", small.Public()),
		"another curve": jwk("k", p521.Public()), "no kid": jwk("", p256().Public()), "for encryption": jwk("k", p256().Public(), `"use":"enc"`),
		"for wrapping": jwk("k", p256().Public(), `"key_ops":["wrapKey"]`), "nothing": "{}", "a text": `"x"`,
		"not on the curve": `{"kty":"EC","crv":"P-256","kid":"k","x":"AAAA","y":"AAAA"}`,
	} {
		s, err := ParseKeySet([]byte(keySet(key)), false)
		if err != nil || len(s.keys) != 0 {
			t.Errorf("%s: %v, %v", name, s, err)
		}
		if _, err := ParseKeySet([]byte(keySet(key)), true); err == nil {
			t.Errorf("%s as the operator's", name)
		}
	}
	if _, err := ParseKeySet([]byte(keySet(jwk("k", p256().Public(), `"use":"sig"`, `"key_ops":["verify"]`))), true); err != nil {
		t.Error(err)
	}
	if _, err := ParseKeySet([]byte(keySet(jwk("k", p256().Public()), jwk("l", p256()))), true); err == nil {
		t.Error("a private key with a public one")
	}
}

func TestAKidThatTwoKeysHaveIsAmbiguous(t *testing.T) {
	i := newIDP(t)
	other := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	set := func(keys ...string) {
		i.keys.Store(keySet(keys...))
		i.now.Add(int64(refreshAfter))
		i.v.Recognizes("")
		i.v.issuers[0].remote[0].current()
		i.fetched()
	}
	token := sign(jose.ES256, p256(), "k", claimed(nil))
	set(jwk("k", p256().Public()), jwk("k", other.Public()))
	i.refuses(token, credentials.InvalidKey, "more than one key")
	set(jwk("k", p256().Public()), jwk("k", p256().Public())) // the same one
	i.accepts(token)
	set(jwk("k", p256().Public()), jwk("k", p384().Public())) // for other algorithms
	i.accepts(token)
	set(jwk("k", p256().Public(), `"alg":"ES384"`))
	i.refuses(token, credentials.InvalidKey, "another algorithm")
}

func FuzzAuthenticate(f *testing.F) {
	keys := must(ParseKeySet([]byte(keySet(jwk("ed", edwards().Public()))), true))
	v := &Verifier{Options: Options{Now: func() time.Time { return start }}, issuers: []*issuer{{Issuer: Issuer{Name: iss, Audience: []string{aud}, Keys: keys}}}, verified: map[credentials.Digest]*verified{}}
	f.Add([]byte(`{"alg":"EdDSA","kid":"ed"}`), must(json.Marshal(claimed(nil))))
	f.Add([]byte(`{"alg":"none"}`), []byte(`{"iss":"https://idp.example"}`))
	f.Add([]byte(`{"alg":"EdDSA","kid":"ed","crit":["x"]}`), []byte(`{"iss":"https://idp.example","aud":["a"],"exp":1e400,"scope":["a b"],"defaults":null}`))
	f.Fuzz(func(t *testing.T, header, payload []byte) {
		text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(payload)
		signature := must(edwards().Sign(rand.Reader, []byte(text), crypto.Hash(0)))
		token := text + "." + base64.RawURLEncoding.EncodeToString(signature)
		if by := v.issuerOf(token); by != nil {
			if known, refusal := by.verify(token); refusal == nil {
				if known.Issuer != iss || known.Expires == nil || !known.Expires.valid() || len(known.user()) > maxUser {
					t.Errorf("%s %s: %+v", header, payload, known.claims)
				}
				known.scopes()
				v.inTime(known)
			}
			// Without the key, nothing is accepted.
			if _, refusal := by.verify(text + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64))); refusal == nil {
				t.Errorf("%s %s is accepted with a wrong signature", header, payload)
			}
		}
	})
}

func FuzzParseKeySet(f *testing.F) {
	f.Add([]byte(keySet(jwk("ed", edwards().Public()), jwk("p", p256().Public()))))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"x"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ParseKeySet(raw, false)
		if err != nil {
			return
		}
		for id := range s.keys {
			for _, alg := range allowed {
				s.find(id, alg)
			}
		}
	})
}
