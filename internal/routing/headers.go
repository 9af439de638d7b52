package routing

import (
	"net/textproto"
	"strings"
)

const maxForwarded = 50 // header names

// unforwardable maps headers that a config may not copy to a provider, in lower case, to a
// description for the error message.
var unforwardable = func() map[string]string {
	m := make(map[string]string)
	for what, names := range map[string]string{
		"a hop-by-hop header":                        "connection keep-alive proxy-connection te trailer transfer-encoding upgrade expect",
		"part of the framing":                        "host content-length content-encoding accept-encoding",
		"a credential":                               "authorization proxy-authorization proxy-authenticate cookie cookie2 set-cookie api-key x-api-key x-goog-api-key x-amz-security-token x-auth-token x-access-token x-csrf-token www-authenticate",
		"a header that replaces part of the request": "forwarded x-http-method x-http-method-override x-method-override x-original-method x-original-url x-original-uri x-original-host x-original-path x-rewrite-url x-rewrite-uri x-override-url x-envoy-original-path x-host x-http-host-override x-http-destinationurl x-proxy-url x-real-ip",
		"a header that chooses the account":          "openai-organization openai-project x-goog-user-project",
		"a cloud-metadata header":                    "metadata metadata-flavor x-google-metadata-request x-aws-ec2-metadata-token x-aws-ec2-metadata-token-ttl-seconds x-metadata-token x-identity-header secret opc-authorization",
	} {
		for name := range strings.FieldsSeq(names) {
			m[name] = what
		}
	}
	return m
}()

// forbidden returns what a header is, in lower case, that cannot be copied to a provider; "" if it
// can. Some servers take an underscore for a hyphen.
func forbidden(name string) string {
	name = strings.ReplaceAll(name, "_", "-")
	switch what := unforwardable[name]; {
	case strings.HasSuffix(name, "api-key"):
		return "a credential"
	case strings.HasPrefix(name, "x-forwarded-"):
		return unforwardable["forwarded"]
	default:
		return what
	}
}

// headers reads the names of headers to copy to the provider.
func (p *parser) headers(path string, v []byte) (names []string) {
	names = []string{} // an empty list overrides an inherited one
	seen := make(map[string]bool)
	p.list(path, v, 0, maxForwarded, func(at string, v []byte) {
		name := strings.ToLower(p.text(at, v, maxText))
		what := forbidden(name)
		switch {
		case name == "":
		case !token(name):
			p.errorf(at, "expected the name of a header")
		case p.gatewayHeader(name):
			p.errorf(at, "a header of the gateway cannot be forwarded")
		case what != "":
			p.errorf(at, "%s cannot be forwarded", what)
		case !seen[name]:
			seen[name] = true
			names = append(names, textproto.CanonicalMIMEHeaderKey(name))
		}
	})
	return names
}

func (p *parser) gatewayHeader(name string) bool {
	for _, prefix := range p.options.HeaderPrefixes {
		if strings.HasPrefix(name, strings.ToLower(prefix)) {
			return true
		}
	}
	return strings.HasPrefix(name, "x-gw-")
}

// token reports whether name is a token of RFC 9110.
func token(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r >= 0x7f || r <= ' ' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
