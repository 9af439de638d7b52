package inference

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
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/fairshare"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
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

// errLogins means that too many tokens are being fetched.
var errLogins = errors.New("too many logins at once")

// A token is one that was fetched, or is being fetched until ready is closed. It is not
// singleflight's: who begins a fetch is counted under the lock that says that there is none.
type token struct {
	workspace string // that it was fetched for first
	ready     chan struct{}
	secret    credentials.Secret
	until     time.Time // when it is fetched anew
	err       error
}

const (
	maxTokens    = 1024
	maxFetches   = 64
	tokenMargin  = 2 * time.Minute  // before a token ends, it is not used any more
	tokenDefault = 5 * time.Minute  // that a token is kept whose end nobody says
	tokenTimeout = 15 * time.Second // of a fetch
	maxToken     = 64 << 10         // bytes of an answer
)

// login gets the token of the call's provider, if it wants one that the credential is not
// itself. A request that is not to be sent needs none.
func (f *Forwarder) login(ctx context.Context, q *request, t *routing.Target, call *providers.Call, send bool) *exchange.Error {
	if call.Provider.Login == nil {
		return nil
	}
	l, err := call.Provider.Login(call)
	if err != nil {
		return refused(err)
	}
	if l == nil {
		return nil
	}
	if q.target.Route.Inline && q.target.Route.CallerHost && t.Selection().CustomHost == "" && savedIn(t, l) {
		return refused(&providers.Refusal{Param: "x-gw-custom-host", Code: "invalid_custom_host", Message: "Invalid custom host: " +
			"the config's own login goes only where the config says; drop x-gw-custom-host or send your own credential"})
	}
	g, err := f.grant(q, l)
	if err != nil {
		return refused(err)
	}
	if !send { // it may be answered from the cache, for which no token is needed
		call.Token, q.unsigned = noToken, true
		return nil
	}
	g.workspace = q.call.Caller.WorkspaceID
	call.Token, err = f.logins.get(ctx, g, q.call.Gateway.Now)
	return loginFailed(q, g, err)
}

// noToken stands for a token in a request that is not sent.
var noToken = credentials.NewSecret("none")

// get returns the token of a grant, waiting no longer than ctx. A fetch goes on when the
// call that began it is gone: others wait for it.
func (s *logins) get(ctx context.Context, g *grant, now func() time.Time) (credentials.Secret, error) {
	s.mu.Lock()
	t := s.tokens[g.key]
	if t == nil || t.over(now()) {
		if fairshare.Left(int64(s.fetches[g.workspace]+1), int64(maxFetches-s.fetching-1)) < 0 {
			s.mu.Unlock()
			return credentials.Secret{}, errLogins
		}
		s.count(g.workspace, 1)
		t = &token{workspace: g.workspace, ready: make(chan struct{})}
		s.add(g.key, t, now())
		go s.fetch(withVars(context.WithoutCancel(ctx)), g, t, now)
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

func (s *logins) fetch(ctx context.Context, g *grant, t *token, now func() time.Time) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	began := time.Now()
	carrier := &tokenCarrier{pool: g.pool, ctx: ctx}
	got, err := g.fetch(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{
		Transport:     carrier,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}))
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(t.ready)
	s.count(g.workspace, -1)
	switch {
	case err != nil && carrier.err != nil:
		t.err = carrier.err // of which oauth2 keeps no more than the text
	case err != nil && !carrier.sent:
		t.err = errAccount
	case err != nil:
		t.err = err
	case got.AccessToken == "":
		t.err = errors.New("no access_token")
	}
	if t.err != nil { // the next call tries again
		if s.tokens[g.key] == t {
			delete(s.tokens, g.key)
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

// A tokenCarrier sends the request for a token, and bounds what is read of the answer.
type tokenCarrier struct {
	pool http.RoundTripper
	ctx  context.Context // oauth2 makes its requests without one
	sent bool
	err  error
}

// RoundTrip sends a request.
func (c *tokenCarrier) RoundTrip(r *http.Request) (*http.Response, error) {
	c.sent = true
	res, err := c.pool.RoundTrip(r.WithContext(c.ctx))
	if err != nil {
		c.err = err
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxToken), res.Body}
	return res, nil
}
