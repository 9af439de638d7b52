package providers

import (
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers/chat"
)

func TestRegisterRefusesRowsThatAreWrong(t *testing.T) {
	for name, row := range map[string]Provider{
		"taken":            {Name: "openai", BaseURL: "https://api.example.com"},
		"no name":          {BaseURL: "https://api.example.com"},
		"upper case":       {Name: "Example", BaseURL: "https://api.example.com"},
		"not https":        {Name: "example", BaseURL: "http://api.example.com"},
		"a port":           {Name: "example", BaseURL: "https://api.example.com:8443"},
		"a user":           {Name: "example", BaseURL: "https://a:b@api.example.com"},
		"a query":          {Name: "example", BaseURL: "https://api.example.com/v1?a=b"},
		"a slash too many": {Name: "example", BaseURL: "https://api.example.com/v1/"},
	} {
		if err := row.check(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestNoBaseURLHoldsTheEndpointsPath(t *testing.T) {
	for _, p := range byName {
		if strings.Contains(p.BaseURL, "/chat") || strings.HasSuffix(p.BaseURL, "completions") {
			t.Errorf("%s: %s", p.Name, p.BaseURL)
		}
	}
}

func TestLookupFindsEveryNameOfTheTableAndNoOther(t *testing.T) {
	for _, name := range Names() {
		p, ok := Lookup(name)
		if !ok || p.Name != name {
			t.Errorf("%s: got %v", name, p)
		}
		base, settled, ok := BaseURL(name)
		if !ok || (base == nil) != (p.BaseURL == "" || settled) || base != nil && base.String() != p.BaseURL {
			t.Errorf("%s: base URL %v, want %s", name, base, p.BaseURL)
		}
	}
	for _, name := range []string{"", "OpenAI", "openai ", "@openai", "nonsense"} {
		if p, ok := Lookup(name); ok {
			t.Errorf("%q: got %v", name, p)
		}
		if base, _, ok := BaseURL(name); ok || base != nil {
			t.Errorf("%q: got %v", name, base)
		}
	}
}

func TestSettingsFillTheBaseURLAndLeadToNoOtherHost(t *testing.T) {
	p := &Provider{Name: "example", BaseURL: "https://{region}.api.example.com/accounts/{account}/v1"}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ region, account, want string }{
		{"eu-1", "a_b", "https://eu-1.api.example.com/accounts/a_b/v1"},
		{"", "a", ""},
		{"eu", "", ""},
		{"evil.example/", "a", ""},
		{"a.b", "a", ""},
		{"eu", "..", ""},
		{"eu", "a/b", ""},
		{"eu@x", "a", ""},
		{"-", "a", ""},
	} {
		u, err := p.Base(func(name string) string { return map[string]string{"region": c.region, "account": c.account}[name] })
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%+v: got %v", c, u)
		case c.want != "" && (err != nil || u.String() != c.want):
			t.Errorf("%+v: got %v, %v", c, u, err)
		}
	}
}

func TestURLPutsTheEndpointBelowTheBase(t *testing.T) {
	for _, c := range []struct{ base, path, want string }{
		{"https://api.example.com/v1", "/chat/completions", "https://api.example.com/v1/chat/completions"},
		{"https://api.example.com/v1/", "/chat/completions", "https://api.example.com/v1/chat/completions"},
		{"https://api.example.com", "/embeddings", "https://api.example.com/embeddings"},
		{"https://api.example.com/", "/embeddings", "https://api.example.com/embeddings"},
		{"http://127.0.0.1:11434/a/b/v2", "/completions", "http://127.0.0.1:11434/a/b/v2/completions"},
		{"http://[::1]:8080/v1", "/completions", "http://[::1]:8080/v1/completions"},
		{"https://api.example.com/accounts/a%20b/ai", "/completions", "https://api.example.com/accounts/a%20b/ai/completions"},
		{"https://api.example.com/projects/a%2Fb/ai", "/completions", "https://api.example.com/projects/a%2Fb/ai/completions"},
	} {
		base, err := url.Parse(c.base)
		if err != nil {
			t.Fatal(err)
		}
		before := *base
		if got := URL(base, c.path, "").String(); got != c.want {
			t.Errorf("%s and %s: got %s, want %s", c.base, c.path, got, c.want)
		}
		if *base != before {
			t.Errorf("%s: the shared base was changed", c.base)
		}
	}
}

func TestAVersionIsInTheURLOnce(t *testing.T) {
	for _, c := range []struct{ base, path, want string }{
		{"https://api.example.com", "/v1beta/models", "https://api.example.com/v1beta/models"},
		{"https://api.example.com/v1beta", "/v1beta/models", "https://api.example.com/v1beta/models"},
		{"https://api.example.com/v2/", "/v1/models", "https://api.example.com/v1/models"},
		{"https://r.example.com/openai/v1", "/v1/chat/completions", "https://r.example.com/openai/v1/chat/completions"},
		{"https://r.example.com/openai/v1", "/deployments/d/embeddings", "https://r.example.com/openai/deployments/d/embeddings"},
		{"https://r.example.com/v1/openai", "/v1/models", "https://r.example.com/v1/openai/v1/models"},
		{"https://r.example.com/vision", "/v1/models", "https://r.example.com/vision/v1/models"},
	} {
		base, err := url.Parse(c.base)
		if err != nil {
			t.Fatal(err)
		}
		before := *base
		if got := VersionedURL(base, c.path, "").String(); got != c.want || *base != before {
			t.Errorf("%s and %s: got %s, want %s", c.base, c.path, got, c.want)
		}
	}
}

func TestTheCredentialIsABearerAndNothingWithoutOne(t *testing.T) {
	h := make(http.Header)
	if err := Bearer(&Call{}, h); err != nil || len(h) != 0 {
		t.Errorf("without a key: %v, %v", h, err)
	}
	if err := Bearer(&Call{Key: credentials.NewSecret("key")}, h); err != nil || !slices.Equal(h["Authorization"], []string{"Bearer key"}) {
		t.Errorf("got %v, %v", h, err)
	}
	if err := Bearer(&Call{Key: credentials.NewSecret("key"), Token: credentials.NewSecret("token")}, h); err != nil || !slices.Equal(h["Authorization"], []string{"Bearer token"}) {
		t.Errorf("got %v, %v", h, err)
	}
}

func TestAnEndpointMayLeaveACallToTheDialect(t *testing.T) {
	decline := func(*Call) (*Request, error) { return nil, nil }
	refuse := func(*Call) (*Request, error) { return nil, &chat.Unsupported{Param: "input", Message: "no"} }
	p := &Provider{Name: "example", Dialect: openAI, Endpoints: map[string]Endpoint{Messages: decline, Embed: refuse, Rerank: decline}}
	call := func(endpoint string) *Call {
		return &Call{
			Endpoint: endpoint, Method: "POST", Path: "/x", Base: &url.URL{Scheme: "https", Host: "api.example.com"}, Body: []byte(`{"model":"m","messages":[]}`),
			Setting: func(string) string { return "" }, NewID: func() string { return "id" },
		}
	}
	r, err := p.Prepare(call(Messages))
	if err != nil || r.Answer == nil || r.URL.Path != "/chat/completions" {
		t.Errorf("the conversation was not translated: %+v, %v", r, err)
	}
	for endpoint, code := range map[string]string{Embed: "unsupported_parameter", Rerank: "endpoint_not_supported"} {
		_, err := p.Prepare(call(endpoint))
		var refusal *RequestError
		if !errors.As(err, &refusal) || refusal.Code != code {
			t.Errorf("%s: got %v, want %s", endpoint, err, code)
		}
	}
}

func TestForwardedHeadersAreCanonicalAndHoldNoCredential(t *testing.T) {
	for _, name := range slices.Concat(Forwarded, ForwardedInline) {
		if name != textproto.CanonicalMIMEHeaderKey(name) {
			t.Errorf("%s is not in canonical form, so it is never found", name)
		}
		for _, word := range []string{"Authorization", "Cookie", "Key-", "Token", "X-Gw", "Forwarded", "Host", "Connection", "Accept-Encoding", "Content-Length"} {
			if strings.Contains(name, word) {
				t.Errorf("%s must not go on to a provider", name)
			}
		}
	}
	for _, name := range ForwardedInline {
		if slices.Contains(Forwarded, name) {
			t.Errorf("%s goes on with stored credentials too", name)
		}
	}
}
