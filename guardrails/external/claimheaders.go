package external

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

const (
	maxClaimHeaders = 50
	maxClaimHeader  = 4 << 10 // bytes of a value
)

// vendorPrefixes are those of headers by which providers are told whose request it is, or who
// pays for it.
var vendorPrefixes = [...]string{"x-amz-", "x-goog-", "x-ms-", "x-gw-", "x-forwarded-", "x-stainless-"}

// A claimHeader sends a claim of a token along to the provider.
type claimHeader struct{ claim, header string }

// newClaimHeaders reads the parameters extractClaims and claimPrefix.
func newClaimHeaders(p *guardrails.Parameters) (all []claimHeader, err error) {
	prefix := strings.ToLower(p.Text("claimPrefix"))
	if !isToken(prefix) || !strings.HasPrefix(prefix, "x-") || len(prefix) < len("x-a") {
		return nil, &guardrails.ParameterError{Name: "claimPrefix", Message: "expected the beginning of the name of a header, with x- first, such as x-jwt-"}
	}
	for i, claim := range p.Texts("extractClaims") {
		name, wrong := prefix+strings.ToLower(claim), ""
		switch {
		case i == maxClaimHeaders:
			wrong = "expected at most 50 claims"
		case !isToken(claim):
			wrong = "expected claims whose names may be those of headers"
		case unforwardable[name] || strings.HasSuffix(name, "api-key") || ofVendor(name):
			wrong = name + " is no header that a claim can be sent in"
		}
		if wrong != "" {
			return nil, &guardrails.ParameterError{Name: fmt.Sprintf("extractClaims[%d]", i), Message: wrong}
		}
		all = append(all, claimHeader{claim, textproto.CanonicalMIMEHeaderKey(name)})
	}
	return all, nil
}

func ofVendor(header string) bool {
	for _, prefix := range vendorPrefixes {
		if strings.HasPrefix(header, prefix) {
			return true
		}
	}
	return false
}

// headersOf returns the headers that claims are sent in. One that the token does not have, or that no
// header can have, is not sent.
func headersOf(list []claimHeader, claims gjson.Result) http.Header {
	if len(list) == 0 {
		return nil
	}
	h := make(http.Header, len(list))
	for _, c := range list {
		v := member(claims, c.claim)
		text := v.Raw
		if values, ok := scalars(v); ok {
			text = strings.Join(values, ",")
		}
		if _, err := headerPart(text); err == nil && v.Type != gjson.Null && text != "" && len(text) <= maxClaimHeader {
			h[c.header] = []string{text}
		}
	}
	return h
}
