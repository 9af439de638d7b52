package external

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-gw/gateway/guardrails"
)

// A web has hosts that answer HEAD requests, and a resolver that knows them.
type web struct {
	standIn
	pages    map[string]int // statuses by URL
	resolver map[string]string
	mu       sync.Mutex
	guarded  []bool
}

func (w *web) Send(ctx context.Context, q *guardrails.Request) (*guardrails.Answer, error) {
	w.mu.Lock()
	w.guarded = append(w.guarded, q.Public)
	w.mu.Unlock()
	switch status, known := w.pages[q.URL.String()]; {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case q.Method == http.MethodHead && known:
		return guardrails.NewAnswer(status, nil, nil), nil
	case q.Method == http.MethodGet && q.URL.Host == "cloudflare-dns.com" && q.Header.Get("Accept") == "application/dns-json":
		return guardrails.NewAnswer(200, []byte(w.resolver[q.URL.Query().Get("name")+" "+q.URL.Query().Get("type")]), nil), nil
	}
	return nil, errors.New("could not be reached")
}

func TestURLsAreRequestedOrLookedUp(t *testing.T) {
	many := ""
	for i := range maxURLs + 1 {
		many += " https://a.example.com/" + strconv.Itoa(i)
	}
	for _, c := range []struct{ parameters, text, want string }{
		{`{}`, "see https://a.example.com/x(1) and (https://b.example.com/?q=1).", "true"},
		{`{}`, "see [a](https://a.example.com/x(1)#part)!", "true"},
		{`{}`, "see https://a.example.com/x(1) and https://gone.example.com/", "false"},
		{`{"not":true}`, "see https://gone.example.com/", "true"},
		{`{"not":true}`, "see https://b.example.com/?q=1", "false"},
		{`{}`, "https://nobody.example.com", "false"},
		{`{}`, "https://user:word@a.example.com/x(1)", "false"},
		{`{}`, "no URL", "false"},
		{`{"not":true}`, "no URL", "false"},
		{`{}`, many, "unreadable"},
		{`{}`, "", "error"},
		{`{"onlyDNS":true}`, "https://a.example.com/any and http://six.example.com:8080", "true"},
		{`{"onlyDNS":true}`, "https://nobody.example.com", "false"},
		{`{"onlyDNS":true}`, "https://empty.example.com", "false"},
	} {
		w := &web{
			standIn:  standIn{t: t},
			pages:    map[string]int{"https://a.example.com/x(1)": 200, "https://b.example.com/?q=1": 301, "https://gone.example.com/": 404},
			resolver: map[string]string{"a.example.com A": `{"Status":0,"Answer":[{"data":"192.0.2.1"}]}`, "six.example.com AAAA": `{"Status":0,"Answer":[{"data":"2001:db8::1"}]}`, "nobody.example.com A": `{"Status":3}`, "empty.example.com A": `{"Status":0}`},
		}
		of := subject(nil, true)
		of.Services, of.Texts = w, []string{c.text}
		r, err := made(t, "default.validUrls", c.parameters, "").Judge(t.Context(), of)
		got := strconv.FormatBool(r.Verdict)
		switch {
		case errors.Is(err, guardrails.ErrUnreadable):
			got = "unreadable"
		case err != nil:
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s of %q: %s, want %s: %v", c.parameters, c.text, got, c.want, err)
		}
		if strings.Contains(c.parameters, "onlyDNS") == slices.Contains(w.guarded, true) && len(w.guarded) > 0 {
			t.Errorf("%s of %q: a host that a text names must be public, guarded %v", c.parameters, c.text, w.guarded)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	of := subject(nil, true)
	of.Services, of.Texts = &web{standIn: standIn{t: t}}, []string{"https://a.example.com"}
	if _, err := made(t, "default.validUrls", `{}`, "").Judge(ended, of); !errors.Is(err, context.Canceled) {
		t.Errorf("after its time: %v", err)
	}
}

// URLs are places of the text, once each, which do not end as a sentence does.
func FuzzURLs(f *testing.F) {
	for _, seed := range []string{"see https://a.example.com/x(1) and (https://b.example.com/?q=1).", "http://a http://a!", "https://\"x\"", "(((https://a.b/c)))...", strings.Repeat("https://a.b/) ", 30)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all := urlsOf(text)
		if len(all) > maxURLs+1 {
			t.Fatalf("%d URLs", len(all))
		}
		for i, u := range all {
			if !strings.Contains(text, u) || strings.ContainsAny(u, " \n\"<>") || slices.Contains(all[:i], u) || strings.ContainsAny(u[len(u)-1:], ".,;!?*_") {
				t.Fatalf("%q in %q", u, text)
			}
		}
	})
}
