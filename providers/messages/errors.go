package messages

import "net/http"

// errorTypes maps statuses to the API's types of errors.
var errorTypes = map[int]string{
	http.StatusBadRequest:            invalidRequest,
	http.StatusUnauthorized:          "authentication_error",
	http.StatusPaymentRequired:       "billing_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusServiceUnavailable:    overloaded,
	http.StatusGatewayTimeout:        "timeout_error",
	529:                              overloaded,
}

// named maps the names of errors at other providers, which have no status in a stream: Google's
// and OpenAI's.
var named = map[string]int{
	"INVALID_ARGUMENT": http.StatusBadRequest, "FAILED_PRECONDITION": http.StatusBadRequest,
	"UNAUTHENTICATED": http.StatusUnauthorized, "PERMISSION_DENIED": http.StatusForbidden, "NOT_FOUND": http.StatusNotFound,
	"RESOURCE_EXHAUSTED": http.StatusTooManyRequests, "UNAVAILABLE": http.StatusServiceUnavailable,
	"DEADLINE_EXCEEDED": http.StatusGatewayTimeout,

	"rate_limit_exceeded": http.StatusTooManyRequests, "insufficient_quota": http.StatusTooManyRequests, "tokens": http.StatusTooManyRequests,
	"requests": http.StatusTooManyRequests,
}

const (
	invalidRequest = "invalid_request_error"
	overloaded     = "overloaded_error"
	apiError       = "api_error"
)

// ErrorType returns the API's type for a provider's error. The status is 0 if there is
// none, as in a stream.
func ErrorType(name string, status int) string {
	if name == apiError {
		return name
	}
	if status == 0 {
		status = named[name]
	}
	for _, t := range errorTypes {
		if name == t && (name != invalidRequest || errorTypes[status] == "") { // which OpenAI's API says of any status
			return name
		}
	}
	if t := errorTypes[status]; t != "" {
		return t
	}
	if status >= 400 && status < 500 {
		return errorTypes[http.StatusBadRequest]
	}
	return apiError
}
