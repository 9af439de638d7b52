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

// logins holds the tokens that logins gave, and fetches them: one at a time for a login, and
// maxFetches in all, of which a workspace has its share, as it has of the tokens that are
// kept. Its zero value is ready.
type logins struct {
	mu       sync.Mutex
	tokens   map[[sha256.Size]byte]*token // by the hash of the whole login
	fetching int
	fetches  map[string]int // under way, by workspace
}

// ErrLogins means that too many tokens are being fetched.
var ErrLogins = errors.New("too many logins at once")

// A token is one that was fetched, or is being fetched until ready is closed. It is not
// singleflight's: who begins a fetch is counted under the lock that says that there is none.
type token struct {
	workspace string // that it was fetched for first
	ready     chan struct{}
	secret    credentials.Secret
	until     time.Time // when it is fetched anew
	err       error
}

type tokenFunc = func(context.Context) (*oauth2.Token, error)

const (
	maxTokens    = 1024
	maxFetches   = 64
	tokenMargin  = 2 * time.Minute // before a token ends, it is not used any more
	tokenDefault = 5 * time.Minute // that a token is kept whose end nobody says
)

// login is the operation of a login.
var login = Operation{Name: "login", Timeout: 15 * time.Second, MaxAnswer: 64 << 10}

// Token returns the token of a grant for a call of a workspace to a provider, waiting no
// longer than ctx. A fetch goes on when the call that began it is gone: others wait for it.
//
// The error is a [LoginError], [ErrLogins], or a [providers.Refusal] of the login itself.
func (c *Client) Token(ctx context.Context, g *Grant, provider, workspace string) (credentials.Secret, error) {
	token, err := c.logins.get(ctx, g.key, workspace, c.now, func(ctx context.Context) (*oauth2.Token, error) {
		return c.fetchToken(ctx, g, provider)
	})
	return token, loginError(g.server, err)
}

// fetchToken asks the token server of a grant.
func (c *Client) fetchToken(ctx context.Context, g *Grant, provider string) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(WithVars(ctx), login.Timeout)
	defer cancel()
	carrier := &carrier{client: c, ctx: ctx, op: &login, provider: provider, pool: bounded{c.pools.of(g.public), int64(login.MaxAnswer)}}
	token, err := g.fetch(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{
		Transport:     carrier,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}))
	switch {
	case err != nil && carrier.err != nil:
		return nil, carrier.err // of which oauth2 keeps no more than the text
	case err != nil && !carrier.sent:
		return nil, errAccount
	case err == nil && token.AccessToken == "":
		return nil, errors.New("no access_token")
	}
	return token, err
}

// get returns the token of the login whose hash is key, for a workspace. fetch gets one
// where there is none.
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

// over reports whether a token was fetched and is used no more.
func (t *token) over(now time.Time) bool { return t.fetched() && !now.Before(t.until) }

// add keeps a token. Where there are too many, or too many of its workspace, it drops those
// that are over, or another; never one that is being fetched.
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

// fits reports whether one more token is within the share of a workspace.
func (s *logins) fits(workspace string) bool {
	own := int64(1)
	for _, t := range s.tokens {
		if t.workspace == workspace {
			own++
		}
	}
	return fairshare.Left(own, int64(maxTokens-len(s.tokens)-1)) >= 0
}

// drop drops one of the tokens that were fetched, and reports whether there was one.
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

// bounded ends what is read of answers after limit bytes.
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
