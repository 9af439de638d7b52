package providers

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// statuses maps the type or code of an error, in lower case, to a status, for errors in a
// stream or with status 200.
var statuses = map[string]int{
	"invalid_request_error": http.StatusBadRequest, "invalid_argument": http.StatusBadRequest, "failed_precondition": http.StatusBadRequest,
	"invalid_prompt": http.StatusBadRequest, "context_length_exceeded": http.StatusBadRequest, "validationexception": http.StatusBadRequest,
	"badrequesterror": http.StatusBadRequest, "content_filter": http.StatusBadRequest, "string_above_max_length": http.StatusBadRequest,
	"authentication_error": http.StatusUnauthorized, "invalid_api_key": http.StatusUnauthorized, "unauthenticated": http.StatusUnauthorized,
	"billing_error":    http.StatusPaymentRequired,
	"permission_error": http.StatusForbidden, "permission_denied": http.StatusForbidden, "accessdeniedexception": http.StatusForbidden,
	"not_found_error": http.StatusNotFound, "not_found": http.StatusNotFound, "model_not_found": http.StatusNotFound, "resourcenotfoundexception": http.StatusNotFound,
	"request_too_large": http.StatusRequestEntityTooLarge,
	"rate_limit_error":  http.StatusTooManyRequests, "rate_limit_exceeded": http.StatusTooManyRequests, "resource_exhausted": http.StatusTooManyRequests,
	"insufficient_quota": http.StatusTooManyRequests, "throttlingexception": http.StatusTooManyRequests, "too_many_requests": http.StatusTooManyRequests,
	"servicequotaexceededexception": http.StatusTooManyRequests,
	"unavailable":                   http.StatusServiceUnavailable, "serviceunavailableexception": http.StatusServiceUnavailable, "service_unavailable": http.StatusServiceUnavailable,
	"server_is_overloaded": http.StatusServiceUnavailable, "slow_down": http.StatusServiceUnavailable,
	"timeout_error": http.StatusGatewayTimeout, "deadline_exceeded": http.StatusGatewayTimeout, "modeltimeoutexception": http.StatusGatewayTimeout,
	"overloaded_error": 529,
}

// ReadEvent reads an error from a stream, or from an answer with status 200. In addition to
// the forms that [ReadFailure] knows, it reads the error of a failed response. The status
// is the number or name in the error, or else 502.
func ReadEvent(data []byte) *Failure {
	f, v := new(Failure), gjson.ParseBytes(data)
	if e := v.Get("response.error"); e.IsObject() {
		v = e
	}
	f.read(v)
	if f.Type == "error" { // the type of the event, not of the error
		f.Type = ""
	}
	f.Status = statusOf(v, f)
	if f.Message == "" {
		f.Message = Answered(f.Status)
	}
	return f
}

// EventStatus returns the status of an error in a stream. name is that of the message, and
// may be empty.
func EventStatus(name string, data []byte) int {
	f := ReadEvent(data)
	if status := statuses[strings.ToLower(name)]; f.Status == http.StatusBadGateway && status != 0 {
		return status
	}
	return f.Status
}

func statusOf(v gjson.Result, f *Failure) int {
	for _, name := range []string{"error.status", "error.status_code", "error.code", "status", "status_code", "code"} {
		if n := v.Get(name).Int(); n >= 400 && n <= 599 {
			return int(n)
		}
	}
	for _, name := range []string{f.Code, f.Type} {
		if status := statuses[strings.ToLower(name)]; status != 0 {
			return status
		}
	}
	return http.StatusBadGateway
}
