package exchange

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/routing"
)

// An Error is an answer of the data plane that refuses a call, in an [Envelope].
type Error struct {
	Status  int
	Message string
	Type    string
	Param   string   // the header or body field at fault; "" is null
	Code    string   // "" is null
	Field   string   // error.field, for block_inline_config
	Errors  []string // errors, for faults of a config
	// Hooks is hook_results, for a refusal by a guardrail.
	Hooks json.RawMessage
	// Answer is sent instead of the envelope; Media is its type.
	Answer []byte
	Media  string

	// Gateway: the gateway itself has failed.
	Gateway bool
	// Caller: the call is at fault, so that no other target can help.
	Caller bool
	// Unserved: the provider has no such endpoint, so that a fallback goes on, whatever its statuses.
	Unserved bool
	// Pointless: a retry would fail in the same way, whatever the status suggests.
	Pointless  bool
	RetryAfter time.Duration // rounded up to whole seconds; 0: no header
	Allow      string        // for 405
	Header     []HeaderField // a limit's becomes the AnswerHeader of the exchange
	Err        error         // the cause, for the log
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Err }

// Error types of OpenAI's that are used several times.
const (
	typeInvalidRequest = "invalid_request_error"
	typeAuthentication = "authentication_error"
	typePermission     = "permission_error"
	typeTimeout        = "timeout_error"
)

// credentialErrors are the answers for the reasons of a refusal.
var credentialErrors = map[credentials.Reason]Error{
	credentials.InvalidKey:            {Status: http.StatusUnauthorized, Type: typeAuthentication, Code: "03"},
	credentials.ExpiredKey:            {Status: http.StatusUnauthorized, Type: typeAuthentication, Code: "01"},
	credentials.MissingScope:          {Status: http.StatusForbidden, Type: typePermission, Code: "033"},
	credentials.NoProvider:            {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "provider_required"},
	credentials.UnknownProvider:       {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "invalid_provider"},
	credentials.UnknownVirtualKey:     {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "invalid_virtual_key"},
	credentials.ExpiredVirtualKey:     {Status: http.StatusUnauthorized, Type: "virtual_key_expired_error", Code: "virtual_key_expired"},
	credentials.IntegrationDisabled:   {Status: http.StatusForbidden, Type: typePermission, Code: "integration_disabled"},
	credentials.UnknownConfig:         {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "invalid_config"},
	credentials.BadCustomHost:         {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "invalid_custom_host"},
	credentials.StoredSecretElsewhere: {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "invalid_custom_host"},
	credentials.InlineConfigBlocked:   {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "inline_config_blocked"},
	credentials.InlineProviderBlocked: {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "inline_provider_blocked"},
	credentials.InlineHostBlocked:     {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "inline_custom_host_blocked"},
	credentials.InlineURLBlocked:      {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "inline_provider_url_blocked"},
	credentials.InlineHeadersBlocked:  {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "inline_forward_headers_blocked"},
	credentials.AmbiguousHeader:       {Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "ambiguous_header"},
	credentials.SecretUnavailable:     {Status: http.StatusInternalServerError, Type: "server_error", Code: "secret_unavailable", Gateway: true},
	credentials.SecretUnfetched:       {Status: http.StatusServiceUnavailable, Type: "server_error", Code: "secret_unavailable"},
	credentials.SecretNotAllowed:      {Status: http.StatusForbidden, Type: typePermission, Code: "secret_reference_not_allowed"},
	credentials.KeysUnavailable:       {Status: http.StatusServiceUnavailable, Type: "server_error", Code: "jwt_keys_unavailable"},
}

// CredentialError turns a refusal into an error for the caller.
func CredentialError(r *credentials.Error) *Error {
	e := credentialErrors[r.Reason]
	e.Message, e.Param, e.Err = r.Message, r.Field, r.Err
	switch r.Reason {
	case credentials.InlineConfigBlocked, credentials.InlineProviderBlocked, credentials.InlineHostBlocked, credentials.InlineURLBlocked, credentials.InlineHeadersBlocked:
		e.Field = r.Field
	}
	return &e
}

func badRequest(param, code, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: typeInvalidRequest, Param: param, Code: code, Message: message}
}

// NotFound is the answer to a path of the API that has no endpoint.
func NotFound(path string) *Error {
	message := "Not Found: nothing is served at " + credentials.Clip(path)
	if plain := intendedPath(path); plain != "" {
		message += ", expected " + plain
	} else {
		message += didYouMean(path)
	}
	return &Error{Status: http.StatusNotFound, Type: typeInvalidRequest, Code: "unknown_url", Message: message}
}

// Unserved is the answer to a path outside of the API, of which meant is the path that it probably
// stands for; "": none.
func Unserved(path, meant string) *Error {
	message := "Not Found: nothing is served at " + credentials.Clip(path)
	if meant != "" {
		message += ", expected " + credentials.Clip(meant)
	} else {
		message += "; the API is below /v1"
	}
	return &Error{Status: http.StatusNotFound, Type: typeInvalidRequest, Code: "unknown_url", Message: message}
}

// MethodNotAllowed is the answer to a method that a path does not take.
func MethodNotAllowed(method string, methods []string) *Error {
	allow := strings.Join(methods, ", ")
	return &Error{
		Status: http.StatusMethodNotAllowed, Type: typeInvalidRequest, Code: "method_not_allowed", Allow: allow,
		Message: "Method not allowed: got " + credentials.Clip(method) + ", expected " + allow,
	}
}

func tooLarge(limit int64) *Error {
	return &Error{
		Status: http.StatusRequestEntityTooLarge, Type: typeInvalidRequest, Code: "payload_too_large",
		Message: "Payload size exceeds the limit of " + size(limit),
	}
}

func size(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + "MB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// TimedOut is the answer if an attempt did not begin to answer in time.
func TimedOut(timeout time.Duration, cause error) *Error {
	return &Error{
		Status: http.StatusRequestTimeout, Type: typeTimeout, Err: cause,
		Message: "Request exceeded the timeout sent in the request: " + strconv.FormatInt(timeout.Milliseconds(), 10) + "ms",
	}
}

// ProviderTimedOut is the answer if a provider was silent for too long and the request sets no
// timeout. Like TimedOut, it may be followed by another attempt.
func ProviderTimedOut(message string, cause error) *Error {
	return &Error{Status: http.StatusRequestTimeout, Type: typeTimeout, Message: message, Err: cause}
}

// Unroutable is the answer if a config's conditions select no target.
func Unroutable(err error) *Error {
	code, message := "no_target", "Router error: "+err.Error()
	if errors.As(err, new(*routing.UnreadError)) {
		code, message = "params_unread", message+": send JSON in UTF-8 with content-type: application/json"
	}
	e := badRequest("x-gw-config", code, message)
	e.Err = err
	return e
}

// AsError turns any error into one for the caller.
func AsError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case inflight.Refused(err):
		return Overloaded(err)
	}
	return &Error{Status: http.StatusInternalServerError, Type: "server_error", Gateway: true, Message: "Something went wrong", Err: err}
}

// Unavailable is the answer if the gateway cannot serve the call for now: it has not started, or
// its store cannot be written.
func Unavailable(message string, cause error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: "server_error", Code: "gateway_unavailable", Gateway: true,
		Message: message, RetryAfter: time.Second, Err: cause,
	}
}

// Overloaded is the answer if there is no memory for a call; err is of package inflight.
func Overloaded(err error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: "server_error", Code: "gateway_overloaded", Gateway: true,
		Message: "The gateway has no memory for the call now: " + err.Error(), RetryAfter: time.Second, Err: err,
	}
}

// tooManyCalls is the answer if too many calls are under way; err is of package inflight.
func tooManyCalls(err error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: "server_error", Code: "gateway_overloaded", Gateway: true,
		Message: "The gateway takes no more calls now: " + err.Error(), RetryAfter: time.Second,
	}
}

// Types of errors of limits.
const (
	typeRateLimit  = "rate_limits_policy_exhaust_error"
	typeUsageLimit = "usage_limits_policy_exhaust_error"
)

// carriers are the objects that have limits of their own, as their errors name them, and the codes of
// these errors. Limits of keys and workspaces are found with the key, which a JWT replaces.
var carriers = map[string]struct{ name, rateCode, budgetCode string }{
	"api_key":      {"api_key", "05", "04"},
	"jwt":          {"api_key", "05", "04"},
	"workspace_id": {"workspace", "05", "04"},
	"virtual_key":  {"virtual_key", "", "04"},
	"integration":  {"integration", "", "04"},
}

// OfCarrier makes the error of a limit one of an object that has the limit itself, which is of a
// kind as a condition of policies names it; "": it is a policy's.
func (e *Error) OfCarrier(kind string) *Error {
	of, ok := carriers[kind]
	switch {
	case !ok:
	case e.Type == typeRateLimit:
		e.Type = of.name + "_rate_limit_error"
		if e.Code == "" {
			e.Code = of.rateCode
		}
	case e.Type == typeUsageLimit:
		e.Type = of.name + "_exhaust_error"
		if e.Code == "06" {
			e.Code = of.budgetCode
		}
	}
	return e
}

// RateLimited is the answer to a call over a rate limit.
func RateLimited(message string, retryAfter time.Duration) *Error {
	return &Error{Status: http.StatusTooManyRequests, Type: typeRateLimit, Message: message, RetryAfter: retryAfter}
}

// OverBudget is the answer to a call for which a budget has no room.
func OverBudget(message string) *Error {
	return &Error{Status: http.StatusPreconditionFailed, Type: typeUsageLimit, Code: "06", Message: message}
}

// BudgetReserved is the answer to a call for which a budget has no room until other calls end.
func BudgetReserved(message string, retryAfter time.Duration) *Error {
	return &Error{Status: http.StatusTooManyRequests, Type: typeUsageLimit, Message: message, RetryAfter: retryAfter}
}

const codeUnmetered = "unmetered_call"

// Unmetered is the answer to a call whose usage will not be known, where a limit of tokens or
// costs counts it.
func Unmetered(budget bool, message string) *Error {
	e := &Error{Status: http.StatusPreconditionFailed, Type: typeRateLimit, Code: codeUnmetered, Message: message}
	if budget {
		e.Type = typeUsageLimit
	}
	return e
}

// UnmeteredFile is the error of what reads the file of a batch, if that does not tell what its calls may use; see
// [Attempt.ReadsLines].
func UnmeteredFile(message string) *Error {
	return &Error{Status: http.StatusPreconditionFailed, Code: codeUnmetered, Message: message}
}

// unknownResponse refuses a call about a stored response that the gateway does not know.
func unknownResponse(id string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: typeInvalidRequest, Param: "response_id", Code: "response_not_found",
		Message: "Response with id '" + credentials.Clip(id) + "' not found. If a call with its own provider credential made it, name the provider with x-gw-provider",
	}
}

// Interface guards
var _ error = (*Error)(nil)
