package inference

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/exchange"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/routing"
)

// logins holds the tokens that logins gave, and fetches them: one at a time for a login.
// Its zero value is ready.
type logins struct {
	mu     sync.Mutex
	tokens map[[sha256.Size]byte]*token // by the hash of the whole login
}

// A token is one that was fetched, or is being fetched until ready is closed.
type token struct {
	ready  chan struct{}
	secret credentials.Secret
	until  time.Time // when it is fetched anew
	err    error
}

const (
	maxTokens    = 1024
	tokenMargin  = 2 * time.Minute  // before a token ends, it is not used any more
	tokenDefault = 5 * time.Minute  // that a token is kept whose end nobody says
	tokenTimeout = 15 * time.Second // of a fetch
	maxToken     = 64 << 10         // bytes of an answer
)

// login gets the token of the call's provider, if it wants one that the credential is not
// itself.
func (f *Forwarder) login(ctx context.Context, a *attempt, t *routing.Target, call *providers.Call) *exchange.Error {
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
	if a.route.Inline && a.route.CallerHost && t.Selection().CustomHost == "" && savedIn(t, l) {
		return refused(&providers.Refusal{Param: "x-gw-custom-host", Code: "invalid_custom_host", Message: "Invalid custom host: " +
			"the config's own login goes only where the config says; drop x-gw-custom-host or send your own credential"})
	}
	g, err := f.grant(a, l)
	if err != nil {
		return refused(err)
	}
	call.Token, err = f.logins.get(ctx, g, a.x.Gateway.Now)
	return loginFailed(a, g, err)
}

// get returns the token of a grant, waiting no longer than ctx. A fetch goes on when the
// call that began it is gone: others wait for it.
func (s *logins) get(ctx context.Context, g *grant, now func() time.Time) (credentials.Secret, error) {
	s.mu.Lock()
	t := s.tokens[g.key]
	if t == nil || t.over(now()) {
		t = &token{ready: make(chan struct{})}
		s.add(g.key, t, now())
		go s.fetch(context.WithoutCancel(ctx), g, t, now)
	}
	s.mu.Unlock()
	select {
	case <-t.ready:
		return t.secret, t.err
	case <-ctx.Done():
		return credentials.Secret{}, ctx.Err()
	}
}

// over reports whether a token was fetched and is used no more.
func (t *token) over(now time.Time) bool {
	select {
	case <-t.ready:
		return !now.Before(t.until)
	default:
		return false
	}
}

// add keeps a token, and drops those that are over, or another where there are too many.
func (s *logins) add(key [sha256.Size]byte, t *token, now time.Time) {
	if s.tokens == nil {
		s.tokens = make(map[[sha256.Size]byte]*token)
	}
	delete(s.tokens, key)
	if len(s.tokens) >= maxTokens {
		for k, old := range s.tokens {
			if old.over(now) {
				delete(s.tokens, k)
			}
		}
	}
	for k := range s.tokens {
		if len(s.tokens) < maxTokens {
			break
		}
		delete(s.tokens, k)
	}
	s.tokens[key] = t
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
