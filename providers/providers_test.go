package providers

import (
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryProviderHasAUniqueNameAndAnHTTPSBaseURL(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := make(map[string]bool)
	for _, row := range table {
		if !name.MatchString(row.Name) {
			t.Errorf("%q: not a name", row.Name)
		}
		if seen[row.Name] {
			t.Errorf("%s: listed twice", row.Name)
		}
		seen[row.Name] = true
		if row.BaseURL == "" {
			continue // callers must say where it is
		}
		u, err := url.Parse(row.BaseURL)
		switch {
		case err != nil:
			t.Errorf("%s: %v", row.Name, err)
		case u.Scheme != "https" || u.Host == "" || u.Port() != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.RawPath != "":
			t.Errorf("%s: %s is more or less than https, host and path", row.Name, row.BaseURL)
		case strings.HasSuffix(row.BaseURL, "/") || strings.Contains(u.Path, "//"):
			t.Errorf("%s: %s has a slash too many", row.Name, row.BaseURL)
		case u.Host != strings.ToLower(u.Host) || !strings.Contains(u.Host, "."):
			t.Errorf("%s: host %s", row.Name, u.Host)
		case strings.Contains(u.Path, "/chat") || strings.HasSuffix(u.Path, "completions"):
			t.Errorf("%s: %s holds the endpoint's path", row.Name, row.BaseURL)
		}
	}
	if len(seen) == 0 {
		t.Error("the table is empty")
	}
}

func TestLookupFindsEveryNameOfTheTableAndNoOther(t *testing.T) {
	for _, name := range Names() {
		p, ok := Lookup(name)
		if !ok || p.Name != name {
			t.Errorf("%s: got %v", name, p)
		}
		base, ok := BaseURL(name)
		if !ok || (base == nil) != (p.BaseURL == "") || base != nil && base.String() != p.BaseURL {
			t.Errorf("%s: base URL %v, want %s", name, base, p.BaseURL)
		}
	}
	for _, name := range []string{"", "OpenAI", "openai ", "@openai", "nonsense"} {
		if p, ok := Lookup(name); ok {
			t.Errorf("%q: got %v", name, p)
		}
		if base, ok := BaseURL(name); ok || base != nil {
			t.Errorf("%q: got %v", name, base)
		}
	}
}

func TestURLPutsTheEndpointBelowTheBase(t *testing.T) {
	p := &Provider{}
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
		if got := p.URL(base, c.path, "").String(); got != c.want {
			t.Errorf("%s and %s: got %s, want %s", c.base, c.path, got, c.want)
		}
		if *base != before {
			t.Errorf("%s: the shared base was changed", c.base)
		}
	}
}

func TestAuthenticateSendsABearerAndNothingWithoutAKey(t *testing.T) {
	p := &Provider{}
	h := make(http.Header)
	p.Authenticate(h, "")
	if len(h) != 0 {
		t.Errorf("without a key: %v", h)
	}
	p.Authenticate(h, "key")
	p.Authenticate(h, "another")
	if got := h.Values("Authorization"); len(h) != 1 || !slices.Equal(got, []string{"Bearer another"}) {
		t.Errorf("got %v", h)
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
