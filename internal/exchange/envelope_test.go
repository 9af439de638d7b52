package exchange

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
)

// Anthropic's clients take the type of an error from error.type, and the rest of the envelope is
// what others get.
func TestAnthropicsClientsGetErrorsInTheirForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		e          *Error
		kind, code string
	}{
		{CredentialError(&credentials.Error{Reason: credentials.InvalidKey, Message: "no"}), "authentication_error", "03"},
		{CredentialError(&credentials.Error{Reason: credentials.MissingScope, Message: "no"}), "permission_error", "033"},
		{badRequest("model", "invalid_value", "no"), "invalid_request_error", "invalid_value"},
		{NotFound("/v1/messages/x"), "not_found_error", "unknown_url"},
		{MethodNotAllowed("GET", []string{"POST"}), "invalid_request_error", "method_not_allowed"},
		{tooLarge(5), "request_too_large", "payload_too_large"},
		{RateLimited("no", time.Second), "rate_limit_error", "rate_limits_policy_exhaust_error"},
		{OverBudget("no"), "invalid_request_error", "06"},
		{TimedOut(time.Second, nil), "timeout_error", ""},
		{Unavailable("no", nil), "overloaded_error", "gateway_unavailable"},
		{AsError(http.ErrAbortHandler), "api_error", "server_error"},
	} {
		body := c.e.JSON(Envelope{Anthropic: true, RequestID: "trace"})
		inner := mustBeEnvelope(t, body)
		var own struct {
			Type      string `json:"type"`
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal(body, &own); err != nil || own.Type != "error" || own.RequestID != "trace" || inner["type"] != c.kind || inner["code"] != c.code && (c.code != "" || inner["code"] != nil) {
			t.Errorf("want %s and %q: %s", c.kind, c.code, body)
		}
		var plain map[string]any
		if err := json.Unmarshal(c.e.JSON(Envelope{RequestID: "trace"}), &plain); err != nil || plain["type"] != nil || plain["request_id"] != nil {
			t.Errorf("others get %v", plain)
		}
	}
}

func TestWhoGetsAnthropicsForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, version string
		want                  bool
	}{
		{"POST", "/v1/messages", "", true},
		{"POST", "/v1/messages/count_tokens", "", true},
		{"GET", "/v1/messages/batches/b", "", true},
		{"GET", "/v1/messages", "", true},
		{"POST", "/v1/messagesx", "2023-06-01", false},
		{"POST", "/v1/chat/completions", "", false},
		{"GET", "/v1/models", "", false},
		{"GET", "/v1/models", "2023-06-01", true},
		{"GET", "/v1/models/m", "2023-06-01", true},
		{"GET", "/v1/files", "2023-06-01", true},
		{"GET", "/v1/files", "", false},
		{"POST", "/v1/chat/completions", "2023-06-01", false},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		if c.version != "" {
			r.Header.Set("Anthropic-Version", c.version)
		}
		if got := EnvelopeOf(r).Anthropic; got != c.want {
			t.Errorf("%s %s %s: got %t", c.method, c.path, c.version, got)
		}
	}
}
