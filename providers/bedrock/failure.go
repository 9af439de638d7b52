package bedrock

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
)

// types maps AWS's exceptions to the error types that clients of OpenAI and Anthropic know.
// In a stream, which has no status to report, the type is all that the client learns.
var types = map[string]string{
	"ThrottlingException":           "rate_limit_error",      // 429
	"ModelNotReadyException":        "rate_limit_error",      // 429
	"ServiceQuotaExceededException": "invalid_request_error", // 400
	"ValidationException":           "invalid_request_error", // 400
	"ConflictException":             "invalid_request_error", // 400
	"AccessDeniedException":         "permission_error",      // 403
	"UnrecognizedClientException":   "authentication_error",  // 403, as the next
	"InvalidSignatureException":     "authentication_error",
	"IncompleteSignatureException":  "authentication_error",
	"MissingAuthenticationToken":    "authentication_error",
	"ExpiredTokenException":         "authentication_error",
	"ResourceNotFoundException":     "not_found_error",  // 404
	"ModelTimeoutException":         "timeout_error",    // 408
	"ModelErrorException":           "api_error",        // 424
	"ModelStreamErrorException":     "api_error",        // 424
	"InternalServerException":       "api_error",        // 500
	"ServiceUnavailableException":   "overloaded_error", // 503
}

func typeOf(exception string) string {
	if t, ok := types[exception]; ok {
		return t
	}
	return "api_error"
}

// readFailure reads an error answer, whose body has a message and whose header has the
// exception's name.
func readFailure(status int, h http.Header, body []byte) *providers.Failure {
	f := providers.ReadFailure(status, h, body)
	name := h.Get("X-Amzn-Errortype")
	if name == "" {
		name = gjson.GetBytes(body, "__type").Str
	}
	if name = exceptionName(name); name != "" {
		f.Type, f.Code = typeOf(name), name
	}
	return f
}

// exceptionName returns the name of an exception without what some services add to it:
// com.amazonaws.bedrockruntime#ValidationException:http://internal.amazon.com/…
func exceptionName(s string) string {
	if _, after, ok := strings.Cut(s, "#"); ok {
		s = after
	}
	s, _, _ = strings.Cut(s, ":")
	return capital(strings.TrimSpace(s))
}

// capital returns a name in upper camel case: events use throttlingException, headers
// ThrottlingException.
func capital(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 || unicode.IsUpper(r) {
		return s
	}
	return string(unicode.ToUpper(r)) + s[size:]
}

// failureEvent returns the error that ended a stream.
func failureEvent(exception string, data []byte) chat.Event {
	message := ""
	if gjson.ValidBytes(data) {
		v := gjson.ParseBytes(data)
		for _, name := range []string{"message", "Message", "originalMessage"} {
			if message == "" {
				message = v.Get(name).String()
			}
		}
	} else {
		message = string(data)
	}
	name := exceptionName(exception)
	if message == "" {
		message = "The provider ended the stream with " + name
	}
	return chat.Event{Kind: chat.Failure, Name: chat.Quote(typeOf(name)), Text: chat.Quote(message)}
}
