// Package external has the checks of guardrails that ask a service. A row of a table says for each
// what is sent, and what an answer means; [check] does the rest. What a service answers is
// untrusted: of it, results have only the names of categories.
//
// An error tells whose fault it is: a [guardrails.ParameterError] is one of the parameters or
// credentials, one of [guardrails.Unreadable] that of the call, which a service refuses or is not
// asked about, and any other that of the service.
package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

func init() {
	var kinds []guardrails.Kind
	for i := range table {
		kinds = append(kinds, table[i].kind())
	}
	for i := range searches {
		kinds = append(kinds, searches[i].kind())
	}
	guardrails.Register(append(kinds, webhook, logging, validURLs, jsonWebToken)...)
}

// A row is a check that asks a service.
type row struct {
	id, doc    string
	aliases    []string // other ids
	vendor     *guardrails.Vendor
	judges     phases
	parameters []guardrails.Parameter

	// The request. base, path, query and header have settings and parameters in braces; body is
	// a template, see [render].
	base     string // where the service is, unless the setting address says otherwise
	address  string // the setting; "": baseUrl
	path     string
	query    string
	header   map[string]string
	body     any
	values   func(c *check, s *guardrails.Subject, text, name string) (any, bool) // further ones for the template; nil: there are none
	timeout  time.Duration                                                        // 0: defaultTimeout
	oneByOne bool                                                                 // each text has its own request
	redacts  bool                                                                 // the parameter redact has texts replaced
	replaces func(p *guardrails.Parameters) bool                                  // others have; nil: none
	// locate says where the service is, if neither base nor the setting address does.
	locate func(settings map[string]string) (string, error)
	// needs is what the types of the settings do not say of them; nil: nothing.
	needs func(settings map[string]string) error
	// takes is what is judged instead of the text; nil: the text.
	takes func(c *check, s *guardrails.Subject) string
	// valid is what the types of the parameters do not say of them; nil: nothing.
	valid func(p *guardrails.Parameters) error
	// authorize adds the credential, if it is not just a header.
	authorize func(ctx context.Context, c *check, services guardrails.Services, settings map[string]string, q *guardrails.Request) error

	// read says what an answer with status 200 means. An error is an answer that it does not
	// understand.
	read func(a *answer) (finding, error)
}

// phases says which phases a check judges.
type phases uint8

const (
	both phases = iota
	calls
	answers
)

// An answer is that of a service about a text.
type answer struct {
	gjson.Result
	*check
	s    *guardrails.Subject
	text string
}

// A finding is what a service says of a text.
type finding struct {
	found bool     // what the check looks for
	kinds []string // of what was found
	// fixed is the text without what was found, if fixable.
	fixed   string
	fixable bool
}

const (
	defaultTimeout = 5 * time.Second
	maxTimeout     = 5 * time.Minute
	maxRequests    = 100 // of one judgment
	maxKinds       = 50
)

var (
	timeoutParameter = guardrails.Parameter{Name: "timeout", Type: guardrails.Any, Doc: "milliseconds; what is not a positive number is the default"}
	redactParameter  = guardrails.Parameter{Name: "redact", Type: guardrails.Boolean, Doc: "what is found is replaced, and the verdict is true"}
	notParameter     = guardrails.Parameter{Name: "not", Type: guardrails.Boolean, Doc: "inverts the verdict"}
)

// kind is the check as it is registered.
func (r *row) kind() guardrails.Kind {
	more := []guardrails.Parameter{timeoutParameter, forwardParameter}
	if r.redacts {
		more = append(more, redactParameter)
	}
	return guardrails.Kind{
		ID: r.id, Aliases: r.aliases, Doc: r.doc, Vendor: r.vendor, Parameters: append(more, r.parameters...),
		New: func(p *guardrails.Parameters) (guardrails.Check, error) {
			c := &check{row: r, p: p, timeout: timeoutOf(p, cmp.Or(r.timeout, defaultTimeout)), not: p.Boolean("not")}
			c.redact = r.redacts && p.Boolean("redact") || r.replaces != nil && r.replaces(p)
			if r.valid != nil {
				if err := r.valid(p); err != nil {
					return nil, err
				}
			}
			if r.vendor != nil {
				c.own = p.Settings(r.vendor)
			}
			var err error
			if c.forward, err = forwardedNames(p); err != nil {
				return nil, err
			}
			if c.own != nil {
				if _, err := c.target(c.own); err != nil {
					return nil, err
				}
			}
			if c.redact {
				return redacting{c}, nil
			}
			return c, nil
		},
	}
}

// timeoutOf is the parameter timeout, or another duration.
func timeoutOf(p *guardrails.Parameters, other time.Duration) time.Duration {
	ms := p.Number("timeout")
	if ms < 1 || ms > float64(maxTimeout/time.Millisecond) {
		return other
	}
	return time.Duration(ms) * time.Millisecond
}

// A check asks the service of its row.
type check struct {
	*row
	p       *guardrails.Parameters
	own     map[string]string // settings among the parameters; nil: those that the organisation has saved
	forward []string          // headers of the call that the service gets
	timeout time.Duration
	redact  bool
	not     bool
}

// A redacting check changes what it judges.
type redacting struct{ *check }

// Transforms tells such checks from others.
func (redacting) Transforms() {}

// Waits says that the check waits for others.
func (*check) Waits() {}

var errServices = errors.New("nobody can be asked here")

// Judge asks the service about the text, or about each of them if that is replaced.
func (c *check) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	switch {
	case s.Services == nil:
		return guardrails.Result{}, errServices
	case c.judges == calls && s.Phase != guardrails.Input:
		return guardrails.Result{}, errors.New(c.id + " judges only calls")
	case c.judges == answers && s.Phase != guardrails.Output:
		return guardrails.Result{}, errors.New(c.id + " judges only answers")
	}
	each := c.redact || c.oneByOne
	texts := s.Texts
	switch {
	case c.takes != nil:
		texts = []string{c.takes(c, s)}
	case !each:
		texts = []string{s.Text()}
	}
	if !slices.ContainsFunc(texts, func(text string) bool { return text != "" }) {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	settings, err := c.settings(s.Services)
	if err != nil {
		return guardrails.Result{}, err
	}
	var all finding
	var fixed []string
	bad, asked := false, 0
	for i, text := range texts {
		if text == "" {
			continue
		}
		if asked++; asked > maxRequests {
			return guardrails.Result{}, guardrails.Unreadable(fmt.Sprintf("there are more than %d texts", maxRequests))
		}
		f, err := c.ask(ctx, s, settings, text)
		if err != nil {
			return guardrails.Result{}, err
		}
		all.found = all.found || f.found
		all.kinds = append(all.kinds, f.kinds...)
		switch {
		case !f.found:
		case !c.redact || !f.fixable:
			bad = true
		case f.fixed != text:
			if fixed == nil {
				fixed = append([]string(nil), s.Texts...)
			}
			fixed[i] = f.fixed
		}
	}
	return guardrails.Result{Verdict: bad == c.not, Texts: fixed, Data: explain(c.id, all, fixed != nil)}, nil
}

// explain is the data of a result.
func explain(id string, f finding, replaced bool) map[string]any {
	explanation := id + " found nothing."
	switch {
	case replaced:
		explanation = id + " found something, which was replaced."
	case f.found:
		explanation = id + " found something."
	}
	return map[string]any{"explanation": explanation, "found": names(f.kinds)}
}

// settings returns what the service has to be told: all from the parameters, or all from what
// the organisation has saved, so that a saved credential goes only where it was saved for.
func (c *check) settings(services guardrails.Services) (map[string]string, error) {
	if c.own != nil || c.vendor == nil {
		return c.own, nil
	}
	for _, name := range [...]string{c.id, c.vendor.ID} {
		saved, err := services.Settings(name)
		if err != nil || saved != nil {
			return saved, err
		}
	}
	for i := range c.vendor.Settings {
		if c.vendor.Settings[i].Required {
			return nil, &guardrails.ParameterError{Name: guardrails.Credentials, Message: "required, as the organisation has saved none for " + c.vendor.ID}
		}
	}
	return nil, nil //nolint:nilnil // the vendor needs none
}

// ask asks about one text.
func (c *check) ask(ctx context.Context, s *guardrails.Subject, settings map[string]string, text string) (finding, error) {
	q, err := c.request(s, settings, text)
	if err != nil {
		return finding{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if c.authorize != nil {
		if err := c.authorize(ctx, c, s.Services, settings, q); err != nil {
			return finding{}, err
		}
	}
	var f finding
	err = send(ctx, s.Services, q, c.timeout, func(body []byte) error {
		if !gjson.ValidBytes(body) {
			return errors.New(c.id + " was answered with what is not JSON")
		}
		f, err = c.read(&answer{gjson.ParseBytes(body), c, s, text})
		return err
	})
	var refused *statusError
	if errors.As(err, &refused) && refused.ofText() {
		err = guardrails.Unreadable(err.Error())
	}
	return f, err
}

// A statusError is an answer without a status of success.
type statusError struct {
	vendor string
	status int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered with status %d", e.vendor, e.status)
}

// ofText reports whether the service refuses what it was asked about, such as a text that is too
// long. Callers choose texts, so that this must not be the way around a check.
func (e *statusError) ofText() bool {
	return e.status == http.StatusBadRequest || e.status == http.StatusRequestEntityTooLarge || e.status == http.StatusUnprocessableEntity
}

// send sends a request, and reads the body of an answer with a status of success.
func send(ctx context.Context, services guardrails.Services, q *guardrails.Request, timeout time.Duration, read func(body []byte) error) error {
	a, err := services.Send(ctx, q)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not answer within %v", q.Vendor, timeout)
	case err != nil:
		return err
	}
	defer a.Release()
	if a.Status < 200 || a.Status > 299 {
		return &statusError{q.Vendor, a.Status}
	}
	return read(a.Body)
}

// request is what is sent about a text.
func (c *check) request(s *guardrails.Subject, settings map[string]string, text string) (*guardrails.Request, error) {
	q, err := c.target(settings)
	if err != nil {
		return nil, err
	}
	for name, values := range forwarded(s, c.forward) {
		if _, own := q.Header[name]; !own {
			q.Header[name] = values
		}
	}
	body, _ := render(c.body, func(name string) (any, bool) { return c.value(s, settings, text, name) })
	q.Body, err = json.Marshal(body)
	return q, err
}

// target is a request without what is said of a text: where it goes, and its header. An error is a
// [guardrails.ParameterError], since only parameters and credentials are in it.
func (c *check) target(settings map[string]string) (*guardrails.Request, error) {
	if c.needs != nil {
		if err := c.needs(settings); err != nil {
			return nil, err
		}
	}
	at, public := settings[cmp.Or(c.address, baseURL)], true
	var err error
	switch {
	case at == "" && c.locate != nil:
		if at, err = c.locate(settings); err != nil {
			return nil, err
		}
	case at == "" && c.base == "":
		return nil, credentialError(cmp.Or(c.address, baseURL), "required: a string")
	case at == "":
		if at, err = c.expand(settings, c.base, hostPart); err != nil {
			return nil, err
		}
		public = strings.Contains(c.base, "{")
	}
	if !strings.Contains(at, "://") {
		at = "https://" + at
	}
	path, err := c.expand(settings, c.path, pathPart)
	if err != nil {
		return nil, err
	}
	query, err := c.expand(settings, c.query, queryPart)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimRight(at, "/") + path)
	if err != nil || u.Host == "" {
		return nil, credentialError(cmp.Or(c.address, baseURL), "expected the URL of the service")
	}
	u.RawQuery = query
	q := &guardrails.Request{Vendor: c.vendor.ID, Public: public, Method: http.MethodPost, URL: u, Header: make(http.Header)}
	for name, template := range c.header {
		v, err := c.expand(settings, template, headerPart)
		if err != nil {
			return nil, err
		}
		q.Header.Set(name, v)
	}
	q.Header.Set("Content-Type", "application/json")
	return q, nil
}

// expand is [expand] with settings and parameters. Errors name the former as members of the
// parameter credentials.
func (c *check) expand(settings map[string]string, template string, to part) (string, error) {
	text, err := expand(template, func(name string) string {
		if v, ok := settings[name]; ok {
			return v
		}
		switch raw := c.p.Raw(name); {
		case raw == nil:
			return ""
		case raw[0] == '"':
			return c.p.Text(name)
		default:
			return string(raw)
		}
	}, to)
	var fault *guardrails.ParameterError
	if errors.As(err, &fault) && slices.ContainsFunc(c.vendor.Settings, func(p guardrails.Parameter) bool { return p.Name == fault.Name }) {
		return "", credentialError(fault.Name, fault.Message)
	}
	return text, err
}

// credentialError says what is wrong with a setting, wherever it was saved.
func credentialError(name, message string) error {
	return &guardrails.ParameterError{Name: guardrails.Credentials + "." + name, Message: message}
}

// baseURL is the setting that says where a service is, for most vendors.
const baseURL = "baseUrl"

// value is what a name in the template of a body stands for.
func (c *check) value(s *guardrails.Subject, settings map[string]string, text, name string) (any, bool) {
	output := s.Phase == guardrails.Output
	switch name {
	case "text":
		return text, true
	case "prompt": // of the call
		if !output {
			return text, true
		}
		return asked(s)
	case "call":
		return text, !output
	case "answer":
		return text, output
	case "source":
		return map[bool]string{false: "INPUT", true: "OUTPUT"}[output], true
	case "phase":
		return map[bool]string{false: "input", true: "output"}[output], true
	case "target":
		return map[bool]string{false: "prompt", true: "response"}[output], true
	case "direction":
		return map[bool]string{false: "IN", true: "OUT"}[output], true
	case "messages":
		return messages(s, text), true
	case "model":
		return s.Model, s.Model != ""
	case "provider":
		return s.Provider, s.Provider != ""
	case "user":
		v := gjson.GetBytes(s.Metadata, "_user")
		return v.Str, v.Str != ""
	}
	if c.values != nil {
		if v, ok := c.values(c, s, text, name); ok {
			return v, ok
		}
	}
	if v, ok := settings[name]; ok {
		return v, true
	}
	raw := c.p.Raw(name)
	return raw, raw != nil
}

// asked is the text of the call whose answer is judged.
func asked(s *guardrails.Subject) (any, bool) {
	if s.Asked == nil {
		return nil, false
	}
	text := s.Asked()
	return text, text != ""
}

// messages are the text as a conversation; an answer comes after what was asked.
func messages(s *guardrails.Subject, text string) (all []any) {
	message := func(role string, content any) {
		all = append(all, map[string]any{"role": role, "content": content})
	}
	if s.Phase == guardrails.Input {
		message("user", text)
		return all
	}
	if prompt, ok := asked(s); ok {
		message("user", prompt)
	}
	message("assistant", text)
	return all
}

// kindName is what the name of a category looks like.
var kindName = regexp.MustCompile(`^[\pL\pN][\pL\pN _/.:&'-]{0,63}$`)

// names returns the names of categories once each, without what is none.
func names(list []string) []string {
	seen, all := make(map[string]bool), []string{}
	for _, name := range list {
		if !seen[name] && kindName.MatchString(name) && len(all) < maxKinds {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

// Interface guards
var (
	_ guardrails.Waiter      = (*check)(nil)
	_ guardrails.Waiter      = redacting{}
	_ guardrails.Transformer = redacting{}
)
