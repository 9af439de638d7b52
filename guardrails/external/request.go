package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

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
	if base, err := url.Parse(at); err != nil || base.User != nil || strings.ContainsAny(at, "?#") {
		return nil, credentialError(cmp.Or(c.address, baseURL), "expected the URL of the service, without credentials and a query")
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
