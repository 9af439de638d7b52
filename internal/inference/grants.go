package inference

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/oauth2/google"
	"golang.org/x/oauth2/jwt"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// A grant is how a token is fetched.
type grant struct {
	key    [sha256.Size]byte
	pool   http.RoundTripper
	server string // host of the token server, for messages
	// workspace is the caller's, among whose logins it counts.
	workspace string
	fetch     func(ctx context.Context) (*oauth2.Token, error)
}

// maxAccount bounds a service account, in bytes: one with a key of 4096 bits takes four
// thousand, and what signs with a much longer key costs too much.
const maxAccount = 10 << 10

// savedIn reports whether the secret of a login is one of the target's.
func savedIn(t *routing.Target, l *providers.Login) bool {
	return slices.ContainsFunc(t.Vendor, func(s routing.Setting) bool {
		v := s.Value.Reveal()
		return v != "" && (v == string(l.ServiceAccount) || v == l.ClientSecret.Reveal())
	})
}

// googleTokens are Google's own token servers, as service accounts name them.
var googleTokens = []string{google.JWTTokenURL, "https://accounts.google.com/o/oauth2/token", "https://www.googleapis.com/oauth2/v4/token"}

var errAccount = &providers.Refusal{
	Code: "invalid_service_account", Message: "Invalid service account: expected the JSON key of one, with type service_account, client_email and a private_key of RSA",
}

// grant makes the grant of a login. A token server that a service account names is a
// host that a caller chose: it must pass the guard, by its spelling and when it is dialed.
func (f *Forwarder) grant(q *request, l *providers.Login) (*grant, error) {
	public := q.target.Route.Inline || q.target.Route.CallerHost
	var address string
	g := new(grant)
	if l.ServiceAccount != nil {
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
			public = true
			guard := q.call.Gateway.Router.Guard
			server, err := guard.Check(address)
			if err == nil && !guard.Trusts(server.Hostname()) {
				err = &credentials.HostError{Why: "expected one of Google's, or a host that the operator trusts"}
			}
			if err != nil {
				return nil, tokenHost(err)
			}
		}
		g.fetch = func(ctx context.Context) (*oauth2.Token, error) { return config.TokenSource(ctx).Token() }
	} else {
		address = l.TokenURL
		config := &clientcredentials.Config{
			ClientID: l.ClientID, ClientSecret: l.ClientSecret.Reveal(), TokenURL: l.TokenURL, Scopes: l.Scopes, AuthStyle: oauth2.AuthStyleInParams,
		}
		g.fetch = config.Token
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, &providers.Refusal{Code: "invalid_token_uri", Message: "The address of the token server is no URL"}
	}
	g.server, g.pool = u.Host, f.transport.operator
	if public {
		g.pool = f.transport.public
	}
	h := sha256.New()
	for _, part := range []string{fmt.Sprint(public), string(l.ServiceAccount), l.TokenURL, l.ClientID, l.ClientSecret.Reveal(), fmt.Sprintf("%q", l.Scopes)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Sum(g.key[:0])
	return g, nil
}

func tokenHost(err error) *providers.Refusal {
	message := "Invalid token_uri of the service account"
	var host *credentials.HostError
	if errors.As(err, &host) {
		message += ": " + host.Why
	}
	return &providers.Refusal{Code: "invalid_token_uri", Message: message}
}

// errorCode is what RFC 6749 has for the codes of errors, and nothing that could hold a
// secret.
var errorCode = regexp.MustCompile(`"error"\s*:\s*"([a-z_]{1,40})"`)

// loginFailed turns a failure to get a token into what the client sees. Of what a token
// server says, only the code of the error is repeated.
func loginFailed(q *request, g *grant, err error) *exchange.Error {
	if err == nil {
		return nil
	}
	e := &exchange.Error{Status: http.StatusBadGateway, Type: "provider_error", Code: "login_failed"}
	prefix := "Provider " + q.target.Route.Provider + " could not be logged in to: the token server " + credentials.Clip(g.server)
	var host *credentials.HostError
	var refusal *providers.Refusal
	var answer *oauth2.RetrieveError
	var dial *dialError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errLogins):
		return exchange.Unavailable("The gateway is logging in to as many accounts as it may at once; try again", err)
	case errors.As(err, &refusal):
		return refused(err)
	case errors.As(err, &host):
		return refused(tokenHost(err))
	case errors.As(err, &answer):
		status := answer.Response.StatusCode
		e.Message = fmt.Sprintf("%s answered %d", prefix, status)
		if m := errorCode.FindSubmatch(answer.Body); m != nil {
			e.Message += " " + string(m[1])
		}
		if status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden {
			e.Status, e.Type = http.StatusUnauthorized, "authentication_error"
		}
	case errors.Is(err, context.Canceled):
		e.Message = prefix + " was not waited for"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.Status, e.Code = http.StatusGatewayTimeout, "provider_timeout"
		e.Message = prefix + " did not answer in time"
	case errors.As(err, &dial):
		e.Status, e.Code = http.StatusServiceUnavailable, "provider_unreachable"
		e.Message = prefix + " could not be reached"
	default:
		e.Message = prefix + " gave no token"
	}
	return e
}
