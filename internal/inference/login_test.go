package inference

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/providers"
)

func TestALoginSavedInAConfigGoesToNoHostOfTheCallers(t *testing.T) {
	t.Parallel()
	const secret = "very-secret-value"
	for _, login := range []*providers.Login{
		{TokenURL: "https://tokens.example.com", ClientID: "a", ClientSecret: credentials.NewSecret(secret)},
		{Role: &providers.AssumedRole{Region: "eu-west-1", ARN: "arn:aws:iam::123456789012:role/r", Keys: providers.RoleToken{AccessKeyID: "AKID", SecretAccessKey: secret}}},
	} {
		call := &providers.Call{Provider: &providers.Provider{Login: func(*providers.Call) (*providers.Login, error) { return login, nil }}}
		f := &Forwarder{client: upstream.NewClient(upstream.Pools{}, upstream.Options{})}
		q := &request{
			call:   &exchange.Call{Caller: &credentials.Caller{WorkspaceID: "w"}},
			target: &exchange.Attempt{Route: &credentials.Route{Provider: "azure-openai", Inline: true, CustomHost: true}},
		}
		saved := []routing.Setting{{Name: "azure_entra_client_secret", Value: credentials.NewSecret(secret)}}
		if err := f.login(t.Context(), q, &routing.Target{Vendor: saved}, call, false); err == nil || err.Code != "invalid_custom_host" {
			t.Errorf("got %+v", err)
		}
		for name, target := range map[string]*routing.Target{
			"the config's host": {Vendor: saved, CustomHost: "https://models.example.com"},
			"the caller's own":  {},
		} {
			if err := f.login(t.Context(), q, target, call, false); err != nil {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

func TestAFailedLoginSaysWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		code   string
		says   string
	}{
		{&upstream.LoginError{Server: "s", Status: 400, Code: "invalid_grant"}, 401, "login_failed", "the token server s answered 400 invalid_grant"},
		{&upstream.LoginError{Server: "s", Status: 403}, 401, "login_failed", "answered 403"},
		{&upstream.LoginError{Server: "s", Status: 500}, 502, "login_failed", "answered 500"},
		{&upstream.LoginError{Server: "s"}, 502, "login_failed", "gave no token"},
		{&upstream.LoginError{Server: "s", Err: context.Canceled}, 502, "login_failed", "was not waited for"},
		{&upstream.LoginError{Server: "s", Err: context.DeadlineExceeded}, 504, "provider_timeout", "did not answer in time"},
		{&upstream.LoginError{Server: "s", Err: &upstream.DialError{Err: errors.New("refused")}}, 503, "provider_unreachable", "could not be reached"},
		{&providers.RequestError{Code: "invalid_token_uri", Message: "no"}, 400, "invalid_token_uri", "no"},
	} {
		got := loginFailed("p", c.err)
		if got.Status != c.status || got.Code != c.code || !strings.Contains(got.Message, c.says) {
			t.Errorf("%v: got %d %s %q", c.err, got.Status, got.Code, got.Message)
		}
	}
	if got := loginFailed("p", upstream.ErrLogins); got.Status != 503 || got.RetryAfter == 0 {
		t.Errorf("too many logins: got %+v", got)
	}
}
