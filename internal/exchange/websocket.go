package exchange

import (
	"net/http"
	"strings"
)

// UpgradesToWebSocket reports whether a request asks to become a WebSocket.
func UpgradesToWebSocket(h http.Header) bool {
	return strings.EqualFold(h.Get("Upgrade"), "websocket") && strings.Contains(strings.ToLower(h.Get("Connection")), "upgrade")
}

// OpensResponses reports whether a request opens a WebSocket of the Responses API.
func OpensResponses(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/v1/responses" && UpgradesToWebSocket(r.Header)
}

// keyProtocol is how OpenAI's clients in browsers, which cannot set headers, send a
// key when they open a WebSocket.
const keyProtocol = "openai-insecure-api-key."

// protocolKey returns the key among the protocols that a WebSocket offers, or "".
func protocolKey(h http.Header) string {
	for _, p := range Protocols(h["Sec-Websocket-Protocol"]) {
		if key, ok := strings.CutPrefix(p, keyProtocol); ok {
			return key
		}
	}
	return ""
}

// WithoutKeys returns the protocols that a WebSocket offers without those that carry
// a key.
func WithoutKeys(offered []string) []string {
	var kept []string
	for _, p := range Protocols(offered) {
		if !strings.HasPrefix(p, keyProtocol) {
			kept = append(kept, p)
		}
	}
	return kept
}

// Protocols are the protocols that a WebSocket offers, one by one.
func Protocols(offered []string) []string {
	all := strings.Split(strings.Join(offered, ","), ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}
