package upstream

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
)

// A bank is a token server: it numbers the tokens that it gives.
type bank struct {
	*httptest.Server
	given   atomic.Int64
	forms   sync.Map // by number, what was asked
	expires int      // seconds; 0: it does not say
	answer  http.HandlerFunc
}

func newBank(t *testing.T) *bank {
	b := &bank{expires: 3600}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := b.given.Add(1)
		_ = r.ParseForm()
		b.forms.Store(n, r.PostForm)
		if b.answer != nil {
			b.answer(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if b.expires == 0 {
			fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer"}`, n)
			return
		}
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":%d}`, n, b.expires)
	}))
	t.Cleanup(b.Close)
	return b
}

// privateKey is one for all tests: making one takes long.
var privateKey = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
})

func serviceAccount(tokenURI, email string) []byte {
	b, _ := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "client_email": email, "private_key_id": "k", "private_key": privateKey(), "token_uri": tokenURI,
	})
	return b
}

// A desk is a client that gets tokens for a workspace, with a clock of its own.
type desk struct {
	*Client
	route     *credentials.Route
	workspace string
	now       atomic.Int64 // seconds
}

func newDesk(t *testing.T, trusted ...string) *desk {
	guard, err := credentials.NewHostGuard(trusted)
	if err != nil {
		t.Fatal(err)
	}
	connections := func(check addressCheck) *Pool {
		dial, err := newDialer(&reverseproxy.HTTPTransport{KeepAlive: new(reverseproxy.KeepAlive)}, check)
		if err != nil {
			t.Fatal(err)
		}
		return &Pool{Transport: &http.Transport{DialContext: dial}}
	}
	d := &desk{route: &credentials.Route{Provider: "vertex-ai"}, workspace: "w"}
	d.Client = NewClient(Pools{Operator: connections(operatorGuard), Public: connections(guard)}, Options{
		Guard: guard, Now: func() time.Time { return time.Unix(d.now.Load(), 0) },
	})
	t.Cleanup(func() { d.pools.Operator.CloseIdleConnections(); d.pools.Public.CloseIdleConnections() })
	return d
}

func (d *desk) ask(ctx context.Context, l *providers.Login) (string, error) {
	g, err := d.Grant(d.route, l)
	if err != nil {
		return "", err
	}
	token, err := d.Token(ctx, g, d.route.Provider, d.workspace)
	return token.Reveal(), err
}

// refusal is the code of a refusal, or "".
func refusal(err error) string {
	if r := new(providers.RequestError); errors.As(err, &r) {
		return r.Code
	}
	return ""
}

func (d *desk) mustGive(t *testing.T, l *providers.Login, want string) {
	t.Helper()
	if got, err := d.ask(t.Context(), l); err != nil || got != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

func TestATokenIsKeptUntilShortlyBeforeItEnds(t *testing.T) {
	b, d := newBank(t), newDesk(t, "127.0.0.1")
	l := &providers.Login{ServiceAccount: serviceAccount(b.URL, "a@example.com"), Scopes: []string{"s"}}
	d.mustGive(t, l, "token-1")
	d.now.Store(3600 - 125)
	d.mustGive(t, l, "token-1")
	d.now.Store(3600 - 115)
	d.mustGive(t, l, "token-2")
	d.mustGive(t, l, "token-2")
	form, _ := b.forms.Load(int64(1))
	if got := fmt.Sprint(form); !strings.Contains(got, "jwt-bearer") || strings.Contains(got, "PRIVATE") {
		t.Errorf("asked with %v", got)
	}
	b.expires = 0
	l = &providers.Login{ServiceAccount: serviceAccount(b.URL, "b@example.com")}
	d.mustGive(t, l, "token-3")
	d.now.Add(int64(tokenDefault/time.Second) + 1)
	d.mustGive(t, l, "token-4")
}

func TestEveryPartOfALoginHasItsOwnToken(t *testing.T) {
	b, d := newBank(t), newDesk(t, "127.0.0.1")
	secret := credentials.NewSecret("s1")
	for i, l := range []*providers.Login{
		{TokenURL: b.URL, ClientID: "a", ClientSecret: secret, Scopes: []string{"x"}},
		{TokenURL: b.URL, ClientID: "a", ClientSecret: secret, Scopes: []string{"x", "y"}},
		{TokenURL: b.URL, ClientID: "a", ClientSecret: secret, Scopes: []string{"x y"}},
		{TokenURL: b.URL, ClientID: "b", ClientSecret: secret, Scopes: []string{"x"}},
		{TokenURL: b.URL, ClientID: "a", ClientSecret: credentials.NewSecret("s2"), Scopes: []string{"x"}},
		{TokenURL: b.URL + "/", ClientID: "a", ClientSecret: secret, Scopes: []string{"x"}},
		{ServiceAccount: serviceAccount(b.URL, "a@example.com")},
		{ServiceAccount: serviceAccount(b.URL, "b@example.com")},
	} {
		want := fmt.Sprintf("token-%d", i+1)
		d.mustGive(t, l, want)
		d.mustGive(t, l, want)
	}
}

func TestOneFetchServesAllWhoWaitAndNobodyWaitsLongerThanItsCall(t *testing.T) {
	b, d := newBank(t), newDesk(t, "127.0.0.1")
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	b.answer = func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"shared","expires_in":3600}`)
	}
	l := &providers.Login{ServiceAccount: serviceAccount(b.URL, "a@example.com")}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := d.ask(ctx, l)
		first <- err
	}()
	<-arrived
	cancel()
	if err := <-first; err == nil {
		t.Error("who left got a token")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := d.ask(t.Context(), l); err != nil || got != "shared" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	close(release)
	wg.Wait()
	if n := b.given.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
}

func TestAFailedLoginIsToldWithoutItsSecretAndTriedAgain(t *testing.T) {
	b, d := newBank(t), newDesk(t, "127.0.0.1")
	const secret = "very-secret-value"
	l := &providers.Login{TokenURL: b.URL, ClientID: "a", ClientSecret: credentials.NewSecret(secret)}
	echo := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", b.URL+"/elsewhere")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "SECRET", r.PostForm.Get("client_secret")))
		}
	}
	for _, c := range []struct {
		status int
		body   string
		says   string
	}{
		{400, `{"error":"invalid_grant","error_description":"no such SECRET"}`, "answered 400 invalid_grant"},
		{401, `{"error": "invalid_client"}`, "answered 401 invalid_client"},
		{403, `{"error":"SECRET"}`, "answered 403"},
		{500, "SECRET", "answered 500"},
		{302, "", "answered 302"},
		{200, `{"SECRET":1}`, "gave no token"},
		{200, `{"access_token":"` + strings.Repeat("x", login.MaxAnswer) + `"}`, "gave no token"},
	} {
		before := b.given.Load()
		b.answer = echo(c.status, c.body)
		token, err := d.ask(t.Context(), l)
		if err == nil || token != "" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d %s: got %q, %+v", c.status, c.body, token, err)
			continue
		}
		if all := fmt.Sprintf("%v %+v", err, err); strings.Contains(all, secret) {
			t.Errorf("%d: the secret is told: %s", c.status, all)
		}
		if n := b.given.Load() - before; n != 1 {
			t.Errorf("%d: %d requests, want 1", c.status, n)
		}
	}
	b.answer = nil
	if _, err := d.ask(t.Context(), l); err != nil {
		t.Errorf("after failures: %v", err)
	}
	b.Close()
	_, err := d.ask(t.Context(), &providers.Login{TokenURL: b.URL, ClientID: "b"})
	if failure := new(LoginError); !errors.As(err, &failure) || failure.Status != 0 {
		t.Errorf("without a server: %+v", err)
	}
}

func TestTheTokenServerOfAServiceAccountMustPassTheGuard(t *testing.T) {
	b := newBank(t)
	for uri, says := range map[string]string{
		b.URL:                                      "private or reserved",
		"http://169.254.169.254/token":             "metadata",
		"http://localhost:8080/token":              "private",
		"ftp://example.com/token":                  "http",
		"https://a:b@example.com/":                 "credentials",
		"https://metadata.google.internal/x":       "metadata",
		"https://oauth2.googleapis.com.nip.io/tok": "resolves to whatever",
		"https://tokens.example.com/token":         "one of Google's",
		"https://oauth2.googleapis.com/other":      "one of Google's",
	} {
		_, err := newDesk(t).ask(t.Context(), &providers.Login{ServiceAccount: serviceAccount(uri, "a@example.com")})
		if refusal(err) != "invalid_token_uri" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %+v, want %q", uri, err, says)
		}
	}
	if n := b.given.Load(); n != 0 {
		t.Errorf("%d requests reached a private server", n)
	}
	// A name that passes by its spelling is checked again when it is dialed.
	d := newDesk(t, "tokens.example.com")
	d.pools.Public.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &DialError{&credentials.HostError{Why: "it is a private or reserved address"}}
	}
	_, err := d.ask(t.Context(), &providers.Login{ServiceAccount: serviceAccount("https://tokens.example.com/", "a@example.com")})
	if refusal(err) != "invalid_token_uri" {
		t.Errorf("rebound: got %+v", err)
	}
}

func TestLoginsToHostsThatCallersChoseAreMarked(t *testing.T) {
	b, d := newBank(t), newDesk(t, "127.0.0.1")
	marks := make(chan string, 1)
	b.answer = func(w http.ResponseWriter, r *http.Request) {
		marks <- r.Header.Get("Sec-Fetch-Mode")
		respondToken(w)
	}
	d.pools.Public.public = true
	entra := &providers.Login{TokenURL: b.URL, ClientID: "c", ClientSecret: credentials.NewSecret("very-secret-value")}
	for name, c := range map[string]struct {
		login *providers.Login
		route credentials.Route
		want  string
	}{
		"a service account":       {&providers.Login{ServiceAccount: serviceAccount(b.URL, "a@example.com")}, credentials.Route{}, "no-cors"},
		"Entra of a call":         {entra, credentials.Route{Inline: true}, "no-cors"},
		"Entra of a tenant":       {entra, credentials.Route{CustomHost: true}, "no-cors"},
		"Entra of the operator's": {entra, credentials.Route{}, ""},
	} {
		d.route, d.logins.tokens = &c.route, nil
		if _, err := d.ask(t.Context(), c.login); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := <-marks; got != c.want {
			t.Errorf("%s: Sec-Fetch-Mode is %q, want %q", name, got, c.want)
		}
	}
}

func respondToken(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer","expires_in":3600}`)
}

func TestWhatIsNoServiceAccountIsTheCallersFault(t *testing.T) {
	d := newDesk(t, "127.0.0.1")
	for name, account := range map[string]string{
		"no JSON":     `{`,
		"a user":      `{"type":"authorized_user","client_id":"a","client_secret":"very-secret-value","refresh_token":"r"}`,
		"external":    `{"type":"external_account","credential_source":{"file":"/etc/passwd"}}`,
		"no key":      `{"type":"service_account","client_email":"a@example.com"}`,
		"a bad key":   `{"type":"service_account","client_email":"a@example.com","private_key":"very-secret-value"}`,
		"an enormous": `{"type":"service_account","client_email":"a@example.com","private_key":"` + strings.Repeat("x", maxAccount) + `"}`,
	} {
		_, err := d.ask(t.Context(), &providers.Login{ServiceAccount: []byte(account)})
		if refusal(err) != "invalid_service_account" || strings.Contains(err.Error(), "secret-value") {
			t.Errorf("%s: got %+v", name, err)
		}
	}
}

func TestTheCacheOfTokensIsBounded(t *testing.T) {
	var s logins
	now := time.Unix(0, 0)
	done := make(chan struct{})
	close(done)
	for i := range 3 * maxTokens {
		var key [32]byte
		key[0], key[1] = byte(i), byte(i>>8)
		s.add(key, &token{ready: done, until: now.Add(time.Duration(i%2) * time.Hour)}, now)
		if s.tokens[key] == nil {
			t.Fatal("a new token is not kept")
		}
		if len(s.tokens) > maxTokens {
			t.Fatalf("%d tokens", len(s.tokens))
		}
	}
}

func TestATokenIsNoTextOfTheCache(t *testing.T) {
	b, d := newBank(t), newDesk(t, "127.0.0.1")
	d.mustGive(t, &providers.Login{TokenURL: b.URL, ClientID: "a", ClientSecret: credentials.NewSecret("very-secret-value")}, "token-1")
	if all := fmt.Sprintf("%v %+v", d.logins.tokens, d.logins.tokens); strings.Contains(all, "token-1") || strings.Contains(all, "secret-value") {
		t.Error(all)
	}
	for _, tok := range d.logins.tokens {
		if all := fmt.Sprintf("%v %+v %#v", *tok, *tok, *tok); strings.Contains(all, "token-1") {
			t.Error(all)
		}
	}
}

// So many tokens are fetched at once, of which a workspace has its share; what is being
// fetched for it does not keep another from logging in.
func TestLoginsAtOnceAreBounded(t *testing.T) {
	b, d := newBank(t), newDesk(t, "127.0.0.1")
	release, arrived := make(chan struct{}), make(chan struct{}, maxFetches)
	b.answer = func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"t","expires_in":3600}`)
	}
	login := func(id string) *providers.Login {
		return &providers.Login{TokenURL: b.URL, ClientID: id, ClientSecret: credentials.NewSecret("s")}
	}
	var all sync.WaitGroup
	fetch := func(d *desk, id string) {
		all.Go(func() {
			if got, err := d.ask(t.Context(), login(id)); err != nil || got != "t" {
				t.Errorf("%s: %q, %v", id, got, err)
			}
		})
		<-arrived
	}
	const share = maxFetches / 4 * 3
	for i := range share {
		fetch(d, fmt.Sprint("greedy ", i))
	}
	if _, err := d.ask(t.Context(), login("one more")); !errors.Is(err, ErrLogins) {
		t.Errorf("got %+v", err)
	}
	waiting := make(chan error, 1)
	go func() { // somebody else who waits for one of them needs no fetch
		_, err := d.ask(t.Context(), login("greedy 0"))
		waiting <- err
	}()
	other := &desk{Client: d.Client, route: d.route, workspace: "other"}
	fetch(other, "other")
	close(release)
	all.Wait()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if got, err := d.ask(t.Context(), login("one more")); err != nil || got != "t" {
		t.Errorf("%q, %v", got, err)
	}
	if d.logins.fetching != 0 || len(d.logins.fetches) != 0 {
		t.Errorf("%d fetches are still counted", d.logins.fetching)
	}
}

// The tokens of one workspace do not push out those of another.
func TestAWorkspaceKeepsItsTokens(t *testing.T) {
	var s logins
	now := time.Unix(0, 0)
	done := make(chan struct{})
	close(done)
	key := func(n int) (key [32]byte) {
		key[0], key[1] = byte(n), byte(n>>8)
		return key
	}
	s.add(key(0), &token{workspace: "other", ready: done, until: now.Add(time.Hour)}, now)
	s.add(key(1), &token{workspace: "greedy", ready: make(chan struct{})}, now)
	for i := range 3 * maxTokens {
		s.add(key(i+2), &token{workspace: "greedy", ready: done, until: now.Add(time.Hour)}, now)
	}
	if s.tokens[key(0)] == nil {
		t.Error("the token of another workspace is gone")
	}
	if s.tokens[key(1)] == nil {
		t.Error("the token that is being fetched is gone")
	}
}

// Caddy's transport notes the proxy that it chose, from whatever goroutine sends a request.
func TestALoginWritesNoVariablesOfTheCall(t *testing.T) {
	b, d := newBank(t), newDesk(t, "127.0.0.1")
	var noted atomic.Int64
	proxy := func(r *http.Request) (*url.URL, error) {
		caddyhttp.SetVar(r.Context(), "proxy", "none")
		noted.Add(1)
		return nil, nil
	}
	d.pools.Operator.Proxy, d.pools.Public.Proxy = proxy, proxy
	vars := make(map[string]any)
	ctx := context.WithValue(t.Context(), caddyhttp.VarsCtxKey, vars)
	if _, err := d.ask(ctx, &providers.Login{ServiceAccount: serviceAccount(b.URL, "a@example.com")}); err != nil {
		t.Fatal(err)
	}
	if noted.Load() == 0 || len(vars) != 0 {
		t.Errorf("%d requests, which left %v with the call", noted.Load(), vars)
	}
}
