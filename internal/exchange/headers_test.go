package exchange

import (
	"maps"
	"net/http"
	"slices"
	"testing"
)

func headersOf(t testing.TB, aliases ...string) *Headers {
	t.Helper()
	h, err := NewHeaders(aliases)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestNewHeadersTakesPrefixesOfTheFormXName(t *testing.T) {
	t.Parallel()
	for _, alias := range []string{"x-acme-", "x-acme", "X-Acme-", "x-a", "x-two-words-", "X-GW-", "x-a1"} {
		if _, err := NewHeaders([]string{alias}); err != nil {
			t.Errorf("%q: %v", alias, err)
		}
	}
	for _, alias := range []string{"", "-", "x-", "x", "acme-", "authorization", "x-ac me-", "x-acme:", "x-ä-", "x_acme_", "x-acme\r\n", "x-" + string(make([]byte, 80))} {
		if _, err := NewHeaders([]string{alias}); err == nil {
			t.Errorf("%q was accepted", alias)
		}
	}
}

func TestHeadersAreReadUnderEveryPrefix(t *testing.T) {
	t.Parallel()
	h := headersOf(t, "x-acme-", "x-two-words")
	for _, c := range []struct {
		name   string
		header http.Header
		want   string
		ok     bool
	}{
		{"none", http.Header{}, "", true},
		{"the default prefix", http.Header{"X-Gw-Provider": {"a"}}, "a", true},
		{"an alias", http.Header{"X-Acme-Provider": {"a"}}, "a", true},
		{"another alias", http.Header{"X-Two-Words-Provider": {"a"}}, "a", true},
		{"an unknown prefix", http.Header{"X-Other-Provider": {"a"}}, "", true},
		{"a longer name", http.Header{"X-Gw-Provider-Model": {"a"}}, "", true},
		{"an empty value", http.Header{"X-Gw-Provider": {""}}, "", true},
		{"the same under two prefixes", http.Header{"X-Gw-Provider": {"a"}, "X-Acme-Provider": {"a"}}, "a", true},
		{"the same twice", http.Header{"X-Gw-Provider": {"a", "a"}}, "a", true},
		{"two values", http.Header{"X-Gw-Provider": {"a", "b"}}, "a", false},
		{"two values that end alike", http.Header{"X-Gw-Provider": {"a", "b", "a"}}, "a", false},
		{"two values under two prefixes", http.Header{"X-Gw-Provider": {"a"}, "X-Acme-Provider": {"b"}}, "a", false},
		{"two values in letter case", http.Header{"X-Gw-Provider": {"a", "A"}}, "a", false},
		{"a value and an empty one", http.Header{"X-Gw-Provider": {"a", ""}}, "a", false},
		{"an empty value and another", http.Header{"X-Gw-Provider": {""}, "X-Acme-Provider": {"a"}}, "", false},
	} {
		if got, ok := h.Get(c.header, HeaderProvider); got != c.want || ok != c.ok {
			t.Errorf("%s: got %q, %v", c.name, got, ok)
		}
	}
}

func TestHeadersAreSetUnderEveryPrefix(t *testing.T) {
	t.Parallel()
	header := http.Header{"X-Gw-Trace-Id": {"old", "older"}}
	headersOf(t, "x-acme-").Set(header, HeaderTraceID, "new")
	want := http.Header{"X-Gw-Trace-Id": {"new"}, "X-Acme-Trace-Id": {"new"}}
	if !maps.EqualFunc(header, want, slices.Equal) {
		t.Errorf("got %v", header)
	}
}

func TestStripRemovesEveryHeaderOfTheGatewayAndNoOther(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	for _, name := range []string{
		"x-gw-api-key", "X-GW-ANYTHING-AT-ALL", "x-acme-provider", "x-gw-", "x-gwx-a", "x-gateway", "content-type", "x-request-id", "x-acm-a", "x-gw",
	} {
		header.Set(name, "v")
	}
	headersOf(t, "x-acme-").Strip(header)
	got := slices.Sorted(maps.Keys(header))
	want := []string{"Content-Type", "X-Acm-A", "X-Gateway", "X-Gw", "X-Gwx-A", "X-Request-Id"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestServiceKeyOfTheControlPlane(t *testing.T) {
	t.Parallel()
	h := headersOf(t, "x-acme-")
	for _, c := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"the header", http.Header{"X-Gw-Api-Key": {"a"}}, "a"},
		{"an alias", http.Header{"X-Acme-Api-Key": {"a"}}, "a"},
		{"the bearer", http.Header{"Authorization": {"Bearer a"}}, "a"},
		{"the header before the bearer", http.Header{"X-Gw-Api-Key": {"a"}, "Authorization": {"Bearer b"}}, "a"},
		{"two headers, of which neither is taken", http.Header{"X-Gw-Api-Key": {"a", "b"}}, ""},
		{"two headers with a bearer", http.Header{"X-Gw-Api-Key": {"", "b"}, "Authorization": {"Bearer c"}}, ""},
		{"x-api-key", http.Header{"X-Api-Key": {"a"}}, "a"},
		{"the header before x-api-key", http.Header{"X-Gw-Api-Key": {"a"}, "X-Api-Key": {"b"}}, "a"},
		{"x-api-key twice", http.Header{"X-Api-Key": {"a", "a"}}, ""},
		{"nothing", http.Header{}, ""},
	} {
		if got := h.ServiceKey(c.header, nil); got != c.want {
			t.Errorf("%s: got %q", c.name, got)
		}
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"": "", "Bearer": "", "Bearer ": "", "Bearer a": "a", "bearer a": "a", "BEARER a": "a", "Bearer  a ": "a", "Basic a": "", "a": "", "Bearera": "", "Bearer a b": "a b", " Bearer a": "",
	} {
		if got := Bearer(http.Header{"Authorization": {value}}); got != want {
			t.Errorf("%q: got %q", value, got)
		}
	}
}
