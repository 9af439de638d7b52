package echo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// statusClientClosed is what the access log shows if the client disconnected before
// there was an answer, as with reverse_proxy.
const statusClientClosed = 499

// A requestError is the reason why a request is refused.
type requestError struct {
	status  int
	message string
}

func (e *requestError) Error() string { return e.message }

func refuse(status int, format string, args ...any) error {
	return &requestError{status, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return refuse(http.StatusBadRequest, format, args...)
}

// writeError answers a *requestError with OpenAI's error envelope and returns any other
// error.
func writeError(w http.ResponseWriter, err error) error {
	refused, ok := errors.AsType[*requestError](err)
	if !ok {
		return err
	}
	b := append([]byte(nil), `{"error":{"message":`...)
	b = appendString(b, refused.message)
	b = append(b, `,"type":"invalid_request_error","param":null,"code":null}}`...)
	writeJSON(w, refused.status, b)
	return nil
}

// writeJSON writes an answer. Errors are ignored, because a write only fails if the
// client has disconnected.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// writeEvents writes a stream, flushing after each event, and stops as soon as the client
// disconnects. It ends with [DONE], unless its events are named by their type.
func writeEvents(w http.ResponseWriter, r *http.Request, events iter.Seq[[]byte], named bool, delay time.Duration) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)

	flusher := http.NewResponseController(w)
	var buf []byte
	send := func(data []byte) bool {
		buf = buf[:0]
		if named {
			buf = append(buf, "event: "...)
			buf = append(buf, gjson.GetBytes(data, "type").Str...)
			buf = append(buf, '\n')
		}
		buf = append(buf, "data: "...)
		buf = append(buf, data...)
		buf = append(buf, "\n\n"...)
		if _, err := w.Write(buf); err != nil {
			return false
		}
		err := flusher.Flush()
		return err == nil || errors.Is(err, http.ErrNotSupported)
	}

	first := true
	for data := range events {
		if !first && !wait(r.Context(), delay) {
			return
		}
		if first = false; !send(data) {
			return
		}
	}
	if !named {
		send([]byte("[DONE]"))
	}
}

// wait waits for d and reports whether the client is still connected.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
