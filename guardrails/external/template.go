package external

import (
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
)

// object and list are the parts of a template of a body.
type (
	object = map[string]any
	list   = []any
)

// render returns the template of a JSON body with its values: a string that begins with $ is
// replaced by the value of that name. What has no value is left out.
func render(template any, value func(name string) (any, bool)) (any, bool) {
	switch t := template.(type) {
	case string:
		if name, ok := strings.CutPrefix(t, "$"); ok {
			return value(name)
		}
	case list:
		out := make(list, 0, len(t))
		for _, element := range t {
			if v, ok := render(element, value); ok {
				out = append(out, v)
			}
		}
		return out, true
	case object:
		out := make(object, len(t))
		for name, member := range t {
			if v, ok := render(member, value); ok {
				out[name] = v
			}
		}
		return out, true
	}
	return template, true
}

// A part of a request decides how values are written into it.
type part func(v string) (string, error)

var hostValue = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?$`)

func hostPart(v string) (string, error) {
	if !hostValue.MatchString(v) {
		return "", errors.New("expected a part of a host name")
	}
	return v, nil
}

func pathPart(v string) (string, error) {
	if v == "." || v == ".." {
		return "", errors.New("expected a part of a path")
	}
	return url.PathEscape(v), nil
}

func queryPart(v string) (string, error) { return url.QueryEscape(v), nil }

func headerPart(v string) (string, error) {
	if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errors.New("expected the value of a header")
	}
	return v, nil
}

// expand returns a template with the values of the names in braces. One that has none, or a wrong
// one, is a [guardrails.ParameterError] with the name in braces.
func expand(template string, value func(name string) string, p part) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		var name string
		name, template, _ = strings.Cut(rest, "}")
		v := value(name)
		if v == "" {
			return "", &guardrails.ParameterError{Name: name, Message: "required: a string"}
		}
		v, err := p(v)
		if err != nil {
			return "", &guardrails.ParameterError{Name: name, Message: err.Error()}
		}
		b.WriteString(v)
	}
}

var forwardParameter = guardrails.Parameter{Name: "forwardHeaders", Type: guardrails.Texts, Doc: "names of headers of the call that are sent along; none that may have credentials, and none of the gateway's own but x-gw-trace-id and x-gw-span-id"}

const maxForwarded = 50

// unforwardable are headers that are not sent along: credentials, those of cloud metadata services
// and those of one connection or body.
var unforwardable = func() map[string]bool {
	m := make(map[string]bool)
	for name := range strings.FieldsSeq(`authorization proxy-authorization proxy-authenticate www-authenticate cookie cookie2 set-cookie
		api-key x-api-key x-goog-api-key ocp-apim-subscription-key x-amz-security-token x-auth-token x-access-token x-csrf-token
		metadata metadata-flavor x-google-metadata-request x-aws-ec2-metadata-token x-aws-ec2-metadata-token-ttl-seconds x-metadata-token x-identity-header secret opc-authorization
		connection keep-alive proxy-connection te trailer transfer-encoding upgrade expect host content-length content-type content-encoding accept-encoding`) {
		m[name] = true
	}
	return m
}()

// traceHeaders are the gateway's own headers that are sent along.
var traceHeaders = map[string]bool{"x-gw-trace-id": true, "x-gw-span-id": true}

// forwardedNames reads the parameter forwardHeaders.
func forwardedNames(p *guardrails.Parameters) (all []string, err error) {
	for _, name := range p.Texts(forwardParameter.Name) {
		name = strings.ToLower(name)
		wrong := ""
		switch {
		case len(all) == maxForwarded:
			wrong = "expected at most 50 names"
		case !isToken(name):
			wrong = "expected names of headers"
		case unforwardable[name] || strings.HasSuffix(name, "api-key") || strings.HasPrefix(name, "x-gw-") && !traceHeaders[name]:
			wrong = name + " is not sent to others"
		}
		if wrong != "" {
			return nil, &guardrails.ParameterError{Name: forwardParameter.Name, Message: wrong}
		}
		all = append(all, name)
	}
	return all, nil
}

// forwarded returns the headers of the call that are sent along: of those with the names, the ones that
// hold no API key of the gateway.
func forwarded(s *guardrails.Subject, names []string) http.Header {
	h := make(http.Header)
	for _, name := range names {
		key := textproto.CanonicalMIMEHeaderKey(name)
		values := s.Header[key]
		switch {
		case len(values) == 0, !traceHeaders[name] && s.Services.Reserved(key), slices.ContainsFunc(values, s.Services.HoldsKey):
		default:
			h[key] = append([]string(nil), values...)
		}
	}
	return h
}

// isToken reports whether name is a token of RFC 9110.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r >= 0x7f || r <= ' ' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
