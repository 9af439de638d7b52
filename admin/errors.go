package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/storage"
)

// An Error is an error of the control plane, in the envelope that most of its routes use:
// {"success":false,"data":{"message":…,"errorCode":…}}.
type Error struct {
	Success bool      `json:"success"`
	Data    ErrorData `json:"data"`

	status     int
	allow      string
	retryAfter time.Duration
	asFault    bool  // it is shown as a [Fault]
	cause      error // logged
}

// ErrorData is the content of an [Error].
type ErrorData struct {
	Message   string `json:"message" doc:"What is wrong, beginning with the field at fault where there is one."`
	ErrorCode string `json:"errorCode" enum:"AB01,AB02,AB03,AB04,AB05,AB06,AB07,AB08,AB10"`
}

// A Fault is an error in the envelope of guardrails, labels and collections.
type Fault struct {
	Error FaultData `json:"error"`
}

// FaultData is the content of a [Fault].
type FaultData struct {
	Code    string  `json:"code" doc:"The same as errorCode of other routes."`
	Message string  `json:"message" doc:"What is wrong, beginning with the field at fault where there is one."`
	Param   *string `json:"param" doc:"The field at fault."`
	Type    string  `json:"type" enum:"invalid_request_error,authentication_error,permission_error,not_found_error,conflict_error,rate_limit_error,server_error"`
}

// faulty are the resources whose errors are faults, by the beginning of their paths.
var faulty = []string{"guardrails", "labels", "collections"}

// showsFaults reports whether errors of a path, which begins with a version, are faults.
func showsFaults(path string) bool {
	parts := strings.SplitN(path, "/", 4)
	return len(parts) > 2 && slices.Contains(faulty, parts[2])
}

// at returns the error as requests for a path get it.
func (e *Error) at(path string) *Error {
	e.asFault = showsFaults(path)
	return e
}

// faultType returns the type of a fault.
func (e *Error) faultType() string {
	switch e.status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	}
	if e.status >= http.StatusInternalServerError {
		return "server_error"
	}
	return "invalid_request_error"
}

// MarshalJSON encodes the error in the envelope of its path.
func (e *Error) MarshalJSON() ([]byte, error) {
	if e.asFault {
		return json.Marshal(Fault{FaultData{e.Data.ErrorCode, e.Data.Message, text(fieldIn(e.Data.Message)), e.faultType()}})
	}
	type plain Error
	return json.Marshal((*plain)(e))
}

func (e *Error) Error() string { return e.Data.Message }

func (e *Error) Unwrap() error { return e.cause }

// GetHeaders returns the headers of the answer.
func (e *Error) GetHeaders() http.Header {
	h := make(http.Header)
	if e.allow != "" {
		h.Set("Allow", e.allow)
	}
	if e.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.retryAfter.Seconds()))))
	}
	return h
}

// GetStatus returns the HTTP status.
func (e *Error) GetStatus() int { return e.status }

// The error codes by status, which are listed in docs/reference.md, and AB10 for a
// store that currently refuses writes.
var codes = map[int]string{
	http.StatusBadRequest:            "AB01",
	http.StatusForbidden:             "AB03",
	http.StatusInternalServerError:   "AB04",
	http.StatusUnauthorized:          "AB05",
	http.StatusTooManyRequests:       "AB06",
	http.StatusConflict:              "AB07",
	http.StatusNotFound:              "AB08",
	http.StatusMethodNotAllowed:      "AB01",
	http.StatusRequestTimeout:        "AB01",
	http.StatusRequestEntityTooLarge: "AB01",
	http.StatusUnsupportedMediaType:  "AB01",
	http.StatusServiceUnavailable:    "AB10",
}

// fieldName is how a message begins that is about a field.
var fieldName = regexp.MustCompile(`^([a-z][a-z0-9_-]*(?:[.\[][^:]*)?): `)

// fieldIn returns the field that a message is about; "": none.
func fieldIn(message string) string {
	if m := fieldName.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

func failure(status int, format string, args ...any) *Error {
	code, ok := codes[status]
	if !ok {
		status, code = http.StatusInternalServerError, "AB04"
	}
	return &Error{Data: ErrorData{audit.Shorten(fmt.Sprintf(format, args...), maxMessage), code}, status: status}
}

// maxMessage bounds messages of errors, in bytes: they may repeat something of the request.
const maxMessage = 4 << 10

// invalid returns an error for an invalid field: 400 AB01.
func invalid(field, format string, args ...any) *Error {
	return failure(http.StatusBadRequest, "%s: %s", field, fmt.Sprintf(format, args...))
}

// refuse returns what makes the errors of a check that others make too, for fields in a certain place.
func refuse(at string) credentials.Refuse {
	return func(field, format string, args ...any) error { return invalid(at+field, format, args...) }
}

// unknownReference returns an error for a field that refers to a missing object.
func unknownReference(field, format string, args ...any) *Error {
	e := failure(http.StatusNotFound, "%s: %s", field, fmt.Sprintf(format, args...))
	e.Data.ErrorCode = "AB02"
	return e
}

func notFound(what, id string) *Error {
	return failure(http.StatusNotFound, "%s %q was not found", what, credentials.Clip(id))
}

// slugTaken returns an error for a slug that is in use, if that is what err means.
func slugTaken(err error, slug string) error {
	if errors.Is(err, storage.ErrExists) {
		return failure(http.StatusConflict, "slug: %q is taken", slug)
	}
	return err
}

func forbidden(format string, args ...any) *Error {
	return failure(http.StatusForbidden, format, args...)
}

// asError converts an error of a service to the API's.
func asError(err error) *Error {
	var known *Error
	var field *policies.FieldError
	var tooMany *policies.TooManyError
	var full *storage.FullError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &field):
		return invalid(field.Field, "%s", field.Message)
	case errors.As(err, &tooMany):
		return failure(http.StatusConflict, "%s", tooMany.Error())
	case errors.As(err, &full):
		return failure(http.StatusConflict, "%s; delete some first", full.Error())
	}
	e := failure(http.StatusInternalServerError, "Something went wrong")
	switch {
	case errors.Is(err, storage.ErrUnwritable):
		e = failure(http.StatusServiceUnavailable, "The store cannot be written for now (its disk is full or read-only); nothing was changed")
	case errors.Is(err, storage.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e = failure(http.StatusServiceUnavailable, "The gateway is stopping or restarting; nothing was changed")
	}
	e.cause = err
	return e
}

// ours marks operations of this package in huma's metadata.
const ours = "gw"

// Interface guards
var (
	_ huma.StatusError  = (*Error)(nil)
	_ huma.HeadersError = (*Error)(nil)
)
