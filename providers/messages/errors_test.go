package messages_test

import (
	"testing"

	"github.com/caddy-gw/gateway/providers/messages"
)

func TestErrorsHaveTypesThatTheClientsOfTheAPIKnow(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		want   string
	}{
		{"INVALID_ARGUMENT", 400, "invalid_request_error"},
		{"", 429, "rate_limit_error"},
		{"tokens", 429, "rate_limit_error"},
		{"UNAVAILABLE", 503, "overloaded_error"},
		{"overloaded_error", 0, "overloaded_error"},
		{"api_error", 400, "api_error"},
		{"x", 422, "invalid_request_error"},
		{"x", 500, "api_error"},
		{"invalid_request_error", 0, "invalid_request_error"},
		{"invalid_request_error", 404, "not_found_error"}, // as OpenAI's API says it
		{"invalid_request_error", 413, "request_too_large"},
		{"invalid_request_error", 422, "invalid_request_error"},
		{"overloaded_error", 500, "overloaded_error"},
		{"ERROR", 0, "api_error"},
	} {
		if got := messages.ErrorType(c.name, c.status); got != c.want {
			t.Errorf("%s with status %d: got %s, want %s", c.name, c.status, got, c.want)
		}
	}
}
