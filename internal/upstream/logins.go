package upstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/fairshare"
)

// logins fetches and caches tokens: one fetch at a time for a login, and at most maxFetches
// in total. A workspace has its fair share of both the fetches and the cached tokens. The
// zero value is ready to use.
type logins struct {
	mu       sync.Mutex
	tokens   map[[sha256.Size]byte]*token // by the hash of the login
	fetching int
	fetches  map[string]int // under way, by workspace
}

// ErrLogins means that too many tokens are being fetched.
var ErrLogins = errors.New("too many logins at once")

// A token is a fetched token, or one that is being fetched until ready is closed. It does
// not use singleflight, because a new fetch has to be counted under the same lock that
// determines that none is under way.
type token struct {
	workspace string // that it was first fetched for
	ready     chan struct{}
	secret    credentials.Secret
	until     time.Time // when it must be fetched again
	err       error
}

type tokenFunc = func(context.Context) (*oauth2.Token, error)

const (
	maxTokens    = 1024
	maxFetches   = 64
	tokenMargin  = 2 * time.Minute // tokens are not used in the last minutes of their lifetime
	tokenDefault = 5 * time.Minute // lifetime of tokens that do not state it
)

// login is the operation of a login.
var login = Operation{Name: "login", Timeout: 15 * time.Second, MaxAnswer: 64 << 10}

// Token returns the token of a grant, for a call of a workspace to a provider. It waits no
// longer than ctx. If the call that started a fetch is canceled, the fetch continues,
// because others may wait for it.
//
// The error is a [LoginError], [ErrLogins], or a [providers.RequestError] of the login
// itself.
func (c *Client) Token(ctx context.Context, g *Grant, provider, workspace string) (credentials.Secret, error) {
	token, err := c.logins.get(ctx, g.key, workspace, c.now, func(ctx context.Context) (*oauth2.Token, error) {
		if g.own != nil {
			return c.machineToken(ctx, provider, g.own)
		}
		return c.fetchToken(ctx, g, provider)
	})
	return token, loginError(g.server, err)
}

// fetchToken requests a token from the server of a grant.
func (c *Client) fetchToken(ctx context.Context, g *Grant, provider string) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(WithVars(ctx), login.Timeout)
	defer cancel()
	carrier := &carrier{client: c, ctx: ctx, op: &login, provider: provider, pool: bounded{c.pools.of(g.public), int64(login.MaxAnswer)}}
	token, err := g.fetch(ctx, &http.Client{
		Transport:     carrier,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	switch {
	case err != nil && carrier.err != nil:
		return nil, carrier.err // oauth2 only keeps its text
	case err != nil && !carrier.sent:
		return nil, errAccount
	case err == nil && token.AccessToken == "":
		return nil, errors.New("no access_token")
	}
	return token, err
}

// get returns the token of the login with the hash key, for a workspace. If there is none,
// fetch is called.
func (s *logins) get(ctx context.Context, key [sha256.Size]byte, workspace string, now func() time.Time, fetch tokenFunc) (credentials.Secret, error) {
	s.mu.Lock()
	t := s.tokens[key]
	if t == nil || t.over(now()) {
		if fairshare.Left(int64(s.fetches[workspace]+1), int64(maxFetches-s.fetching-1)) < 0 {
			s.mu.Unlock()
			return credentials.Secret{}, ErrLogins
		}
		s.count(workspace, 1)
		t = &token{workspace: workspace, ready: make(chan struct{})}
		s.add(key, t, now())
		go s.fetch(context.WithoutCancel(ctx), key, t, now, fetch)
	}
	s.mu.Unlock()
	select {
	case <-t.ready:
		return t.secret, t.err
	case <-ctx.Done():
		return credentials.Secret{}, ctx.Err()
	}
}

// count counts the fetches under way.
func (s *logins) count(workspace string, n int) {
	if s.fetches == nil {
		s.fetches = make(map[string]int)
	}
	s.fetching += n
	if s.fetches[workspace] += n; s.fetches[workspace] == 0 {
		delete(s.fetches, workspace)
	}
}

func (t *token) fetched() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// over reports whether a token was fetched and has expired.
func (t *token) over(now time.Time) bool { return t.fetched() && !now.Before(t.until) }

// add adds a token. If there are too many, in total or of its workspace, an expired one is
// dropped, or else any other, but never one that is being fetched.
func (s *logins) add(key [sha256.Size]byte, t *token, now time.Time) {
	if s.tokens == nil {
		s.tokens = make(map[[sha256.Size]byte]*token)
	}
	delete(s.tokens, key)
	if !s.fits(t.workspace) {
		maps.DeleteFunc(s.tokens, func(_ [sha256.Size]byte, old *token) bool { return old.over(now) })
	}
	if !s.fits(t.workspace) && !s.drop(func(old *token) bool { return old.workspace == t.workspace }) && len(s.tokens) >= maxTokens {
		s.drop(func(*token) bool { return true })
	}
	s.tokens[key] = t
}

// fits reports whether one more token is within a workspace's share.
func (s *logins) fits(workspace string) bool {
	own := int64(1)
	for _, t := range s.tokens {
		if t.workspace == workspace {
			own++
		}
	}
	return fairshare.Left(own, int64(maxTokens-len(s.tokens)-1)) >= 0
}

// drop drops one of the fetched tokens, and reports whether there was one.
func (s *logins) drop(which func(*token) bool) bool {
	for k, t := range s.tokens {
		if t.fetched() && which(t) {
			delete(s.tokens, k)
			return true
		}
	}
	return false
}

func (s *logins) fetch(ctx context.Context, key [sha256.Size]byte, t *token, now func() time.Time, fetch tokenFunc) {
	began := time.Now()
	got, err := fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(t.ready)
	s.count(t.workspace, -1)
	if t.err = err; err != nil { // the next call tries again
		if s.tokens[key] == t {
			delete(s.tokens, key)
		}
		return
	}
	t.secret = credentials.NewSecret(got.AccessToken)
	lifetime := tokenDefault
	if !got.Expiry.IsZero() {
		lifetime = got.Expiry.Sub(began)
		lifetime -= min(tokenMargin, lifetime/5)
	}
	t.until = now().Add(lifetime)
}

// bounded truncates answers after limit bytes.
type bounded struct {
	http.RoundTripper
	limit int64
}

// RoundTrip sends a request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, b.limit), res.Body}
	return res, nil
}
