package external

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/jws"
)

const (
	keysTimeout = 5 * time.Second
	maxKeySet   = 64 << 10 // bytes
	maxToken    = 16 << 10
)

// jwtAlgorithms are those of public keys.
var jwtAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

var jsonWebToken = guardrails.Kind{
	ID: "default.jwt", Doc: "a header of the call has a JSON Web Token whose signature, times and claims are right",
	Parameters: []guardrails.Parameter{
		{Name: "jwksUri", Address: true, Doc: "the URL of the keys; a host that is not public must be a trusted custom host"},
		{Name: "jwks", Type: guardrails.Object, Doc: "the keys themselves, a JSON Web Key Set, instead of jwksUri"},
		{Name: "headerKey", Default: `"Authorization"`, Doc: "the header; Bearer before the token is left out"},
		{Name: "algorithms", Type: guardrails.Texts, OneOf: jwtAlgorithms, Default: `["RS256"]`, Doc: "the algorithms of signatures"},
		{Name: "cacheMaxAge", Type: guardrails.Number, Default: "86400", Min: 1, Max: 604800, Doc: "seconds that keys are kept"},
		{Name: "clockTolerance", Type: guardrails.Number, Default: "5", Max: 3600, Doc: "seconds that clocks may differ"},
		{Name: "maxTokenAge", Default: `"1d"`, Doc: "how old a token with iat may be, such as 90s, 15m, 12h or 1d"},
		{Name: "requiredClaims", Type: guardrails.Texts, Doc: "claims that there must be"},
		{Name: "claimValues", Type: guardrails.Object, Doc: "claims and their values: an object of {values, matchType} by claims. values is one or a list, matchType exact (the default: the claim has one value, this one), contains (one of values is a part of one), containsAll or regex"},
		{Name: "headerPayloadMatch", Type: guardrails.Texts, Doc: "names that the token's header and its claims must have, with the same value"},
		{Name: "extractClaims", Type: guardrails.Texts, Doc: "claims that are sent to the provider, each in a header: a list with commas between, an object as JSON. A header of that name that the client sent is replaced, or removed if the token does not have the claim"},
		{Name: "claimPrefix", Default: `"x-jwt-"`, Doc: "what the names of these headers begin with, before the claim; x- comes first"},
		{Name: "introspectEndpoint", Address: true, Doc: "the URL of a service that says whether a token is active (RFC 7662), which is asked instead of looking at signatures; API keys of the gateway, and its own headers, are not sent there, and are not valid; a host that is not public must be a trusted custom host"},
		{Name: "introspectContentType", OneOf: []string{formType, jsonType}, Default: `"` + formType + `"`, Doc: "how the service is sent the token"},
		{Name: "introspectClientId", Doc: "who asks, by HTTP Basic authentication"},
		{Name: "introspectClientSecret", Secret: true, Doc: "its secret"},
		{Name: "introspectCacheMaxAge", Type: guardrails.Number, Max: 86400, Doc: "seconds that it is remembered that a token is active; 0: each call asks"},
		timeoutParameter,
	},
	New: newTokenCheck,
}

func newTokenCheck(p *guardrails.Parameters) (guardrails.Check, error) {
	c := &tokenChecked{
		header: p.Text("headerKey"), claims: p.Texts("requiredClaims"), timeout: timeoutOf(p, keysTimeout),
		keep: time.Duration(p.Number("cacheMaxAge")) * time.Second, skew: time.Duration(p.Number("clockTolerance") * float64(time.Second)),
	}
	for _, a := range p.Texts("algorithms") {
		c.algorithms = append(c.algorithms, jose.SignatureAlgorithm(a))
	}
	wrong := func(name, message string) error { return &guardrails.ParameterError{Name: name, Message: message} }
	if !isToken(c.header) {
		return nil, wrong("headerKey", "expected the name of a header")
	}
	var err error
	if c.age, err = ageOf(p.Text("maxTokenAge")); err != nil {
		return nil, wrong("maxTokenAge", err.Error())
	}
	if c.values, err = newClaimValues(p); err != nil {
		return nil, err
	}
	c.same = p.Texts("headerPayloadMatch")
	if c.sends, err = newClaimHeaders(p); err != nil {
		return nil, err
	}
	if c.asks, err = newIntrospection(p); err != nil {
		return nil, err
	}
	switch raw := p.Raw("jwks"); {
	case c.asks != nil:
		c.age = 0 // a service that is asked knows how old a token may be
	case raw != nil:
		if c.keys, err = parseKeys(raw); err != nil {
			return nil, wrong("jwks", err.Error())
		}
	case p.Text("jwksUri") == "":
		return nil, wrong("jwksUri", "required without jwks and introspectEndpoint: a string")
	default:
		c.uri, err = url.Parse(p.Text("jwksUri"))
		if err != nil || c.uri.Host == "" || c.uri.Scheme != "https" && c.uri.Scheme != "http" || c.uri.User != nil {
			return nil, wrong("jwksUri", "expected a URL such as https://login.example.com/keys")
		}
	}
	return c, nil
}

// ageOf reads a duration, which may be in days too.
func ageOf(text string) (time.Duration, error) {
	unit := time.Duration(1)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		text, unit = days+"h", 24
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > 10*365*24*time.Hour/unit {
		return 0, errors.New("expected a duration such as 90s, 15m, 12h or 1d")
	}
	return d * unit, nil
}

// parseKeys reads the public keys of a set.
func parseKeys(raw []byte) (*jose.JSONWebKeySet, error) {
	var set jose.JSONWebKeySet
	if len(raw) > maxKeySet || json.Unmarshal(raw, &set) != nil {
		return nil, errors.New("expected a JSON Web Key Set of at most 64 KiB")
	}
	set.Keys = slices.DeleteFunc(set.Keys, func(k jose.JSONWebKey) bool { return !k.IsPublic() || !k.Valid() || k.Use != "" && k.Use != "sig" })
	if len(set.Keys) == 0 {
		return nil, errors.New("expected a JSON Web Key Set with a public key for signatures")
	}
	return &set, nil
}

// A tokenChecked check verifies a token of the call.
type tokenChecked struct {
	header     string
	algorithms []jose.SignatureAlgorithm
	claims     []string
	uri        *url.URL
	keys       *jose.JSONWebKeySet // nil: those of uri
	keep, skew time.Duration
	age        time.Duration // 0: any
	values     []claimValue
	same       []string // that are in the header of the token too
	sends      []claimHeader
	asks       *introspection // nil: signatures are verified
	timeout    time.Duration
}

// Waits says that the check waits for others.
func (*tokenChecked) Waits() {}

// Judge verifies the token. What is wrong with it is a false verdict; keys that cannot be had are an
// error.
func (c *tokenChecked) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	switch {
	case s.Phase == guardrails.Output:
		return guardrails.Result{}, errors.New(jsonWebToken.ID + " judges only calls")
	case s.Services == nil:
		return guardrails.Result{}, errServices
	}
	claims, why, err := c.verify(ctx, s)
	if err != nil {
		return guardrails.Result{}, err
	}
	result := guardrails.Result{Verdict: why == ""}
	explanation := "The token is valid."
	if why != "" {
		explanation = "The token is not valid: " + why + "."
	} else {
		result.Header = headersOf(c.sends, gjson.ParseBytes(claims))
	}
	result.Data = map[string]any{"explanation": explanation}
	return result, nil
}

// verify returns the claims of the token of a call, or what is wrong with it; "": nothing is.
func (c *tokenChecked) verify(ctx context.Context, s *guardrails.Subject) (claims []byte, why string, err error) {
	token := strings.TrimSpace(s.Header.Get(c.header))
	if len(token) > 6 && strings.EqualFold(token[:7], "bearer ") {
		token = strings.TrimSpace(token[7:])
	}
	switch {
	case token == "", strings.EqualFold(token, "bearer"):
		return nil, "the header has none", nil
	case len(token) > maxToken:
		return nil, "it is too long", nil
	case c.asks != nil && (s.Services.Reserved(http.CanonicalHeaderKey(c.header)) || s.Services.HoldsKey(token)):
		return nil, "it is the API key of the call, or in a header of the gateway's own, neither of which is sent to a service", nil
	}
	if c.asks != nil {
		claims, why, err = c.asks.claims(ctx, s, token)
		if why == "" && err == nil {
			why, err = c.judge(ctx, token, claims, s.Services.Now())
		}
		return claims, why, err
	}
	signed, err := jws.Parse(token, c.algorithms)
	if errors.Is(err, jws.ErrSpelling) {
		return nil, "its parts are not in base64url as it is written without padding", nil
	}
	if err != nil {
		return nil, "it is no signed token with one of the algorithms", nil //nolint:nilerr // the token is wrong, which is a verdict
	}
	key, err := c.key(ctx, s, signed.Signatures[0].Protected.KeyID)
	switch {
	case err != nil:
		return nil, "", err
	case key == nil:
		return nil, "there is no key with its kid", nil
	case key.Algorithm != "" && key.Algorithm != signed.Signatures[0].Protected.Algorithm:
		return nil, "its key is for another algorithm", nil
	}
	claims, err = signed.Verify(key.Key)
	if err != nil {
		return nil, "its signature is wrong", nil //nolint:nilerr // the token is wrong, which is a verdict
	}
	why, err = c.judge(ctx, token, claims, s.Services.Now())
	return claims, why, err
}

// judge is what is wrong with the claims of a token that is genuine, or "".
func (c *tokenChecked) judge(ctx context.Context, token string, payload []byte, now time.Time) (string, error) {
	if why := c.wrong(payload, now); why != "" {
		return why, nil
	}
	claims := gjson.ParseBytes(payload)
	for i := range c.values {
		if is, err := c.values[i].is(ctx, claims); err != nil || !is {
			return c.values[i].claim + " has another value", err
		}
	}
	header := headerOf(token)
	for _, name := range c.same {
		if !same(member(header, name), member(claims, name)) {
			return name + " is not the same in its header", nil
		}
	}
	return "", nil
}

// wrong is what is wrong with the claims of a token.
func (c *tokenChecked) wrong(payload []byte, now time.Time) string {
	claims := gjson.ParseBytes(payload)
	if !gjson.ValidBytes(payload) || !claims.IsObject() {
		return "it has no claims"
	}
	at, skew := float64(now.UnixNano())/1e9, c.skew.Seconds()
	for _, name := range [...]string{"exp", "nbf", "iat"} {
		v := member(claims, name)
		switch {
		case !v.Exists():
			continue
		case v.Type != gjson.Number:
			return name + " is no time"
		}
		switch {
		case name == "exp" && at >= v.Num+skew:
			return "it has expired"
		case name == "nbf" && at < v.Num-skew, name == "iat" && at < v.Num-skew:
			return "it is not valid yet"
		case name == "iat" && c.age > 0 && at > v.Num+c.age.Seconds()+skew:
			return "it is too old"
		}
	}
	for _, name := range c.claims {
		if v := member(claims, name); !v.Exists() || v.Type == gjson.Null {
			return "it has no " + name
		}
	}
	return ""
}

// key returns the key with an id, or the only one of a set for a token that names none; nil: there
// is none.
func (c *tokenChecked) key(ctx context.Context, s *guardrails.Subject, id string) (*jose.JSONWebKey, error) {
	find := func(set *jose.JSONWebKeySet) *jose.JSONWebKey {
		if id == "" && len(set.Keys) == 1 {
			return &set.Keys[0]
		}
		if found := set.Key(id); id != "" && len(found) == 1 {
			return &found[0]
		}
		return nil
	}
	if c.keys != nil {
		return find(c.keys), nil
	}
	set, err := keySets.get(ctx, keySource{s.Workspace, c.uri.String()}, c.keep, s.Services.Now,
		func(set *jose.JSONWebKeySet) bool { return find(set) != nil },
		func(ctx context.Context) (*jose.JSONWebKeySet, error) { return c.fetch(ctx, s.Services) })
	if err != nil {
		return nil, err
	}
	return find(set), nil
}

// fetch asks for the keys.
func (c *tokenChecked) fetch(ctx context.Context, services guardrails.Services) (set *jose.JSONWebKeySet, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	q := &guardrails.Request{Vendor: jsonWebToken.ID, Public: true, Method: http.MethodGet, URL: c.uri, Header: http.Header{"Accept": {"application/jwk-set+json, application/json"}}}
	err = send(ctx, services, q, c.timeout, func(body []byte) error {
		set, err = parseKeys(body)
		return err
	})
	return set, err
}

// Sets returns the headers that claims are sent in.
func (c *tokenChecked) Sets() []string {
	names := make([]string, len(c.sends))
	for i := range c.sends {
		names[i] = c.sends[i].header
	}
	return names
}

// Interface guards
var (
	_ guardrails.Waiter       = (*tokenChecked)(nil)
	_ guardrails.HeaderSetter = (*tokenChecked)(nil)
)
