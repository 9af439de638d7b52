// Package external has the checks of guardrails that ask a service. A row of a table says for each
// what is sent, and what an answer means; [check] does the rest. What a service answers is
// untrusted: of it, results have only the names of categories.
//
// An error says whose fault it is: a [guardrails.ParameterError] is one of the parameters or
// credentials, one of [guardrails.Unreadable] that of the call, which a service refuses or is not
// asked about, and any other that of the service.
package external

import (
	"cmp"
	"context"
	"time"

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
	guardrails.Register(append(kinds, webhook, logging, validURLs, jsonWebToken, similarInjection, inlineImages)...)
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

// set is the same as [guardrails.Phases].
func (p phases) set() guardrails.Phases {
	switch p {
	case calls:
		return guardrails.Calls
	case answers:
		return guardrails.Answers
	case both:
	}
	return guardrails.Calls | guardrails.Answers
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
		Phases: r.judges.set(),
		ID:     r.id, Aliases: r.aliases, Doc: r.doc, Vendor: r.vendor, Parameters: append(more, r.parameters...),
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
