package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// A search is a service that finds pages about a text. Its check gives a conversation what was found,
// as a message of the system.
type search struct {
	id     string
	vendor *guardrails.Vendor
	base   string
	header map[string]string
	body   func(query string, p *guardrails.Parameters) object
	text   string // the member of a result with the text of the page
}

var (
	exa    = vendor("exa", baseURL, key("apiKey"))
	tavily = vendor("tavily", baseURL, key("apiKey"))
)

var searches = []search{
	{
		id: "exa.online", vendor: exa, base: "https://api.exa.ai", header: map[string]string{"x-api-key": "{apiKey}"}, text: "text",
		body: func(query string, p *guardrails.Parameters) object {
			return domains(object{"query": query, "numResults": p.Integer("numResults"), "contents": object{"text": object{"maxCharacters": maxPage}}}, p, "includeDomains", "excludeDomains")
		},
	},
	{
		id: "tavily.online", vendor: tavily, base: "https://api.tavily.com", header: bearer, text: "content",
		body: func(query string, p *guardrails.Parameters) object {
			return domains(object{"query": query, "max_results": p.Integer("numResults")}, p, "include_domains", "exclude_domains")
		},
	},
}

// Bounds of what is asked for and of what a conversation gets.
const (
	searchTimeout = 10 * time.Second
	maxQuery      = 400 // characters, which both services take
	maxPage       = 2000
	maxResults    = 20
)

// domains adds the domains that results may or may not come from.
func domains(body object, p *guardrails.Parameters, include, exclude string) object {
	if list := p.Texts("includeDomains"); len(list) > 0 {
		body[include] = list
	}
	if list := p.Texts("excludeDomains"); len(list) > 0 {
		body[exclude] = list
	}
	return body
}

// kind is the check as it is registered.
func (s *search) kind() guardrails.Kind {
	return guardrails.Kind{
		Phases: guardrails.Calls,
		ID:     s.id, Doc: "always, after pages about the text were found and given to a chat or messages as a message of the system; a mutator", Vendor: s.vendor,
		Parameters: []guardrails.Parameter{
			timeoutParameter, forwardParameter,
			{Name: "numResults", Type: guardrails.Integer, Default: "5", Min: 1, Max: maxResults, Doc: "how many pages at most"},
			{Name: "includeDomains", Type: guardrails.Texts, Doc: "only pages of these"},
			{Name: "excludeDomains", Type: guardrails.Texts, Doc: "no pages of these"},
			{Name: "prefix", Default: `"\n<web_search_context>"`, Doc: "what is before the pages"},
			{Name: "suffix", Default: `"\n</web_search_context>"`, Doc: "what is after them"},
		},
		New: func(p *guardrails.Parameters) (guardrails.Check, error) {
			forward, err := forwardedNames(p)
			if err != nil {
				return nil, err
			}
			asking := &check{row: &row{id: s.id, vendor: s.vendor}, p: p, own: p.Settings(s.vendor)}
			return &searching{search: s, asking: asking, p: p, forward: forward, timeout: timeoutOf(p, searchTimeout)}, nil
		},
	}
}

// A searching check asks the service.
type searching struct {
	*search
	asking  *check // for its settings
	p       *guardrails.Parameters
	forward []string
	timeout time.Duration
}

// Waits says that the check waits for others.
func (*searching) Waits() {}

// Transforms says that it changes what it judges.
func (*searching) Transforms() {}

// Judge adds the pages to the call.
func (c *searching) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	query := s.Text()
	switch {
	case s.Services == nil:
		return guardrails.Result{}, errServices
	case s.Phase != guardrails.Input || s.Type != "chatComplete" && s.Type != "messages":
		return guardrails.Result{}, errors.New(c.id + " changes only chats and messages")
	case query == "":
		return guardrails.Result{}, guardrails.ErrNoText
	}
	settings, err := c.asking.settings(s.Services)
	if err != nil {
		return guardrails.Result{}, err
	}
	q, err := c.request(s, settings, clip(query, maxQuery))
	if err != nil {
		return guardrails.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var pages string
	found := 0
	err = send(ctx, s.Services, q, c.timeout, func(body []byte) error {
		results := gjson.GetBytes(body, "results")
		if !gjson.ValidBytes(body) || !results.IsArray() {
			return errors.New("the answer to " + c.id + " has no results")
		}
		var b strings.Builder
		for _, r := range results.Array() {
			if found++; found > maxResults {
				found--
				break
			}
			b.WriteString("\n" + clip(r.Get("title").Str, maxPage) + "\n" + clip(r.Get("url").Str, maxPage) + "\n" + clip(r.Get(c.text).Str, maxPage) + "\n")
		}
		pages = b.String()
		return nil
	})
	if err != nil {
		return guardrails.Result{}, err
	}
	result := guardrails.Result{Verdict: true, Data: map[string]any{"results": found, "explanation": "Pages about the text were added."}}
	if found == 0 {
		result.Data = map[string]any{"results": found, "explanation": "No pages about the text were found."}
		return result, nil
	}
	result.Body, err = withSystemText(s.Type, s.Request, c.p.Text("prefix")+pages+c.p.Text("suffix"))
	return result, err
}

// request is what is sent.
func (c *searching) request(s *guardrails.Subject, settings map[string]string, query string) (*guardrails.Request, error) {
	at, public := c.base, false
	if own := settings[baseURL]; own != "" {
		if at, public = own, true; !strings.Contains(at, "://") {
			at = "https://" + at
		}
	}
	u, err := url.Parse(strings.TrimRight(at, "/") + "/search")
	if err != nil || u.Host == "" {
		return nil, credentialError(baseURL, "expected the URL of the service")
	}
	q := &guardrails.Request{Vendor: c.vendor.ID, Public: public, Method: http.MethodPost, URL: u, Header: forwarded(s, c.forward)}
	for name, template := range c.header {
		v, err := expand(template, func(name string) string { return settings[name] }, headerPart)
		var fault *guardrails.ParameterError
		if errors.As(err, &fault) {
			return nil, credentialError(fault.Name, fault.Message)
		}
		q.Header.Set(name, v)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Body, err = json.Marshal(c.body(query, c.p))
	return q, err
}

// clip is the beginning of a text, of so many characters at most.
func clip(text string, characters int) string {
	n := 0
	for i := range text {
		if n++; n > characters {
			return text[:i]
		}
	}
	return text
}

// withSystemText returns the body of a chat or of messages with a text added to its system message.
func withSystemText(endpoint string, body []byte, text string) ([]byte, error) {
	body = bytes.Clone(body)
	if endpoint == "chatComplete" {
		messages := gjson.GetBytes(body, "messages")
		if !messages.IsArray() {
			return nil, errors.New("the call has no messages")
		}
		message, err := json.Marshal(object{"role": "system", "content": text})
		if err != nil {
			return nil, err
		}
		with := append(append([]byte(`[`), message...), ',')
		if !messages.Get("0").Exists() {
			with = with[:len(with)-1]
		}
		return sjson.SetRawBytes(body, "messages", append(with, strings.TrimSpace(messages.Raw)[1:]...))
	}
	switch system := gjson.GetBytes(body, "system"); {
	case system.IsArray():
		return sjson.SetBytes(body, "system.-1", object{"type": "text", "text": text})
	case system.Type == gjson.String && system.Str != "":
		return sjson.SetBytes(body, "system", system.Str+"\n"+text)
	}
	return sjson.SetBytes(body, "system", text)
}

// Interface guards
var (
	_ guardrails.Waiter      = (*searching)(nil)
	_ guardrails.Transformer = (*searching)(nil)
)
