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
