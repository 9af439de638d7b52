package routing

import "strings"

// CheckForward returns why a header cannot be copied from the client's request to the
// provider, or "" if it can. prefixes are the prefixes of the gateway's headers besides
// x-gw-.
func CheckForward(name string, prefixes []string) string {
	p := parser{options: &Options{HeaderPrefixes: prefixes}}
	name = strings.ToLower(name)
	switch {
	case !token(name):
		return "expected the name of a header"
	case p.gatewayHeader(name):
		return "a header of the gateway cannot be forwarded"
	}
	if what := forbidden(name); what != "" {
		return what + " cannot be forwarded"
	}
	return ""
}
