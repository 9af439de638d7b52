package upstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/oauth2/google"
	"golang.org/x/oauth2/jwt"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/sts"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/secrets"
)

// A Grant is a way to obtain a token.
type Grant struct {
	key    [sha256.Size]byte
	public bool   // the token server was not chosen by the operator
	server string // its host, for error messages
	fetch  func(ctx context.Context, client *http.Client) (*oauth2.Token, error)
	// own is set instead of fetch if the gateway's machine logs in.
	own func(ctx context.Context, clients *secrets.Clients) (*oauth2.Token, error)
}

// maxAccount bounds a service account key, in bytes: one with 4096 bits takes 4,000, and
// signing with a much longer one would be expensive.
const maxAccount = 10 << 10

// googleTokens lists Google's token servers, as named in service account keys.
var googleTokens = []string{google.JWTTokenURL, "https://accounts.google.com/o/oauth2/token", "https://www.googleapis.com/oauth2/v4/token"}

var errAccount = &providers.RequestError{
	Code: "invalid_service_account", Message: "Invalid service account: expected the JSON key of one, with type service_account, client_email and a private_key of RSA",
}

// Grant returns the grant of a login. The token server in a service account key is chosen
// by a caller, so that the guard has to allow it, both its URL and its address when it is
// dialed. The error is a [providers.RequestError].
func (c *Client) Grant(route *credentials.Route, l *providers.Login) (*Grant, error) {
	if l.OfMachine() {
		return c.machine(route, l)
	}
	g := &Grant{public: route.Inline || route.CustomHost}
	var address string
	switch {
	case l.Role != nil:
		// Its host is AWS's own, of the region, for whoever does not write the configuration.
		g.public = g.public || route.VirtualKey != ""
		address = sts.Endpoint("sts", l.Role.Region)
		g.fetch = func(ctx context.Context, client *http.Client) (*oauth2.Token, error) {
			return assume(ctx, client, l.Role, c.now())
		}
	case l.ServiceAccount != nil:
		var config *jwt.Config
		err := errors.New("too long")
		if len(l.ServiceAccount) <= maxAccount {
			config, err = google.JWTConfigFromJSON(l.ServiceAccount, l.Scopes...)
		}
		if err != nil || config.Email == "" || len(config.PrivateKey) == 0 {
			return nil, errAccount
		}
		if config.TokenURL == "" {
			config.TokenURL = google.JWTTokenURL
		}
		address = config.TokenURL
		if !slices.Contains(googleTokens, address) {
			g.public = true
			server, err := c.Guard.Check(address)
			if err == nil && !c.Guard.Trusts(server.Hostname()) {
				err = &credentials.HostError{Why: "expected one of Google's, or a host that the operator trusts"}
			}
			if err != nil {
				return nil, tokenHost(err)
			}
		}
		g.fetch = func(ctx context.Context, client *http.Client) (*oauth2.Token, error) {
			return config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
		}
	default:
		address = l.TokenURL
		config := &clientcredentials.Config{
			ClientID: l.ClientID, ClientSecret: l.ClientSecret.Reveal(), TokenURL: l.TokenURL, Scopes: l.Scopes, AuthStyle: oauth2.AuthStyleInParams,
		}
		g.fetch = func(ctx context.Context, client *http.Client) (*oauth2.Token, error) {
			return config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
		}
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, &providers.RequestError{Code: "invalid_token_uri", Message: "The address of the token server is not a URL"}
	}
	g.server = u.Host
	h := sha256.New()
	parts := []string{fmt.Sprint(g.public), string(l.ServiceAccount), l.TokenURL, l.ClientID, l.ClientSecret.Reveal(), fmt.Sprintf("%q", l.Scopes)}
	if r := l.Role; r != nil {
		parts = append(parts, r.Region, r.ARN, r.ExternalID, r.Keys.AccessKeyID, r.Keys.SecretAccessKey, r.Keys.SessionToken)
	}
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Sum(g.key[:0])
	return g, nil
}

func tokenHost(err error) *providers.RequestError {
	message := "Invalid token_uri of the service account"
	var host *credentials.HostError
	if errors.As(err, &host) {
		message += ": " + host.Why
	}
	return &providers.RequestError{Code: "invalid_token_uri", Message: message}
}

// errorCode matches the error codes of RFC 6749, and nothing that could contain a secret.
var errorCode = regexp.MustCompile(`"error"\s*:\s*"([a-z_]{1,40})"`)

// assume requests the credentials of a role of AWS.
func assume(ctx context.Context, client *http.Client, r *providers.AssumedRole, now time.Time) (*oauth2.Token, error) {
	own := aws.Credentials{AccessKeyID: r.Keys.AccessKeyID, SecretAccessKey: r.Keys.SecretAccessKey, SessionToken: r.Keys.SessionToken}
	q, err := sts.AssumeRole(ctx, r.Region, own, sts.Role{ARN: r.ARN, ExternalID: r.ExternalID}, now)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body) // which is bounded
	if err != nil {
		return nil, err
	}
	keys, err := sts.Read(res.StatusCode, answer)
	if err != nil {
		return nil, err
	}
	token := providers.RoleToken{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken}
	return &oauth2.Token{AccessToken: token.Secret().Reveal(), Expiry: keys.Expires}, nil
}

// A LoginError is a failure to obtain a token. Its message repeats nothing of the token
// server's answer except the error code.
type LoginError struct {
	Server string // its host
	Status int    // of its answer; 0: there was none, or it had no token
	Code   string // an error code of RFC 6749 or of AWS, or ""
	Err    error  // why there was no answer; nil: there was one
}

func (e *LoginError) Error() string {
	server := "the token server " + credentials.Clip(e.Server)
	switch {
	case e.Code != "":
		return fmt.Sprintf("%s answered %d %s", server, e.Status, e.Code)
	case e.Status != 0:
		return fmt.Sprintf("%s answered %d", server, e.Status)
	case errors.Is(e.Err, context.Canceled):
		return server + " was not waited for"
	case timedOut(e.Err):
		return server + " did not answer in time"
	case e.Err != nil:
		return server + " could not be reached"
	}
	return server + " gave no token"
}

// Unwrap returns why there was no answer.
func (e *LoginError) Unwrap() error { return e.Err }

// Timeout reports whether the server did not answer in time.
func (e *LoginError) Timeout() bool { return timedOut(e.Err) }

func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// loginError returns an error for a failed login, without the server's message.
func loginError(server string, err error) error {
	var host *credentials.HostError
	var refusal *providers.RequestError
	var answer *oauth2.RetrieveError
	var refused *sts.Error
	var managed *secrets.Error
	var dial *DialError
	switch {
	case err == nil, errors.Is(err, ErrLogins), errors.As(err, &refusal):
		return err
	case errors.As(err, &host):
		return tokenHost(err)
	case errors.As(err, &answer):
		e := &LoginError{Server: server, Status: answer.Response.StatusCode}
		if m := errorCode.FindSubmatch(answer.Body); m != nil {
			e.Code = string(m[1])
		}
		return e
	case errors.As(err, &managed):
		return &LoginError{Server: server, Status: managed.Status, Code: managed.Code}
	case errors.As(err, &refused):
		return &LoginError{Server: server, Status: refused.Status, Code: refused.Code}
	case errors.Is(err, context.Canceled), timedOut(err), errors.As(err, &dial):
		return &LoginError{Server: server, Err: err}
	}
	return &LoginError{Server: server}
}
