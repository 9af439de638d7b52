package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// An Answer is the http.ResponseWriter of a request in this process.
type Answer struct {
	To io.Writer // gets the body; nil: it is dropped

	header  http.Header
	status  int
	refused bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *Answer) Header() http.Header {
	if a.header == nil {
		a.header = make(http.Header)
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *Answer) WriteHeader(status int) { a.status = status }

func (a *Answer) Write(p []byte) (int, error) {
	switch {
	case a.status >= http.StatusBadRequest:
		return a.refused.Write(p)
	case a.To == nil:
		return len(p), nil
	}
	return a.To.Write(p)
}

// Err returns the error of the answer, or nil.
func (a *Answer) Err() error { return Refusal(a.status, a.refused.Bytes()) }

// Refusal returns the error of an answer with a status and a body, which has its message, or nil.
func Refusal(status int, text []byte) error {
	if status < http.StatusBadRequest {
		return nil
	}
	message := strings.TrimSpace(string(text))
	for _, path := range []string{"data.message", "error.message", "error"} { // of the control plane, in both shapes, and of the admin endpoint
		if m := gjson.GetBytes(text, path); m.Type == gjson.String && m.Str != "" {
			message = m.Str
			break
		}
	}
	return fmt.Errorf("%s (%d)", message, status)
}

// Interface guards
var _ http.ResponseWriter = (*Answer)(nil)
