package exchange

import (
	"errors"
	"net/http"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/coding"
)

// unsupportedCoding refuses a body in a coding that is not decoded.
func unsupportedCoding(name string) *Error {
	return &Error{
		Status: http.StatusUnsupportedMediaType, Type: typeInvalidRequest, Param: "content-encoding", Code: "invalid_content_encoding",
		Message: "Unsupported content encoding " + credentials.Clip(name) + ": expected " + coding.Supported + " or none",
		Header:  []HeaderField{{"Accept-Encoding", coding.Supported}}, // RFC 7694
	}
}

// undecoded refuses a body that is not what its coding says, or becomes too large. It returns nil
// for other errors.
func undecoded(err error) *Error {
	if err == nil {
		return nil
	}
	own := new(coding.Error)
	switch {
	case !errors.As(err, &own):
		return nil
	case errors.Is(err, coding.ErrRatio):
		return &Error{
			Status: http.StatusRequestEntityTooLarge, Type: typeInvalidRequest, Param: "content-encoding", Code: "payload_too_large", Caller: true, Err: err,
			Message: "Payload decoded from " + own.Coding + " is too large: " + coding.ErrRatio.Error(),
		}
	}
	e := badRequest("content-encoding", "body_unreadable", "The request body could not be decoded from "+own.Coding+", the content encoding passed")
	e.Caller, e.Err = true, err
	return e
}
