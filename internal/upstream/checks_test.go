package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/secrets"
)

func TestChecksReachOnlyHostsThatMayBeNamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			_, _ = w.Write([]byte(strings.Repeat("a", guardrails.MaxAnswer+1)))
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/late":
			<-r.Context().Done()
		default:
			_, _ = w.Write([]byte(r.Header.Get("X-Own") + r.Header.Get("User-Agent")))
		}
	}))
	defer server.Close()
	trusting, strict := newDesk(t, "127.0.0.1"), newDesk(t)
	send := func(ctx context.Context, d *desk, address string, public bool) (string, error) {
		s := &CheckServices{Client: d.Client, Workspace: "ws"}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Send(ctx, &guardrails.Request{Vendor: "acme", Public: public, Method: http.MethodPost, URL: u, Header: http.Header{"X-Own": {"own"}}, Body: []byte("{}")})
		if err != nil {
			return "", err
		}
		defer a.Release()
		return http.StatusText(a.Status) + " " + string(a.Body), nil
	}
	if got, err := send(t.Context(), trusting, server.URL+"/?a=b", true); err != nil || got != "OK own" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := send(t.Context(), trusting, server.URL+"/moved", true); err != nil || !strings.HasPrefix(got, "Found") {
		t.Errorf("a redirect: %q, %v", got, err)
	}
	var host *credentials.HostError
	if _, err := send(t.Context(), strict, server.URL, true); !errors.As(err, &host) {
		t.Errorf("a private host: %v", err)
	}
	if _, err := send(t.Context(), strict, "http://169.254.169.254/latest", false); !errors.As(err, &host) {
		t.Errorf("a metadata service: %v", err)
	}
	if _, err := send(t.Context(), trusting, server.URL+"/long", true); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("a long answer: %v", err)
	}
	server.Close()
	if _, err := send(t.Context(), trusting, server.URL, true); err == nil || err.Error() != "acme could not be reached" {
		t.Errorf("nobody there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := send(ctx, trusting, server.URL+"/late", true); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that ended: %v", err)
	}
}

// What a check reserves counts as memory of calls until it is released.
func TestChecksReserveMemory(t *testing.T) {
	d, budget := newDesk(t), inflight.New(1300)
	d.InFlight = func() *inflight.Budget { return budget }
	s := &CheckServices{Client: d.Client, Workspace: "ws"}
	release, err := s.Reserve(500)
	if err != nil || budget.InUse() != 500 {
		t.Errorf("%v, %d bytes are in use", err, budget.InUse())
	}
	if _, err := s.Reserve(1000); !inflight.Refused(err) || budget.InUse() != 500 {
		t.Errorf("more than there is: %v, %d bytes are in use", err, budget.InUse())
	}
	if release(); budget.InUse() != 0 {
		t.Errorf("%d bytes are in use", budget.InUse())
	}
}

// A token of what the gateway is for Azure is the operator's to give; it is kept for each identity and workspace.
func TestTheIdentityOfTheMachineIsTheOperatorsToGive(t *testing.T) {
	d := newDesk(t)
	login := &guardrails.Login{TokenURL: "https://login.microsoftonline.com/", Scope: "https://cognitiveservices.azure.com/.default", Managed: true}
	none := &CheckServices{Client: d.Client, Workspace: "ws"}
	if token, err := none.Token(t.Context(), "azure", login); token != "" || !errors.Is(err, errNoIdentity) {
		t.Errorf("without one: %q, %v", token, err)
	}
	var asked []string
	answers := error(nil)
	with := &CheckServices{Client: d.Client, Workspace: "ws", Checks: Checks{Identity: func(_ context.Context, authority, resource, client string, c *secrets.Clients) (secrets.Token, error) {
		if c.Metadata == nil || c.Public == nil {
			t.Error("it can ask nobody")
		}
		asked = append(asked, authority+" "+resource+" "+client)
		return secrets.Token{Secret: credentials.NewSecret("of " + client), Until: time.Now().Add(time.Hour)}, answers
	}}}
	for _, client := range []string{"a", "a", "b"} {
		one := *login
		one.ClientID = client
		if token, err := with.Token(t.Context(), "azure", &one); err != nil || token != "of "+client {
			t.Errorf("%s: %q, %v", client, token, err)
		}
	}
	const of = "https://login.microsoftonline.com https://cognitiveservices.azure.com "
	if got := strings.Join(asked, ", "); got != of+"a, "+of+"b" {
		t.Errorf("asked for %s", got)
	}
	answers = &secrets.Error{What: "login", Status: 400, Code: "invalid_request"}
	if _, err := with.Token(t.Context(), "azure", login); err == nil || err.Error() != "the token server of the machine's identity answered 400 invalid_request" {
		t.Errorf("a refusal: %v", err)
	}
}
