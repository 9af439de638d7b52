package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/secrets"
)

// Checks are what the checks of all workspaces have in common that ask others.
type Checks struct {
	// Saved returns what the organisation has saved for a vendor or a check, or nil.
	Saved func(name string) (map[string]string, error)
	// Own reports whether a header is the gateway's own.
	Own func(header string) bool
	// HoldsKey reports whether a text holds an API key of the gateway.
	HoldsKey func(text string) bool
	// Identity returns a token of what the gateway is for Azure, for a resource of the cloud whose logins are at
	// authority; nil: the operator gives that to no check.
	Identity func(ctx context.Context, authority, resource, client string, c *secrets.Clients) (secrets.Token, error)
}

// For returns what checks of a workspace's calls ask others with, over a client. through is a header by which
// a call is recognized that a check's service sends back to the gateway.
func (c Checks) For(client *Client, workspace string, through http.Header) *CheckServices {
	return &CheckServices{Checks: c, Client: client, Workspace: workspace, Through: through}
}

// CheckServices are what the checks of guardrails work with that ask others.
type CheckServices struct {
	Checks
	Client    *Client
	Workspace string      // whose calls are judged
	Through   http.Header // of requests to hosts that the operator did not choose
}

// checkTimeout bounds a request of a check, whatever its own timeout is.
const checkTimeout = 5 * time.Minute

// Send implements [guardrails.Services].
func (s *CheckServices) Send(ctx context.Context, q *guardrails.Request) (*guardrails.Answer, error) {
	ctx, cancel := context.WithTimeout(WithVars(ctx), checkTimeout)
	defer cancel()
	if q.Public { // a path and a query are the check's own
		if _, err := s.Client.Guard.Check(q.URL.Scheme + "://" + q.URL.Host); err != nil {
			return nil, err
		}
	}
	op := &Operation{Name: "guardrail", Workspace: s.Workspace, MaxAnswer: cmp.Or(q.MaxAnswer, guardrails.MaxAnswer)}
	r, err := http.NewRequestWithContext(ctx, q.Method, q.URL.String(), bytes.NewReader(q.Body))
	if err != nil {
		return nil, errors.New("the address of the service is not a URL")
	}
	r.Header["User-Agent"] = []string{""} // no header instead of Go's
	for name, values := range q.Header {
		r.Header[name] = values
	}
	if q.Public {
		for name, values := range s.Through {
			r.Header[name] = slices.DeleteFunc(slices.Clone(values), s.HoldsKey)
		}
	}
	answer, err := s.Client.open(op, len(q.Body))
	if err != nil {
		return nil, err
	}
	defer answer.memory.Shrink(len(q.Body))
	header, err := answer.fetch(&carrier{client: s.Client, ctx: ctx, op: op, provider: q.Vendor, pool: s.Client.pools.of(q.Public)}, r)
	if err != nil {
		answer.Release()
		return nil, s.failed(ctx, q.Vendor, err)
	}
	given := guardrails.NewAnswer(answer.Status, answer.Body, answer.Release)
	given.Location = header.Get("Location")
	return given, nil
}

// failed is an error without an address, for those whose call is judged.
func (s *CheckServices) failed(ctx context.Context, vendor string, err error) error {
	var host *credentials.HostError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &host):
		return host
	case inflight.Refused(err), errors.As(err, new(tooLong)):
		return err
	case timedOut(err):
		return context.DeadlineExceeded
	}
	return errors.New(vendor + " could not be reached")
}

var errNoIdentity = errors.New("the operator's configuration gives checks no identity of the gateway (azure_identity)")

// managed returns a token of what the gateway is for Azure.
func (s *CheckServices) managed(ctx context.Context, vendor string, l *guardrails.Login) (string, error) {
	if s.Identity == nil {
		return "", errNoIdentity
	}
	cloud, err := url.Parse(l.TokenURL)
	if err != nil {
		return "", err
	}
	authority, resource := cloud.Scheme+"://"+cloud.Host, strings.TrimSuffix(l.Scope, "/.default")
	key := secrets.KeyOf("managed", authority, resource, l.ClientID)
	token, err := s.Client.logins.get(ctx, key, s.Workspace, s.Client.now, func(ctx context.Context) (*oauth2.Token, error) {
		return s.Client.machineToken(ctx, vendor, func(ctx context.Context, clients *secrets.Clients) (*oauth2.Token, error) {
			t, err := s.Identity(ctx, authority, resource, l.ClientID, clients)
			return &oauth2.Token{AccessToken: t.Secret.Reveal(), Expiry: t.Until}, err
		})
	})
	return token.Reveal(), loginError(ofMachine, err)
}

// Token implements [guardrails.Services].
func (s *CheckServices) Token(ctx context.Context, vendor string, l *guardrails.Login) (string, error) {
	if l.Managed {
		return s.managed(ctx, vendor, l)
	}
	g, err := s.Client.Grant(&credentials.Route{}, &providers.Login{TokenURL: l.TokenURL, ClientID: l.ClientID, ClientSecret: credentials.NewSecret(l.ClientSecret), Scopes: []string{l.Scope}})
	if err != nil {
		return "", err
	}
	token, err := s.Client.Token(ctx, g, vendor, s.Workspace)
	return token.Reveal(), err
}

// AssumeRole implements [guardrails.Services].
func (s *CheckServices) AssumeRole(ctx context.Context, vendor string, r *guardrails.Role) (guardrails.Keys, error) {
	// The region was not chosen by the operator.
	g, err := s.Client.Grant(&credentials.Route{Inline: true}, &providers.Login{Role: &providers.AssumedRole{
		Region: r.Region, ARN: r.ARN, ExternalID: r.ExternalID, Keys: providers.RoleToken(r.Keys),
	}})
	if err != nil {
		return guardrails.Keys{}, err
	}
	token, err := s.Client.Token(ctx, g, vendor, s.Workspace)
	if err != nil {
		return guardrails.Keys{}, err
	}
	return guardrails.Keys(providers.ReadRoleToken(token)), nil
}

// Settings implements [guardrails.Services].
func (s *CheckServices) Settings(name string) (map[string]string, error) {
	if s.Saved == nil {
		return nil, nil //nolint:nilnil // nothing is saved
	}
	return s.Saved(name)
}

// Reserved implements [guardrails.Services].
func (s *CheckServices) Reserved(header string) bool { return s.Own != nil && s.Own(header) }

// HoldsKey implements [guardrails.Services].
func (s *CheckServices) HoldsKey(text string) bool {
	return s.Checks.HoldsKey != nil && s.Checks.HoldsKey(text)
}

// Reserve implements [guardrails.Services].
func (s *CheckServices) Reserve(bytes int) (release func(), err error) {
	memory := new(inflight.Lease)
	if s.Client.InFlight != nil {
		memory.Open(s.Client.InFlight(), s.Workspace, "")
	}
	if err := memory.Grow(bytes); err != nil {
		memory.Close()
		return nil, err
	}
	return memory.Close, nil
}

// Now implements [guardrails.Services].
func (s *CheckServices) Now() time.Time { return s.Client.now() }

// Interface guard
var _ guardrails.Services = (*CheckServices)(nil)
