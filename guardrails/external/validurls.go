package external

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

const (
	urlTimeout = 3 * time.Second // of each URL
	maxURLs    = 20              // of one judgment
	resolver   = "https://cloudflare-dns.com/dns-query"
)

var validURLs = guardrails.Kind{
	Phases: guardrails.Calls | guardrails.Answers,
	ID:     "default.validUrls", Doc: "the text has URLs, and all of them lead somewhere: a HEAD request is answered with success or a redirect; with onlyDNS, the hosts have addresses",
	Parameters: []guardrails.Parameter{
		{Name: "onlyDNS", Type: guardrails.Boolean, Doc: "the hosts are looked up by DNS over HTTPS at cloudflare-dns.com, and nothing is requested from them"},
		notParameter, timeoutParameter,
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &urlsValid{dns: p.Boolean("onlyDNS"), not: p.Boolean("not"), timeout: timeoutOf(p, urlTimeout)}, nil
	},
}

// A urlsValid check asks the hosts of the URLs in a text, or a resolver about them.
type urlsValid struct {
	dns, not bool
	timeout  time.Duration
}

// Waits says that the check waits for others.
func (*urlsValid) Waits() {}

var urlPattern = regexp.MustCompile(`https?://[^\s"'<>{}\[\]|\\^` + "`" + `]+`)

// urlsOf are the URLs in a text, once each, without what ends a sentence after them.
func urlsOf(text string) (all []string) {
	for _, found := range urlPattern.FindAllString(text, -1) {
		found = strings.TrimRight(found, ".,;:!?*_")
		for strings.HasSuffix(found, ")") && strings.Count(found, "(") < strings.Count(found, ")") {
			found = strings.TrimRight(strings.TrimSuffix(found, ")"), ".,;:!?*_")
		}
		if !slices.Contains(all, found) {
			all = append(all, found)
		}
		if len(all) > maxURLs {
			break
		}
	}
	return all
}

// Judge asks about each URL. What cannot be reached is no valid URL, whatever the reason.
func (c *urlsValid) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	switch {
	case s.Services == nil:
		return guardrails.Result{}, errServices
	case text == "":
		return guardrails.Result{}, guardrails.ErrNoText
	}
	all := urlsOf(text)
	switch {
	case len(all) == 0:
		return guardrails.Result{Data: map[string]any{"urls": 0, "explanation": "The text has no URLs."}}, nil
	case len(all) > maxURLs:
		return guardrails.Result{}, guardrails.Unreadable("there are more than " + strconv.Itoa(maxURLs) + " URLs")
	}
	valid := make([]bool, len(all))
	var wait sync.WaitGroup
	for i, raw := range all {
		wait.Go(func() { valid[i] = c.valid(ctx, s.Services, raw) })
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return guardrails.Result{}, err
	}
	bad := 0
	for _, ok := range valid {
		if !ok {
			bad++
		}
	}
	explanation := "All URLs of the text are valid."
	if bad > 0 {
		explanation = "Some URLs of the text are not valid."
	}
	return guardrails.Result{Verdict: (bad == 0) != c.not, Data: map[string]any{"urls": len(all), "invalid": bad, "not": c.not, "explanation": explanation}}, nil
}

// valid reports whether a URL leads somewhere.
func (c *urlsValid) valid(ctx context.Context, services guardrails.Services, raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if c.dns {
		return slices.ContainsFunc([]string{"A", "AAAA"}, func(kind string) bool { return resolves(ctx, services, u.Hostname(), kind) })
	}
	u.Fragment, u.RawFragment = "", ""
	a, err := services.Send(ctx, &guardrails.Request{Vendor: validURLs.ID, Public: true, Method: http.MethodHead, URL: u, Header: make(http.Header)})
	if err != nil {
		return false
	}
	defer a.Release()
	return a.Status >= 200 && a.Status < 400
}

// resolves asks the resolver whether a host has records of a kind.
func resolves(ctx context.Context, services guardrails.Services, host, kind string) bool {
	u, err := url.Parse(resolver + "?" + url.Values{"name": {host}, "type": {kind}}.Encode())
	if err != nil {
		return false
	}
	a, err := services.Send(ctx, &guardrails.Request{Vendor: validURLs.ID, Method: http.MethodGet, URL: u, Header: http.Header{"Accept": {"application/dns-json"}}})
	if err != nil {
		return false
	}
	defer a.Release()
	status := gjson.GetBytes(a.Body, "Status")
	return a.Status == http.StatusOK && gjson.ValidBytes(a.Body) && status.Type == gjson.Number && status.Num == 0 && len(gjson.GetBytes(a.Body, "Answer").Array()) > 0
}

// Interface guard
var _ guardrails.Waiter = (*urlsValid)(nil)
