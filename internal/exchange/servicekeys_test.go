package exchange

import (
	"crypto/rand"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/alloctest"
)

const operatorKey = "key-of-the-operator~0123456789abcdef"

type operator struct{}

func (operator) IsOperatorKey(text string) bool { return text == operatorKey }

func newServiceKey(t testing.TB) string {
	t.Helper()
	token, err := credentials.NewToken(rand.Reader, "gw-")
	if err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}

// escaped is a text of which every character is escaped, several times over.
func escaped(text string, layers int) string {
	const hex = "0123456789aBcDeF"
	var b strings.Builder
	for _, c := range []byte(text) {
		b.WriteString("%" + strings.Repeat("25", layers-1))
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

func TestServiceKeysInPaths(t *testing.T) {
	t.Parallel()
	key := newServiceKey(t)
	h, err := NewHeaders(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, redacted string }{
		{"/v1/chat/completions", ""},
		{"/v1/models/" + key, "/v1/models/REDACTED"},
		{"/v1/" + key + "/files/x", "/v1/REDACTED/files/x"},
		{"/v1/xx" + key + "xx", "/v1/REDACTED"},
		{"/v1/a;key=" + key + ";b", "/v1/REDACTED"},
		{"/v1/Bearer%20" + key, "/v1/REDACTED"},
		{"/v1/a%2F" + key + "%2Fb/c", "/v1/REDACTED/c"},
		{"/v1/" + strings.Replace(key, "-", "%2D", 1) + "/c", "/v1/REDACTED/c"},
		{"/v1/" + escaped(key, 1) + "/c", "/v1/REDACTED/c"},
		{"/v1/" + escaped(key, 2), "/v1/REDACTED"},
		{"/v1/" + escaped(key, 9), "/v1/REDACTED"},
		{"/v1/%zz%" + escaped(key, 2), "/v1/REDACTED"},
		{key, "REDACTED"},
		{"http://host/" + key + "/a", "http://host/REDACTED/a"},
		{"/v1/" + operatorKey, "/v1/REDACTED"},
		{"/v1/a;b=" + operatorKey + ",c/d", "/v1/REDACTED/d"},
		{"/v1/" + escaped(operatorKey, 3), "/v1/REDACTED"},
		{"/v1/" + operatorKey + "x", ""},
		{"/v1/" + key[:len(key)-1], ""},
		{"/v1/responses/resp_0123456789abcdef0123456789abcdef0123456789abcdef", ""},
	} {
		if c.redacted == "" {
			c.redacted = c.path
		}
		want := c.redacted != c.path
		if got := KeyInPath(c.path, operator{}); got != want {
			t.Errorf("%s: found: %v", c.path, got)
		}
		for _, query := range []string{"", "?", "?a=b"} {
			if got, found := h.RedactURI(c.path+query, operator{}); got != c.redacted+query || found != want {
				t.Errorf("%s: got %s, %v", c.path+query, got, found)
			}
		}
	}
	if got, found := h.RedactURI("/"+key+"?a="+key, nil); got != "/REDACTED?a=REDACTED" || !found {
		t.Errorf("got %s, %v", got, found)
	}
}

func TestServiceKeysInHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.issue(t, "key-2", credentials.APIKey{})
	for _, c := range []struct {
		value string
		holds bool
	}{
		{"", false},
		{"client/1.0", false},
		{other, true},
		{"Bearer " + other, true},
		{"client/1.0 (" + other + "; linux)", true},
		{"xx" + other + "xx", true},
		{newServiceKey(t) + "," + other, true},
		{newServiceKey(t), false}, // it is another gateway's
		{other[:len(other)-1], false},
		{"stainless-node-retry-7b6d8a54-7e2f-4f35-8e4c-0d1c8d8a1a5e", false},
	} {
		x := w.Begin(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/chat/completions", nil), &endpoints[1])
		refusal := x.Gateway.RefuseKey("User-Agent", []string{"first", c.value})
		if got := refusal != nil; got != c.holds {
			t.Errorf("%q: refused: %v", c.value, got)
		}
		if refusal != nil && (refusal.Code != "key_in_header" || refusal.Param != "user-agent" || strings.Contains(refusal.Message, other)) {
			t.Errorf("%q: %+v", c.value, refusal)
		}
		x.Close()
	}
}

func TestHeadersThatHoldNoKeyCostNoMemory(t *testing.T) {
	w := newWorld(t)
	digest := credentials.DigestOf(operatorKey)
	w.Authenticator = &credentials.Authenticator{Keyring: w.keyring, AdminKey: &digest}
	x := w.Begin(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/chat/completions", nil), &endpoints[1])
	defer x.Close()
	values := []string{"OpenAI/Python 2.8.1 (linux; x86_64)", "stainless-node-retry-7b6d8a54-7e2f-4f35-8e4c-0d1c8d8a1a5e"}
	alloctest.AtMost(t, 0, 100, func() {
		if x.Gateway.RefuseKey("User-Agent", values) != nil || KeyInPath("/v1/chat/completions/of/some/length", operator{}) {
			t.Error("refused")
		}
	})
}

// Whatever is escaped comes back, however often it was, and what is not an escape stays.
func TestUnescapeRemovesEveryLayer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z/&=~. -]{0,30}`).Draw(t, "text")
		once := text
		for range rapid.IntRange(0, 6).Draw(t, "layers") {
			if once = url.PathEscape(once); rapid.Bool().Draw(t, "all") {
				once = escaped(once, 1)
			}
		}
		if got := unescape(once, false); got != text {
			t.Fatalf("%q: got %q, want %q", once, got, text)
		}
	})
	for escaped, want := range map[string]string{"%": "%", "%4": "%4", "%zz": "%zz", "a+b%2Bc": "a b+c", "%%341": "A"} {
		if got := unescape(escaped, true); got != want {
			t.Errorf("%q: got %q, want %q", escaped, got, want)
		}
	}
}

// No URI holds a service key when it was redacted.
func FuzzRedactURI(f *testing.F) {
	key := newServiceKey(f)
	for _, uri := range []string{
		"/v1/models?a=b", "/v1/" + key + "?x=y", "/v1/a?" + key, "/?a=" + escaped(key, 2) + "&&=", "/%2f" + escaped(operatorKey, 1) + "?" + operatorKey + "=1", "?key=%", "/%25%32%35",
	} {
		f.Add(uri)
	}
	h, err := NewHeaders(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		redacted, found := h.RedactURI(uri, operator{})
		if found == (redacted == uri) && !strings.Contains(uri, "REDACTED") {
			t.Errorf("%q: got %q, found: %v", uri, redacted, found)
		}
		path, query, _ := strings.Cut(redacted, "?")
		if KeyInPath(path, operator{}) || h.KeyInQuery(query, operator{}) != "" && !strings.Contains(query, "REDACTED") {
			t.Errorf("%q: got %q", uri, redacted)
		}
	})
}
