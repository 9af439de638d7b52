package external

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

// An introspection asks a service whether a token is active (RFC 7662).
type introspection struct {
	url              *url.URL
	contentType      string
	clientID, secret string
	keep             time.Duration
	timeout          time.Duration
}

// newIntrospection reads the parameters of introspection; nil: there are none.
func newIntrospection(p *guardrails.Parameters) (*introspection, error) {
	wrong := func(name, message string) error { return &guardrails.ParameterError{Name: name, Message: message} }
	i := &introspection{
		contentType: p.Text("introspectContentType"), clientID: p.Text("introspectClientId"), secret: p.Text("introspectClientSecret"),
		keep: time.Duration(p.Number("introspectCacheMaxAge") * float64(time.Second)), timeout: timeoutOf(p, keysTimeout),
	}
	if p.Text("introspectEndpoint") == "" {
		for _, name := range [...]string{"introspectClientId", "introspectClientSecret", "introspectCacheMaxAge"} {
			if p.Given(name) {
				return nil, wrong(name, "expected introspectEndpoint with it")
			}
		}
		return nil, nil //nolint:nilnil // tokens are verified by their signatures
	}
	switch {
	case i.clientID == "" && i.secret != "":
		return nil, wrong("introspectClientId", "required with introspectClientSecret: a string")
	case i.secret == "" && i.clientID != "":
		return nil, wrong("introspectClientSecret", "required with introspectClientId: a string")
	}
	var err error
	i.url, err = url.Parse(p.Text("introspectEndpoint"))
	if err != nil || i.url.Host == "" || i.url.Scheme != "https" && i.url.Scheme != "http" || i.url.User != nil {
		return nil, wrong("introspectEndpoint", "expected a URL such as https://login.example.com/introspect")
	}
	return i, nil
}

// claims returns what the service says of a token, or why it is not valid. A service that cannot be asked is an error; one
// that refuses the token is not, since callers choose tokens.
func (i *introspection) claims(ctx context.Context, s *guardrails.Subject, token string) (claims []byte, why string, err error) {
	key := i.key(s.Workspace, token)
	if known := activeTokens.get(key); known.claims != nil && within(s.Services.Now(), known.since, i.keep) {
		return known.claims, "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	err = send(ctx, s.Services, i.request(token), i.timeout, func(body []byte) error {
		active := member(gjson.ParseBytes(body), "active")
		if !gjson.ValidBytes(body) || active.Type != gjson.True && active.Type != gjson.False {
			return errors.New("the answer to " + jsonWebToken.ID + " has no active")
		}
		if why = "the service says that it is not active"; active.Bool() {
			claims, why = bytes.Clone(body), ""
		}
		return nil
	})
	var refused *statusError
	switch {
	case errors.As(err, &refused) && refused.ofText():
		return nil, "the service refuses it", nil
	case err != nil || why != "":
		return nil, why, err
	}
	if i.keep > 0 && len(claims) <= maxActiveClaims {
		activeTokens.put(s.Workspace, key, keptToken{claims, s.Services.Now()})
	}
	return claims, "", nil
}

// request is what is sent about a token.
func (i *introspection) request(token string) *guardrails.Request {
	q := &guardrails.Request{
		Vendor: jsonWebToken.ID, Public: true, Method: http.MethodPost, URL: i.url,
		Header: http.Header{"Content-Type": {i.contentType}, "Accept": {jsonType}},
	}
	if i.contentType == jsonType {
		q.Body, _ = json.Marshal(map[string]string{"token": token}) // strings can be encoded
	} else {
		q.Body = []byte(url.Values{"token": {token}}.Encode())
	}
	if i.clientID != "" { // RFC 6749, section 2.3.1
		r := http.Request{Header: q.Header}
		r.SetBasicAuth(url.QueryEscape(i.clientID), url.QueryEscape(i.secret))
	}
	return q
}

// key is what a token is remembered by. Workspaces share nothing, nor do those who ask with other credentials.
func (i *introspection) key(workspace, token string) (key [sha256.Size]byte) {
	all, _ := json.Marshal([]string{workspace, i.url.String(), i.contentType, i.clientID, i.secret, token}) // strings can be encoded
	return sha256.Sum256(all)
}

const (
	maxActive       = 2048    // tokens that are remembered
	maxActiveClaims = 4 << 10 // bytes of the claims of one; longer ones are asked about by each call
)

// activeTokens are the tokens that services have said are active. Each check decides how long it believes that.
var activeTokens = newKept[keptToken](maxActive)

// A keptToken is what a service said of a token, and when.
type keptToken struct {
	claims []byte
	since  time.Time
}
